use std::cell::RefCell;
use std::collections::HashMap;

use super::{Differences, Interval};

/// The largest `n + m` whose number of arrangements a float can hold exactly enough.
const MOST_EXACT: usize = 900;

/// Number of arrangements of `n` and `m` values without ties in which the Mann-Whitney statistic is 0, 1, …, `most`,
/// each divided by the number of all arrangements: the coefficients of a Gaussian binomial (Mann and Whitney 1947).
fn null_distribution(n: usize, m: usize, most: usize) -> Option<Vec<f64>> {
    if n + m > MOST_EXACT {
        return None;
    }
    let (few, many) = (n.min(m), n.max(m));
    let mut counts = vec![0.0; most + 1];
    counts[0] = 1.0;
    let mut all = 1.0;
    for step in 1..=few {
        let longer = many + step;
        for at in (longer..=most).rev() {
            counts[at] -= counts[at - longer];
        }
        for at in step..=most {
            counts[at] += counts[at - step];
        }
        all *= longer as f64 / step as f64;
    }
    all.is_finite().then(|| counts.into_iter().map(|count: f64| count.max(0.0) / all).collect())
}

/// The probability that the Mann-Whitney statistic of samples of `n` and `m` values from one distribution is at most `u`:
/// exact, without ties (Mann and Whitney 1947); beyond 900 values by the normal approximation with continuity correction.
pub fn rank_sum_tail(n: usize, m: usize, u: usize) -> f64 {
    if n == 0 || m == 0 || u >= n * m {
        return 1.0;
    }
    match null_distribution(n, m, u) {
        Some(counts) => counts.iter().sum::<f64>().min(1.0),
        None => super::normal_cdf((u as f64 + 0.5 - mean_of(n, m)) / deviation_of(n, m)),
    }
}

fn mean_of(n: usize, m: usize) -> f64 {
    (n * m) as f64 / 2.0
}

fn deviation_of(n: usize, m: usize) -> f64 {
    ((n * m * (n + m + 1)) as f64 / 12.0).sqrt()
}

/// The two-sided p-value of the Mann-Whitney test that two samples come from one distribution; a pair of equal values counts
/// half, and the statistic is rounded towards no difference. None of nothing.
pub fn rank_sum_p(before: &[f64], after: &[f64]) -> Option<f64> {
    if before.is_empty() || after.is_empty() {
        return None;
    }
    let mut twice = 0usize;
    for a in before {
        for b in after {
            twice += usize::from(b > a) + usize::from(b >= a);
        }
    }
    let all = 2 * before.len() * after.len();
    let lower = twice.min(all - twice).div_ceil(2);
    Some((2.0 * rank_sum_tail(before.len(), after.len(), lower)).min(1.0))
}

/// Whether samples of `n` and `m` values are large enough for an interval of the shift at a two-sided level.
pub fn rank_sum_reaches(n: usize, m: usize, level: f64) -> bool {
    n > 0 && m > 0 && rank_sum_tail(n, m, 0) <= tail_of(level)
}

/// Of a level as it was meant: 1 - 0.9 is a little less than 0.1.
fn tail_of(level: f64) -> f64 {
    (1.0 - level) / 2.0 * (1.0 + 1e-9)
}

thread_local! {
    /// Cuts that were asked for before: counting arrangements takes longer than all else that a comparison does, and the
    /// same few sizes and levels come again for every cell.
    static CUTS: RefCell<HashMap<(usize, usize, u64), Option<usize>>> = RefCell::new(HashMap::new());
}
/// As many of them are kept.
const MOST_CUTS: usize = 10_000;

/// How many of the smallest (and of the largest) differences an interval of the shift leaves out at a two-sided level: the
/// largest `k` with `P(U < k) <= (1 - level) / 2`. None when even the whole range of differences does not reach the level.
pub fn rank_sum_cut(n: usize, m: usize, level: f64) -> Option<usize> {
    let asked = (n, m, level.to_bits());
    if let Some(cut) = CUTS.with_borrow(|cuts| cuts.get(&asked).copied()) {
        return cut;
    }
    let cut = counted_cut(n, m, tail_of(level));
    CUTS.with_borrow_mut(|cuts| {
        if cuts.len() >= MOST_CUTS {
            cuts.clear();
        }
        cuts.insert(asked, cut);
    });
    cut
}

fn counted_cut(n: usize, m: usize, tail: f64) -> Option<usize> {
    if n == 0 || m == 0 {
        return None;
    }
    let half = n * m / 2;
    let Some(mut most) = starting_guess(n, m, tail) else { return by_normal(n, m, tail) };
    loop {
        let Some(counts) = null_distribution(n, m, most.min(half)) else { return by_normal(n, m, tail) };
        let mut sum = 0.0;
        for (u, count) in counts.iter().enumerate() {
            sum += count;
            if sum > tail {
                return (u > 0).then_some(u);
            }
        }
        if most >= half {
            return Some(half).filter(|cut| *cut > 0);
        }
        most *= 2;
    }
}

