use std::time::Duration;

use super::{Plan, Rates, estimate};
use crate::manifest::Manifest;
use crate::workload::{Extent, Params};

/// What a trial keeps at least, however small the budget: below these a rate says little.
const TRIAL_FLOOR_S: f64 = 0.05;
const TRIAL_FLOOR_ROUNDS: u64 = 1_000;
/// What a warm-up keeps at least, where it had that much.
const WARMUP_FLOOR_S: f64 = 0.02;
const WARMUP_FLOOR_ROUNDS: u64 = 500;

/// How a plan was made to fit into a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The time that was asked for.
    pub budget: Duration,
    /// The estimate of the whole run before.
    pub before: Duration,
    /// The estimate of the whole run after.
    pub after: Duration,
    /// By how much counts and times were multiplied, at most 1.
    pub factor: f64,
    /// Workloads of which a count or time stands at its floor.
    pub at_floor: Vec<String>,
    /// Workloads whose counts became times, since it is not known how long a count takes here.
    pub timed: Vec<String>,
}

impl Fit {
    /// Whether the run fits.
    pub fn fits(&self) -> bool {
        self.after <= self.budget
    }

    /// Whether anything was changed.
    pub fn scaled(&self) -> bool {
        self.factor < 1.0
    }
}

/// Scales the counts and times of every planned workload by one factor, so that the run fits into a budget. No cell
/// and no trial is dropped, and nothing is scaled up; what would fall below its floor stays there, and the others
/// then give up more. Where even the floors do not fit, the plan stands at its floors and [`Fit::fits`] is false.
///
/// A count takes as long as the cell's rate makes it. Where a cell of a workload was never measured on this host, its counts
/// become times: a budget is kept whatever the rates turn out to be.
///
/// The manifest is changed; records therefore hold the counts that were really used.
pub fn fit(manifest: &mut Manifest, plan: &Plan, passes: u32, budget: Duration, rates: &dyn Rates) -> Fit {
    let asked: Vec<Params> = manifest.workloads.iter().map(|workload| workload.params.clone()).collect();
    let before = estimate_all(plan, &asked, rates).saturating_mul(passes);
    let timed = if before > budget { unknown_counts(plan, &asked, rates) } else { Vec::new() };
    let mut original = asked;
    for workload in &timed {
        original[*workload] = in_time(plan, *workload, &original[*workload], rates);
    }
    let total = |factor: f64| {
        let params: Vec<Params> = original.iter().map(|params| scaled(params, factor)).collect();
        estimate_all(plan, &params, rates).saturating_mul(passes)
    };
    let factor = if before <= budget { 1.0 } else { largest_that_fits(|factor| total(factor) <= budget) };

    let mut at_floor = Vec::new();
    for (workload, original) in manifest.workloads.iter_mut().zip(&original) {
        workload.params = scaled(original, factor);
        let cut = |extent: Extent, from: Extent| factor < 1.0 && units(extent) > units(from) * factor + 1.0;
        if cut(workload.params.trial, original.trial) || cut(workload.params.warmup, original.warmup) {
            at_floor.push(workload.name.clone());
        }
    }
    at_floor.retain(|name| plan.cells.iter().any(|planned| planned.id.workload == *name));
    let timed = timed.into_iter().map(|workload| manifest.workloads[workload].name.clone()).collect();
    Fit { budget, before, after: total(factor), factor, at_floor, timed }
}

fn estimate_all(plan: &Plan, params: &[Params], rates: &dyn Rates) -> Duration {
    plan.cells
        .iter()
        .map(|planned| estimate(&planned.id, &params[planned.workload], rates))
        .fold(Duration::ZERO, Duration::saturating_add)
}

/// Workloads by count with a cell whose rate on this host is not known.
fn unknown_counts(plan: &Plan, params: &[Params], rates: &dyn Rates) -> Vec<usize> {
    let counts = |extent| matches!(extent, Extent::Rounds(1..));
    let mut unknown: Vec<usize> = plan
        .cells
        .iter()
        .filter(|planned| {
            let params = &params[planned.workload];
            (counts(params.trial) || counts(params.warmup)) && rates.rate(&planned.id, params).is_none()
        })
        .map(|planned| planned.workload)
        .collect();
    unknown.sort_unstable();
    unknown.dedup();
    unknown
}

/// A workload with times in place of counts: what they are expected to take, on average over its cells.
fn in_time(plan: &Plan, workload: usize, params: &Params, rates: &dyn Rates) -> Params {
    let cells: Vec<_> = plan.cells.iter().filter(|planned| planned.workload == workload).collect();
    let time = |extent: Extent| match extent {
        Extent::Rounds(1..) => {
            let alone = Params { warmup: extent, trial: Extent::Rounds(0), trials: 0, ..params.clone() };
            let nothing = Params { warmup: Extent::Rounds(0), ..alone.clone() };
            let all: Duration = cells
                .iter()
                .map(|cell| {
                    estimate(&cell.id, &alone, rates).saturating_sub(estimate(&cell.id, &nothing, rates))
                })
                .fold(Duration::ZERO, Duration::saturating_add);
            let mean_ms = all.as_millis() / cells.len().max(1) as u128;
            Extent::DurationNs(u64::try_from(mean_ms.max(1)).unwrap_or(u64::MAX / 1_000_000) * 1_000_000)
        }
        as_it_is => as_it_is,
    };
    Params { warmup: time(params.warmup), trial: time(params.trial), ..params.clone() }
}

