use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::median;

/// Two clusters that a sample falls into.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TwoClusters {
    /// Median of the lower cluster.
    pub low: f64,
    /// Number of values in it.
    pub low_n: u32,
    /// Median of the upper cluster.
    pub high: f64,
    /// Number of values in it.
    pub high_n: u32,
}

/// How many times the width of the wider cluster the gap must be.
const GAP_TO_WIDTH: f64 = 1.5;

/// By how much the smallest value of the upper cluster must exceed the largest of the lower one, relatively. Few values show
/// wide gaps by chance, so they need a wider one.
fn smallest_gap(n: usize) -> f64 {
    match n {
        ..6 => 0.35,
        6..10 => 0.25,
        _ => 0.15,
    }
}

/// Whether 3 or more values above zero fall into two clusters: sorted by logarithm and cut at the widest gap, the gap is at least
/// 1.5 times as wide as the wider of the two parts, and at least 35 % (below 6 values), 25 % (below 10) or 15 %.
///
/// A rule of our own for a handful of values, for which tests of modality (Hartigan and Hartigan 1985) have no power;
/// the gap over the spread is the idea of Dixon's Q (Dixon 1950). Of log-normal samples without clusters it marks
/// fewer than 0.5 % when their coefficient of variation is 7 %, and at most 7.3 % (of three values; 1.1 % of ten) when it is 13 %
/// (simulated in `tests/stats_reference/generate.py`).
pub fn two_clusters(values: &[f64]) -> Option<TwoClusters> {
    if values.len() < 3 || values.iter().any(|value| !(*value > 0.0 && value.is_finite())) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let width = |from: f64, to: f64| (to / from).ln();
    let cut = (1..sorted.len())
        .max_by(|i, j| width(sorted[i - 1], sorted[*i]).total_cmp(&width(sorted[j - 1], sorted[*j])))?;
    let (low, high) = sorted.split_at(cut);
    let gap = width(low[low.len() - 1], high[0]);
    let widest = width(low[0], low[low.len() - 1]).max(width(high[0], high[high.len() - 1]));
    if gap < GAP_TO_WIDTH * widest || gap < smallest_gap(values.len()).ln_1p() {
        return None;
    }
    let count = |part: &[f64]| u32::try_from(part.len()).unwrap_or(u32::MAX);
    Some(TwoClusters { low: median(low)?, low_n: count(low), high: median(high)?, high_n: count(high) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_fast_mode_that_a_median_hides_is_seen() {
        let found = two_clusters(&[34.0, 29.3, 79.9]).unwrap();
        assert_eq!((found.low_n, found.high_n), (2, 1));
        assert_eq!(found.high, 79.9);
    }

    #[test]
    fn seven_and_three_load_runs_are_two_clusters() {
        let runs = [83.7, 85.0, 86.6, 88.1, 89.9, 91.0, 92.4, 110.6, 112.0, 113.7];
        let found = two_clusters(&runs).unwrap();
        assert_eq!((found.low_n, found.high_n), (7, 3));
    }

    #[test]
    fn mere_noise_and_an_even_spread_are_not() {
        assert_eq!(two_clusters(&[28.0, 41.0, 59.0]), None);
        assert_eq!(two_clusters(&[32.1, 29.7, 33.9]), None);
        assert_eq!(two_clusters(&[34.0, 35.1, 36.6, 38.0, 38.2, 39.0, 40.4, 41.1, 41.8, 42.0]), None);
    }

    #[test]
    fn too_few_or_impossible_values_are_no_clusters() {
        assert_eq!(two_clusters(&[1.0, 100.0]), None);
        assert_eq!(two_clusters(&[0.0, 1.0, 100.0]), None);
        assert_eq!(two_clusters(&[f64::NAN, 1.0, 100.0]), None);
        assert_eq!(two_clusters(&[5.0; 9]), None);
    }

    proptest! {
        #[test]
        fn scale_does_not_matter_and_no_value_is_lost(
            values in prop::collection::vec(1.0..100.0f64, 3..30), power in -8..16i32,
        ) {
            // A power of two changes no quotient by rounding.
            let factor = 2f64.powi(power);
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let (a, b) = (two_clusters(&values), two_clusters(&scaled));
            prop_assert_eq!(a.is_some(), b.is_some());
            if let Some(a) = a {
                prop_assert_eq!((a.low_n + a.high_n) as usize, values.len());
                prop_assert!(a.high > a.low * 1.15);
            }
        }

        #[test]
        fn values_twice_as_far_apart_as_they_are_wide_are_always_seen(
            low in prop::collection::vec(1.0..1.2f64, 1..15), high in prop::collection::vec(2.0..2.4f64, 1..15),
        ) {
            prop_assume!(low.len() + high.len() >= 3);
            let all: Vec<f64> = low.iter().chain(&high).copied().collect();
            let found = two_clusters(&all).unwrap();
            prop_assert_eq!(found.low_n as usize, low.len());
        }
    }
}
