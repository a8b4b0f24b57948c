use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use chrono::Utc;
use rustix::process::set_child_subreaper;

use super::judge::{Facts, judge};
use super::process::{Side, how_it_ended};
use super::sample::{self, Reading};
use super::talk::{Said, Talk};
use super::{Hashes, Progress, ports, ready, tree};
use crate::host::{Host, ServerCgroup};
use crate::plan::{Job, Program};
use crate::record::{Flag, Outcome, Record, Stage, Trial, Usage, VoidReason};
use crate::workload::protocol::{Batch, ClientEvent, ClientJob};

/// How long a server may go on after its last message before we ask who it was: both pipes say that a process has
/// ended a little before or after the kernel says so.
const DEATH_RATTLE: Duration = Duration::from_millis(100);

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

struct Life<'a> {
    job: &'a Job,
    stage: Stage,
    record: Record,
    progress: &'a mut dyn FnMut(Progress),
    runner: PathBuf,
    server: Option<Side>,
    client: Option<(Side, Talk)>,
    port: u16,
    cgroup: Option<ServerCgroup>,
    server_started: Instant,
    misplaced: Option<String>,
}

/// What was found after the stop.
struct Left {
    processes: Vec<String>,
    port_holder: Option<String>,
    limited_periods: u64,
    memory_failures: u64,
}

/// Both sides at one moment.
struct Both {
    server: Reading,
    client: Reading,
}

