use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::LimitedBy;
use crate::record::{CONTENDED, Record, Trial};
use crate::stats::{Latency, LatencyFigures, median};

/// Messages that the server handles in one round trip of a pair: it receives two and sends two.
pub(super) const MESSAGES_PER_ROUND_TRIP: f64 = 4.0;

/// The figures of one cell in one pass. Nothing in it is as long as the trials' histograms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PassFigures {
    /// Which pass, from 1.
    pub pass: u32,
    /// Median of the trials' rates, in round trips per second.
    pub rate_per_s: f64,
    /// The rate of each trial, in round trips per second.
    pub trial_rates_per_s: Vec<f64>,
    /// Latency of all round trips of all trials.
    pub latency: Option<LatencyFigures>,
    /// CPU time of the server over the trials' windows, in cores: 1.0 is one core used wholly.
    pub server_cores: Option<f64>,
    /// CPU time of the client over the trials' windows, in cores.
    pub client_cores: Option<f64>,
    /// Median over the trials of the busiest client thread's share of time spent on messages, 0 to 1.
    pub client_busy: Option<f64>,
    /// CPU time of the server per message that it received or sent, in nanoseconds.
    pub server_ns_per_message: Option<f64>,
    /// Voluntary context switches of the server per round trip: near 0 when it never sleeps.
    pub server_sleeps_per_round_trip: Option<f64>,
    /// What kept the rate from being higher.
    pub limited_by: LimitedBy,
    /// Whether something else ran on the cores of the cell, or its own threads waited for one another.
    pub contended: bool,
}

impl PassFigures {
    /// Of a record whose numbers may be used; none when it holds no timed trial. The second value says what of it could not be
    /// read.
    pub fn of(record: &Record, latency: &mut Latency) -> (Option<Self>, Option<String>) {
        let trials: Vec<&Trial> = record
            .trials
            .iter()
            .filter(|trial| trial.batch.rounds > 0 && trial.batch.elapsed_ns > 0)
            .collect();
        let trial_rates_per_s: Vec<f64> = trials
            .iter()
            .map(|trial| trial.batch.rounds as f64 * 1e9 / trial.batch.elapsed_ns as f64)
            .collect();
        let Some(rate_per_s) = median(&trial_rates_per_s) else {
            return (None, Some(format!("{} pass {}: no timed trial", record.cell.id, record.pass)));
        };

        let mut unreadable = None;
        // What was sent on a schedule counts from its time on the schedule.
        let latencies = trials
            .iter()
            .map(|trial| trial.batch.latency_from_schedule.as_ref().or(trial.batch.latency.as_ref()));
        for text in latencies.flatten() {
            if let Err(error) = latency.add(text) {
                unreadable = Some(format!("{} pass {}: {error}", record.cell.id, record.pass));
            }
        }
        let pooled = latency.take_figures();

        let sum = |of: fn(&Trial) -> u64| trials.iter().map(|trial| of(trial) as f64).sum::<f64>();
        let (window_ns, rounds) = (sum(|trial| trial.window_ns), sum(|trial| trial.batch.rounds));
        let (server_ns, client_ns) = (sum(|trial| trial.server.cpu_ns), sum(|trial| trial.client.cpu_ns));
        let sampled = window_ns > 0.0 && server_ns > 0.0;
        let busy: Vec<f64> = trials.iter().filter_map(|trial| trial.batch.busy).collect();

        let mut figures = PassFigures {
            pass: record.pass,
            rate_per_s,
            trial_rates_per_s,
            latency: pooled.filter(|_| unreadable.is_none()),
            server_cores: sampled.then(|| server_ns / window_ns),
            client_cores: (window_ns > 0.0 && client_ns > 0.0).then(|| client_ns / window_ns),
            client_busy: median(&busy),
            server_ns_per_message: sampled.then(|| server_ns / (rounds * MESSAGES_PER_ROUND_TRIP)),
            server_sleeps_per_round_trip: sampled
                .then(|| sum(|trial| trial.server.voluntary_switches) / rounds),
            limited_by: LimitedBy::Unknown,
            contended: record.flags.iter().any(|flag| flag.name == CONTENDED),
        };
        figures.limited_by = LimitedBy::of(record, &figures);
        (Some(figures), unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_support::{Made, ns};

    #[test]
    fn rate_is_the_median_of_trials_and_cpu_is_per_window() {
        let record = Made::pingpong("relay").rates(&[30e3, 40e3, 20e3]).server_cores(0.5).record(1);
        let (figures, unreadable) = PassFigures::of(&record, &mut Latency::new());
        let figures = figures.unwrap();
        assert_eq!(unreadable, None);
        assert!((figures.rate_per_s - 30e3).abs() < 1.0);
        assert!((figures.server_cores.unwrap() - 0.5).abs() < 1e-6);
        // Half a core over the time of all trials, per message of all trials.
        let round_trip_ns = (1e9 / 30e3 + 1e9 / 40e3 + 1e9 / 20e3) / 3.0;
        assert!((figures.server_ns_per_message.unwrap() - 0.5 * round_trip_ns / 4.0).abs() < 1.0);
    }

    #[test]
    fn a_histogram_that_cannot_be_read_is_said_and_costs_only_the_latency() {
        let mut record = Made::pingpong("relay").rates(&[30e3]).record(2);
        record.trials[0].batch.latency = Some("%%%".to_owned());
        let (figures, unreadable) = PassFigures::of(&record, &mut Latency::new());
        assert_eq!(figures.unwrap().latency, None);
        assert!(
            unreadable.unwrap().starts_with("pingpong-16/relay/native pass 2: the histogram is not base64")
        );
    }

    #[test]
    fn trials_without_time_or_rounds_count_for_nothing() {
        let mut record = Made::pingpong("relay").rates(&[30e3, 31e3]).record(1);
        record.trials[0].batch.elapsed_ns = 0;
        let (figures, _) = PassFigures::of(&record, &mut Latency::new());
        assert_eq!(figures.unwrap().trial_rates_per_s.len(), 1);
        record.trials[1].batch.rounds = 0;
        let (figures, said) = PassFigures::of(&record, &mut Latency::new());
        assert_eq!(figures, None);
        assert_eq!(said.unwrap(), "pingpong-16/relay/native pass 1: no timed trial");
    }

    #[test]
    fn latency_pools_all_trials() {
        let record =
            Made::pingpong("relay").rates(&[30e3, 30e3]).latency(&[ns(10), ns(20), ns(30)]).record(1);
        let (figures, _) = PassFigures::of(&record, &mut Latency::new());
        let latency = figures.unwrap().latency.unwrap();
        assert_eq!(latency.count, 6);
        assert!((latency.p50_ns as f64 / 20_000.0 - 1.0).abs() < 0.001);
    }
}
