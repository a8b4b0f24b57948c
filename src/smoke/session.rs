use std::path::Path;

use rustix::process::{getpid, set_child_subreaper};

use super::burst::{Tally, burst};
use super::checks::{CHECKS, Check, Kind, relays};
use super::report::{Finding, Findings, Verdict};
use super::server::{Server, SmokeLimits, Stopped};
use super::sockets::Fault;
use crate::plan::ServerSpec;

/// Starts a server, holds it to its contract, and stops it. `runner` is the executable that `{runner}` stands for.
///
/// Servers end with the thread that started them, so this must not be called from one that ends before.
pub fn smoke(spec: &ServerSpec, runner: &Path, limits: &SmokeLimits) -> Findings {
    // Children of the server become ours when it ends, so that we see what it leaves behind. Where the kernel does
    // not let us we see less.
    let _ = set_child_subreaper(Some(getpid()));
    let mut session = Session { spec, runner, limits, server: None, tally: None, stopped: None };
    let mut checks = Vec::new();
    let (mut starts, mut relays) = (true, true);
    for check in CHECKS {
        let needs_relay = matches!(check.kind, Kind::Relaying(_) | Kind::Burst | Kind::Count(..));
        let is_pointless = !starts || needs_relay && !relays;
        let verdict = if is_pointless { Verdict::NotRun } else { session.verdict(check) };
        match check.kind {
            Kind::Start => starts = verdict == Verdict::Kept,
            Kind::Relays => relays = verdict == Verdict::Kept,
            _ => {}
        }
        checks.push(Finding { check: check.name, verdict });
    }
    Findings { checks }
}

struct Session<'a> {
    spec: &'a ServerSpec,
    runner: &'a Path,
    limits: &'a SmokeLimits,
    /// What runs. After a fault there is none: the next check shall not suffer from it.
    server: Option<Server>,
    /// What the burst counted; none within when it could not be counted.
    tally: Option<Option<Tally>>,
    stopped: Option<Stopped>,
}

impl Session<'_> {
    fn verdict(&mut self, check: Check) -> Verdict {
        let result = match check.kind {
            Kind::Start => self.server().map(|_| ()).map_err(Fault::from),
            Kind::Running(run) | Kind::Relaying(run) => self.with_server(run),
            Kind::Relays => self.with_server(relays),
            Kind::Burst => {
                let result = self.with_server(|server| {
                    let (mut one, mut other) = server.pair()?;
                    let tally = burst(&mut one, &mut other)?;
                    one.leave();
                    other.leave();
                    Ok(tally)
                });
                if result.as_ref().is_ok_and(|tally| !tally.is_clean()) {
                    self.server = None;
                }
                self.tally = Some(result.as_ref().ok().copied());
                result.and_then(|tally| fault(tally.missing, "never arrived", tally))
            }
            Kind::Count(count, what) => match self.tally {
                Some(Some(tally)) => fault(count(&tally), what, tally),
                _ => return Verdict::NotRun,
            },
            Kind::Stop => self.stop().map_err(Fault::from),
            Kind::Leave => match &self.stopped {
                Some(stopped) => left(stopped).map_err(Fault::from),
                None => return Verdict::NotRun,
            },
        };
        match result {
            Ok(()) => Verdict::Kept,
            Err(Fault::Broken(detail)) => Verdict::Broken { detail },
            Err(Fault::Unseen(detail)) => Verdict::Unseen { detail },
        }
    }

    /// The server, started if none runs.
    fn server(&mut self) -> Result<&mut Server, String> {
        let server = match self.server.take() {
            Some(server) => server,
            None => Server::start(self.spec, self.runner, *self.limits)?,
        };
        Ok(self.server.insert(server))
    }

    fn with_server<T>(&mut self, run: impl FnOnce(&Server) -> Result<T, Fault>) -> Result<T, Fault> {
        let server = self.server()?;
        let result = run(server);
        // A server that is gone explains whatever was seen, and is a fault even if nothing was.
        let result = match server.is_alive() {
            Ok(()) => result,
            Err(ended) => Err(Fault::Broken(ended)),
        };
        if matches!(result, Err(Fault::Broken(_))) {
            self.server = None;
        }
        result
    }

    fn stop(&mut self) -> Result<(), String> {
        self.server()?;
        let server = self.server.take().expect("it was started");
        let stopped = self.stopped.insert(server.stop());
        match stopped.took {
            Some(_) => Ok(()),
            None => {
                Err(format!("still ran {} ms after SIGTERM and was killed", self.limits.grace.as_millis()))
            }
        }
    }
}

fn fault(count: u32, what: &str, tally: Tally) -> Result<(), Fault> {
    match count {
        0 => Ok(()),
        _ => Err(Fault::Broken(format!("{count} of {} messages {what}", tally.sent))),
    }
}

fn left(stopped: &Stopped) -> Result<(), String> {
    let mut left: Vec<String> = stopped
        .leftovers
        .iter()
        .map(|process| format!("process {} (`{}`)", process.pid, process.name))
        .collect();
    if let Some(error) = &stopped.port {
        left.push(format!("its port, which cannot be listened on again: {error}"));
    }
    if left.is_empty() { Ok(()) } else { Err(format!("left behind {}", left.join(" and "))) }
}
