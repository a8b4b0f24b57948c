//! Passes over the cells: order of execution, executors, resume, and the one event stream that progress, recorder
//! and machine output all consume.

mod event;
mod executor;

pub use event::Event;
pub use executor::{Cancel, Executor};
