use std::time::Duration;

use super::{CellId, Plan};
use crate::manifest::Manifest;
use crate::workload::{Extent, Kind, Params};

/// What is known from earlier measurements.
pub trait Rates {
    /// Round trips per second that the cell reached; none when it was never measured with such parameters.
    fn rate(&self, cell: &CellId, params: &Params) -> Option<f64>;

    /// What the cell took beside its warm-up and trials; none when it was never measured.
    fn beside(&self, _cell: &CellId, _params: &Params) -> Option<Duration> {
        None
    }

    /// How fast this host is against the one of the nominal rates, for cells that were never measured.
    fn host_factor(&self) -> f64 {
        1.0
    }
}

/// Nothing is known: nominal rates only.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRates;

impl Rates for NoRates {
    fn rate(&self, _cell: &CellId, _params: &Params) -> Option<f64> {
        None
    }
}

/// How long one execution of a cell takes, start-up and stop included. Times are exact, counts are divided by the
/// known rate or by the nominal one.
pub fn estimate(cell: &CellId, params: &Params, rates: &dyn Rates) -> Duration {
    let is_one = |rate: &f64| rate.is_finite() && *rate > 0.0;
    let rate = rates.rate(cell, params).filter(is_one).unwrap_or_else(|| {
        let factor = Some(rates.host_factor()).filter(is_one).unwrap_or(1.0);
        nominal_rate(cell, params) * factor
    });
    let rate = params.rate_per_s.map_or(rate, |asked| rate.min(asked as f64));
    let beside = rates
        .beside(cell, params)
        .map_or_else(|| start_up_s(&cell.server) + start_up_s(&cell.client), |beside| beside.as_secs_f64());
    let batches = extent_s(params.warmup, rate) + f64::from(params.trials) * extent_s(params.trial, rate);
    // Far beyond any run; keeps absurd counts within what a `Duration` holds.
    const LONGEST_S: f64 = 1e12;
    Duration::from_secs_f64((beside + batches).min(LONGEST_S))
}

/// How long one pass over a plan takes.
pub fn estimate_pass(manifest: &Manifest, plan: &Plan, rates: &dyn Rates) -> Duration {
    plan.cells
        .iter()
        .map(|planned| estimate(&planned.id, &manifest.workloads[planned.workload].params, rates))
        .fold(Duration::ZERO, Duration::saturating_add)
}

fn extent_s(extent: Extent, rate: f64) -> f64 {
    match extent {
        Extent::Rounds(rounds) => rounds as f64 / rate,
        Extent::DurationNs(ns) => ns as f64 / 1e9,
    }
}

/// Start, first handshake, checks and stop of one side, in seconds: half of what a cell costs beside its batches.
/// Measured on two virtual CPUs; a runtime's own start-up dominates.
fn start_up_s(side: &str) -> f64 {
    match runtime(side) {
        "" | "native" => 0.03,
        "bun" => 0.06,
        _ => 0.12,
    }
}

/// Round trips per second on a virtual machine of 2026 with a core for each side. Good to a factor of two on other
/// hosts, which is what an estimate before the first run needs; afterwards records know better.
pub fn nominal_rate(cell: &CellId, params: &Params) -> f64 {
    let small = match params.kind {
        Kind::Pingpong => ping_pong_rate(&cell.server),
        Kind::Load if params.pairs.saturating_mul(params.in_flight) < 4 => ping_pong_rate(&cell.server),
        Kind::Load => load_rate(&cell.server),
    };
    let by_client = match runtime(&cell.client) {
        "" | "native" => small,
        // A client that has an event loop is the slower side whatever the server is.
        "bun" => small.min(16_000.0),
        _ => small.min(11_000.0),
    };
    // A round trip of 4 KiB takes about 4 us longer than one of 16 bytes: four messages at some 4 GB/s.
    1.0 / (1.0 / by_client + params.payload as f64 * 1e-9)
}

fn ping_pong_rate(server: &str) -> f64 {
    match (implementation(server), runtime(server)) {
        ("relay-spin", "") => 60_000.0,
        (_, "" | "native") => 35_000.0,
        ("deno-serve", _) => 20_000.0,
        (_, "deno") => 27_000.0,
        ("ws", runtime) if runtime.starts_with("node") => 29_000.0,
        _ => 34_000.0,
    }
}

