use std::path::PathBuf;

use super::baselines;
use super::nights::Compared;
use crate::exit::{Ending, Exit, UserError, say};
use crate::report;
use crate::verdict::{Baseline, Measured, disagreements};

/// Arguments of `runner accept`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folders of runs, or `latest`
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Why, for whoever reads the baseline
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The baseline to write; that of the runs' manifest and class of host by default
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Say what would be written, write nothing
    #[arg(long)]
    dry_run: bool,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

/// Writes or extends a baseline.
pub fn run(args: Args, terminal: &super::Terminal) -> Result<Ending, UserError> {
    if args.reason.trim().is_empty() {
        return Err(UserError::new(Exit::Usage, "`--reason` is empty")
            .hint("say why these figures are right, e.g. `--reason 'ws 8.19: faster masking'`"));
    }
    let mut runs = Vec::new();
    for run in &args.runs {
        let folder = report::find_run(run, &args.out)?;
        // A baseline that is named may not be there yet.
        let compared = Compared::of_folder(folder, None)?;
        refuse_unsound(&compared)?;
        runs.push(compared);
    }
    let first = runs.first().expect("clap asks for one");
    let class = baselines::class_of(&first.measured)?;
    for run in &runs[1..] {
        if run.meta.manifest != first.meta.manifest || baselines::class_of(&run.measured)? != class {
            return Err(UserError::new(
                Exit::Usage,
                format!(
                    "runs {} and {} are of other manifests or classes of host",
                    first.meta.run_id, run.meta.run_id
                ),
            )
            .hint("accept the runs of each manifest and class by themselves"));
        }
    }
    let path = args.baseline.clone().unwrap_or_else(|| first.path.clone());
    let mut baseline = baselines::read(&path)?
        .unwrap_or_else(|| Baseline::new(&first.meta.manifest, &class, first.meta.control.clone()));
    if baseline.host_class != class || baseline.manifest != first.meta.manifest {
        return Err(UserError::new(
            Exit::Usage,
            format!(
                "`{}` is of `{}` on hosts of class `{}`, the run of `{}` on `{class}`",
                path.display(),
                baseline.manifest,
                baseline.host_class,
                first.meta.manifest
            ),
        )
        .hint("leave `--baseline` out: the file is named after both"));
    }
    baseline.control.clone_from(&first.meta.control);
    let measured: Vec<Measured> = runs.iter().map(|run| run.measured.clone()).collect();
    refuse_disagreement(&baseline, &measured)?;
    let before = baseline.run.len();
    let day = chrono::Utc::now().date_naive();
    for run in &measured {
        baseline.accept(run, day, args.reason.trim());
    }
    for cell in baseline.noise.keys().filter(|cell| !first.measured.cells.contains_key(*cell)) {
        say(format_args!("note: {cell} has noise from a calibration and is not in these runs"));
    }
    if args.dry_run {
        terminal.print(&baseline.render())?;
        return Ok(Ending::new(Exit::Done, format!("`{}` was not written", path.display())));
    }
    baselines::write(&path, &baseline)?;
    terminal.print(&format!(
        "{}: {} accepted runs of {} cells, {} before; commit it\n",
        path.display(),
        baseline.run.len(),
        baseline.cells().len(),
        before
    ))?;
    Ok(Ending::done())
}

/// A run with void, failed or missing executions is no measure for others; what was skipped is left out.
fn refuse_unsound(run: &Compared) -> Result<(), UserError> {
    let id = &run.meta.run_id;
    let refuse = |why: String, hint: &str| {
        Err(UserError::new(Exit::Incomplete, format!("run {id} cannot be accepted: {why}")).hint(hint))
    };
    let unsound: Vec<String> = run
        .measured
        .cells
        .iter()
        .filter(|(_, cell)| cell.unusable > 0)
        .map(|(cell, facts)| format!("{cell} ({})", facts.trouble.as_deref().unwrap_or("void")))
        .collect();
    if !unsound.is_empty() {
        return refuse(
            unsound.join(", "),
            "measure these cells again by `runner run --resume`, or leave them out of the manifest",
        );
    }
    if run.meta.finished_at.is_none() {
        return refuse("it did not finish".to_owned(), "`runner run --resume` goes on");
    }
    if run.summary.coverage.missing > 0 {
        return refuse(
            format!("{} executions left no record", run.summary.coverage.missing),
            "`runner run --resume` goes on",
        );
    }
    let zero = run.measured.cells.iter().find(|(_, cell)| {
        cell.metrics
            .values()
            .flat_map(|values| values.values())
            .any(|value| !(value.is_finite() && *value > 0.0))
    });
    if let Some((cell, _)) = zero {
        return refuse(format!("{cell} has a value of 0"), "a baseline of 0 would let everything pass");
    }
    if run.measured.cells.values().all(|cell| cell.metrics.is_empty()) {
        return refuse("it has no value at all".to_owned(), "see `runner report`");
    }
    Ok(())
}

fn refuse_disagreement(baseline: &Baseline, runs: &[Measured]) -> Result<(), UserError> {
    let found = disagreements(baseline, runs);
    if found.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = found.iter().map(|found| format!("  {found}")).collect();
    Err(UserError::new(
        Exit::Undecided,
        format!("these runs disagree with one another beyond their noise:\n{}", lines.join("\n")),
    )
    .hint("find out which is right (`runner explain`, `runner rerun`), measure once more, and accept those that agree"))
}
