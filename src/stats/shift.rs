use super::{Differences, median};

/// The Hodges-Lehmann estimate of location: the median of all means of two values, each value with itself included
/// (Hodges and Lehmann 1963).
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (index, a) in values.iter().enumerate() {
        means.extend(values[index..].iter().map(|b| (a + b) / 2.0));
    }
    median(&means)
}

/// The Hodges-Lehmann estimate of how far `after` lies above `before`: the median of all differences of one value
/// of each (Hodges and Lehmann 1963). On logarithms it is the logarithm of a ratio.
pub fn hodges_lehmann_shift(before: &[f64], after: &[f64]) -> Option<f64> {
    Differences::new(before, after).middle()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_outlier_does_not_move_it() {
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann_shift(&[1.0], &[]), None);
        let shift = hodges_lehmann_shift(&[10.0, 11.0, 12.0], &[13.0, 14.0, 1500.0]).unwrap();
        assert_eq!(shift, 3.0);
    }

    proptest! {
        #[test]
        fn a_shift_is_found_again_and_its_sign_turns(
            values in prop::collection::vec(-1e3..1e3f64, 1..15), by in -1e3..1e3f64,
        ) {
            let moved: Vec<f64> = values.iter().map(|value| value + by).collect();
            let forth = hodges_lehmann_shift(&values, &moved).unwrap();
            let back = hodges_lehmann_shift(&moved, &values).unwrap();
            prop_assert!((forth - by).abs() < 1e-6);
            prop_assert!((forth + back).abs() < 1e-6);
        }
    }
}
