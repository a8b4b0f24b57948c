use super::{Interval, normal_quantile};

/// An interval of an estimate widened by further errors that are independent of what it covers: on each side the distances are
/// added as squares (Howe 1974; the method of variance estimates recovery, Zou and Donner 2008).
pub fn widened(estimate: f64, interval: Interval, further: &[f64]) -> Interval {
    let room = |side: f64| further.iter().fold(side * side, |sum, error| sum + error * error).sqrt();
    Interval {
        low: estimate - room(estimate - interval.low),
        high: estimate + room(interval.high - estimate),
    }
}

/// Standard errors of both samples of a shift.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShiftNoise {
    /// Standard deviation from pass to pass within a run.
    pub within: f64,
    /// Standard deviation of the runs' true values.
    pub between: f64,
}

/// The variance of the Hodges-Lehmann estimate over that of the mean, for normal values (Hodges and Lehmann 1963).
const HODGES_LEHMANN: f64 = std::f64::consts::PI / 3.0;

impl ShiftNoise {
    /// The standard error of the shift between `runs` runs of `before` passes in all and one run of `after` passes:
    /// `b² (1 + 1/runs) + (π/3) w² (1/before + 1/after)`, its root.
    pub fn standard_error(&self, runs: f64, before: f64, after: f64) -> f64 {
        (self.between.powi(2) * (1.0 + 1.0 / runs)
            + HODGES_LEHMANN * self.within.powi(2) * (1.0 / before + 1.0 / after))
            .sqrt()
    }

    /// The smallest shift that is found with a probability `power` when a one-sided error rate of `tail` is allowed, and when it
    /// must also be estimated as more than `tolerance`: `max(z(1 - tail) s, tolerance) + z(power) s` with the standard error `s`
    /// (Cohen 1988, 2.3).
    pub fn detectable(
        &self,
        runs: f64,
        before: f64,
        after: f64,
        tail: f64,
        power: f64,
        tolerance: f64,
    ) -> f64 {
        let error = self.standard_error(runs, before, after);
        (-normal_quantile(tail) * error).max(tolerance) + normal_quantile(power) * error
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_add_as_squares_on_each_side() {
        let wide = widened(1.0, Interval { low: -2.0, high: 1.0 }, &[4.0]);
        assert_eq!(wide, Interval { low: -4.0, high: 5.0 });
    }

    #[test]
    fn the_published_rule_of_thumb_comes_out() {
        // About 8 runs a side for 10 % at a coefficient of variation of 7 %, two-sided 5 %, power 80 %: of means, so less π/3.
        let noise = ShiftNoise { within: 0.07 / HODGES_LEHMANN.sqrt(), between: 0.0 };
        let found = noise.detectable(1e12, 8.0, 8.0, 0.025, 0.8, 0.0);
        assert!((found - 0.098).abs() < 0.001, "{found}");
    }

    proptest! {
        #[test]
        fn more_passes_and_more_runs_find_smaller_shifts(
            within in 0.001..0.3f64, between in 0.0..0.1f64, passes in 2.0..60.0f64, runs in 1.0..20.0f64,
        ) {
            let noise = ShiftNoise { within, between };
            let at = |runs: f64, after: f64| noise.detectable(runs, 3.0 * runs, after, 1e-4, 0.8, 0.03);
            prop_assert!(at(runs, passes * 2.0) <= at(runs, passes) && at(runs * 2.0, passes) <= at(runs, passes));
            prop_assert!(at(runs, passes) >= 0.03);
            let twice = ShiftNoise { within: 2.0 * within, between: 2.0 * between };
            let (one, two) = (noise.standard_error(runs, 9.0, passes), twice.standard_error(runs, 9.0, passes));
            prop_assert!((two / one - 2.0).abs() < 1e-9);
        }
    }
}
