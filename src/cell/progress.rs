use serde::{Deserialize, Serialize};

use crate::plan::CellId;
use crate::record::Stage;

/// What a cell says of itself while it runs: one JSON line each on its stderr.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Progress {
    /// It went on to its next stage.
    StageStarted {
        /// Which cell.
        cell: CellId,
        /// Which stage.
        stage: Stage,
    },
    /// A trial is over.
    TrialDone {
        /// Which cell.
        cell: CellId,
        /// Which trial, from 0.
        index: u32,
        /// Round trips per second.
        rate_per_s: f64,
    },
}
