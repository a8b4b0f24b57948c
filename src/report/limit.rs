use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PassFigures;
use crate::record::Record;
use crate::workload::Kind;

/// What kept a rate from being higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// The round trip itself: one message at a time, no side saturated by work.
    Latency,
    /// The schedule of an open loop: as much was sent as was asked for.
    Rate,
    /// The server had no CPU time left; the figure is its own.
    Server,
    /// The client had no CPU time left and the server had: the figure is a lower bound of the server's.
    Client,
    /// Neither side had CPU time left: the figure belongs to the pair.
    Both,
    /// Neither side was saturated.
    Neither,
    /// What was sampled does not tell.
    Unknown,
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LimitedBy::Latency => "latency",
            LimitedBy::Rate => "rate",
            LimitedBy::Server => "server",
            LimitedBy::Client => "client",
            LimitedBy::Both => "both",
            LimitedBy::Neither => "neither",
            LimitedBy::Unknown => "unknown",
        })
    }
}

/// Share of the CPU time within reach from which on a side counts as saturated.
pub(super) const SATURATED: f64 = 0.95;

/// Share of an open loop's round trips that may be unsent while its schedule counts as kept, as in the record's flag.
const UNSENT: f64 = 0.01;

impl LimitedBy {
    /// Of one pass.
    pub(super) fn of(record: &Record, figures: &PassFigures) -> Self {
        let params = &record.cell.workload.params;
        let threads = f64::from(params.threads.max(1));
        // A thread that polls is always at 100 % CPU: what it found says how busy it was.
        let client = match figures.client_busy {
            Some(busy) => Some(busy >= SATURATED),
            None => figures.client_cores.map(|cores| cores / threads >= SATURATED),
        };
        if params.kind == Kind::Pingpong {
            let polls = record
                .trials
                .iter()
                .any(|trial| trial.batch.busy.is_some() || trial.batch.empty_polls.is_some());
            return if !polls && client == Some(true) { LimitedBy::Client } else { LimitedBy::Latency };
        }

        let unsent = record.trials.iter().map(|trial| trial.batch.unsent.unwrap_or(0)).sum::<u64>() as f64;
        let done = record.trials.iter().map(|trial| trial.batch.rounds).sum::<u64>() as f64;
        if params.rate_per_s.is_some() && unsent <= UNSENT * (unsent + done) {
            return LimitedBy::Rate;
        }

        let cores = record.cell.cores.server.len().max(1) as f64;
        let limit = record.cell.limits.as_ref().and_then(|limits| limits.cpus).unwrap_or(cores);
        let server = figures.server_cores.and_then(|used| {
            let room = cores.min(limit);
            if used >= SATURATED * room {
                Some(true)
            } else if room > 1.0 && used >= SATURATED {
                // One thread of it may be saturated while other cores are idle.
                None
            } else {
                Some(false)
            }
        });
        match (server, client) {
            (Some(true), Some(true)) => LimitedBy::Both,
            (Some(true), _) => LimitedBy::Server,
            (Some(false), Some(true)) => LimitedBy::Client,
            (Some(false), Some(false)) => LimitedBy::Neither,
            _ => LimitedBy::Unknown,
        }
    }

    /// Of several passes: what most of them say, or unknown.
    pub(super) fn of_most(passes: impl Iterator<Item = LimitedBy> + Clone) -> Self {
        let n = passes.clone().count();
        passes
            .clone()
            .find(|one| 2 * passes.clone().filter(|other| other == one).count() > n)
            .unwrap_or(LimitedBy::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_support::Made;
    use crate::stats::Latency;

    fn limit(made: Made) -> LimitedBy {
        PassFigures::of(&made.rates(&[50e3]).record(1), &mut Latency::new()).0.unwrap().limited_by
    }

    #[test]
    fn load_is_judged_by_both_sides() {
        let load = || Made::load("ws@node-24");
        assert_eq!(limit(load().server_cores(0.99).busy(0.4)), LimitedBy::Server);
        assert_eq!(limit(load().server_cores(0.99).busy(0.99)), LimitedBy::Both);
        assert_eq!(limit(load().server_cores(0.70).busy(0.99)), LimitedBy::Client);
        assert_eq!(limit(load().server_cores(0.70).busy(0.50)), LimitedBy::Neither);
        assert_eq!(limit(load().busy(0.50).server_cores(0.0)), LimitedBy::Unknown);
    }

    #[test]
    fn a_client_that_sleeps_is_judged_by_its_cpu_time() {
        let load = || Made::load("ws@node-24").no_polls().server_cores(0.5);
        assert_eq!(limit(load().client_cores(0.99)), LimitedBy::Client);
        assert_eq!(limit(load().client_cores(0.60)), LimitedBy::Neither);
    }

    #[test]
    fn one_saturated_thread_on_several_cores_cannot_be_told() {
        let on = |cores: f64| Made::load("gorilla@go").server_on(&[0, 1]).server_cores(cores).busy(0.5);
        assert_eq!(limit(on(1.95)), LimitedBy::Server);
        assert_eq!(limit(on(0.99)), LimitedBy::Unknown);
        assert_eq!(limit(on(0.50)), LimitedBy::Neither);
    }

    #[test]
    fn ping_pong_of_a_polling_client_is_always_latency() {
        let pingpong = || Made::pingpong("ws@node-24");
        assert_eq!(limit(pingpong().server_cores(1.0).client_cores(1.0).busy(0.99)), LimitedBy::Latency);
        assert_eq!(limit(pingpong().no_polls().client_cores(0.99)), LimitedBy::Client);
        assert_eq!(limit(pingpong().no_polls().client_cores(0.50)), LimitedBy::Latency);
    }

    #[test]
    fn most_passes_decide() {
        use LimitedBy::{Client, Server, Unknown};
        let most = |limits: &[LimitedBy]| LimitedBy::of_most(limits.iter().copied());
        assert_eq!(most(&[Server, Client, Server]), Server);
        assert_eq!(most(&[Server, Client]), Unknown);
        assert_eq!(most(&[]), Unknown);
    }
}
