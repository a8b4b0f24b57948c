use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::QuantileRule;
use super::order::quantile_of_sorted;

/// An interval of a statistic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The percentile bootstrap interval (Efron 1979) of a statistic of `values` at a level such as 0.95: `values` are
/// drawn anew with replacement `resamples` times by a generator of the given seed. The same seed gives the same interval on every
/// machine. None when the statistic has no value for some draw, or of nothing. With a handful of values it is too narrow:
/// it can never leave their range.
pub fn bootstrap_interval(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> Option<f64>,
    level: f64,
    resamples: u32,
    seed: u64,
) -> Option<Interval> {
    if values.is_empty() || resamples == 0 {
        return None;
    }
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut drawn = vec![0.0; values.len()];
    let mut found = Vec::with_capacity(resamples as usize);
    for _ in 0..resamples {
        for slot in &mut drawn {
            *slot = values[generator.random_range(0..values.len())];
        }
        found.push(statistic(&drawn)?);
    }
    found.sort_by(f64::total_cmp);
    let tail = (1.0 - level.clamp(0.0, 1.0)) / 2.0;
    Some(Interval {
        low: quantile_of_sorted(&found, tail, QuantileRule::Linear)?,
        high: quantile_of_sorted(&found, 1.0 - tail, QuantileRule::Linear)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::{mean, median, min_max};

    #[test]
    fn nothing_has_no_interval() {
        assert_eq!(bootstrap_interval(&[], mean, 0.95, 100, 1), None);
        assert_eq!(bootstrap_interval(&[1.0], mean, 0.95, 0, 1), None);
    }

    proptest! {
        #[test]
        fn the_same_seed_gives_the_same_interval_within_the_sample(
            values in prop::collection::vec(0.0..1e6f64, 1..12), seed: u64,
        ) {
            let interval = bootstrap_interval(&values, median, 0.9, 200, seed).unwrap();
            prop_assert_eq!(Some(interval), bootstrap_interval(&values, median, 0.9, 200, seed));
            let (low, high) = min_max(&values).unwrap();
            prop_assert!(low <= interval.low && interval.low <= interval.high && interval.high <= high);
        }

        #[test]
        fn a_higher_level_is_never_narrower(values in prop::collection::vec(0.0..1e6f64, 1..12), seed: u64) {
            let wide = bootstrap_interval(&values, mean, 0.99, 200, seed).unwrap();
            let narrow = bootstrap_interval(&values, mean, 0.8, 200, seed).unwrap();
            prop_assert!(wide.low <= narrow.low && narrow.high <= wide.high);
        }
    }
}
