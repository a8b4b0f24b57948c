//! Passes over the cells: order of execution, executors, resume, and the one event stream that progress, recorder
//! and machine output all consume.

mod event;
mod executor;
mod fake;
mod local;
mod passes;
mod show;

pub use event::Event;
pub use executor::{Cancel, Executor};
pub use fake::Fake;
pub use local::Local;
pub use passes::{Planned, Ran, run_passes};
pub use show::{JsonLines, Lines, Progress as ProgressBar};
