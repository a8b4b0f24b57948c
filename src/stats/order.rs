use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a quantile is read off a sorted sample of `n` values `x[0] … x[n-1]`, for `q` in 0 to 1. They differ most
/// where samples are small; a published table is reproduced by the rule that its authors used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QuantileRule {
    /// The smallest value that at least `q n` values do not exceed: `x[ceil(q n) - 1]`. Hyndman and Fan 1996, type 1.
    NearestRank,
    /// Linear interpolation at position `(n - 1) q`. Hyndman and Fan 1996, type 7; the default of NumPy, R and k6.
    Linear,
    /// `x[floor(q n)]`, at most the last: the rule of websocket-shootout.
    FloorOfCount,
    /// `x[floor((n - 1) q)]`: the rule of the AnyCable benchmarks.
    FloorOfLast,
}

/// The `q` quantile of `values` by `rule`; none of nothing. NaN counts as the largest value.
pub fn quantile(values: &[f64], q: f64, rule: QuantileRule) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q.clamp(0.0, 1.0), rule)
}

pub(super) fn quantile_of_sorted(sorted: &[f64], q: f64, rule: QuantileRule) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let n = sorted.len() as f64;
    let at = |index: f64| sorted[(index.max(0.0) as usize).min(last)];
    // 0.07 of 100 values is 7.000000000000001 in binary: what should be whole is taken as whole.
    const WHOLE: f64 = 1e-9;
    Some(match rule {
        QuantileRule::NearestRank => at((q * n - WHOLE).ceil() - 1.0),
        QuantileRule::FloorOfCount => at((q * n + WHOLE).floor()),
        QuantileRule::FloorOfLast => at((q * last as f64 + WHOLE).floor()),
        QuantileRule::Linear => {
            let position = q * last as f64;
            let (low, high) = (at(position.floor()), at(position.floor() + 1.0));
            low + (high - low) * position.fract()
        }
    })
}

/// The median: the middle value, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5, QuantileRule::Linear)
}

/// The smallest and the largest value.
pub fn min_max(values: &[f64]) -> Option<(f64, f64)> {
    let mut values = values.iter().copied();
    let first = values.next()?;
    Some(values.fold((first, first), |(low, high), value| (low.min(value), high.max(value))))
}

/// Median with the range of what it is the median of: with the few passes of a run, the range is all that is known
/// of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Middle value.
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Number of values.
    pub n: u32,
}

impl Spread {
    /// Of some values; none of nothing.
    pub fn of(values: &[f64]) -> Option<Self> {
        let (min, max) = min_max(values)?;
        Some(Spread { median: median(values)?, min, max, n: u32::try_from(values.len()).unwrap_or(u32::MAX) })
    }

    /// Of what is there.
    pub fn of_some(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        Spread::of(&values.into_iter().flatten().collect::<Vec<_>>())
    }

    /// Range over median.
    pub fn relative_range(&self) -> f64 {
        (self.max - self.min) / self.median
    }

    /// Whether the two ranges have a value in common.
    pub fn overlaps(&self, other: &Spread) -> bool {
        self.min <= other.max && other.min <= self.max
    }

    /// The same in another unit.
    pub fn times(&self, factor: f64) -> Self {
        let (a, b) = (self.min * factor, self.max * factor);
        Spread { median: self.median * factor, min: a.min(b), max: a.max(b), n: self.n }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: [QuantileRule; 4] = [
        QuantileRule::NearestRank,
        QuantileRule::Linear,
        QuantileRule::FloorOfCount,
        QuantileRule::FloorOfLast,
    ];

    #[test]
    fn the_rules_part_where_they_are_known_to() {
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let by = |rule| quantile(&ten, 0.95, rule).unwrap();
        assert_eq!(by(QuantileRule::NearestRank), 10.0);
        assert!((by(QuantileRule::Linear) - 9.55).abs() < 1e-12);
        assert_eq!(by(QuantileRule::FloorOfCount), 10.0);
        assert_eq!(by(QuantileRule::FloorOfLast), 9.0);
    }

    #[test]
    fn binary_fractions_do_not_push_a_rank() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for percent in 1..=100 {
            let q = f64::from(percent) / 100.0;
            assert_eq!(quantile(&hundred, q, QuantileRule::NearestRank), Some(f64::from(percent)));
            let next = f64::from((percent + 1).min(100));
            assert_eq!(quantile(&hundred, q, QuantileRule::FloorOfCount), Some(next));
        }
    }

    #[test]
    fn nothing_has_no_quantile_and_one_value_is_all_of_them() {
        for rule in RULES {
            assert_eq!(quantile(&[], 0.5, rule), None);
            for q in [0.0, 0.3, 1.0] {
                assert_eq!(quantile(&[7.0], q, rule), Some(7.0));
            }
        }
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_count_lies_between() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    }

    proptest! {
        #[test]
        fn quantiles_rise_and_stay_within_the_sample(
            values in prop::collection::vec(-1e9..1e9f64, 1..60), a in 0.0..=1.0f64, b in 0.0..=1.0f64,
        ) {
            let (low, high) = min_max(&values).unwrap();
            for rule in RULES {
                let (p, q) = (quantile(&values, a.min(b), rule).unwrap(), quantile(&values, a.max(b), rule).unwrap());
                prop_assert!(p <= q && low <= p && q <= high);
            }
        }

        #[test]
        fn order_of_values_does_not_matter(mut values in prop::collection::vec(0.0..1e6f64, 1..40)) {
            let before = Spread::of(&values);
            values.reverse();
            prop_assert_eq!(before, Spread::of(&values));
        }
    }
}
