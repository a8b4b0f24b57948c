//! An executor that runs nothing and answers as a script says, by a clock of its own. It makes whole runs testable in
//! milliseconds with exact figures. A script is a list of answers; the last one that matches a cell applies:
//!
//! ```toml
//! start = "2026-01-02T03:04:05Z"    # of its clock
//!
//! [[answer]]
//! cells   = "*/relay/*"             # pattern of cells
//! passes  = [1, 2]                  # all when left out
//! rate    = 30000.0                 # round trips per second
//! noise   = 0.05                    # of the rate, drawn from seed, cell and pass
//! takes_s = 1.5                     # on its clock
//! flags   = [{ name = "contended", detail = "…" }]                  # as in a record
//!
//! [[answer]]
//! cells   = "*/ws@*/*"
//! outcome = { status = "void", reason = "echoed", detail = "…" }    # as in a record
//!
//! [[answer]]
//! cells   = "*/slow/*"
//! hangs   = true                    # to the deadline of its cell
//!
//! [[answer]]
//! cells   = "*/last/*"
//! kill    = true                    # ends the whole program at once, as `kill -9` does; or
//! cancel  = true                    # the user interrupts
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustix::process::{Signal, getpid, kill_process};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{Cancel, Event, Executor};
use crate::exit::{Exit, UserError};
use crate::plan::{Job, Pattern};
use crate::record::{Counters, Flag, Outcome, Record, Stage, Trial, Usage};
use crate::stats;
use crate::workload::protocol::Batch;

/// Round trips of a made-up trial.
const ROUNDS: u64 = 1_000;

/// The executor.
#[derive(Debug)]
pub struct Fake {
    answers: Vec<(Pattern, Answer)>,
    start: DateTime<Utc>,
    elapsed: Duration,
    /// Executions so far, by cell.
    seen: HashMap<String, u32>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    start: Option<DateTime<Utc>>,
    #[serde(default)]
    answer: Vec<Answer>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    cells: String,
    passes: Option<Vec<u32>>,
    #[serde(default = "usual_rate")]
    rate: f64,
    #[serde(default)]
    noise: f64,
    #[serde(default = "usual_time")]
    takes_s: f64,
    outcome: Option<Outcome>,
    #[serde(default)]
    flags: Vec<Flag>,
    #[serde(default)]
    hangs: bool,
    #[serde(default)]
    kill: bool,
    #[serde(default)]
    cancel: bool,
}

fn usual_rate() -> f64 {
    10_000.0
}

fn usual_time() -> f64 {
    1.0
}

impl Fake {
    /// Reads a script.
    pub fn load(path: &Path) -> Result<Self, UserError> {
        let wrong = |why: String| UserError::new(Exit::Usage, format!("`{}`: {why}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let script: Script = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        let answers = script
            .answer
            .into_iter()
            .map(|answer| Ok((answer.cells.parse().map_err(|error| wrong(format!("{error}")))?, answer)))
            .collect::<Result<_, UserError>>()?;
        Ok(Fake {
            answers,
            start: script.start.unwrap_or_default(),
            elapsed: Duration::ZERO,
            seen: HashMap::new(),
        })
    }

    fn answer(&self, job: &Job) -> Option<Answer> {
        self.answers
            .iter()
            .rev()
            .find(|(pattern, answer)| {
                pattern.matches(&job.cell.id)
                    && answer.passes.as_ref().is_none_or(|passes| passes.contains(&job.pass))
            })
            .map(|(_, answer)| answer.clone())
    }
}

impl Executor for Fake {
    fn execute(&mut self, job: &Job, events: &mut dyn FnMut(Event), cancel: &Cancel) -> Record {
        let begun = self.now();
        let cell = &job.cell.id;
        *self.seen.entry(cell.to_string()).or_default() += 1;
        let mut record = Record::blank(job, Outcome::Ok, begun);
        let Some(answer) = self.answer(job) else {
            let message = "the script has no answer for this cell".to_owned();
            record.outcome = Outcome::Failed { stage: Stage::Cell, message, log_tail: Vec::new() };
            return record;
        };
        if answer.kill {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        if answer.cancel {
            cancel.set();
            record.outcome = Outcome::Failed {
                stage: Stage::Measure,
                message: "interrupted".to_owned(),
                log_tail: Vec::new(),
            };
            return record;
        }
        if answer.hangs {
            let deadline = Duration::from_nanos(job.cell.timeouts.deadline_ns);
            self.elapsed += deadline;
            let message = format!("the deadline of {deadline:?} passed");
            record.outcome = Outcome::Failed { stage: Stage::Measure, message, log_tail: Vec::new() };
            record.finished_at = self.now();
            return record;
        }
        if answer.outcome.is_none() {
            events(Event::StageStarted { cell: cell.clone(), stage: Stage::Measure });
            let digest = Sha256::digest(format!("{}/{cell}/{}", job.seed, job.pass));
            let mut seed = [0; 32];
            seed.copy_from_slice(&digest);
            let mut random = ChaCha8Rng::from_seed(seed);
            for index in 0..job.cell.workload.params.trials {
                let rate = answer.rate * (1.0 + answer.noise * random.random_range(-1.0..=1.0));
                record.trials.push(trial(rate));
                events(Event::TrialDone { cell: cell.clone(), index, rate_per_s: rate });
            }
            let messages = 2 * ROUNDS * u64::from(job.cell.workload.params.trials);
            record.counters = Counters { sent: messages, received: messages, ..Counters::default() };
        }
        record.flags = answer.flags;
        record.outcome = answer.outcome.unwrap_or(Outcome::Ok);
        self.elapsed += Duration::from_secs_f64(answer.takes_s.clamp(0.0, 1e6));
        record.finished_at = self.now();
        record
    }

    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn now(&self) -> DateTime<Utc> {
        self.start + self.elapsed
    }
}

fn trial(rate: f64) -> Trial {
    let elapsed_ns = (ROUNDS as f64 * 1e9 / rate) as u64;
    let mut histogram =
        hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("constant bounds");
    histogram.saturating_record_n((1e9 / rate) as u64, ROUNDS);
    let used = |share: f64| Usage { cpu_ns: (elapsed_ns as f64 * share) as u64, ..Usage::default() };
    Trial {
        batch: Batch {
            rounds: ROUNDS,
            elapsed_ns,
            latency: Some(stats::encode_histogram(&histogram)),
            empty_polls: Some(10),
            busy: Some(0.5),
            ..Batch::default()
        },
        window_ns: elapsed_ns,
        server: used(0.5),
        client: used(1.0),
    }
}
