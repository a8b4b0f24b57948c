use std::collections::BTreeMap;

use chrono::NaiveDate;

use super::history::differing;
use super::judge::percent;
use super::{Baseline, Measured};
use crate::manifest::Rules;

/// What a reader should know beside the verdicts.
pub(super) fn notes(baseline: &Baseline, measured: &Measured, rules: &Rules, day: NaiveDate) -> Vec<String> {
    let mut notes = Vec::new();
    if baseline.run.len() < 3 {
        notes.push(format!(
            "the baseline holds {} accepted run{}: what differs between runs is taken for granted; `runner calibrate` or further `runner accept` learns it",
            baseline.run.len(),
            if baseline.run.len() == 1 { "" } else { "s" }
        ));
    }
    for tolerance in &rules.tolerances {
        if tolerance.expires.is_some_and(|expires| expires < day) {
            notes.push(format!(
                "the tolerance of {} for `{}` expired: the default holds again",
                percent(tolerance.within),
                tolerance.cells
            ));
        }
    }
    let unusable: Vec<String> = measured
        .cells
        .iter()
        .filter(|(_, cell)| cell.unusable > 0 && !cell.metrics.is_empty())
        .map(|(id, cell)| format!("{id} ({})", cell.unusable))
        .collect();
    if !unusable.is_empty() {
        notes.push(format!("passes that may not be used were left out: {}", unusable.join(", ")));
    }
    if !measured.disturbed.is_empty() {
        notes.push(format!(
            "something else ran on the control's cores in {} of the passes (flag `contended` in its records): they count for nothing; look for another program at that time",
            measured.disturbed.len()
        ));
    }
    if !measured.runner_version.is_empty()
        && baseline.run.last().is_some_and(|run| run.runner != measured.runner_version)
    {
        notes.push(format!(
            "measured by runner {}, the last accepted run by {}",
            measured.runner_version,
            baseline.run.last().map_or("", |run| run.runner.as_str())
        ));
    }
    notes
}

/// Versions that differ from the last accepted run, by server.
pub(super) fn versions(baseline: &Baseline, measured: &Measured) -> BTreeMap<String, Vec<String>> {
    let mut changed = BTreeMap::new();
    for (server, now) in &measured.servers {
        let Some(before) = baseline.run.iter().rev().find_map(|run| run.servers.get(server)) else {
            continue;
        };
        let lines = differing(before, now);
        if !lines.is_empty() {
            changed.insert(server.clone(), lines);
        }
    }
    changed
}
