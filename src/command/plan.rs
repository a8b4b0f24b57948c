use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::{Serialize, Serializer};

use super::past::PastRates;
use super::selection::{SelectionArgs, fit_lines, load_manifest, not_ready, parse_budget};
use super::{Format, Terminal};
use crate::exit::{Ending, UserError, say};
use crate::host::Host;
use crate::manifest::Manifest;
use crate::plan::human_time;
use crate::plan::{CellId, Fit, Plan, Rates, Step, estimate, fit, order};
use crate::workload::Params;

/// Arguments of `runner plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The manifest
    pub manifest: PathBuf,
    #[command(flatten)]
    selection: SelectionArgs,
    /// Sweeps over all cells, in place of the manifest's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    passes: Option<u32>,
    /// Seed of the order, in place of the manifest's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Time that the run may take, e.g. `20m`: counts and times are scaled down to fit, no cell is dropped
    #[arg(long, value_name = "TIME", value_parser = parse_budget)]
    budget: Option<Duration>,
    /// Folder of runs, whose records tell how long cells take on this host
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// List the cells in the order of each pass
    #[arg(long)]
    order: bool,
    /// How to print
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints the cells of a manifest, their order and how long they take.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    let mut catalog = super::catalog(&args.manifest)?;
    let mut manifest = load_manifest(&args.manifest, &catalog, terminal)?;
    for (name, path) in args.selection.runtimes(&manifest, &catalog)? {
        catalog.with_runtime(&name, &path)?;
    }
    let plan = args.selection.plan(&manifest)?;
    if plan.cells.is_empty() {
        return Ok(args.selection.nothing_selected(&manifest, &plan));
    }
    let passes = args.passes.unwrap_or(manifest.passes);
    let seed = args.seed.or(manifest.seed);
    let class = Host::here().fingerprint().class;
    let rates = PastRates::read(&args.out, &manifest.name, Some(&class));
    let fit = args.budget.map(|budget| fit(&mut manifest, &plan, passes, budget, &rates));
    if let Some(fit) = &fit {
        for line in fit_lines(fit) {
            say(line);
        }
    }
    let not_ready = not_ready(&catalog, &plan);
    let shown = Shown {
        budget: fit.as_ref().map(ShownFit::of),
        not_ready,
        ..Shown::new(&manifest, &plan, passes, seed, &rates)
    };
    match args.format {
        Format::Json => terminal.write(|out| {
            serde_json::to_writer_pretty(&mut *out, &shown)?;
            out.write_all(b"\n")
        })?,
        Format::Table => terminal.write(|out| shown.table(out, args.order))?,
    }
    Ok(Ending::done())
}

/// What is printed.
#[derive(Serialize)]
struct Shown<'a> {
    schema: &'static str,
    manifest: &'a str,
    title: &'a str,
    passes: u32,
    /// None when each run draws its own.
    seed: Option<u64>,
    control: Option<&'a CellId>,
    /// For one pass.
    #[serde(rename = "pass_s", serialize_with = "seconds")]
    pass: Duration,
    /// For all passes.
    #[serde(rename = "total_s", serialize_with = "seconds")]
    total: Duration,
    cells: Vec<ShownCell<'a>>,
    excluded: Vec<ShownExcluded<'a>>,
    /// Servers and clients that cannot be run as things are, with the reasons.
    not_ready: BTreeMap<String, String>,
    /// How counts and times were scaled to fit a budget; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<ShownFit<'a>>,
    opt_in_left_out: &'a [CellId],
    /// For each pass the cells, by index into `cells`, as they are run; none without a seed.
    order: Option<Vec<Vec<usize>>>,
}

#[derive(Serialize)]
struct ShownCell<'a> {
    id: &'a CellId,
    opt_in: bool,
    /// For one execution.
    #[serde(rename = "estimate_s", serialize_with = "seconds")]
    estimate: Duration,
    /// Whether the estimate comes from records of this host.
    measured: bool,
    params: &'a Params,
}

#[derive(Serialize)]
struct ShownFit<'a> {
    #[serde(serialize_with = "seconds")]
    budget_s: Duration,
    #[serde(serialize_with = "seconds")]
    before_s: Duration,
    factor: f64,
    fits: bool,
    at_floor: &'a [String],
}

impl<'a> ShownFit<'a> {
    fn of(fit: &'a Fit) -> Self {
        ShownFit {
            budget_s: fit.budget,
            before_s: fit.before,
            factor: fit.factor,
            fits: fit.fits(),
            at_floor: &fit.at_floor,
        }
    }
}

