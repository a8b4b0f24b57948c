use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};

use crate::manifest::Metric;
use crate::plan::CellId;

/// What each program says of its version, by program.
pub(super) type Versions = BTreeMap<String, String>;

/// Values by pass, from 1.
pub type Values = BTreeMap<u32, f64>;

/// What a comparison needs of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Id of the run.
    pub run_id: String,
    /// Name of the manifest.
    pub manifest: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// Classes of the machines that it was measured on: one, unless it was resumed elsewhere.
    pub host_classes: BTreeSet<String>,
    /// The control.
    pub control: Option<CellId>,
    /// Whether only some of the manifest's cells were selected.
    pub narrowed: bool,
    /// Passes in which something else ran on the control's cores. What they measured is in no value.
    ///
    /// Of other cells this says little: threads of one server wait for one another too.
    pub disturbed: BTreeSet<u32>,
    /// Version of the program that measured.
    pub runner_version: String,
    /// Versions of each server.
    pub servers: BTreeMap<String, Versions>,
    /// Its cells.
    pub cells: BTreeMap<CellId, MeasuredCell>,
}

/// What a comparison needs of a cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredCell {
    /// Identity of what was measured; none when it was skipped before it could be resolved.
    pub content_id: Option<String>,
    /// What its client says of its version.
    pub client: String,
    /// The values of each metric.
    pub metrics: BTreeMap<Metric, Values>,
    /// Passes whose numbers may not be used, or that failed.
    pub unusable: u32,
    /// Metrics of which it has a value in a disturbed pass, which is left out.
    pub left_out: BTreeSet<Metric>,
    /// Why it has no values, or fewer than it should.
    pub trouble: Option<String>,
}

impl Measured {
    /// The values of a metric of a cell; none where there are none.
    pub fn values(&self, cell: &CellId, metric: Metric) -> Option<&Values> {
        self.cells.get(cell)?.metrics.get(&metric).filter(|values| !values.is_empty())
    }
}
