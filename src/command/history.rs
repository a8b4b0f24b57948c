use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::past::newest_runs;
use super::report::{DEFAULT_WIDTH, write};
use super::{Format, SelectionArgs, Terminal, baselines, catalog, load_manifest};
use crate::exit::{Ending, Exit, UserError, say};
use crate::plan::CellId;
use crate::report::{self, Style, otava_csv, render_trends};
use crate::stats::ChangeRules;
use crate::verdict::{HistoryEntry, trends};

/// Arguments of `runner history`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The manifest whose runs are meant
    manifest: PathBuf,
    #[command(flatten)]
    selection: SelectionArgs,
    /// How to write it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// Write the series to a file of comma-separated values, one row for each run, as Apache Otava reads it
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Class of host; that of the newest run by default
    #[arg(long, value_name = "CLASS")]
    host_class: Option<String>,
    /// Smallest change that counts, relative
    #[arg(long, value_name = "SHARE", default_value_t = 0.03)]
    at_least: f64,
    /// Fewest runs on either side of a change
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100))]
    segment: u32,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

/// Runs of a manifest that are read from their folders: more than any trend shows.
const MOST_RUNS: usize = 400;

/// Shows the trend of each cell over the runs of a manifest, and where it changed; measures nothing.
pub fn run(args: Args, terminal: &Terminal) -> Result<Ending, UserError> {
    if !(args.at_least.is_finite() && args.at_least >= 0.0) {
        return Err(UserError::new(Exit::Usage, format!("`--at-least {}` is not a share", args.at_least))
            .hint("e.g. `--at-least 0.03` for 3 %"));
    }
    let catalog = catalog(&args.manifest)?;
    let manifest = load_manifest(&args.manifest, &catalog, terminal)?;
    let plan = args.selection.plan(&manifest)?;
    if plan.cells.is_empty() {
        return Ok(args.selection.nothing_selected(&manifest, &plan));
    }
    let mut entries = read_all(&args.out, &manifest.name);
    let newest = entries.iter().max_by_key(|entry| entry.at).map(|entry| entry.host_class.clone());
    let class = args.host_class.clone().or(newest);
    if let Some(class) = &class {
        add_baseline(&mut entries, &args.manifest, &manifest.name, class)?;
        entries.retain(|entry| entry.host_class == *class);
    }
    if args.selection.narrows() {
        let chosen: BTreeSet<&CellId> = plan.cells.iter().map(|planned| &planned.id).collect();
        for entry in &mut entries {
            entry.cells.retain(|cell, _| chosen.contains(cell));
        }
    }
    if entries.is_empty() {
        return Ok(Ending::new(
            Exit::Undecided,
            format!("there is no run of `{}` in `{}`", manifest.name, args.out.display()),
        ));
    }
    let rules = ChangeRules {
        minimum_segment: args.segment as usize,
        minimum_magnitude: args.at_least.ln_1p(),
        ..ChangeRules::default()
    };
    let trends = trends(&entries, &rules, 1);
    if let Some(path) = &args.export {
        write(path, otava_csv(&trends).as_bytes()).map_err(|error| {
            UserError::new(Exit::Unwritable, format!("`{}` could not be written: {error}", path.display()))
        })?;
    }
    let style =
        Style { color: terminal.stdout_color, width: terminal.columns.map_or(DEFAULT_WIDTH, usize::from) };
    match args.format {
        Format::Table => terminal.print(&render_trends(&manifest.name, class.as_deref(), &trends, &style))?,
        Format::Json => terminal.write(|out| {
            serde_json::to_writer_pretty(&mut *out, &trends)?;
            out.write_all(b"\n")
        })?,
    }
    Ok(Ending::done())
}

/// The compact history of a manifest: a line for each run, which stays when the run's folder goes.
fn file(out: &Path, manifest: &str) -> PathBuf {
    out.join(manifest).join("history.jsonl")
}

/// Adds a run to the history. A line goes in by one call, so that two programs cannot mix theirs.
pub(super) fn keep(out: &Path, manifest: &str, entry: &HistoryEntry) -> io::Result<()> {
    let path = file(out, manifest);
    let mut line = Vec::new();
    // What a program that was killed left half-way ends here.
    if fs::read(&path).is_ok_and(|bytes| !bytes.is_empty() && !bytes.ends_with(b"\n")) {
        line.push(b'\n');
    }
    serde_json::to_writer(&mut line, entry)?;
    line.push(b'\n');
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(&line)?;
    file.sync_all()
}

/// The history, and the runs that are not in it because an older version or a killed one made them.
fn read_all(out: &Path, manifest: &str) -> Vec<HistoryEntry> {
    let mut entries: Vec<HistoryEntry> = Vec::new();
    let mut torn = 0;
    for line in fs::read_to_string(file(out, manifest)).unwrap_or_default().lines() {
        match serde_json::from_str::<HistoryEntry>(line) {
            Ok(entry) => {
                // A run that was resumed is written again; the last one counts.
                entries.retain(|other| other.run_id != entry.run_id);
                entries.push(entry);
            }
            Err(_) => torn += usize::from(!line.trim().is_empty()),
        }
    }
    if torn > 0 {
        say(format_args!(
            "note: {torn} lines of `{}` cannot be read and are left out",
            file(out, manifest).display()
        ));
    }
    let known: BTreeSet<String> = entries.iter().map(|entry| entry.run_id.clone()).collect();
    for folder in newest_runs(&out.join(manifest), MOST_RUNS) {
        let id = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if known.contains(&id) {
            continue;
        }
        let Ok(meta) = report::read_meta(&folder) else { continue };
        if let Ok(summary) = report::summarize(&folder) {
            entries.push(HistoryEntry::of(&summary.measured(meta.narrowed)));
        }
    }
    entries
}

/// Runs that only the baseline remembers.
fn add_baseline(
    entries: &mut Vec<HistoryEntry>,
    near: &Path,
    manifest: &str,
    class: &str,
) -> Result<(), UserError> {
    let Some(baseline) = baselines::read(&baselines::file(near, manifest, class))? else { return Ok(()) };
    let known: BTreeSet<String> = entries.iter().map(|entry| entry.run_id.clone()).collect();
    let more = baseline.run.iter().filter(|run| !known.contains(&run.id));
    entries.extend(more.map(|run| HistoryEntry::of_accepted(run, class, baseline.control.as_ref())));
    Ok(())
}