/// A little beyond where the normal approximation puts the cut, so that few coefficients are computed.
fn starting_guess(n: usize, m: usize, tail: f64) -> Option<usize> {
    let near = mean_of(n, m) + super::normal_quantile(tail) * deviation_of(n, m);
    (n + m <= MOST_EXACT).then(|| (near.max(0.0) as usize) + 2 * (n + m) + 8)
}

fn by_normal(n: usize, m: usize, tail: f64) -> Option<usize> {
    let cut = mean_of(n, m) + super::normal_quantile(tail) * deviation_of(n, m) - 0.5;
    (cut >= 1.0).then_some(cut as usize)
}

/// The Hodges-Lehmann shift with its distribution-free interval: the [`Differences`] of one value of each sample, less
/// the outermost that [`rank_sum_cut`] names (Moses 1965; Hollander and Wolfe 1999, 4.3). It holds whatever the
/// distribution is, two modes included, as long as both samples have the same one but for the shift. The interval is none
/// when the samples are too small for the level.
pub fn rank_sum_shift(before: &[f64], after: &[f64], level: f64) -> Option<(f64, Option<Interval>)> {
    let differences = Differences::new(before, after);
    let shift = differences.middle()?;
    let interval = rank_sum_cut(before.len(), after.len(), level).and_then(|cut| differences.interval(cut));
    Some((shift, interval))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_samples_reach_no_strict_level() {
        assert_eq!(rank_sum_cut(3, 3, 0.95), None, "2 of 20 arrangements are as far apart");
        assert_eq!(rank_sum_cut(3, 3, 0.90), Some(1));
        assert_eq!(rank_sum_cut(3, 60, 0.9999), Some(1));
        assert_eq!(rank_sum_cut(0, 3, 0.5), None);
        assert_eq!(rank_sum_p(&[1.0], &[]), None);
        assert_eq!(rank_sum_p(&[1.0; 3], &[1.0; 3]), Some(1.0));
    }

    #[test]
    fn beyond_what_is_counted_the_normal_approximation_takes_over_smoothly() {
        let (exact, near) = (rank_sum_cut(440, 460, 0.999).unwrap(), by_normal(440, 460, 0.0005).unwrap());
        assert!((exact as f64 / near as f64 - 1.0).abs() < 0.002, "{exact} {near}");
        assert!(rank_sum_cut(600, 4000, 0.999).is_some());
        assert!((rank_sum_tail(600, 4000, 1_200_000) - 0.5).abs() < 0.01);
    }

    proptest! {
        #[test]
        fn scale_order_and_shift_change_the_interval_as_they_must(
            before in prop::collection::vec(-10.0..10.0f64, 4..12), after in prop::collection::vec(-10.0..10.0f64, 4..12),
            by in 0.0..50.0f64, factor in 0.1..50.0f64,
        ) {
            let (shift, interval) = rank_sum_shift(&before, &after, 0.9).unwrap();
            let interval = interval.unwrap();
            prop_assert!(interval.low <= shift && shift <= interval.high);
            // Symmetry: turned round, the interval is its mirror image.
            let (back, turned) = rank_sum_shift(&after, &before, 0.9).unwrap();
            let turned = turned.unwrap();
            prop_assert!((back + shift).abs() < 1e-9);
            prop_assert!((turned.low + interval.high).abs() < 1e-9 && (turned.high + interval.low).abs() < 1e-9);
            // Scale.
            let scaled = |values: &[f64]| values.iter().map(|value| value * factor).collect::<Vec<_>>();
            let (times, _) = rank_sum_shift(&scaled(&before), &scaled(&after), 0.9).unwrap();
            prop_assert!((times - shift * factor).abs() < 1e-9 * factor.max(1.0) * 20.0);
            // Monotone in the shift.
            let moved: Vec<f64> = after.iter().map(|value| value + by).collect();
            let (further, beyond) = rank_sum_shift(&before, &moved, 0.9).unwrap();
            prop_assert!((further - shift - by).abs() < 1e-9);
            prop_assert!(beyond.unwrap().low >= interval.low - 1e-9);
        }

        #[test]
        fn a_stricter_level_is_never_narrower(n in 1..30usize, m in 1..80usize) {
            let cut = |level| rank_sum_cut(n, m, level).unwrap_or(0);
            prop_assert!(cut(0.8) >= cut(0.95) && cut(0.95) >= cut(0.999));
            prop_assert_eq!(cut(0.95), rank_sum_cut(m, n, 0.95).unwrap_or(0));
            for level in [0.8, 0.95, 0.999] {
                prop_assert_eq!(rank_sum_reaches(n, m, level), rank_sum_cut(n, m, level).is_some());
            }
        }
    }
}
