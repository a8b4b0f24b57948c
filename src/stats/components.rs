use super::mean;

/// Variance of values that come in groups, parted into that within the groups and that between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Components {
    /// Variance within a group.
    pub within: f64,
    /// Degrees of freedom of `within`: values less groups.
    pub within_freedom: f64,
    /// Variance of the groups' true means; 0 when they differ no more than `within` explains.
    pub between: f64,
    /// Degrees of freedom of the groups: their number less one.
    pub between_freedom: f64,
    /// Values of a group, averaged so that unequal groups count as they should.
    pub group_size: f64,
}

/// The components of variance of one-way groups by the method of moments: `between = (MSB - MSW) / n0`, with
/// `n0 = (N - Σn²/N) / (k - 1)` for unequal groups (Searle, Casella and McCulloch 1992, 3.6). None unless there are two groups
/// and a group of two.
pub fn variance_components(groups: &[Vec<f64>]) -> Option<Components> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|group| !group.is_empty()).collect();
    let all: Vec<f64> = groups.iter().flat_map(|group| group.iter().copied()).collect();
    let (k, n) = (groups.len() as f64, all.len() as f64);
    if k < 2.0 || n <= k {
        return None;
    }
    let grand = mean(&all)?;
    let (mut squares_within, mut squares_between, mut sizes) = (0.0, 0.0, 0.0);
    for group in &groups {
        let centre = mean(group)?;
        let size = group.len() as f64;
        squares_within += group.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
        squares_between += size * (centre - grand).powi(2);
        sizes += size * size;
    }
    let (within, between) = (squares_within / (n - k), squares_between / (k - 1.0));
    let group_size = (n - sizes / n) / (k - 1.0);
    Some(Components {
        within,
        within_freedom: n - k,
        between: ((between - within) / group_size).max(0.0),
        between_freedom: k - 1.0,
        group_size,
    })
}

/// A variance estimate drawn towards what is known beforehand: the mean of both, each weighted by its degrees of freedom, which
/// add up (Smyth 2004, section 3). With few own values it is nearly the prior, with many nearly their own.
pub fn moderated(own: f64, own_freedom: f64, prior: f64, prior_freedom: f64) -> (f64, f64) {
    let freedom = own_freedom + prior_freedom;
    if freedom <= 0.0 {
        return (prior, prior_freedom);
    }
    ((own * own_freedom + prior * prior_freedom) / freedom, freedom)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn too_few_groups_have_no_components() {
        assert_eq!(variance_components(&[]), None);
        assert_eq!(variance_components(&[vec![1.0, 2.0]]), None);
        assert_eq!(variance_components(&[vec![1.0], vec![2.0]]), None);
    }

    #[test]
    fn equal_means_leave_nothing_between_the_groups() {
        let found = variance_components(&[vec![1.0, 3.0], vec![0.0, 4.0]]).unwrap();
        assert_eq!((found.within, found.between, found.group_size), (5.0, 0.0, 2.0));
    }

    #[test]
    fn a_prior_counts_as_much_as_its_freedom() {
        assert_eq!(moderated(4.0, 3.0, 1.0, 1.0), (3.25, 4.0));
        assert_eq!(moderated(4.0, 0.0, 1.0, 4.0), (1.0, 4.0));
    }

    proptest! {
        #[test]
        fn scale_counts_squared_and_a_shift_not_at_all(
            groups in prop::collection::vec(prop::collection::vec(-5.0..5.0f64, 2..6), 2..8),
            factor in 0.1..20.0f64, by in -50.0..50.0f64,
        ) {
            let a = variance_components(&groups).unwrap();
            let moved: Vec<Vec<f64>> =
                groups.iter().map(|group| group.iter().map(|value| value * factor + by).collect()).collect();
            let b = variance_components(&moved).unwrap();
            prop_assert!((b.within / factor.powi(2) - a.within).abs() < 1e-6 * (1.0 + a.within));
            prop_assert!((b.between / factor.powi(2) - a.between).abs() < 1e-6 * (1.0 + a.between));
        }

        #[test]
        fn groups_further_apart_have_more_between_them(
            group in prop::collection::vec(-5.0..5.0f64, 2..6), by in 0.0..50.0f64, more in 0.1..50.0f64,
        ) {
            let apart = |by: f64| {
                let other: Vec<f64> = group.iter().map(|value| value + by).collect();
                variance_components(&[group.clone(), other]).unwrap().between
            };
            prop_assert!(apart(by + more) >= apart(by));
        }
    }
}