fn load_rate(server: &str) -> f64 {
    match (implementation(server), runtime(server)) {
        ("relay-spin", "") => 110_000.0,
        (_, "" | "native") => 80_000.0,
        (_, "deno") => 42_000.0,
        ("ws", runtime) if runtime.starts_with("node") => 41_000.0,
        _ => 75_000.0,
    }
}

fn implementation(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// The runtime in a name; empty for what is built in.
fn runtime(name: &str) -> &str {
    name.split_once('@').map_or("", |(_, runtime)| runtime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Mask, Opcode, Wait};

    fn params() -> Params {
        Params {
            kind: Kind::Pingpong,
            payload: 16,
            opcode: Opcode::Binary,
            pairs: 1,
            in_flight: 1,
            rate_per_s: None,
            threads: 1,
            warmup: Extent::Rounds(10_000),
            trial: Extent::Rounds(20_000),
            trials: 5,
            mask: Mask::Zero,
            wait: Wait::Spin,
        }
    }

    struct Known(f64);

    impl Rates for Known {
        fn rate(&self, _cell: &CellId, _params: &Params) -> Option<f64> {
            Some(self.0)
        }
    }

    fn relay() -> CellId {
        CellId::new("pingpong-16", "relay", "native")
    }

    #[test]
    fn a_known_rate_divides_the_counts() {
        let time = estimate(&relay(), &params(), &Known(11_000.0));
        assert_eq!(time, Duration::from_secs_f64(10.0 + 0.06));
    }

    #[test]
    fn times_are_exact_whatever_the_rate() {
        let params = Params {
            warmup: Extent::DurationNs(500_000_000),
            trial: Extent::DurationNs(2_000_000_000),
            ..params()
        };
        assert_eq!(estimate(&relay(), &params, &NoRates), estimate(&relay(), &params, &Known(1.0)));
        assert_eq!(estimate(&relay(), &params, &NoRates), Duration::from_secs_f64(10.5 + 0.06));
    }

    #[test]
    fn a_rate_that_is_no_rate_is_not_believed() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(estimate(&relay(), &params(), &Known(rate)), estimate(&relay(), &params(), &NoRates));
        }
    }

    struct Faster;

    impl Rates for Faster {
        fn rate(&self, _cell: &CellId, _params: &Params) -> Option<f64> {
            None
        }

        fn beside(&self, _cell: &CellId, _params: &Params) -> Option<Duration> {
            Some(Duration::from_millis(500))
        }

        fn host_factor(&self) -> f64 {
            2.0
        }
    }

    #[test]
    fn a_faster_host_takes_less_for_counts() {
        let batches = estimate(&relay(), &params(), &NoRates) - Duration::from_millis(60);
        let faster = estimate(&relay(), &params(), &Faster) - Duration::from_millis(500);
        let difference = (batches / 2).abs_diff(faster);
        assert!(difference < Duration::from_micros(1), "{batches:?} {faster:?}");
    }

    #[test]
    fn the_largest_counts_do_not_overflow() {
        let params = Params {
            warmup: Extent::Rounds(u64::MAX),
            trial: Extent::DurationNs(u64::MAX),
            trials: u32::MAX,
            pairs: u32::MAX,
            in_flight: u32::MAX,
            payload: u64::MAX,
            kind: Kind::Load,
            ..params()
        };
        assert!(estimate(&relay(), &params, &NoRates) > Duration::from_secs(1_000_000_000));
    }

    #[test]
    fn large_payloads_and_runtimes_take_longer() {
        let time =
            |id: &str, payload| estimate(&id.parse().unwrap(), &Params { payload, ..params() }, &NoRates);
        assert!(time("x/relay/native", 65_536) > time("x/relay/native", 16));
        assert!(time("x/ws@node-24/native", 16) > time("x/relay/native", 16));
        assert!(time("x/relay/ws@node-24", 16) > time("x/relay/native", 16));
    }
}
