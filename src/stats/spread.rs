/// The arithmetic mean.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation over mean, with Bessel's correction (divided by `n - 1`). None below two values or of a mean of
/// zero.
pub fn coefficient_of_variation(values: &[f64]) -> Option<f64> {
    let mean = mean(values)?;
    if values.len() < 2 || mean == 0.0 {
        return None;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / mean)
}

/// The `n`-th root of the product, by logarithms: the mean for ratios (Fleming and Wallace 1986). None of nothing or
/// when a value is not above zero.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.iter().any(|value| *value <= 0.0 || value.is_nan()) {
        return None;
    }
    mean(&values.iter().map(|value| value.ln()).collect::<Vec<_>>()).map(f64::exp)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_has_no_answer_has_none() {
        assert_eq!(mean(&[]), None);
        assert_eq!(coefficient_of_variation(&[3.0]), None);
        assert_eq!(coefficient_of_variation(&[-1.0, 1.0]), None);
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
    }

    proptest! {
        #[test]
        fn scale_changes_the_geometric_mean_and_not_the_variation(
            values in prop::collection::vec(0.1..1e4f64, 2..30), factor in 0.1..100.0f64,
        ) {
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            let (a, b) = (geometric_mean(&values).unwrap() * factor, geometric_mean(&scaled).unwrap());
            prop_assert!((a / b - 1.0).abs() < 1e-9);
            let (a, b) = (coefficient_of_variation(&values).unwrap(), coefficient_of_variation(&scaled).unwrap());
            prop_assert!((a - b).abs() < 1e-9);
        }

        #[test]
        fn the_ratio_of_means_is_the_mean_of_ratios(pairs in prop::collection::vec((0.1..1e3f64, 0.1..1e3f64), 1..20)) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let ratios: Vec<f64> = pairs.iter().map(|(a, b)| a / b).collect();
            let direct = geometric_mean(&a).unwrap() / geometric_mean(&b).unwrap();
            prop_assert!((geometric_mean(&ratios).unwrap() / direct - 1.0).abs() < 1e-9);
        }
    }
}
