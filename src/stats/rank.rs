use std::cmp::Ordering;

/// Kendall's tau-b of two rankings of the same things, -1 to 1: concordant less discordant pairs, over the geometric
/// mean of the pairs not tied in each (Kendall 1945). None when the lengths differ or when one ranking is all ties.
pub fn kendall_tau_b(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() {
        return None;
    }
    let (mut difference, mut untied_a, mut untied_b) = (0i64, 0u64, 0u64);
    for i in 0..a.len() {
        for j in 0..i {
            let (in_a, in_b) = (a[i].total_cmp(&a[j]) as i64, b[i].total_cmp(&b[j]) as i64);
            difference += in_a * in_b;
            untied_a += u64::from(in_a != 0);
            untied_b += u64::from(in_b != 0);
        }
    }
    if untied_a == 0 || untied_b == 0 {
        return None;
    }
    Some(difference as f64 / (untied_a as f64 * untied_b as f64).sqrt())
}

/// The pairs of indices, lower first, that the two rankings put in opposite order. Ties are in no order.
pub fn discordant_pairs(a: &[f64], b: &[f64]) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for i in 0..a.len().min(b.len()) {
        for j in i + 1..a.len().min(b.len()) {
            let (in_a, in_b) = (a[i].total_cmp(&a[j]), b[i].total_cmp(&b[j]));
            if in_a != Ordering::Equal && in_a == in_b.reverse() {
                pairs.push((i, j));
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn same_opposite_and_undefined() {
        let up = [1.0, 2.0, 3.0, 4.0];
        let down = [4.0, 3.0, 2.0, 1.0];
        assert_eq!(kendall_tau_b(&up, &up), Some(1.0));
        assert_eq!(kendall_tau_b(&up, &down), Some(-1.0));
        assert_eq!(kendall_tau_b(&up, &[5.0; 4]), None);
        assert_eq!(kendall_tau_b(&up, &up[..3]), None);
        assert_eq!(kendall_tau_b(&[], &[]), None);
        assert_eq!(discordant_pairs(&up, &[1.0, 3.0, 2.0, 4.0]), [(1, 2)]);
    }

    proptest! {
        #[test]
        fn symmetric_bounded_and_blind_to_growth(pairs in prop::collection::vec((0..9u8, 0..9u8), 2..25)) {
            let a: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.0)).collect();
            let b: Vec<f64> = pairs.iter().map(|pair| f64::from(pair.1)).collect();
            let grown: Vec<f64> = a.iter().map(|value| value.exp()).collect();
            prop_assert_eq!(kendall_tau_b(&a, &b), kendall_tau_b(&b, &a));
            prop_assert_eq!(kendall_tau_b(&a, &b), kendall_tau_b(&grown, &b));
            if let Some(tau) = kendall_tau_b(&a, &b) {
                prop_assert!((-1.0 - 1e-9..=1.0 + 1e-9).contains(&tau));
                prop_assert!(tau < 1.0 - 1e-9 || discordant_pairs(&a, &b).is_empty());
            }
        }
    }
}
