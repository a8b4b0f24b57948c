use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Event;
use crate::plan::Job;
use crate::record::Record;

/// Where cells run. Nothing outside an executor may assume that a cell runs on this host.
pub trait Executor {
    /// Runs one job to its record, whatever happens to it: a fault of the cell is an outcome, not an error. Ends
    /// within the cell's deadline plus its grace, and soon after `cancel` is set. `events` receives
    /// [`Event::StageStarted`] and [`Event::TrialDone`] as they come.
    fn execute(&mut self, job: &Job, events: &mut dyn FnMut(Event), cancel: &Cancel) -> Record;

    /// Time since the executor was made, by its own clock.
    fn elapsed(&self) -> Duration;

    /// The date, by its own clock.
    fn now(&self) -> DateTime<Utc>;
}

/// The user's wish to stop, shared with whoever waits.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Asks everyone to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