#[derive(Serialize)]
struct ShownExcluded<'a> {
    id: &'a CellId,
    reason: &'a str,
}

/// To the millisecond: more would pretend to be exact.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e3).round() / 1e3)
}

impl<'a> Shown<'a> {
    fn new(
        manifest: &'a Manifest,
        plan: &'a Plan,
        passes: u32,
        seed: Option<u64>,
        rates: &PastRates,
    ) -> Self {
        let cells: Vec<ShownCell> = plan
            .cells
            .iter()
            .map(|planned| {
                let params = &manifest.workloads[planned.workload].params;
                ShownCell {
                    id: &planned.id,
                    opt_in: planned.opt_in,
                    estimate: estimate(&planned.id, params, rates),
                    measured: rates.rate(&planned.id, params).is_some(),
                    params,
                }
            })
            .collect();
        let pass = cells.iter().fold(Duration::ZERO, |sum, cell| sum.saturating_add(cell.estimate));
        let order = seed.map(|seed| {
            let steps = order(cells.len(), passes, seed);
            steps.chunks(cells.len()).map(|pass| pass.iter().map(|step: &Step| step.cell).collect()).collect()
        });
        Shown {
            schema: "runner.plan/1",
            manifest: &manifest.name,
            title: &manifest.title,
            passes,
            seed,
            control: manifest.control.as_ref(),
            pass,
            total: pass.saturating_mul(passes),
            cells,
            excluded: plan
                .excluded
                .iter()
                .map(|cell| ShownExcluded { id: &cell.id, reason: &cell.reason })
                .collect(),
            budget: None,
            not_ready: BTreeMap::new(),
            opt_in_left_out: &plan.opt_in_left_out,
            order,
        }
    }

    fn table(&self, out: &mut dyn Write, with_order: bool) -> io::Result<()> {
        writeln!(out, "{}\n", self.title)?;
        self.rows(out)?;
        writeln!(
            out,
            "\n{} in {}, about {}",
            count(self.cells.len(), "cell", "cells"),
            count(self.passes as usize, "pass", "passes"),
            human_time(self.total)
        )?;
        let measured = self.cells.iter().filter(|cell| cell.measured).count();
        match (measured, self.cells.len() - measured) {
            (0, _) => writeln!(out, "times from nominal rates; after a first run, from its records")?,
            (_, 0) => writeln!(out, "times from earlier runs")?,
            (_, nominal) => writeln!(out, "times from earlier runs, {nominal} of them from nominal rates")?,
        }
        match self.seed {
            Some(seed) => writeln!(out, "order drawn from seed {seed}")?,
            None => writeln!(out, "order drawn anew by each run; `--seed N` fixes it")?,
        }
        if !self.not_ready.is_empty() {
            writeln!(out, "\nnot ready:")?;
            for (name, reason) in &self.not_ready {
                writeln!(out, "  {name}: {reason}")?;
            }
        }
        if !self.excluded.is_empty() {
            writeln!(out, "\nexcluded:")?;
            for cell in &self.excluded {
                writeln!(out, "  {}: {}", cell.id, cell.reason)?;
            }
        }
        if !self.opt_in_left_out.is_empty() {
            writeln!(out, "\nleft out unless named by `--cell` or with `--include-opt-in`:")?;
            for cell in self.opt_in_left_out {
                writeln!(out, "  {cell}")?;
            }
        }
        if with_order {
            self.passes_in_order(out)?;
        }
        Ok(())
    }

    fn rows(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["workload", "server", "client", "time", ""]);
        table.force_no_tty();
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        if let Some(time) = table.column_mut(3) {
            time.set_cell_alignment(CellAlignment::Right);
        }
        for cell in &self.cells {
            let mark = match (self.control == Some(cell.id), cell.opt_in) {
                (true, _) => "control",
                (false, true) => "opt-in",
                (false, false) => "",
            };
            let CellId { workload, server, client } = cell.id;
            table.add_row([workload, server, client, &human_time(cell.estimate), mark]);
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    fn passes_in_order(&self, out: &mut dyn Write) -> io::Result<()> {
        for (pass, cells) in self.order.iter().flatten().enumerate() {
            writeln!(out, "\npass {}:", pass + 1)?;
            for index in cells {
                writeln!(out, "  {}", self.cells[*index].id)?;
            }
        }
        Ok(())
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