/// The largest factor in 0 to 1 that passes, to a thousandth of itself; 0 where none does. The estimate grows with the
/// factor, so halving the interval finds it.
fn largest_that_fits(fits: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

fn units(extent: Extent) -> f64 {
    match extent {
        Extent::Rounds(rounds) => rounds as f64,
        Extent::DurationNs(ns) => ns as f64,
    }
}

fn scaled(params: &Params, factor: f64) -> Params {
    Params {
        trial: scale(params.trial, factor, TRIAL_FLOOR_ROUNDS, TRIAL_FLOOR_S),
        warmup: scale(params.warmup, factor, WARMUP_FLOOR_ROUNDS, WARMUP_FLOOR_S),
        ..params.clone()
    }
}

/// A count or time times a factor, not below its floor, and never above what it was.
fn scale(extent: Extent, factor: f64, floor_rounds: u64, floor_s: f64) -> Extent {
    if factor >= 1.0 {
        return extent;
    }
    match extent {
        Extent::Rounds(rounds) => {
            Extent::Rounds(((rounds as f64 * factor) as u64).max(floor_rounds).min(rounds))
        }
        Extent::DurationNs(ns) => {
            Extent::DurationNs(((ns as f64 * factor) as u64).max((floor_s * 1e9) as u64).min(ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::manifest::tests::load_text;
    use crate::plan::{CellId, NoRates, Selection, estimate_pass, expand, nominal_rate};

    /// Every cell was measured, at its nominal rate.
    struct Measured;

    impl Rates for Measured {
        fn rate(&self, cell: &CellId, params: &Params) -> Option<f64> {
            Some(nominal_rate(cell, params))
        }
    }

    fn manifest() -> Manifest {
        load_text(
            "[workloads.pingpong-16]\nkind = \"pingpong\"\nrounds = 100_000\nwarmup = 50_000\n\
             [workloads.load]\nkind = \"load\"\nduration = \"5s\"\nwarmup = \"1s\"\n\
             [workloads.short]\nkind = \"load\"\nduration = \"60ms\"\nwarmup = 0\n\
             [[matrix]]\nworkloads = [\"*\"]\nservers = [\"relay\", \"ws@node-24\"]\n",
        )
        .unwrap()
    }

    fn fitted(budget_s: f64) -> (Manifest, Fit) {
        let mut manifest = manifest();
        let plan = expand(&manifest, &Selection::default());
        let fit = fit(&mut manifest, &plan, 3, Duration::from_secs_f64(budget_s), &Measured);
        assert_eq!(fit.after, estimate_pass(&manifest, &plan, &Measured) * 3);
        (manifest, fit)
    }

    #[test]
    fn a_budget_that_suffices_changes_nothing() {
        let (after, fit) = fitted(10_000.0);
        assert_eq!(after.workloads, manifest().workloads);
        assert!(fit.fits() && !fit.scaled() && fit.at_floor.is_empty());
        assert_eq!(fit.before, fit.after);
    }

    #[test]
    fn a_small_budget_is_used_up() {
        let (after, fit) = fitted(60.0);
        assert!(fit.fits() && fit.scaled(), "{fit:?}");
        assert!(fit.after > Duration::from_secs(59), "{fit:?}");
        assert_eq!(after.workloads[0].params.trials, 5, "trials are not dropped");
        let (Extent::Rounds(rounds), Extent::DurationNs(ns)) =
            (after.workloads[0].params.trial, after.workloads[1].params.trial)
        else {
            panic!("counts stay counts and times stay times");
        };
        // One factor for all: the proportion of the two is kept.
        assert!((rounds as f64 / 100_000.0 - ns as f64 / 5e9).abs() < 1e-4, "{rounds} {ns}");
        assert_eq!(fit.at_floor, ["short"]);
        assert_eq!(after.workloads[2].params.trial, Extent::DurationNs(50_000_000));
    }

    #[test]
    fn a_budget_below_the_floors_is_said() {
        let (after, fit) = fitted(0.5);
        assert!(!fit.fits());
        assert_eq!(fit.at_floor, ["pingpong-16", "load", "short"]);
        assert_eq!(after.workloads[0].params.trial, Extent::Rounds(TRIAL_FLOOR_ROUNDS));
        assert_eq!(after.workloads[0].params.warmup, Extent::Rounds(WARMUP_FLOOR_ROUNDS));
        assert_eq!(after.workloads[2].params.warmup, Extent::Rounds(0), "no warm-up stays none");
    }

    #[test]
    fn counts_of_unknown_rates_become_times_where_a_budget_must_be_kept() {
        let mut manifest = manifest();
        let plan = expand(&manifest, &Selection::default());
        let fit = fit(&mut manifest, &plan, 3, Duration::from_secs(60), &NoRates);
        assert_eq!(fit.timed, ["pingpong-16"]);
        let params = &manifest.workloads[0].params;
        let (Extent::DurationNs(trial), Extent::DurationNs(warmup)) = (params.trial, params.warmup) else {
            panic!("{params:?}");
        };
        assert!((trial as f64 / warmup as f64 - 2.0).abs() < 0.05, "{trial} {warmup}");
        assert!(fit.fits() && fit.after > Duration::from_secs(59), "{fit:?}");
    }

    proptest! {
        #[test]
        fn nothing_grows_and_what_fits_fits(budget_s in 0.0f64..400.0) {
            let (after, fit) = fitted(budget_s);
            for (after, before) in after.workloads.iter().zip(manifest().workloads) {
                prop_assert!(units(after.params.trial) <= units(before.params.trial));
                prop_assert!(units(after.params.warmup) <= units(before.params.warmup));
                prop_assert!(units(after.params.trial) > 0.0);
            }
            prop_assert!(fit.fits() || fit.factor < 1e-6);
            prop_assert!(fit.after <= fit.before);
        }
    }
}
