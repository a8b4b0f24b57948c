use std::time::Instant;

use super::life::{Life, nanos};
use super::{Progress, sample};
use crate::host::tree;
use crate::record::{Trial, Usage};
use crate::workload::protocol::Batch;

/// Both sides at one moment.
pub(super) struct Both {
    at: Instant,
    server: Usage,
    client: Usage,
}

impl Life<'_> {
    pub(super) fn server_pids(&self) -> Vec<i32> {
        let client: Vec<i32> = self.client.iter().map(|(side, _)| side.pid).collect();
        tree::below(tree::me(), &client).into_iter().map(|process| process.pid).collect()
    }

    pub(super) fn client_pids(&self) -> Vec<i32> {
        let Some((side, _)) = &self.client else { return Vec::new() };
        let mut pids = vec![side.pid];
        pids.extend(tree::below(side.pid, &[]).into_iter().map(|process| process.pid));
        pids
    }

    /// Both sides before a trial, when neither has anything to do: the window begins after the reading.
    pub(super) fn look_before(&self) -> Both {
        let (server, client) = self.read_both();
        Both { at: Instant::now(), server, client }
    }

    /// Both sides after a trial: the window ended before the reading.
    pub(super) fn look_after(&self) -> Both {
        let at = Instant::now();
        let (mut server, client) = self.read_both();
        // Memory maps are slow to read.
        server.pss_bytes = sample::pss_bytes(&self.server_pids());
        Both { at, server, client }
    }

    fn read_both(&self) -> (Usage, Usage) {
        (sample::read(&self.server_pids()), sample::read(&self.client_pids()))
    }

    pub(super) fn keep_trial(&mut self, index: u32, batch: Batch, before: &Both, after: &Both) {
        let rate_per_s = batch.rounds as f64 * 1e9 / batch.elapsed_ns.max(1) as f64;
        self.record.trials.push(Trial {
            batch,
            window_ns: nanos(after.at.duration_since(before.at)),
            server: sample::between(&before.server, &after.server),
            client: sample::between(&before.client, &after.client),
        });
        (self.progress)(Progress::TrialDone { cell: self.job.cell.id.clone(), index, rate_per_s });
    }

    /// Reads back where the kernel lets both sides run.
    pub(super) fn read_placement(&mut self) {
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
}
