//! A file for each verb of the command line: arguments, `run`, then the types it needs.

/// Write or extend a baseline.
pub mod accept;
mod baselines;
/// Noise of unchanged servers.
pub mod calibrate;
/// Run one cell in this process.
pub mod cell;
/// Validate a manifest.
pub mod check;
/// Be a built-in client.
pub mod client;
/// Completion scripts.
pub mod completions;
/// A run beside its baseline.
pub mod diff;
/// Is this host fit to measure.
pub mod doctor;
/// How a verdict came about.
pub mod explain;
/// Trends and change points.
pub mod history;
mod nights;
mod past;
/// Cells, order, estimated time.
pub mod plan;
/// Print the results of a run.
pub mod report;
/// A recorded cell again, judged.
pub mod rerun;
/// Measure the cells of a manifest.
pub mod run;
/// JSON Schemas.
pub mod schema;
mod selection;
/// Be a built-in server.
pub mod serve;
/// Install and build.
pub mod setup;
/// The contract of each server.
pub mod smoke;
mod targets;
mod terminal;

use clap::{Parser, Subcommand};

use crate::exit::{Ending, UserError};

pub use past::PastRates;
pub use selection::{SelectionArgs, catalog, fit_lines, load_manifest, parse_budget, shown};
pub use targets::{TargetArgs, Targets};
pub use terminal::{ColorChoice, Format, Terminal};

/// A declarative experiment runner for WebSocket servers.
#[derive(Debug, Parser)]
#[command(name = "runner", version, arg_required_else_help = true)]
pub struct Cli {
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: ColorChoice,

    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Measure the cells of a manifest
    Run(run::Args),
    /// Show the cells, their order and the estimated time
    Plan(plan::Args),
    /// Validate a manifest and what it names; measure nothing
    Check(check::Args),
    /// Say whether this host is fit to measure, and what to change
    Doctor(doctor::Args),
    /// Install and build what a manifest's cells need
    Setup(setup::Args),
    /// Prove that each selected server keeps its contract
    Smoke(smoke::Args),
    /// Run the cell of a record again and judge the difference
    Rerun(rerun::Args),
    /// Print the results of a run
    Report(report::Args),
    /// Compare a run with its baseline
    Diff(diff::Args),
    /// Write or extend a baseline
    Accept(accept::Args),
    /// Show trends and change points of a manifest's runs
    History(history::Args),
    /// Show how the verdicts of a cell came about
    Explain(explain::Args),
    /// Learn the noise of unchanged servers, and what a comparison can find
    Calibrate(calibrate::Args),
    /// Print a JSON Schema
    Schema(schema::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Run one cell: a job as JSON on stdin, its record as JSON on stdout
    #[command(hide = true)]
    Cell(cell::Args),
    /// Be a built-in server, told what by the environment
    #[command(hide = true)]
    Serve(serve::Args),
    /// Be a built-in client, told what by the first line of stdin
    #[command(hide = true)]
    Client(client::Args),
}

impl Cli {
    /// Carries out the verb.
    pub fn run(self) -> Result<Ending, UserError> {
        let terminal = Terminal::detect(self.color);
        match self.verb {
            Verb::Run(args) => run::run(args, &terminal),
            Verb::Plan(args) => plan::run(args, &terminal),
            Verb::Check(args) => check::run(args, &terminal),
            Verb::Doctor(args) => doctor::run(args, &terminal),
            Verb::Setup(args) => setup::run(args, &terminal),
            Verb::Smoke(args) => smoke::run(args, &terminal),
            Verb::Rerun(args) => rerun::run(args, &terminal),
            Verb::Report(args) => report::run(args, &terminal),
            Verb::Diff(args) => diff::run(args, &terminal),
            Verb::Accept(args) => accept::run(args, &terminal),
            Verb::History(args) => history::run(args, &terminal),
            Verb::Explain(args) => explain::run(args, &terminal),
            Verb::Calibrate(args) => calibrate::run(args, &terminal),
            Verb::Schema(args) => schema::run(args, &terminal),
            Verb::Completions(args) => completions::run(args, &terminal),
            Verb::Cell(args) => cell::run(args),
            Verb::Serve(args) => serve::run(args),
            Verb::Client(args) => client::run(args),
        }
    }
}
