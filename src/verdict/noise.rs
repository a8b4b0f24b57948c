use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::Values;
use crate::manifest::Metric;
use crate::stats::{ShiftNoise, mean, moderated, student_quantile, variance_components};

/// What is known of the noise of a metric of a cell, of logarithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noise {
    /// Standard deviation from pass to pass within a run.
    pub within: f64,
    /// Standard deviation of the true values of runs of unchanged servers.
    pub between: f64,
    /// How much of the control's move in the same pass is taken off: 0 none, 1 all (a plain ratio to the control).
    pub weight: f64,
    /// Standard deviation of a pass without the control, and with it as it is taken: what the control is worth.
    pub raw: f64,
    /// Runs that it was learned from.
    pub runs: u32,
}

/// What is taken for granted before anything is known, and how many values it counts for.
///
/// Within a run: passes of ten fresh servers differed by 7 % (rates) and tails by twice as much (docs/METHODOLOGY.md). Between
/// runs: of the size of the smallest change that anyone looks for.
const PRIOR_WITHIN: f64 = 0.07;
const PRIOR_WITHIN_FREEDOM: f64 = 2.0;
const PRIOR_BETWEEN: f64 = 0.03;
const PRIOR_BETWEEN_FREEDOM: f64 = 1.0;
/// The prior's degrees of freedom where the error of `between` is weighed: it is held to be too large rather than too small.
const PRIOR_TRUST: f64 = 8.0;

impl Noise {
    /// Before anything is known.
    pub fn unknown(metric: Metric) -> Self {
        let (within, between) = prior(metric);
        Noise { within, between, weight: 1.0, raw: within, runs: 0 }
    }

    /// The error of the difference between a run and `runs` accepted ones that a one-sided level `tail` allows for, of
    /// runs alone: however many passes there are, it does not get smaller.
    pub fn between_room(&self, tail: f64, runs: u32) -> f64 {
        let freedom = f64::from(self.runs.saturating_sub(1)) + PRIOR_TRUST;
        let quantile = student_quantile(1.0 - tail, freedom).unwrap_or(f64::INFINITY);
        quantile * self.between * (1.0 + 1.0 / f64::from(runs.max(1))).sqrt()
    }

    /// For standard errors of a shift.
    pub fn of_shift(&self) -> ShiftNoise {
        ShiftNoise { within: self.within, between: self.between }
    }

    pub(super) fn inline(&self) -> String {
        format!(
            "{{ within = {:.4}, between = {:.4}, weight = {:.2}, raw = {:.4}, runs = {} }}",
            self.within, self.between, self.weight, self.raw, self.runs
        )
    }
}

fn prior(metric: Metric) -> (f64, f64) {
    match metric {
        Metric::P99 => (2.0 * PRIOR_WITHIN, 2.0 * PRIOR_BETWEEN),
        Metric::Rate | Metric::P50 | Metric::ServerCpu => (PRIOR_WITHIN, PRIOR_BETWEEN),
    }
}

/// The logarithms of a run's values, with `weight` times the control's move taken off in each pass. A pass in which the
/// control has no value is left out, but where nothing of it is taken off.
pub(super) fn adjusted(metric: Metric, values: &Values, control: &Values, weight: f64) -> Vec<f64> {
    let sign = if metric.more_is_better() { 1.0 } else { -1.0 };
    values
        .iter()
        .filter_map(|(pass, value)| match (weight, control.get(pass)) {
            (0.0, _) => Some(value.ln()),
            (_, Some(control)) => Some(value.ln() - sign * weight * control.ln()),
            (_, None) => None,
        })
        .filter(|value| value.is_finite())
        .collect()
}

/// What some runs of unchanged servers tell of the noise of a metric of a cell: its values and the control's rate by pass.
///
/// The weight of the control is that with which the shift of a run of as many passes as these had has the smallest standard error (a
/// control variate, Lavenberg and Welch 1981, over both components of variance: what differs between runs does not shrink with
/// passes, and of more passes than were seen it would be guesswork). Until there are ten passes to tell it from, it is 1, a plain ratio. The variances are the components of what is left (Searle, Casella and
/// McCulloch 1992), each drawn towards what is usual (Smyth 2004).
pub fn learn_noise(metric: Metric, runs: &[(Values, Values)]) -> Noise {
    let found = |weight: f64| components(metric, runs, weight);
    let pairs: usize = runs
        .iter()
        .map(|(values, control)| values.keys().filter(|pass| control.contains_key(pass)).count())
        .sum();
    let weight = match pairs {
        0 => 0.0,
        _ if pairs < FEWEST_PAIRS => 1.0,
        _ => (0..=WEIGHTS)
            .map(|step| f64::from(step) / f64::from(WEIGHTS))
            .min_by(|a, b| {
                error_of(found(*a), runs.len(), pairs).total_cmp(&error_of(found(*b), runs.len(), pairs))
            })
            .unwrap_or(1.0),
    };
    let noise = found(weight);
    Noise {
        within: noise.within,
        between: noise.between,
        weight,
        raw: deviation(&all(metric, runs)).unwrap_or(prior(metric).0),
        runs: runs.len() as u32,
    }
}

