//! What a run says beside its baseline: pure functions, no I/O. `measured` is what is compared, `baseline` what it is compared
//! with and its file, `noise` what was learned of the noise, `judge` the rule for one metric of one cell, `night` the whole
//! run with its control, `looks` how often one may look, `calibrate` what nights of unchanged servers tell, `agree` which runs may be accepted, `simulate` what the rule
//! finds, `history` what changed over many runs, `across` what other hosts say.

mod across;
mod agree;
mod baseline;
mod calibrate;
mod history;
mod judge;
mod looks;
mod measured;
mod night;
mod noise;
mod notes;
mod simulate;
mod words;

pub use across::{AcrossGroup, AcrossRow, across};
pub use agree::{Disagreement, disagreements};
pub use baseline::{
    AcceptedCell, AcceptedRun, BASELINE_SCHEMA, Baseline, BaselineError, CalibrationFacts, KEPT_RUNS,
};
pub use calibrate::{Calibrated, CalibratedCell, calibrate};
pub use history::{HistoryEntry, HistoryPoint, Trend, TrendChange, TrendPoint, trends};
pub use judge::{Finding, Limit, Shift};
pub use looks::Looks;
pub use measured::{Measured, MeasuredCell, Values};
pub use night::{ControlFinding, NIGHT_SCHEMA, Night, judge_night};
pub use noise::{Noise, learn_noise};
pub use simulate::{Scenario, Shape, Simulated, SimulatedRow, SimulatedSlowdown, simulate};
pub use words::{NightVerdict, Verdict};
