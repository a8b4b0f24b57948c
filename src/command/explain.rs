use std::collections::BTreeSet;
use std::path::PathBuf;

use super::nights::Compared;
use super::report::DEFAULT_WIDTH;
use super::selection::near_cell;
use crate::exit::{Ending, Exit, UserError};
use crate::plan::Pattern;
use crate::record::store::record_path;
use crate::report::{Style, explain};
use crate::verdict::Finding;

/// Arguments of `runner explain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder of a run, or `latest`
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// A cell, or a pattern of cells
    #[arg(value_name = "CELL")]
    cell: Pattern,
    /// The baseline; that of the run's manifest and class of host by default
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Where runs are kept
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

/// Shows how the verdicts of a cell came about; measures nothing.
pub fn run(args: Args, terminal: &super::Terminal) -> Result<Ending, UserError> {
    let compared = Compared::read(&args.run, &args.out, args.baseline.as_deref())?;
    let night = match compared.night() {
        Ok(night) => night,
        Err(end) => return Ok(end),
    };
    let mut findings: Vec<&Finding> =
        night.findings.iter().filter(|finding| args.cell.matches(&finding.cell)).collect();
    findings.sort_by(|a, b| (&a.cell, a.metric).cmp(&(&b.cell, b.metric)));
    let is_control = night.control.as_ref().is_some_and(|control| args.cell.matches(&control.finding.cell));
    if findings.is_empty() && !is_control {
        let cells: Vec<String> = compared.measured.cells.keys().map(ToString::to_string).collect();
        let error = UserError::new(
            Exit::NothingSelected,
            format!("`{}` matches no cell of run {}", args.cell, night.run_id),
        );
        return Err(error.hint(near_cell(args.cell.as_str(), &cells)));
    }
    let style =
        Style { color: terminal.stdout_color, width: terminal.columns.map_or(DEFAULT_WIDTH, usize::from) };
    let manifest = compared.meta.sources.first().map_or("MANIFEST", |source| source.path.as_str());
    let cells = compared.measured.cells.iter().filter(|(cell, _)| args.cell.matches(cell));
    let files: Vec<String> = cells
        .flat_map(|(cell, facts)| {
            let passes: BTreeSet<u32> =
                facts.metrics.values().flat_map(|values| values.keys().copied()).collect();
            let folder = &compared.folder;
            passes.into_iter().map(move |pass| record_path(folder, cell, pass).display().to_string())
        })
        .collect();
    terminal.print(&explain(&night, &findings, &files, manifest, &style))?;
    Ok(Ending::done())
}