/// Fewer passes than this do not tell what the control is worth.
const FEWEST_PAIRS: usize = 10;
/// Steps in which the weight is looked for.
const WEIGHTS: u32 = 20;

fn error_of(noise: ShiftNoise, runs: usize, passes: usize) -> f64 {
    let (runs, passes) = (runs.max(1) as f64, passes.max(1) as f64);
    noise.standard_error(runs, passes, passes / runs)
}

/// The components of variance with so much of the control taken off.
fn components(metric: Metric, runs: &[(Values, Values)], weight: f64) -> ShiftNoise {
    let groups: Vec<Vec<f64>> =
        runs.iter().map(|(values, control)| adjusted(metric, values, control, weight)).collect();
    let (own_within, within_freedom, own_between, between_freedom) = match variance_components(&groups) {
        Some(found) => (found.within, found.within_freedom, found.between, found.between_freedom),
        None => {
            let largest = groups.iter().max_by_key(|group| group.len());
            let own = largest.and_then(|group| deviation(group));
            let freedom = largest.map_or(0, |group| group.len().saturating_sub(1)) as f64;
            (own.unwrap_or(0.0).powi(2), freedom, 0.0, 0.0)
        }
    };
    let (within, between) = prior(metric);
    let drawn = |own: f64, freedom: f64, prior: f64, prior_freedom: f64| {
        moderated(own, freedom, prior.powi(2), prior_freedom).0.sqrt()
    };
    ShiftNoise {
        within: drawn(own_within, within_freedom, within, PRIOR_WITHIN_FREEDOM),
        between: drawn(own_between, between_freedom, between, PRIOR_BETWEEN_FREEDOM),
    }
}

fn all(metric: Metric, runs: &[(Values, Values)]) -> Vec<f64> {
    runs.iter().flat_map(|(values, control)| adjusted(metric, values, control, 0.0)).collect()
}

fn deviation(values: &[f64]) -> Option<f64> {
    let centre = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::verdict::simulate::normal;

    /// Runs in which the machine's own pace differs by `host` from pass to pass and shows by `share` in the cell.
    fn runs(n: u32, passes: u32, host: f64, share: f64, own: f64, between: f64) -> Vec<(Values, Values)> {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        (0..n)
            .map(|_| {
                let run = between * normal(&mut random);
                let (mut values, mut control) = (Values::new(), Values::new());
                for pass in 1..=passes {
                    let pace = host * normal(&mut random);
                    values.insert(pass, (10.0 + run + share * pace + own * normal(&mut random)).exp());
                    control.insert(pass, (10.3 + pace).exp());
                }
                (values, control)
            })
            .collect()
    }

    #[test]
    fn before_anything_is_known_the_plain_ratio_and_the_usual_noise_hold() {
        let noise = learn_noise(Metric::Rate, &[]);
        assert_eq!((noise.within, noise.between, noise.runs), (PRIOR_WITHIN, PRIOR_BETWEEN, 0));
        let alone = Values::from([(1, 2.0), (2, 2.1)]);
        assert_eq!(learn_noise(Metric::Rate, &[(alone, Values::new())]).weight, 0.0);
    }

    #[test]
    fn the_control_counts_as_much_as_it_explains() {
        let shared = learn_noise(Metric::Rate, &runs(40, 3, 0.10, 1.0, 0.01, 0.0));
        assert!(shared.weight > 0.8 && shared.within < 0.03 && shared.raw > 0.08, "{shared:?}");
        // A weight that is there for the machine's moves is not there where the cell does not share them.
        let apart = learn_noise(Metric::Rate, &runs(40, 3, 0.10, 0.0, 0.05, 0.0));
        assert!(apart.weight < 0.25 && apart.within < 0.06, "{apart:?}");
        // Of a latency, a faster machine takes off.
        let latency: Vec<(Values, Values)> = runs(40, 3, 0.10, 1.0, 0.01, 0.0)
            .into_iter()
            .map(|(values, control)| {
                (values.into_iter().map(|(pass, value)| (pass, 1e9 / value)).collect(), control)
            })
            .collect();
        assert!(learn_noise(Metric::P50, &latency).weight > 0.8);
    }

    #[test]
    fn what_differs_between_runs_is_told_from_what_differs_within() {
        let noise = learn_noise(Metric::Rate, &runs(60, 4, 0.0, 0.0, 0.03, 0.06));
        assert!(
            (noise.within / 0.03 - 1.0).abs() < 0.15 && (noise.between / 0.06 - 1.0).abs() < 0.25,
            "{noise:?}"
        );
        assert!(noise.between_room(0.025, 60) > 1.96 * noise.between);
    }
}
