use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use super::life::{Life, nanos};
use super::process::{Side, argv, how_it_ended};
use super::talk::{Said, Talk};
use super::{ports, ready};
use crate::record::{Outcome, Stage, VoidReason};
use crate::workload::protocol::{ClientEvent, ClientJob};

/// How long a server may go on after its last message before we ask who it was: both pipes say that a process has
/// ended a little before or after the kernel says so.
const DEATH_RATTLE: Duration = Duration::from_millis(100);

impl Life<'_> {
    pub(super) async fn start_server(&mut self) -> Result<(), Outcome> {
        self.enter(Stage::Start);
        let spec = &self.job.cell.server;
        let mut env: BTreeMap<String, String> = spec.program.env.clone();
        env.insert("ROLE".to_owned(), spec.role.to_string());
        env.insert("HOST".to_owned(), Ipv4Addr::LOCALHOST.to_string());
        env.insert("PORT".to_owned(), self.port.to_string());
        self.record.server.argv = argv(&spec.program, &self.runner);
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

    pub(super) async fn until_ready(&mut self) -> Result<(), Outcome> {
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

    pub(super) async fn start_client(&mut self) -> Result<(), Outcome> {
        let cell = &self.job.cell;
        let spec = &cell.client;
        self.record.client.argv = argv(&spec.program, &self.runner);
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
    pub(super) async fn hear(&mut self) -> Result<ClientEvent, Outcome> {
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
    pub(super) async fn fault(&mut self, reason: Option<VoidReason>, detail: String) -> Outcome {
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

    pub(super) async fn client_silent(&mut self, how: &str) -> Outcome {
        let log_tail = match &mut self.client {
            Some((side, _)) => side.last_words().await,
            None => Vec::new(),
        };
        Outcome::Failed { stage: self.stage, message: format!("the client {how}"), log_tail }
    }

    pub(super) async fn out_of_turn(&mut self, event: &ClientEvent) -> Outcome {
        let text = serde_json::to_string(event).unwrap_or_default();
        let short: String = text.chars().take(120).collect();
        self.client_silent(&format!("said out of turn: {short}")).await
    }

    pub(super) async fn go_on(&mut self) -> Result<(), Outcome> {
        let Some((_, talk)) = &mut self.client else { unreachable!("the client was started before") };
        // A client that has gone closed its stdout too, which says more.
        let _ = talk.go_on().await;
        Ok(())
    }
}