impl Life<'_> {
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
            let before = self.sample(false);
            self.go_on().await?;
            match self.hear().await? {
                ClientEvent::Trial { index, batch } if index == expected => {
                    let after = self.sample(true);
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

    /// Port, limits, and what both programs are made of.
    async fn place(&mut self) -> Result<(), Outcome> {
        self.enter(Stage::Place);
        let cell = &self.job.cell;
        self.record.server.cores_asked = cell.cores.server.clone();
        self.record.client.cores_asked = cell.cores.client.clone();
        self.record.server.limits_asked = cell.limits.clone();
        self.record.server.versions = cell.server.program.versions.clone();
        self.record.client.versions = cell.client.program.versions.clone();
        let mut hashes = Hashes::default();
        let mut hash = |program: &Program| {
            let mut program = program.clone();
            hashes.fill(&mut program);
            program.sha256
        };
        self.record.server.sha256 = hash(&cell.server.program);
        self.record.client.sha256 = hash(&cell.client.program);
        self.record.runner = self.job.runner.clone().unwrap_or_else(|| hashes.runner());
        self.port = match cell.port {
            None => match ports::free_port() {
                Ok(port) => port,
                Err(error) => return Err(self.failed(format!("no port is free: {error}")).await),
            },
            Some(port) if ports::is_free(port) => port,
            Some(port) => {
                let holder =
                    ports::holder(port).unwrap_or_else(|| "a process that we may not see".to_owned());
                let message = format!(
                    "port {port} of 127.0.0.1 is in use by {holder}; end it, or leave `port` out of the manifest"
                );
                return Err(self.failed(message).await);
            }
        };
        if let Some(limits) = &cell.limits {
            let name = format!("runner-{}-{}", std::process::id(), self.job.order);
            match ServerCgroup::create(&name, limits) {
                Ok(cgroup) => {
                    self.record.server.limits_seen = Some(cgroup.read_back());
                    self.cgroup = Some(cgroup);
                }
                Err(why) => return Err(self.failed(why).await),
            }
        }
        Ok(())
    }

    async fn start_server(&mut self) -> Result<(), Outcome> {
        self.enter(Stage::Start);
        let spec = &self.job.cell.server;
        let mut env: BTreeMap<String, String> = spec.program.env.clone();
        env.insert("ROLE".to_owned(), spec.role.to_string());
        env.insert("HOST".to_owned(), Ipv4Addr::LOCALHOST.to_string());
        env.insert("PORT".to_owned(), self.port.to_string());
        self.record.server.argv = super::process::argv(&spec.program, &self.runner);
        self.record.server.env = env.clone();
        self.record.server.address = Some(format!("{}:{}", Ipv4Addr::LOCALHOST, self.port));
        self.server_started = Instant::now();
        match Side::start(&spec.program, &self.runner, &env, &self.job.cell.cores.server, false) {
            Ok(side) => {
                if let Some(cgroup) = &self.cgroup
                    && let Err(why) = cgroup.add(side.pid)
                {
                    self.server = Some(side);
                    return Err(self.failed(why).await);
                }
                self.server = Some(side);
                Ok(())
            }
            Err(error) => {
                let program = spec.program.argv.first().map(String::as_str).unwrap_or_default();
                let message = format!("`{program}` cannot be started: {error}; run `runner setup`");
                Err(self.failed(message).await)
            }
        }
    }

    async fn until_ready(&mut self) -> Result<(), Outcome> {
        self.enter(Stage::Ready);
        let limit = Duration::from_nanos(self.job.cell.timeouts.start_ns);
        let mut last = "nothing was tried".to_owned();
        let Some(server) = &mut self.server else { unreachable!("the server was started before") };
        let died = tokio::select! {
            () = ready::until_ready(self.port, |why| last = why) => None,
            status = server.child.wait() => Some(status),
            () = tokio::time::sleep(limit) => {
                let message = format!("no complete handshake within {limit:?}: {last}");
                return Err(self.failed(message).await);
            }
        };
        if let Some(status) = died {
            let how = status.map_or_else(|error| error.to_string(), |s| how_it_ended(s, self.server_started));
            return Err(self.failed(format!("the server {how}, before its first handshake")).await);
        }
        self.record.timings.start_up_ns = nanos(self.server_started.elapsed());
        // Another program's server on this port would be measured in its place.
        if ports::listener_among(self.port, self.server_pids()).is_none() {
            let holder =
                ports::holder(self.port).unwrap_or_else(|| "a process that we may not see".to_owned());
            let message =
                format!("port {} is answered by {holder}, not by the server that was started", self.port);
            return Err(self.failed(message).await);
        }
        Ok(())
    }

    async fn start_client(&mut self) -> Result<(), Outcome> {
        let cell = &self.job.cell;
        let spec = &cell.client;
        self.record.client.argv = super::process::argv(&spec.program, &self.runner);
        self.record.client.env = spec.program.env.clone();
        let job = ClientJob {
            client: spec.name.clone(),
            host: Ipv4Addr::LOCALHOST.to_string(),
            port: self.port,
            params: cell.workload.params.clone(),
            cores: cell.cores.client.clone(),
            stall_ns: cell.timeouts.stall_ns,
        };
        let mut side =
            match Side::start(&spec.program, &self.runner, &spec.program.env, &cell.cores.client, true) {
                Ok(side) => side,
                Err(error) => {
                    let program = spec.program.argv.first().map(String::as_str).unwrap_or_default();
                    return Err(self.failed(format!("client `{program}` cannot be started: {error}")).await);
                }
            };
        let (Some(to), Some(from)) = (side.child.stdin.take(), side.child.stdout.take()) else {
            unreachable!("both were asked for as pipes")
        };
        let mut talk = Talk::new(to, from);
        let assigned = talk.assign(&job).await;
        self.client = Some((side, talk));
        match assigned {
            Ok(()) => Ok(()),
            Err(error) => Err(self.client_silent(&format!("does not read its job: {error}")).await),
        }
    }

    /// The client's next event; its fault, its death and the server's are outcomes.
    async fn hear(&mut self) -> Result<ClientEvent, Outcome> {
        let (Some(server), Some((_, talk))) = (&mut self.server, &mut self.client) else {
            unreachable!("both sides were started before")
        };
        let said = tokio::select! {
            // What the client said before the server's end comes first.
            biased;
            said = talk.next() => said,
            status = server.child.wait() => {
                let how = status.map_or_else(|error| error.to_string(), |s| how_it_ended(s, self.server_started));
                return Err(self.failed(format!("the server {how}")).await);
            }
        };
        match said {
            Ok(Said::Event(event)) => match *event {
                ClientEvent::Fault { reason, detail, counters } => {
                    self.record.counters = counters;
                    Err(self.fault(reason, detail).await)
                }
                event => Ok(event),
            },
            Ok(Said::Garbage(line)) => {
                Err(self.client_silent(&format!("printed what is no event: `{line}`")).await)
            }
            Ok(Said::Nothing) => Err(self.client_silent("ended without its last event").await),
            Err(error) => Err(self.client_silent(&format!("cannot be heard: {error}")).await),
        }
    }

    /// A fault that the client saw. Messages that a dead server did not forward are not lost by it: it died.
    async fn fault(&mut self, reason: Option<VoidReason>, detail: String) -> Outcome {
        let gone = matches!(reason, None | Some(VoidReason::LostMessages));
        if gone && let Some(server) = &mut self.server {
            let died = tokio::time::timeout(DEATH_RATTLE, server.child.wait()).await;
            if let Ok(Ok(status)) = died {
                let how = how_it_ended(status, self.server_started);
                return self.failed(format!("the server {how}; the client saw: {detail}")).await;
            }
        }
        match reason {
            Some(reason) => Outcome::Void { reason, detail },
            None => self.failed(detail).await,
        }
    }

    async fn client_silent(&mut self, how: &str) -> Outcome {
        let log_tail = match &mut self.client {
            Some((side, _)) => side.last_words().await,
            None => Vec::new(),
        };
        Outcome::Failed { stage: self.stage, message: format!("the client {how}"), log_tail }
    }

    async fn out_of_turn(&mut self, event: &ClientEvent) -> Outcome {
        let text = serde_json::to_string(event).unwrap_or_default();
        let short: String = text.chars().take(120).collect();
        self.client_silent(&format!("said out of turn: {short}")).await
    }

    async fn go_on(&mut self) -> Result<(), Outcome> {
        let Some((_, talk)) = &mut self.client else { unreachable!("the client was started before") };
        // A client that has gone closed its stdout too, which says more.
        let _ = talk.go_on().await;
        Ok(())
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        (self.progress)(Progress::StageStarted { cell: self.job.cell.id.clone(), stage });
    }

    async fn failed(&mut self, message: String) -> Outcome {
        let log_tail = match &mut self.server {
            Some(server) if !message.starts_with("interrupted") => server.last_words().await,
            _ => Vec::new(),
        };
        Outcome::Failed { stage: self.stage, message, log_tail }
    }

    fn server_pids(&self) -> Vec<i32> {
        let client: Vec<i32> = self.client.iter().map(|(side, _)| side.pid).collect();
        tree::below(tree::me(), &client).into_iter().map(|process| process.pid).collect()
    }

    fn client_pids(&self) -> Vec<i32> {
        let Some((side, _)) = &self.client else { return Vec::new() };
        let mut pids = vec![side.pid];
        pids.extend(tree::below(side.pid, &[]).into_iter().map(|process| process.pid));
        pids
    }

    fn sample(&self, with_pss: bool) -> Both {
        let (server, client) = (self.server_pids(), self.client_pids());
        // The times first: memory maps are slow to read and nobody works meanwhile.
        let mut both = Both { server: sample::read(&server, false), client: sample::read(&client, false) };
        if with_pss {
            both.server.usage.pss_bytes = sample::read(&server, true).usage.pss_bytes;
        }
        both
    }

    fn keep_trial(&mut self, index: u32, batch: Batch, before: &Both, after: &Both) {
        let usage =
            |before: &Reading, after: &Reading| -> Usage { sample::between(&before.usage, &after.usage) };
        let rate_per_s = batch.rounds as f64 * 1e9 / batch.elapsed_ns.max(1) as f64;
        self.record.trials.push(Trial {
            batch,
            window_ns: nanos(after.server.at.duration_since(before.server.at)),
            server: usage(&before.server, &after.server),
            client: usage(&before.client, &after.client),
        });
        (self.progress)(Progress::TrialDone { cell: self.job.cell.id.clone(), index, rate_per_s });
    }

    /// Reads back where the kernel lets both sides run.
    fn read_placement(&mut self) {
        let cores = &self.job.cell.cores;
        let server = sample::cores_allowed(&self.server_pids());
        let client = sample::cores_allowed(&self.client_pids());
        let mut misplaced = |side: &str, asked: &[u32], seen: &Result<Vec<u32>, Vec<String>>| {
            let mut asked = asked.to_vec();
            asked.sort_unstable();
            let right = match seen {
                Ok(seen) => *seen == asked,
                // Threads of a client may be pinned to one each of its cores.
                Err(sets) => {
                    side == "client"
                        && sets.iter().all(|set| {
                            set.parse().is_ok_and(|core| asked.contains(&core)) || set.contains(['-', ','])
                        })
                }
            };
            if !right {
                self.misplaced =
                    Some(format!("the {side} was to run on cores {asked:?} and may run on {seen:?}"));
            }
        };
        misplaced("server", &cores.server, &server);
        misplaced("client", &cores.client, &client);
        self.record.server.cores_seen = server.unwrap_or_default();
        self.record.client.cores_seen = client.unwrap_or_else(|_| cores.client.clone());
    }

    /// Ends both sides and looks at what is left.
    async fn stop(&mut self) -> Left {
        let stopping = Instant::now();
        let measured = self.stage == Stage::Measure;
        (self.progress)(Progress::StageStarted { cell: self.job.cell.id.clone(), stage: Stage::Stop });
        let grace = Duration::from_nanos(self.job.cell.timeouts.grace_ns);
        if let Some((mut side, talk)) = self.client.take() {
            // A client whose stdin closes ends by itself.
            drop(talk);
            let patience = if measured { grace } else { Duration::ZERO };
            let by_itself = tokio::time::timeout(patience, side.child.wait()).await;
            self.record.client.exited = Some(match by_itself {
                Ok(status) => super::process::exited(status.ok(), false),
                Err(_) => side.stop(grace).await,
            });
            self.save_log("client", &side);
        }
        if let Some(mut server) = self.server.take() {
            let exited = server.stop(grace).await;
            if exited.killed {
                let detail = format!("the server did not end within {grace:?} of SIGTERM and was killed");
                self.record.flags.push(Flag { name: "killed".to_owned(), detail });
            }
            self.record.server.exited = Some(exited);
            let _ = server.last_words().await;
            self.save_log("server", &server);
        }
        let left = tree::below(tree::me(), &[]);
        let holder = (!ports::is_free(self.port) && self.record.server.exited.is_some())
            .then(|| ports::holder(self.port).unwrap_or_else(|| "a process that we may not see".to_owned()));
        for process in &left {
            tree::end(process.pid);
        }
        self.record.timings.stop_ns = nanos(stopping.elapsed());
        let (limited_periods, memory_failures) =
            self.cgroup.as_ref().map_or((0, 0), |cgroup| (cgroup.throttled(), cgroup.memory_failures()));
        self.cgroup = None;
        Left {
            processes: left.iter().map(|process| format!("{} (pid {})", process.name, process.pid)).collect(),
            port_holder: holder,
            limited_periods,
            memory_failures,
        }
    }

    fn save_log(&mut self, side: &str, process: &Side) {
        let Some(folder) = &self.job.log_dir else { return };
        if let Err(error) = process.log.save(&folder.join(format!("{side}.log"))) {
            self.record.flags.push(Flag {
                name: "log-not-kept".to_owned(),
                detail: format!("the log of the {side} could not be written: {error}"),
            });
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
