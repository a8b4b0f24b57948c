use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::install::Step;
use super::types::{Catalog, Source};

/// Steps that run at once: they wait for the network more than for a core.
const AT_ONCE: usize = 4;

/// What happens during a setup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetupEvent {
    /// Something is there already, as its lock file says.
    UpToDate {
        /// What, e.g. `node-24 24.21.0`.
        what: String,
    },
    /// Something is being installed.
    Started {
        /// What.
        what: String,
    },
    /// It is installed.
    Installed {
        /// What.
        what: String,
        /// How long it took.
        took: Duration,
    },
    /// It is not installed.
    Failed {
        /// What.
        what: String,
        /// Why, in a clause.
        reason: String,
    },
}

/// Whether each of what was asked for is there now, or why not: a server and a client may have one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ready {
    /// Servers by name.
    pub servers: BTreeMap<String, Result<(), String>>,
    /// Clients by name.
    pub clients: BTreeMap<String, Result<(), String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Server,
    Client,
}

/// Installs and builds what servers and clients need, several at once, and nothing twice. Says for each of them
/// whether it is there now or why not; a failure of one is no failure of the others. An install that is interrupted
/// is done again next time.
pub fn setup(
    catalog: &Catalog,
    servers: &[String],
    clients: &[String],
    report: &mut dyn FnMut(SetupEvent),
) -> Ready {
    let all = servers
        .iter()
        .map(|name| (Side::Server, name))
        .chain(clients.iter().map(|name| (Side::Client, name)));
    let needs: BTreeMap<(Side, &String), Result<Vec<Step>, String>> =
        all.map(|(side, name)| ((side, name), catalog.needs(side, name))).collect();
    let wanted: BTreeSet<&Step> = needs.values().flatten().flatten().collect();
    let (done, mut missing): (Vec<&Step>, VecDeque<&Step>) = {
        let (done, missing): (Vec<&Step>, Vec<&Step>) = wanted.into_iter().partition(|step| step.is_done());
        (done, missing.into())
    };
    for step in &done {
        report(SetupEvent::UpToDate { what: step.title().to_owned() });
    }
    // What takes longest comes first: runtimes are by far the largest.
    missing.make_contiguous().sort_by_key(|step| step.title().starts_with("packages"));

    let mut results: BTreeMap<&Step, Result<(), String>> =
        done.into_iter().map(|step| (step, Ok(()))).collect();
    let workers = AT_ONCE.min(missing.len());
    let queue = Mutex::new(missing);
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(step) = next else { return };
                    let what = step.title().to_owned();
                    // The receiver outlives every worker.
                    let _ = sender.send((step, SetupEvent::Started { what: what.clone() }, None));
                    let start = Instant::now();
                    let result = panic::catch_unwind(|| step.run())
                        .unwrap_or_else(|_| Err(format!("{what}: a fault of our own")));
                    let event = match &result {
                        Ok(()) => SetupEvent::Installed { what, took: start.elapsed() },
                        Err(reason) => SetupEvent::Failed { what, reason: reason.clone() },
                    };
                    let _ = sender.send((step, event, Some(result)));
                }
            });
        }
        drop(sender);
        for (step, event, result) in receiver {
            report(event);
            if let Some(result) = result {
                results.insert(step, result);
            }
        }
    });

    let mut ready = Ready::default();
    for ((side, name), steps) in &needs {
        let result = steps
            .as_ref()
            .map_err(String::clone)
            .and_then(|steps| steps.iter().try_for_each(|step| results.get(step).cloned().unwrap_or(Ok(()))))
            .and_then(|()| match side {
                Side::Server => catalog.fetch_module(name, report),
                Side::Client => Ok(()),
            });
        match side {
            Side::Server => ready.servers.insert((*name).clone(), result),
            Side::Client => ready.clients.insert((*name).clone(), result),
        };
    }
    ready
}

impl Catalog {
    /// The steps that a server or client needs, or why no step would help.
    fn needs(&self, side: Side, name: &str) -> Result<Vec<Step>, String> {
        let (known, described) = match side {
            Side::Server => (self.knows_server(name), self.described(name)),
            Side::Client => (self.knows_client(name), self.described_client(name)),
        };
        let Some((server, runtime)) = described else {
            return if known {
                Ok(Vec::new())
            } else {
                Err(format!("there is no server or client `{name}`"))
            };
        };
        if let Source::Npm { executable: None, .. } = runtime.source {
            return Err(format!("no package of {} exists for {}", runtime.name, std::env::consts::ARCH));
        }
        Ok(self.steps(server, runtime))
    }
}
