use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::Versions;
use super::{AcceptedRun, Measured};
use crate::manifest::Metric;
use crate::plan::CellId;
use crate::stats::{ChangeRules, change_points, median};

/// A run in the history: a line of `history.jsonl`. It outlives the run's folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryEntry {
    /// Id of the run.
    pub run_id: String,
    /// When it began.
    pub at: DateTime<Utc>,
    /// Class of the host.
    pub host_class: String,
    /// Version of the program that measured.
    pub runner: String,
    /// Versions of each server.
    pub servers: BTreeMap<String, Versions>,
    /// Its cells.
    pub cells: BTreeMap<CellId, HistoryPoint>,
}

/// A cell of a run in the history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryPoint {
    /// Identity of what was measured; a change of it begins the trend anew.
    pub content: String,
    /// Median over the passes of the rate over the control's in the same pass; none without a control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_control: Option<f64>,
    /// Median over the passes, by metric, in the metric's base unit.
    #[serde(flatten)]
    pub metrics: BTreeMap<Metric, f64>,
}

impl HistoryEntry {
    /// Of a run.
    pub fn of(measured: &Measured) -> Self {
        let day = measured.started_at.date_naive();
        let class = measured.host_classes.first().cloned().unwrap_or_default();
        HistoryEntry::of_accepted(&AcceptedRun::of(measured, day, ""), &class, measured.control.as_ref())
    }

    /// Of a run that a baseline keeps.
    pub fn of_accepted(run: &AcceptedRun, class: &str, control: Option<&CellId>) -> Self {
        let cells = run.cells.keys().filter_map(|id| {
            let metrics: BTreeMap<Metric, f64> = run.cells[id]
                .metrics
                .keys()
                .filter_map(|metric| {
                    let values: Vec<f64> = run.values(id, *metric)?.into_values().collect();
                    Some((*metric, rounded(median(&values)?)))
                })
                .collect();
            if metrics.is_empty() {
                return None;
            }
            let to_control =
                control.and_then(|control| run.values(control, Metric::Rate)).and_then(|control| {
                    let ratios: Vec<f64> = run
                        .values(id, Metric::Rate)?
                        .into_iter()
                        .filter_map(|(pass, rate)| Some(rate / control.get(&pass)?))
                        .collect();
                    median(&ratios).map(rounded)
                });
            Some((id.clone(), HistoryPoint { content: run.cells[id].content.clone(), to_control, metrics }))
        });
        HistoryEntry {
            run_id: run.id.clone(),
            at: run.measured,
            host_class: class.to_owned(),
            runner: run.runner.clone(),
            servers: run.servers.clone(),
            cells: cells.collect(),
        }
    }
}

fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// The rate of one cell over runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    /// Which cell.
    pub cell: CellId,
    /// Runs that have it with the parameters of the last one, the oldest first.
    pub runs: Vec<TrendPoint>,
    /// Whether changes are looked for in ratios to the control.
    pub to_control: bool,
    /// The last run over the first, less 1.
    pub change: f64,
    /// Where it changed.
    pub changes: Vec<TrendChange>,
    /// Runs that measured it with other parameters and are left out.
    pub other_parameters: u32,
}

/// A run of a trend.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendPoint {
    /// Id of the run.
    pub run_id: String,
    /// When it began.
    pub at: DateTime<Utc>,
    /// Median rate, in round trips per second.
    pub rate_per_s: f64,
    /// Median rate over the control's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_control: Option<f64>,
}

/// A change point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendChange {
    /// The first run after it.
    pub run_id: String,
    /// When that began.
    pub at: DateTime<Utc>,
    /// The median after over the one before, less 1.
    pub change: f64,
    /// P-value of the permutation test.
    pub p: f64,
    /// Versions that changed with that run, as `program before -> now`.
    pub versions: Vec<String>,
}

/// The trend of every cell over some runs of one class of host, which may be in any order.
pub fn trends(entries: &[HistoryEntry], rules: &ChangeRules, seed: u64) -> Vec<Trend> {
    let mut entries: Vec<&HistoryEntry> = entries.iter().collect();
    entries.sort_by(|a, b| (a.at, &a.run_id).cmp(&(b.at, &b.run_id)));
    entries.dedup_by(|a, b| a.run_id == b.run_id);
    let cells: BTreeSet<&CellId> = entries.iter().flat_map(|entry| entry.cells.keys()).collect();
    cells.into_iter().filter_map(|cell| trend(&entries, cell, rules, seed)).collect()
}

fn trend(entries: &[&HistoryEntry], cell: &CellId, rules: &ChangeRules, seed: u64) -> Option<Trend> {
    let all: Vec<(&HistoryEntry, &HistoryPoint)> =
        entries.iter().filter_map(|entry| Some((*entry, entry.cells.get(cell)?))).collect();
    let content = &all.last()?.1.content;
    let mut kept: Vec<(&HistoryEntry, TrendPoint)> = Vec::new();
    for (entry, point) in &all {
        if let Some(rate_per_s) =
            point.metrics.get(&Metric::Rate).copied().filter(|_| point.content == *content)
        {
            kept.push((
                entry,
                TrendPoint {
                    run_id: entry.run_id.clone(),
                    at: entry.at,
                    rate_per_s,
                    to_control: point.to_control,
                },
            ));
        }
    }
    let to_control = !kept.is_empty()
        && kept.iter().all(|(_, point)| point.to_control.is_some())
        // The control over itself is 1 for ever.
        && kept.iter().any(|(_, point)| point.to_control != Some(1.0));
    let value = |point: &TrendPoint| match point.to_control.filter(|_| to_control) {
        Some(ratio) => ratio,
        None => point.rate_per_s,
    };
    let logs: Vec<f64> = kept.iter().map(|(_, point)| value(point).ln()).collect();
    let changes = change_points(&logs, rules, seed)
        .into_iter()
        .map(|change| TrendChange {
            run_id: kept[change.at].1.run_id.clone(),
            at: kept[change.at].1.at,
            change: (change.after - change.before).exp_m1(),
            p: change.p,
            versions: changed(kept[change.at - 1].0, kept[change.at].0, cell),
        })
        .collect();
    let (first, last) = (kept.first()?, kept.last()?);
    Some(Trend {
        cell: cell.clone(),
        change: value(&last.1) / value(&first.1) - 1.0,
        to_control,
        changes,
        other_parameters: (all.len() - kept.len()) as u32,
        runs: kept.into_iter().map(|(_, point)| point).collect(),
    })
}

/// Versions of a cell's server, and of the program itself, that differ between two runs.
fn changed(before: &HistoryEntry, now: &HistoryEntry, cell: &CellId) -> Vec<String> {
    let nothing = Versions::new();
    let of = |entry: &HistoryEntry| {
        let mut versions = entry.servers.get(&cell.server).unwrap_or(&nothing).clone();
        versions.insert("runner".to_owned(), entry.runner.clone());
        versions
    };
    differing(&of(before), &of(now))
}

/// What differs between versions, as `program before -> now`.
pub(super) fn differing(before: &Versions, now: &Versions) -> Vec<String> {
    let programs: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
    programs
        .into_iter()
        .filter(|program| before.get(*program) != now.get(*program))
        .map(|program| {
            let of = |versions: &Versions| versions.get(program).map_or("-".to_owned(), String::clone);
            format!("{program} {} -> {}", of(before), of(now))
        })
        .collect()
}
