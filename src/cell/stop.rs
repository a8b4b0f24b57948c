use std::time::{Duration, Instant};

use super::life::{Life, nanos};
use super::process::{Side, exited};
use super::{Progress, ports};
use crate::host::tree;
use crate::record::{Flag, Stage};

/// What was found after the stop.
pub(super) struct Left {
    pub(super) processes: Vec<String>,
    pub(super) port_holder: Option<String>,
    pub(super) limited_periods: u64,
    pub(super) memory_failures: u64,
}

impl Life<'_> {
    /// Ends both sides and looks at what is left.
    pub(super) async fn stop(&mut self) -> Left {
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
                Ok(status) => exited(status.ok(), false),
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
