use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::Utc;
use rustix::process::set_child_subreaper;

use super::judge::{Facts, judge};
use super::process::Side;
use super::talk::Talk;
use super::{Progress, sample};
use crate::host::{Host, ServerCgroup};
use crate::plan::Job;
use crate::record::{Flag, Outcome, Record, Stage, VoidReason};
use crate::workload::protocol::ClientEvent;

/// Goes through the life of a cell and returns its record, whatever happens. Must run inside a
/// [`tokio::task::LocalSet`] on a current-thread runtime: the processes end with the thread that started them.
/// Completes soon after `cancelled` does.
pub async fn live(
    job: Job,
    cancelled: impl Future<Output = ()>,
    progress: &mut dyn FnMut(Progress),
) -> Record {
    let begun = Instant::now();
    // Whatever a server leaves behind comes to us, where it is found.
    let _ = set_child_subreaper(Some(rustix::process::getpid()));
    let host = Host::here();
    let mut record = Record::blank(&job, Outcome::Ok, Utc::now());
    record.host.fingerprint = host.fingerprint();
    record.host.before = host.snapshot();
    let timeouts = job.cell.timeouts.clone();
    let mut life = Life {
        job: &job,
        stage: Stage::Place,
        record,
        progress,
        runner: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("runner")),
        server: None,
        client: None,
        port: 0,
        cgroup: None,
        server_started: begun,
        misplaced: None,
    };

    enum How {
        Ended(Result<(), Outcome>),
        Late,
        Cancelled,
    }
    let how = tokio::select! {
        ended = life.measure() => How::Ended(ended),
        () = tokio::time::sleep(Duration::from_nanos(timeouts.deadline_ns)) => How::Late,
        () = cancelled => How::Cancelled,
    };
    let ended = match how {
        How::Ended(ended) => ended,
        How::Late => Err(life
            .failed(format!("the deadline of {:?} passed", Duration::from_nanos(timeouts.deadline_ns)))
            .await),
        How::Cancelled => Err(life.failed("interrupted".to_owned()).await),
    };

    let left = life.stop().await;
    let after = host.snapshot();
    let mut record = life.record;
    record.host.after = after;
    let facts = Facts {
        cores: Some(&job.cell.cores),
        trials: &record.trials,
        warmup: &record.warmup,
        before: Some(&record.host.before),
        after: Some(&record.host.after),
        misplaced: life.misplaced,
        cpu_limit: job.cell.limits.as_ref().and_then(|limits| limits.cpus),
        limited_periods: left.limited_periods,
        memory_failures: left.memory_failures,
        left_behind: left.processes,
        port_holder: left.port_holder,
    };
    let (verdict, flags) = judge(&job.cell.workload.params, &facts);
    record.outcome = match ended {
        Ok(()) => verdict,
        // What killed it may be its own memory limit.
        Err(Outcome::Failed { .. }) if facts.memory_failures > 0 => verdict,
        Err(outcome) => {
            // What a server leaves behind is worth knowing even where it is not what voids the cell.
            if let Outcome::Void {
                reason: reason @ (VoidReason::ProcessLeaked | VoidReason::PortLeaked),
                detail,
            } = verdict
            {
                record.flags.push(Flag { name: reason.to_string(), detail });
            }
            outcome
        }
    };
    record.flags.extend(flags);
    record.server.usage = sample::over(record.trials.iter().map(|trial| &trial.server));
    record.client.usage = sample::over(record.trials.iter().map(|trial| &trial.client));
    record.finished_at = Utc::now();
    let timings = &mut record.timings;
    timings.total_ns = nanos(begun.elapsed());
    timings.overhead_ns =
        timings.total_ns.saturating_sub(timings.start_up_ns + timings.warm_up_ns + timings.trials_ns);
    record
}

/// A cell while it lives.
pub(super) struct Life<'a> {
    pub(super) job: &'a Job,
    pub(super) stage: Stage,
    pub(super) record: Record,
    pub(super) progress: &'a mut dyn FnMut(Progress),
    pub(super) runner: PathBuf,
    pub(super) server: Option<Side>,
    pub(super) client: Option<(Side, Talk)>,
    pub(super) port: u16,
    pub(super) cgroup: Option<ServerCgroup>,
    pub(super) server_started: Instant,
    pub(super) misplaced: Option<String>,
}

impl Life<'_> {
    /// From the choice of a port to the last event of the client.
    async fn measure(&mut self) -> Result<(), Outcome> {
        self.place().await?;
        self.start_server().await?;
        self.until_ready().await?;

        let verifying = Instant::now();
        self.enter(Stage::Verify);
        self.start_client().await?;
        match self.hear().await? {
            ClientEvent::Ready { versions, extensions, clock, .. } => {
                self.record.client.versions.extend(versions);
                self.record.clock = clock;
                if !extensions.is_empty() {
                    self.record.server.extensions = extensions.clone();
                    let what = extensions.join(", ");
                    return Err(self
                        .failed(format!("the server negotiated `{what}`, which nobody had offered"))
                        .await);
                }
            }
            other => return Err(self.out_of_turn(&other).await),
        }
        self.go_on().await?;
        match self.hear().await? {
            ClientEvent::Verified { .. } => {}
            other => return Err(self.out_of_turn(&other).await),
        }
        self.read_placement();
        self.record.timings.verify_ns = nanos(verifying.elapsed());

        self.enter(Stage::WarmUp);
        let warming = Instant::now();
        self.go_on().await?;
        match self.hear().await? {
            ClientEvent::Warm { slices } => self.record.warmup = slices,
            other => return Err(self.out_of_turn(&other).await),
        }
        self.record.timings.warm_up_ns = nanos(warming.elapsed());

        self.enter(Stage::Measure);
        let measuring = Instant::now();
        for expected in 0..self.job.cell.workload.params.trials {
            let before = self.look_before();
            self.go_on().await?;
            match self.hear().await? {
                ClientEvent::Trial { index, batch } if index == expected => {
                    let after = self.look_after();
                    self.keep_trial(index, batch, &before, &after);
                }
                other => return Err(self.out_of_turn(&other).await),
            }
        }
        self.record.timings.trials_ns = nanos(measuring.elapsed());
        self.read_placement();
        self.go_on().await?;
        match self.hear().await? {
            ClientEvent::Done { counters } => self.record.counters = counters,
            other => return Err(self.out_of_turn(&other).await),
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        (self.progress)(Progress::StageStarted { cell: self.job.cell.id.clone(), stage });
    }

    pub(super) async fn failed(&mut self, message: String) -> Outcome {
        let log_tail = match &mut self.server {
            Some(server) if !message.starts_with("interrupted") => server.last_words().await,
            _ => Vec::new(),
        };
        Outcome::Failed { stage: self.stage, message, log_tail }
    }
}

/// A time in nanoseconds.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
