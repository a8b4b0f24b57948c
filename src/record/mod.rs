//! Versioned JSON records, one for each cell and pass, and the store that holds the records of a run.

mod outcome;
/// The records of a run on disk.
pub mod store;
mod types;

pub use outcome::{Counts, Outcome, Stage, VoidReason};
pub use types::{
    CONTENDED, Counters, Exited, Flag, HostFacts, RECORD_SCHEMA, Record, RunnerFacts, Side, Timings, Trial,
    Usage,
};
