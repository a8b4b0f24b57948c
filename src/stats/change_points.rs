use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::median;

/// What counts as a change of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChangeRules {
    /// The largest p-value of a change; below 0.001 no change can be found.
    pub level: f64,
    /// Fewest values on either side of a change; at least 2, of which a distance can be taken.
    pub minimum_segment: usize,
    /// Smallest difference of the medians before and after a change.
    pub minimum_magnitude: f64,
}

impl Default for ChangeRules {
    /// For logarithms of what is measured: 5 % by chance, three values a side, changes of 3 %.
    fn default() -> Self {
        Self { level: 0.05, minimum_segment: 3, minimum_magnitude: 0.03f64.ln_1p() }
    }
}

/// Where the distribution of a series changes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub at: usize,
    /// Median of the values since the change before this one.
    pub before: f64,
    /// Median of the values up to the change after this one.
    pub after: f64,
    /// How often a change as clear is found in values without order, when the changes found earlier are given.
    pub p: f64,
}

/// Work grows with the square of the values: of more, the last are looked at.
const MOST_VALUES: usize = 400;
const MOST_POINTS: usize = 20;
const PERMUTATIONS: u32 = 999;

/// Statistics that differ by less, relatively, differ by rounding.
const ROUNDING: f64 = 1e-9;

/// The change points of a series by E-divisive (Matteson and James 2014): the segment with the clearest split is split there, for
/// as long as fewer than `level` of 999 permutations within the segments have one as clear. Both sides of a split reach to the
/// ends of its segment, as Daly et al. 2020 use it for the performance of software. Afterwards the point whose medians differ
/// least is dropped and its segments are merged, until none is below `minimum_magnitude`.
///
/// Only the last 400 values are looked at, and at most 20 points are found; when one of those values is not finite, none is.
/// The same seed gives the same points on every machine.
pub fn change_points(values: &[f64], rules: &ChangeRules, seed: u64) -> Vec<ChangePoint> {
    let skipped = values.len().saturating_sub(MOST_VALUES);
    let values = &values[skipped..];
    if values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let mut points = far_enough(values, search(values, rules, seed), rules.minimum_magnitude);
    for point in &mut points {
        point.at += skipped;
    }
    points
}

/// The split of a sample in two that maximises the energy statistic of Székely and Rizzo (2005) with α = 1, as index of the
/// first value of the second part, and that statistic: `nm/(n+m) (2 E|X-Y| - E|X-X'| - E|Y-Y'|)` with the means over pairs of
/// different values (Matteson and James 2014, 2.2). The first of equal ones; none when a part would be too small.
pub fn best_split(values: &[f64], minimum_segment: usize) -> Option<(usize, f64)> {
    let all = values.len();
    let least = minimum_segment.max(2);
    if all / 2 < least {
        return None;
    }
    // Sums of distances of pairs: within the values up to each index, and within those from it on.
    let (mut up_to, mut from) = (vec![0.0; all], vec![0.0; all]);
    for (i, value) in values.iter().enumerate() {
        for (j, earlier) in values[..i].iter().enumerate() {
            let distance = (value - earlier).abs();
            up_to[i] += distance;
            from[j] += distance;
        }
    }
    for i in 1..all {
        up_to[i] += up_to[i - 1];
        from[all - 1 - i] += from[all - i];
    }
    let total = up_to[all - 1];
    let rounding = ROUNDING * total / pairs(all);
    let mut best: Option<(usize, f64)> = None;
    for at in least..=all - least {
        let (left, right) = (up_to[at - 1], from[at]);
        let (n, m) = (at as f64, (all - at) as f64);
        let apart = 2.0 * (total - left - right) / (n * m) - left / pairs(at) - right / pairs(all - at);
        let energy = n * m / (n + m) * apart;
        if best.is_none_or(|(_, most)| energy > most + rounding) {
            best = Some((at, energy));
        }
    }
    best
}

fn pairs(n: usize) -> f64 {
    (n * (n - 1)) as f64 / 2.0
}

/// The points that are significant, in order, with their p-values.
fn search(values: &[f64], rules: &ChangeRules, seed: u64) -> Vec<(usize, f64)> {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    let mut points: Vec<(usize, f64)> = Vec::new();
    while points.len() < MOST_POINTS {
        let bounds = bounds(&points, values.len());
        let Some((at, energy)) = clearest_split(values, &bounds, rules.minimum_segment) else { break };
        let as_clear = energy * (1.0 - ROUNDING);
        // From the series itself each time: what an earlier, wider segment shuffled has mixed the levels.
        let mut shuffled = values.to_vec();
        // The series itself is one of the arrangements.
        let mut clear = 1;
        let p = |clear: u32| f64::from(clear) / f64::from(PERMUTATIONS + 1);
        for _ in 0..PERMUTATIONS {
            for ends in bounds.windows(2) {
                shuffled[ends[0]..ends[1]].shuffle(&mut generator);
            }
            let split = clearest_split(&shuffled, &bounds, rules.minimum_segment);
            clear += u32::from(split.is_some_and(|(_, energy)| energy >= as_clear));
            if p(clear) > rules.level {
                break;
            }
        }
        if energy <= 0.0 || p(clear) > rules.level {
            break;
        }
        points.push((at, p(clear)));
        points.sort_by_key(|(at, _)| *at);
    }
    points
}

