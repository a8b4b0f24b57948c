use serde::Serialize;

use crate::cell::Progress;
use crate::plan::CellId;
use crate::record::{Counts, Outcome, Record, Stage};

/// What happens during a run, in order. Every consumer sees the same stream; `--format json` prints it as it is,
/// one line each.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The run begins.
    RunStarted {
        /// Id of the run.
        run_id: String,
        /// Name of the manifest.
        manifest: String,
        /// Seed of the order.
        seed: u64,
        /// Passes.
        passes: u32,
        /// Cells in each pass.
        cells: u32,
        /// Executions that an earlier part of this run has finished.
        resumed: u32,
        /// Estimated time, in seconds.
        estimate_s: f64,
    },
    /// A pass begins.
    PassStarted {
        /// Which, from 1.
        pass: u32,
    },
    /// A cell begins.
    CellStarted {
        /// Which pass.
        pass: u32,
        /// Place in the order of execution, from 0.
        order: u32,
        /// Which cell.
        cell: CellId,
    },
    /// A cell went on to its next stage.
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
    /// A cell is over.
    CellDone {
        /// Which pass.
        pass: u32,
        /// Place in the order of execution.
        order: u32,
        /// Which cell.
        cell: CellId,
        /// How it ended.
        outcome: Outcome,
        /// Median rate over the trials, in round trips per second; none without usable numbers.
        rate_per_s: Option<f64>,
        /// Estimated time left in the run, in seconds.
        left_s: f64,
        /// Everything that is known of it; the recorder stores it, JSON output leaves it out.
        #[serde(skip)]
        record: Box<Record>,
    },
    /// Cells that are not decided yet are measured again.
    MorePasses {
        /// Which cells, the control among them.
        cells: Vec<CellId>,
        /// The first pass.
        from: u32,
        /// The last pass.
        to: u32,
        /// Passes of a cell at most.
        most: u32,
        /// Executions.
        executions: u32,
        /// Estimated time, in seconds.
        estimate_s: f64,
    },
    /// A pass is over.
    PassDone {
        /// Which, from 1.
        pass: u32,
    },
    /// Something that the user should know, e.g. a selection that matched nothing.
    Warning {
        /// One sentence.
        message: String,
    },
    /// The run is over.
    RunDone {
        /// Executions by how they ended.
        counts: Counts,
        /// Whether the user interrupted it.
        interrupted: bool,
    },
}

impl From<Progress> for Event {
    fn from(progress: Progress) -> Self {
        match progress {
            Progress::StageStarted { cell, stage } => Event::StageStarted { cell, stage },
            Progress::TrialDone { cell, index, rate_per_s } => Event::TrialDone { cell, index, rate_per_s },
        }
    }
}
