use super::Interval;

/// The differences of one value of each of two samples, in ascending order, without writing them down: of samples of `n` and
/// `m` values there are `n * m`, and a few of them are asked for.
#[derive(Clone, Debug)]
pub struct Differences {
    /// Both sorted.
    before: Vec<f64>,
    after: Vec<f64>,
}

impl Differences {
    /// Of each value of `after` less each of `before`. Values that are not finite are left out.
    pub fn new(before: &[f64], after: &[f64]) -> Self {
        let sorted = |values: &[f64]| {
            let mut values: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
            values.sort_unstable_by(f64::total_cmp);
            values
        };
        Differences { before: sorted(before), after: sorted(after) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.before.len() * self.after.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The difference with `rank` others before it; the last one where there are no more. None of nothing.
    ///
    /// Each value of `after` makes a row whose differences fall as the value of `before` rises. What may still be the
    /// answer is a range of each row; the middle of all ranges' middles, weighed by their length, cuts off a quarter
    /// of them each time (Johnson and Mizoguchi 1978).
    pub fn nth(&self, rank: usize) -> Option<f64> {
        let (columns, rows) = (self.before.len(), self.after.len());
        let rank = rank.min(self.len().checked_sub(1)?);
        // In ascending order a row runs from the largest value of `before` to the smallest.
        let at = |row: usize, column: usize| self.after[row] - self.before[columns - 1 - column];
        let mut ranges = vec![(0, columns); rows];
        let mut middles: Vec<(f64, usize)> = Vec::with_capacity(rows);
        loop {
            middles.clear();
            middles.extend(
                ranges
                    .iter()
                    .enumerate()
                    .filter(|(_, (low, high))| low < high)
                    .map(|(row, (low, high))| (at(row, low.midpoint(*high)), high - low)),
            );
            let pivot = weighted_middle(&mut middles)?;
            // How much of each row lies below the pivot, and how much not above it: both shrink from row to row.
            let (mut below, mut upto) = (columns, columns);
            let (mut all_below, mut all_upto) = (0, 0);
            let ends: Vec<(usize, usize)> = (0..rows)
                .map(|row| {
                    while below > 0 && at(row, below - 1) >= pivot {
                        below -= 1;
                    }
                    while upto > 0 && at(row, upto - 1) > pivot {
                        upto -= 1;
                    }
                    all_below += below;
                    all_upto += upto;
                    (below, upto)
                })
                .collect();
            if rank < all_below {
                ranges.iter_mut().zip(&ends).for_each(|(range, (below, _))| range.1 = range.1.min(*below));
            } else if rank >= all_upto {
                ranges.iter_mut().zip(&ends).for_each(|(range, (_, upto))| range.0 = range.0.max(*upto));
            } else {
                return Some(pivot);
            }
        }
    }

    /// Their median: the Hodges-Lehmann estimate of the shift. None of nothing.
    pub fn middle(&self) -> Option<f64> {
        let n = self.len();
        let upper = self.nth(n / 2)?;
        if n % 2 == 1 { Some(upper) } else { Some((self.nth(n / 2 - 1)? + upper) / 2.0) }
    }

    /// The interval that leaves out `cut - 1` of them on either side. None of nothing.
    pub fn interval(&self, cut: usize) -> Option<Interval> {
        let last = self.len().checked_sub(1)?;
        let cut = cut.clamp(1, last + 1);
        Some(Interval { low: self.nth(cut - 1)?, high: self.nth(last + 1 - cut)? })
    }
}

/// The smallest value with at least half of all weight on it and below it.
fn weighted_middle(values: &mut [(f64, usize)]) -> Option<f64> {
    values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let all: usize = values.iter().map(|(_, weight)| weight).sum();
    let mut sum = 0;
    values.iter().find_map(|(value, weight)| {
        sum += weight;
        (2 * sum >= all).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn of_nothing_there_is_nothing() {
        let none = Differences::new(&[], &[1.0]);
        assert!(none.is_empty());
        assert_eq!((none.nth(0), none.middle(), none.interval(1)), (None, None, None));
        let one = Differences::new(&[1.0], &[3.0]);
        assert_eq!((one.nth(7), one.middle()), (Some(2.0), Some(2.0)));
        let holes = Differences::new(&[1.0, f64::NAN, f64::INFINITY], &[f64::NAN, 3.0, f64::NEG_INFINITY]);
        assert_eq!((holes.len(), holes.middle()), (1, Some(2.0)));
    }

    proptest! {
        #[test]
        fn each_is_the_one_that_sorting_would_find(
            // Few different values: ties are where a selection goes wrong.
            before in prop::collection::vec((-6..6i32).prop_map(|value| f64::from(value) * 0.1), 1..30),
            after in prop::collection::vec(prop_oneof![(-6..6i32).prop_map(|value| f64::from(value) * 0.1), -1.0..1.0f64], 1..30),
        ) {
            let mut sorted: Vec<f64> = after.iter().flat_map(|b| before.iter().map(move |a| b - a)).collect();
            sorted.sort_unstable_by(f64::total_cmp);
            let differences = Differences::new(&before, &after);
            for (rank, expected) in sorted.iter().enumerate() {
                prop_assert_eq!(differences.nth(rank), Some(*expected));
            }
            let (middle, expected) = (differences.middle().unwrap(), super::super::median(&sorted).unwrap());
            prop_assert!((middle - expected).abs() < 1e-12, "{middle} {expected}");
        }
    }
}