/// Where segments begin and end.
fn bounds(points: &[(usize, f64)], end: usize) -> Vec<usize> {
    [0].into_iter().chain(points.iter().map(|(at, _)| *at)).chain([end]).collect()
}

/// The best split of all segments.
fn clearest_split(values: &[f64], bounds: &[usize], minimum_segment: usize) -> Option<(usize, f64)> {
    let splits = bounds.windows(2).filter_map(|ends| {
        let (at, energy) = best_split(&values[ends[0]..ends[1]], minimum_segment)?;
        Some((ends[0] + at, energy))
    });
    splits.reduce(|best, split| if split.1 > best.1 { split } else { best })
}

/// The points without those whose medians differ too little, the smallest first: what lies on either side of a dropped point
/// counts as one segment for its neighbours.
fn far_enough(values: &[f64], mut points: Vec<(usize, f64)>, minimum_magnitude: f64) -> Vec<ChangePoint> {
    loop {
        let medians: Vec<f64> = bounds(&points, values.len())
            .windows(2)
            .filter_map(|ends| median(&values[ends[0]..ends[1]]))
            .collect();
        let found: Vec<ChangePoint> = points
            .iter()
            .zip(medians.windows(2))
            .map(|((at, p), sides)| ChangePoint { at: *at, before: sides[0], after: sides[1], p: *p })
            .collect();
        let magnitude = |point: &ChangePoint| (point.after - point.before).abs();
        let least = (0..found.len())
            .min_by(|i, j| magnitude(&found[*i]).total_cmp(&magnitude(&found[*j])))
            .filter(|least| magnitude(&found[*least]) < minimum_magnitude);
        let Some(least) = least else { return found };
        points.remove(least);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::RngExt;

    use super::*;
    use crate::stats::normal_quantile;

    /// Logarithms of levels with normal noise.
    fn noisy(levels: &[f64], noise: f64, seed: u64) -> Vec<f64> {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        let mut normal = || normal_quantile(generator.random_range(1e-6..1.0 - 1e-6));
        levels.iter().map(|level| level.ln() + noise * normal()).collect()
    }

    fn steps(parts: &[(usize, f64)]) -> Vec<f64> {
        parts.iter().flat_map(|(n, level)| vec![*level; *n]).collect()
    }

    fn found(values: &[f64]) -> Vec<ChangePoint> {
        change_points(values, &ChangeRules::default(), 1)
    }

    fn places(values: &[f64]) -> Vec<usize> {
        found(values).iter().map(|point| point.at).collect()
    }

    #[test]
    fn what_stays_the_same_or_is_too_short_does_not_change() {
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[5.0; 40]), []);
        assert_eq!(found(&[0.1, 0.1, 0.1, 9.0, 9.0]), []);
        assert_eq!(best_split(&[0.0, 0.0, 0.0, 9.0, 9.0], 3), None);
        assert_eq!(best_split(&[0.0, 9.0, 9.0], 0), None, "one value has no distance");
        let mut broken = steps(&[(20, 1.0), (20, 2.0)]);
        broken[3] = f64::NAN;
        assert_eq!(found(&broken), []);
    }

    #[test]
    fn the_statistic_is_what_its_definition_says() {
        // 2·2 / 4 · (2 · 3 - 1 - 1), and the split next to it is worse.
        assert_eq!(best_split(&[0.0, 1.0, 3.0, 4.0], 2), Some((2, 4.0)));
        assert_eq!(best_split(&[7.0; 9], 3), Some((3, 0.0)));
    }

    #[test]
    fn noise_seldom_changes() {
        let flagged = (0..20).filter(|seed| !found(&noisy(&[1.0; 30], 0.03, *seed)).is_empty()).count();
        assert!(flagged <= 1, "{flagged} of 20");
    }

    #[test]
    fn whatever_the_magnitude_noise_changes_as_often_as_the_level_says() {
        let rules = ChangeRules { minimum_magnitude: 0.0, ..ChangeRules::default() };
        let changes = |seed: &u64| !change_points(&noisy(&[1.0; 16], 0.03, *seed), &rules, *seed).is_empty();
        let flagged = (0..400).filter(changes).count();
        // 20 are expected, give or take 4.4.
        assert!((7..=33).contains(&flagged), "{flagged} of 400");
    }

    #[test]
    fn one_step_is_found_where_it_is() {
        let levels = steps(&[(15, 1.0), (15, 1.1)]);
        let near = |seed: &u64| {
            let points = found(&noisy(&levels, 0.03, *seed));
            points.len() == 1 && points[0].at.abs_diff(15) <= 1 && points[0].after - points[0].before > 0.05
        };
        let found = (0..20).filter(near).count();
        assert!(found >= 16, "{found} of 20");
    }

    #[test]
    fn two_steps_are_found_in_order() {
        let points = found(&noisy(&steps(&[(12, 1.0), (12, 1.25), (12, 1.1)]), 0.02, 3));
        assert_eq!(points.len(), 2, "{points:?}");
        assert!(points[0].at.abs_diff(12) <= 1 && points[1].at.abs_diff(24) <= 1, "{points:?}");
        assert!(points[0].after > points[0].before && points[1].after < points[1].before);
        assert_eq!(points[0].after, points[1].before);
        assert!(points.iter().all(|point| point.p > 0.0 && point.p <= 0.05));
    }

    #[test]
    fn a_gradual_drift_is_a_change() {
        let mut levels = vec![1.0; 10];
        levels.extend((1..=10).map(|step| 1.01f64.powi(step)));
        for noise in [0.0, 0.01] {
            let points = found(&noisy(&levels, noise, 4));
            assert!(!points.is_empty() && points[0].at > 5, "{noise}: {points:?}");
            assert!(points.iter().all(|point| point.after > point.before), "{noise}: {points:?}");
        }
    }

    #[test]
    fn one_outlier_is_no_change() {
        for at in [0, 2, 15, 27, 29] {
            let mut values = noisy(&[1.0; 30], 0.01, 5);
            values[at] += 0.7;
            assert_eq!(found(&values), [], "at {at}");
        }
    }

    #[test]
    fn small_changes_merge_into_their_neighbours() {
        let levels = steps(&[(10, 1.0), (10, 1.02), (10, 1.2)]);
        assert_eq!(places(&noisy(&levels, 0.001, 6)), [20]);
        let fine = ChangeRules { minimum_magnitude: 0.01, ..ChangeRules::default() };
        assert_eq!(change_points(&noisy(&levels, 0.001, 6), &fine, 1).len(), 2);
    }

    #[test]
    fn of_a_long_series_the_end_is_looked_at_and_the_indexes_are_its_own() {
        let values = noisy(&steps(&[(50, 1.0), (100, 2.0), (350, 3.0)]), 0.001, 7);
        assert_eq!(places(&values), [150]);
    }

    #[test]
    fn the_points_are_bounded() {
        let parts: Vec<(usize, f64)> = (0..30).map(|part| (8, 1.5f64.powi(part))).collect();
        let points = found(&noisy(&steps(&parts), 0.001, 8));
        assert_eq!(points.len(), MOST_POINTS);
        assert!(points.windows(2).all(|two| two[0].at + 3 <= two[1].at));
    }

    fn series() -> impl Strategy<Value = Vec<f64>> {
        let part = || prop::collection::vec(-1.0..1.0f64, 3..14);
        (part(), part(), -4.0..4.0f64)
            .prop_map(|(one, other, step)| one.into_iter().chain(other.iter().map(|x| x + step)).collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn neither_unit_nor_origin_matters(
            values in series(), by in -50.0..50.0f64, factor in 0.01..100.0f64, seed: u64,
        ) {
            let rules = ChangeRules { minimum_magnitude: 0.3, ..ChangeRules::default() };
            let points = change_points(&values, &rules, seed);
            let same = |other: &[ChangePoint]| {
                other.iter().map(|point| (point.at, point.p)).eq(points.iter().map(|point| (point.at, point.p)))
            };
            let moved: Vec<f64> = values.iter().map(|value| value + by).collect();
            prop_assert!(same(&change_points(&moved, &rules, seed)));
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let by_factor = ChangeRules { minimum_magnitude: 0.3 * factor, ..rules };
            prop_assert!(same(&change_points(&scaled, &by_factor, seed)));
        }

        #[test]
        fn turned_round_a_clear_step_is_its_mirror_image(
            low in prop::collection::vec(0.0..1.0f64, 6..16), high in prop::collection::vec(9.0..10.0f64, 6..16),
            seed: u64,
        ) {
            let rules = ChangeRules { minimum_magnitude: 2.0, ..ChangeRules::default() };
            let mut values: Vec<f64> = low.iter().chain(&high).copied().collect();
            let ahead = change_points(&values, &rules, seed);
            values.reverse();
            let back = change_points(&values, &rules, seed);
            prop_assert_eq!((ahead.len(), back.len()), (1, 1));
            prop_assert_eq!((ahead[0].at, back[0].at), (low.len(), high.len()));
            prop_assert_eq!((ahead[0].before, ahead[0].after), (back[0].after, back[0].before));
        }

        #[test]
        fn points_lie_apart_in_order_and_differ_enough(values in series(), seed: u64) {
            let rules = ChangeRules { minimum_magnitude: 0.3, ..ChangeRules::default() };
            let points = change_points(&values, &rules, seed);
            prop_assert!(points.windows(2).all(|two| two[0].at + 3 <= two[1].at && two[0].after == two[1].before));
            for point in &points {
                prop_assert!((3..=values.len() - 3).contains(&point.at));
                prop_assert!((point.after - point.before).abs() >= 0.3 && point.p <= 0.05);
            }
        }
    }
}
