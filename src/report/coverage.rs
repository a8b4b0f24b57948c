use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::CellId;
use crate::record::store::RunMeta;
use crate::record::{Counts, Outcome};

/// What was planned and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Executions by how they ended, counted from the records.
    pub counts: Counts,
    /// Executions that were planned and left no record.
    pub missing: u32,
    /// What is not there, by reason, each reason once.
    pub problems: Vec<Problem>,
}

/// Cells that are not there for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// How they ended.
    pub status: Status,
    /// Why.
    pub reason: String,
    /// What was seen the first time, in one sentence; empty when the reason says it all.
    pub detail: String,
    /// Executions.
    pub executions: u32,
    /// The cells, in the order of the manifest.
    pub cells: Vec<CellId>,
}

/// How an execution without usable numbers ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It ran, but the numbers may not be used.
    Void,
    /// It could not be run to its end.
    Failed,
    /// It was not started.
    Skipped,
    /// It left no record.
    Missing,
    /// The manifest leaves it out.
    Excluded,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Status::Void => "void",
            Status::Failed => "failed",
            Status::Skipped => "skipped",
            Status::Missing => "missing",
            Status::Excluded => "excluded",
        })
    }
}

/// An outcome in the few words that a report repeats.
pub(super) fn said(outcome: &Outcome) -> Option<(Status, String, String)> {
    match outcome {
        Outcome::Ok => None,
        Outcome::Void { reason, detail } => Some((Status::Void, reason.to_string(), detail.clone())),
        Outcome::Failed { stage, message, log_tail } => {
            let last =
                log_tail.last().map(|line| format!("last line of its log: {line}")).unwrap_or_default();
            Some((Status::Failed, format!("{stage}: {message}"), last))
        }
        Outcome::Skipped { reason } => Some((Status::Skipped, reason.clone(), String::new())),
    }
}

/// Gathers outcomes into [`Coverage`].
#[derive(Default)]
pub(super) struct Gathering {
    problems: BTreeMap<(Status, String), ((CellId, u32), Problem)>,
    counts: Counts,
    missing: u32,
}

impl Gathering {
    pub(super) fn outcome(&mut self, cell: &CellId, pass: u32, outcome: &Outcome) {
        self.counts.add(outcome);
        if let Some((status, reason, detail)) = said(outcome) {
            let problem = self.problem(cell, pass, status, reason, 1);
            if (cell, pass) <= (&problem.0.0, problem.0.1) {
                *problem = ((cell.clone(), pass), Problem { detail, ..problem.1.clone() });
            }
        }
    }

    pub(super) fn absent(&mut self, cell: &CellId, skipped: Option<&str>, executions: u32) {
        if executions == 0 {
            return;
        }
        match skipped {
            Some(reason) => {
                self.counts.skipped += executions;
                self.problem(cell, u32::MAX, Status::Skipped, reason.to_owned(), executions);
            }
            None => {
                self.missing += executions;
                let reason = "no record: the run was stopped before or while it was measured".to_owned();
                self.problem(cell, u32::MAX, Status::Missing, reason, executions);
            }
        }
    }

    fn problem(
        &mut self,
        cell: &CellId,
        pass: u32,
        status: Status,
        reason: String,
        executions: u32,
    ) -> &mut ((CellId, u32), Problem) {
        let found = self.problems.entry((status, reason.clone())).or_insert_with(|| {
            let first = Problem { status, reason, detail: String::new(), executions: 0, cells: Vec::new() };
            ((cell.clone(), pass), first)
        });
        found.1.executions += executions;
        if !found.1.cells.contains(cell) {
            found.1.cells.push(cell.clone());
        }
        found
    }

    pub(super) fn finish(mut self, meta: &RunMeta, order: &[CellId], planned: u32) -> Coverage {
        let place: HashMap<&CellId, usize> = order.iter().zip(0..).collect();
        for excluded in &meta.excluded {
            self.problem(&excluded.id, u32::MAX, Status::Excluded, excluded.reason.clone(), 0);
        }
        let problems = self.problems.into_values().map(|(_, problem)| problem).map(|mut problem| {
            problem.cells.sort_by_key(|cell| place.get(cell).copied());
            problem
        });
        let problems = problems.collect();
        let mut counts = self.counts;
        counts.planned = planned;
        Coverage { counts, missing: self.missing, problems }
    }
}
