use super::Args;
use crate::manifest::Manifest;
use crate::plan::Plan;
use crate::record::Counts;
use crate::record::store::{ExcludedCell, PlannedCell, RUN_SCHEMA, RunMeta, SourceText};
use crate::schedule::Planned;

pub(super) fn planned_cell(planned: &Planned) -> PlannedCell {
    PlannedCell {
        id: planned.job.cell.id.clone(),
        content_id: planned.skipped.is_none().then(|| planned.job.cell.content_id()),
        skipped: planned.skipped.clone(),
    }
}

pub(super) fn first_meta(
    args: &Args,
    manifest: &Manifest,
    plan: &Plan,
    run_id: &str,
    seed: u64,
    now: chrono::DateTime<chrono::Utc>,
) -> RunMeta {
    RunMeta {
        schema: RUN_SCHEMA.to_owned(),
        run_id: run_id.to_owned(),
        manifest: manifest.name.clone(),
        title: manifest.title.clone(),
        started_at: now,
        finished_at: None,
        interrupted: false,
        argv: if args.fake.is_some() { Vec::new() } else { std::env::args().collect() },
        seed,
        passes: manifest.passes,
        control: manifest.control.clone(),
        rules: manifest.rules.clone(),
        narrowed: args.selection.narrows(),
        until_decided: None,
        cells: Vec::new(),
        excluded: plan
            .excluded
            .iter()
            .map(|excluded| ExcludedCell { id: excluded.id.clone(), reason: excluded.reason.clone() })
            .collect(),
        counts: Counts::default(),
        runner_version: env!("CARGO_PKG_VERSION").to_owned(),
        sources: manifest
            .sources
            .iter()
            .map(|(path, text)| SourceText { path: path.display().to_string(), text: text.clone() })
            .collect(),
    }
}
