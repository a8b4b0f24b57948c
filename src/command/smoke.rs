use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use owo_colors::OwoColorize;
use serde::Serialize;

use super::setup::SetupProgress;
use super::{Format, TargetArgs, Targets, Terminal};
use crate::catalog;
use crate::exit::{Ending, Exit, UserError, say};
use crate::manifest::parse_time_ns;
use crate::plan::Role;
use crate::smoke::{CHECKS, Findings, SmokeLimits, Verdict, smoke};

/// Arguments of `runner smoke`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    targets: TargetArgs,
    /// Install nothing; what is missing is skipped
    #[arg(long)]
    no_setup: bool,
    /// How long a server may take until its first handshake
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    start_timeout: Duration,
    /// Succeed although servers were skipped
    #[arg(long)]
    allow_skips: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What is known of a server after its checks.
#[derive(Debug, Serialize)]
struct Row {
    server: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<String>,
    #[serde(flatten)]
    findings: Findings,
}

/// Proves the contract on each selected server.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let targets = match args.targets.targets(terminal)? {
        Ok(targets) => targets,
        Err(ending) => return Ok(ending),
    };
    let runner = std::env::current_exe().map_err(|error| {
        UserError::new(Exit::Internal, format!("this program does not find itself: {error}"))
    })?;
    let rows = rows(&args, &targets, &runner, terminal);
    match args.format {
        Format::Table => terminal.print(&table(&rows, terminal))?,
        Format::Json => {
            let document = serde_json::json!({ "schema": "runner.smoke/1", "servers": rows });
            let text = serde_json::to_string_pretty(&document).expect("plain data always serialises");
            terminal.print(&format!("{text}\n"))?;
        }
    }
    Ok(ending(&rows, args.allow_skips || targets.allow_skips))
}

fn parse_time(text: &str) -> Result<Duration, String> {
    parse_time_ns(text).map(Duration::from_nanos).map_err(|error| error.to_string())
}

fn rows(args: &Args, targets: &Targets, runner: &std::path::Path, terminal: &Terminal) -> Vec<Row> {
    let mut progress = SetupProgress::new(terminal);
    let installed = if args.no_setup {
        Default::default()
    } else {
        catalog::setup(&targets.catalog, &targets.servers, &[], &mut |event| progress.show(event))
    };
    progress.finish();
    let limits = SmokeLimits { start: args.start_timeout, ..SmokeLimits::default() };
    let check = |name: &String| {
        if let Some(Err(reason)) = installed.servers.get(name) {
            return Err(reason.clone());
        }
        let spec = targets.catalog.resolve_server(name, Role::Relay)?;
        say(format_args!("checking {name}"));
        Ok(smoke(&spec, runner, &limits))
    };
    targets
        .servers
        .iter()
        .map(|name| match check(name) {
            Ok(findings) => Row { server: name.clone(), skipped: None, findings },
            Err(reason) => Row { server: name.clone(), skipped: Some(reason), findings: Findings::default() },
        })
        .collect()
}

/// Checks as rows and servers as columns, then a sentence for whatever is not as it should be.
fn table(rows: &[Row], terminal: &Terminal) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
    let heading = ["check"].into_iter().chain(rows.iter().map(|row| row.server.as_str()));
    table.set_header(heading);
    for (index, check) in CHECKS.iter().enumerate() {
        let marks =
            rows.iter().map(|row| mark(row.findings.checks.get(index).map(|one| &one.verdict), terminal));
        table.add_row([check.name.to_owned()].into_iter().chain(marks));
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Center);
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    let sentences = sentences(rows);
    if !sentences.is_empty() {
        text.push('\n');
    }
    for sentence in sentences {
        text.push_str(&sentence);
        text.push('\n');
    }
    text
}

fn mark(verdict: Option<&Verdict>, terminal: &Terminal) -> String {
    match verdict {
        Some(Verdict::Kept) if terminal.stdout_color => "✓".green().to_string(),
        Some(Verdict::Kept) => "✓".to_owned(),
        Some(Verdict::Broken { .. }) if terminal.stdout_color => "✗".red().bold().to_string(),
        Some(Verdict::Broken { .. }) => "✗".to_owned(),
        Some(Verdict::Unseen { .. }) => "?".to_owned(),
        Some(Verdict::NotRun) | None => "–".to_owned(),
    }
}

fn sentences(rows: &[Row]) -> Vec<String> {
    let mut sentences = Vec::new();
    for row in rows {
        if let Some(reason) = &row.skipped {
            sentences.push(format!("– {} was skipped: {reason}.", row.server));
        }
        for (finding, check) in row.findings.checks.iter().zip(CHECKS) {
            match &finding.verdict {
                Verdict::Broken { detail } => sentences.push(format!(
                    "✗ {} / {}: a server {}, but: {detail}.",
                    row.server, check.name, check.contract
                )),
                Verdict::Unseen { detail } => {
                    sentences.push(format!("? {} / {}: {detail}.", row.server, check.name));
                }
                Verdict::Kept | Verdict::NotRun => {}
            }
        }
    }
    sentences
}

fn ending(rows: &[Row], allow_skips: bool) -> Ending {
    let names = |wanted: &dyn Fn(&Row) -> bool| {
        let names: Vec<&str> = rows.iter().filter(|row| wanted(row)).map(|row| row.server.as_str()).collect();
        names.join(", ")
    };
    let broken = names(&|row| !row.findings.is_kept());
    let skipped = names(&|row| row.skipped.is_some());
    if !broken.is_empty() {
        Ending::new(Exit::Incomplete, format!("the contract is broken by {broken}"))
    } else if !skipped.is_empty() && !allow_skips {
        Ending::new(Exit::Incomplete, format!("skipped: {skipped}"))
    } else {
        Ending::done()
    }
}
