use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::signal::unix::{SignalKind, signal};

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
pub struct Cancel(Arc<AtomicU32>);

impl Cancel {
    /// Asks everyone to stop.
    pub fn set(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether a stop was asked for.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }

    /// Whether it was asked for twice: at once, then, whatever is lost.
    pub fn is_urgent(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 1
    }

    /// Sets it at SIGINT and SIGTERM, from now to the end of the program.
    pub fn on_signals(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupt, mut terminate) = {
            let _guard = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        let cancel = self.clone();
        // Sleeps until a signal comes: it disturbs no measurement.
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => cancel.set(),
                        _ = terminate.recv() => cancel.set(),
                    }
                }
            });
        })?;
        Ok(())
    }
}
