use std::time::Duration;

use super::{Cancel, Event, Executor};
use crate::plan::{Job, Step};
use crate::record::{Counts, Outcome, Record, Trial};
use crate::stats;

/// A cell of a run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The job, as of any pass: pass and order are filled in.
    pub job: Job,
    /// Why it is skipped; none when it runs.
    pub skipped: Option<String>,
    /// How long one execution is expected to take.
    pub estimate: Duration,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Executions by how they ended, those of earlier parts of the run among them.
    pub counts: Counts,
    /// Whether the user stopped it.
    pub interrupted: bool,
    /// Whether it was stopped because a consumer could keep no more.
    pub gave_up: bool,
}

impl Ran {
    /// This and what was run after it.
    pub fn and(self, more: Ran) -> Ran {
        Ran {
            counts: Counts {
                planned: self.counts.planned + more.counts.planned,
                ok: self.counts.ok + more.counts.ok,
                void: self.counts.void + more.counts.void,
                failed: self.counts.failed + more.counts.failed,
                skipped: self.counts.skipped + more.counts.skipped,
            },
            interrupted: self.interrupted || more.interrupted,
            gave_up: self.gave_up || more.gave_up,
        }
    }
}

/// Runs some steps in their order, numbered from `first`. `finished` knows the outcome of a step that an earlier part of this
/// run has finished. `sink` receives every event and says whether to go on. A cell that the user interrupts has no
/// record: it is run again when the run is resumed.
pub fn run_passes(
    cells: &[Planned],
    steps: &[Step],
    first: u32,
    executor: &mut dyn Executor,
    finished: &dyn Fn(&Planned, u32) -> Option<Outcome>,
    sink: &mut dyn FnMut(Event) -> bool,
    cancel: &Cancel,
) -> Ran {
    let mut counts = Counts { planned: u32::try_from(steps.len()).unwrap_or(u32::MAX), ..Counts::default() };
    let mut left = TimeLeft::new(cells, steps, finished);
    let mut go_on = true;
    let mut pass = 0;
    for (order, step) in (first..).zip(steps) {
        if cancel.is_set() || !go_on {
            break;
        }
        if step.pass != pass {
            if pass > 0 {
                go_on &= sink(Event::PassDone { pass });
            }
            pass = step.pass;
            go_on &= sink(Event::PassStarted { pass });
        }
        let planned = &cells[step.cell];
        if let Some(outcome) = finished(planned, pass) {
            counts.add(&outcome);
            continue;
        }
        let cell = planned.job.cell.id.clone();
        let log_dir = planned.job.log_dir.as_ref().map(|folder| {
            folder.join(&cell.workload).join(&cell.server).join(&cell.client).join(format!("pass-{pass}"))
        });
        let job = Job { pass, order, log_dir, ..planned.job.clone() };
        let record = match &planned.skipped {
            Some(reason) => Record::blank(&job, Outcome::Skipped { reason: reason.clone() }, executor.now()),
            None => {
                go_on &= sink(Event::CellStarted { pass, order, cell: cell.clone() });
                let begun = executor.elapsed();
                let record = executor.execute(&job, &mut |event| go_on &= sink(event), cancel);
                if cancel.is_set() && !record.is_ok() {
                    break;
                }
                left.took(planned, executor.elapsed().saturating_sub(begun));
                record
            }
        };
        counts.add(&record.outcome);
        go_on &= sink(Event::CellDone {
            pass,
            order,
            cell,
            outcome: record.outcome.clone(),
            rate_per_s: record.is_ok().then(|| median_rate(&record.trials)).flatten(),
            left_s: left.seconds(),
            record: Box::new(record),
        });
    }
    let interrupted = cancel.is_set();
    if pass > 0 && !interrupted && go_on {
        go_on &= sink(Event::PassDone { pass });
    }
    Ran { counts, interrupted, gave_up: !go_on }
}

fn median_rate(trials: &[Trial]) -> Option<f64> {
    let rates: Vec<f64> = trials
        .iter()
        .map(|trial| trial.batch.rounds as f64 * 1e9 / trial.batch.elapsed_ns.max(1) as f64)
        .collect();
    stats::median(&rates)
}

/// Time left: the estimates of what is to come, corrected by how long the estimated really took.
struct TimeLeft {
    to_come: Duration,
    estimated: Duration,
    took: Duration,
}

impl TimeLeft {
    fn new(cells: &[Planned], steps: &[Step], finished: &dyn Fn(&Planned, u32) -> Option<Outcome>) -> Self {
        let to_come = steps
            .iter()
            .filter(|step| {
                cells[step.cell].skipped.is_none() && finished(&cells[step.cell], step.pass).is_none()
            })
            .map(|step| cells[step.cell].estimate)
            .sum();
        TimeLeft { to_come, estimated: Duration::ZERO, took: Duration::ZERO }
    }

    fn took(&mut self, planned: &Planned, time: Duration) {
        self.to_come = self.to_come.saturating_sub(planned.estimate);
        self.estimated += planned.estimate;
        self.took += time;
    }

    fn seconds(&self) -> f64 {
        let correction = if self.estimated.is_zero() {
            1.0
        } else {
            self.took.as_secs_f64() / self.estimated.as_secs_f64()
        };
        self.to_come.as_secs_f64() * correction
    }
}
