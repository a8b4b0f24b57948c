use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How often one looks at a cell while its passes grow, and which share of its error rate each look may spend.
///
/// Looks come at once, twice, four times … the first number of passes, and at the largest. Up to a share `t` of all
/// passes, a share `t²` of the error rate may be spent (a power family of Kim and DeMets 1987): later looks, which have
/// more to go by, get most of it. What each look spends is added up, without the gain that their dependence would allow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Looks(Vec<u32>);

impl Looks {
    /// From `first` passes to at most `most`. One look where `most` is no more than `first`.
    pub fn new(first: u32, most: u32) -> Self {
        let first = first.max(1);
        let mut looks = vec![first];
        let mut next = first.saturating_mul(2);
        while next < most {
            looks.push(next);
            next = next.saturating_mul(2);
        }
        if most > first {
            looks.push(most);
        }
        Looks(looks)
    }

    /// Passes at each look.
    pub fn passes(&self) -> &[u32] {
        &self.0
    }

    /// The share of the error rate that a look at `passes` passes may spend: that of the last look which is not after it.
    pub fn share(&self, passes: u32) -> f64 {
        let most = f64::from(self.0[self.0.len() - 1]);
        let spent = |passes: u32| (f64::from(passes) / most).powi(2);
        let at = self.0.iter().rposition(|look| *look <= passes).unwrap_or(0);
        spent(self.0[at]) - if at == 0 { 0.0 } else { spent(self.0[at - 1]) }
    }

    /// The next look after `passes`; none after the last.
    pub fn next(&self, passes: u32) -> Option<u32> {
        self.0.iter().copied().find(|look| *look > passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_double_and_end_at_the_most() {
        assert_eq!(Looks::new(3, 60).passes(), [3, 6, 12, 24, 48, 60]);
        assert_eq!(Looks::new(3, 3).passes(), [3]);
        assert_eq!(Looks::new(3, 1).passes(), [3]);
        assert_eq!(Looks::new(0, 2).passes(), [1, 2]);
        assert_eq!(Looks::new(5, 60).next(5), Some(10));
        assert_eq!(Looks::new(5, 60).next(60), None);
    }

    #[test]
    fn all_looks_together_spend_what_there_is() {
        for (first, most) in [(3, 60), (1, 1), (3, 2), (7, 1000)] {
            let looks = Looks::new(first, most);
            let spent: f64 = looks.passes().iter().map(|passes| looks.share(*passes)).sum();
            assert!((spent - 1.0).abs() < 1e-12, "{first} {most} {spent}");
        }
        // Between two looks the earlier one's share holds, before the first the first's.
        let looks = Looks::new(3, 60);
        assert_eq!(looks.share(5), looks.share(3));
        assert_eq!(looks.share(1), looks.share(3));
        assert_eq!(looks.share(1_000), looks.share(60));
    }
}
