/// Mean number of messages in flight from the rate and the mean latency: `L = λ W` (Little 1961). In a closed loop
/// that keeps `n` messages in flight it must come out near `n`; if not, a rate or a latency is wrong.
pub fn mean_in_flight(rate_per_s: f64, mean_latency_s: f64) -> f64 {
    rate_per_s * mean_latency_s
}

/// Mean latency, in seconds, of a closed loop of `in_flight` messages at a rate: `W = L / λ` (Little 1961). None at a
/// rate of zero.
pub fn mean_latency_s(in_flight: f64, rate_per_s: f64) -> Option<f64> {
    (rate_per_s > 0.0).then(|| in_flight / rate_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_load_run_waits_as_long_as_littles_law_says() {
        // 64 pairs at 109,000 round trips a second.
        let latency = mean_latency_s(64.0, 109_000.0).unwrap();
        assert!((latency - 587.2e-6).abs() < 0.1e-6);
        assert!((mean_in_flight(109_000.0, latency) - 64.0).abs() < 1e-9);
        assert_eq!(mean_latency_s(64.0, 0.0), None);
    }
}
