use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Noise, Verdict};
use crate::manifest::{Metric, Rules};
use crate::plan::{CellId, Pattern};
use crate::stats::{Differences, Interval, ShiftNoise, Spread, rank_sum_cut, rank_sum_reaches, widened};

/// Fewer passes than this on a side say nothing of its noise.
const FEWEST: usize = 3;
/// The level at which `same` is certain: the two one-sided tests of equivalence at 5 % each (Schuirmann 1987).
const SAME_LEVEL: f64 = 0.90;
/// Of a shift of the smallest detectable size, this share is found.
const POWER: f64 = 0.80;

/// How far a metric of a cell may move, and who says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// Relative.
    pub within: f64,
    /// Absolute, in nanoseconds: a smaller difference counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<f64>,
    /// Where it comes from: the default, or the manifest with its reason.
    pub source: String,
}

impl Limit {
    /// The last tolerance that matches and has not expired on that day, else the default.
    pub(super) fn of(rules: &Rules, cell: &CellId, metric: Metric, day: chrono::NaiveDate) -> Self {
        let mut expired = None;
        for tolerance in rules.tolerances.iter().rev() {
            let matches = tolerance.metric == metric
                && tolerance.cells.parse::<Pattern>().is_ok_and(|pattern| pattern.matches(cell));
            if !matches {
                continue;
            }
            match tolerance.expires {
                Some(expires) if expires < day => {
                    expired.get_or_insert(expires);
                }
                _ => {
                    return Limit {
                        within: tolerance.within,
                        floor_ns: tolerance.floor_ns,
                        source: format!("the manifest, for `{}`: {}", tolerance.cells, tolerance.reason),
                    };
                }
            }
        }
        let source = match expired {
            Some(day) => format!("the default; the manifest's own expired on {day}"),
            None => "the default".to_owned(),
        };
        Limit { within: metric.default_within(), floor_ns: None, source }
    }
}

/// How far a metric moved against its baseline, as ratios less 1: 0.05 is 5 % more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shift {
    /// The estimate (Hodges and Lehmann).
    pub estimate: f64,
    /// Its interval at the error rate of the night; none where there are too few passes for that.
    pub interval: Option<Interval>,
    /// Its interval at 90 %, by which `same` is decided; none where there are too few passes for that.
    pub interval_90: Option<Interval>,
}

/// What is said of one metric of one cell, and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which cell.
    pub cell: CellId,
    /// Which metric.
    pub metric: Metric,
    /// The verdict.
    pub verdict: Verdict,
    /// Why, in one clause.
    pub why: String,
    /// The baseline's values: median and range of all passes, in the metric's unit.
    pub baseline: Option<Spread>,
    /// Runs that they are from.
    pub baseline_runs: u32,
    /// This run's values.
    pub now: Option<Spread>,
    /// How far it moved.
    pub shift: Option<Shift>,
    /// How far it may move.
    pub limit: Limit,
    /// What is known of its noise.
    pub noise: Option<Noise>,
    /// Two-sided error rate of [`Shift::interval`].
    pub error_rate: f64,
    /// The smallest shift that is found four times out of five, with the passes that a run may take.
    pub detectable: Option<f64>,
    /// How many more passes would decide it, as far as that can be told; none where no number would.
    pub more_passes: Option<u32>,
}

impl Finding {
    pub(super) fn plain(cell: &CellId, metric: Metric, limit: Limit, verdict: Verdict, why: String) -> Self {
        Finding {
            cell: cell.clone(),
            metric,
            verdict,
            why,
            baseline: None,
            baseline_runs: 0,
            now: None,
            shift: None,
            limit,
            noise: None,
            error_rate: 0.0,
            detectable: None,
            more_passes: None,
        }
    }
}

/// Logarithms to compare, with what is known of them. The control is taken off already.
pub(super) struct Sides<'a> {
    pub(super) metric: Metric,
    pub(super) before: &'a [f64],
    pub(super) runs: u32,
    pub(super) now: &'a [f64],
    pub(super) noise: &'a Noise,
    pub(super) within: f64,
    /// What a shift of 1, of logarithms, is absolutely.
    pub(super) scale: f64,
    pub(super) floor: Option<f64>,
    pub(super) error_rate: f64,
    pub(super) most_passes: u32,
}

/// What comes of comparing two sides.
pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) why: String,
    pub(super) shift: Option<Shift>,
    pub(super) detectable: Option<f64>,
    pub(super) more_passes: Option<u32>,
}

/// The rule: `regressed` where the interval at the night's error rate lies wholly on the worse side and the estimate beyond the
/// tolerance, `improved` likewise, `same` where the interval at 90 % lies wholly within the tolerance, else undecided.
///
/// The interval is the distribution-free one of the Hodges-Lehmann shift over passes (it holds for two modes as well as
/// for one), widened on both sides by what runs of unchanged servers differ: that error does not shrink with passes.
pub(super) fn judge(sides: &Sides<'_>) -> Judged {
    let (n, m) = (sides.before.len(), sides.now.len());
    let mut judged = Judged {
        verdict: Verdict::TooFew,
        why: String::new(),
        shift: None,
        detectable: None,
        more_passes: None,
    };
    if n < FEWEST || m < FEWEST {
        judged.why = format!("{m} usable passes against {n}; {FEWEST} are the fewest on a side");
        judged.more_passes = (n >= FEWEST).then(|| (FEWEST - m.min(FEWEST)) as u32);
        return judged;
    }
    let differences = Differences::new(sides.before, sides.now);
    let Some(estimate) = differences.middle() else { return judged };
    let interval = |level: f64| {
        let cut = rank_sum_cut(n, m, level)?;
        let room = sides.noise.between_room((1.0 - level) / 2.0, sides.runs);
        Some(widened(estimate, differences.interval(cut)?, &[room]))
    };
    let (red, same) = (interval(1.0 - sides.error_rate), interval(SAME_LEVEL));
    judged.shift =
        Some(Shift { estimate: estimate.exp_m1(), interval: red.map(ratio), interval_90: same.map(ratio) });
    judged.detectable = Some(sides.detectable(f64::from(sides.most_passes.max(m as u32))));

    // Of logarithms, as far down as up: turned round, now and then have the same verdict.
    let tolerance = sides.within.ln_1p();
    let counts = |shift: f64| sides.floor.is_none_or(|floor| (shift.exp_m1() * sides.scale).abs() > floor);
    let beyond = estimate.abs() > tolerance && counts(estimate);
    let off_zero = red.is_some_and(|red| red.low > 0.0 || red.high < 0.0);
    let within = |end: f64| end.abs() < tolerance || !counts(end);
    if beyond && off_zero {
        let better = (estimate > 0.0) == sides.metric.more_is_better();
        judged.verdict = if better { Verdict::Improved } else { Verdict::Regressed };
        judged.why = format!("beyond {} and surely off zero", percent(sides.within));
    } else if same.is_some_and(|same| within(same.low) && within(same.high)) {
        judged.verdict = Verdict::Same;
        judged.why = format!("surely within {}", percent(sides.within));
    } else {
        judged.more_passes = sides.more_passes(estimate, tolerance);
        let most = f64::from(sides.most_passes.max(m as u32));
        // What is left of the interval when passes are as many as they may be.
        let best = 1.645 * sides.noise.of_shift().standard_error(f64::from(sides.runs), n as f64, most);
        if judged.more_passes.is_none() && best >= tolerance {
            judged.verdict = Verdict::Noisy;
            judged.why = format!(
                "its noise is larger than its tolerance of {}: less than {} cannot be detected",
                percent(sides.within),
                judged.detectable.map_or_else(String::new, percent)
            );
        } else {
            judged.verdict = Verdict::Inconclusive;
            judged.why = match judged.more_passes {
                Some(more) => format!("needs about {more} more passes"),
                None => format!("{} passes would not decide it", sides.most_passes),
            };
        }
    }
    judged
}

impl Sides<'_> {
    fn detectable(&self, passes: f64) -> f64 {
        let noise = self.noise.of_shift();
        let before = self.before.len() as f64;
        noise
            .detectable(
                f64::from(self.runs),
                before,
                passes,
                self.error_rate / 2.0,
                POWER,
                self.within.ln_1p(),
            )
            .exp_m1()
    }

    /// Passes until the interval leaves zero or fits into the tolerance, if the estimate stays where it is.
    fn more_passes(&self, estimate: f64, tolerance: f64) -> Option<u32> {
        let now = self.now.len() as u32;
        let error = |passes: u32| {
            let before = self.before.len() as f64;
            let noise = ShiftNoise { between: 0.0, ..self.noise.of_shift() };
            noise.standard_error(f64::from(self.runs), before, f64::from(passes))
        };
        // Of the interval at a level, the half of which more passes take nothing off, and the whole by passes.
        let half = |level: f64| {
            let tail = (1.0 - level) / 2.0;
            let (z, room) = (-crate::stats::normal_quantile(tail), self.noise.between_room(tail, self.runs));
            move |passes: u32| (z * error(passes)).hypot(room)
        };
        let level = 1.0 - self.error_rate;
        let (red, same) = (half(level), half(SAME_LEVEL));
        let enough = |passes: u32| {
            rank_sum_reaches(self.before.len(), passes as usize, level)
                && if estimate.abs() > tolerance {
                    red(passes) < estimate.abs()
                } else {
                    same(passes) < tolerance - estimate.abs()
                }
        };
        (now + 1..=self.most_passes).find(|passes| enough(*passes)).map(|passes| passes - now)
    }
}

fn ratio(interval: Interval) -> Interval {
    Interval { low: interval.low.exp_m1(), high: interval.high.exp_m1() }
}

/// `5 %`, `2.5 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent.fract().abs() < 0.05 || percent >= 9.95 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(within: f64, between: f64) -> Noise {
        Noise { within, between, weight: 0.0, raw: within, runs: 30 }
    }

    fn judged(metric: Metric, before: &[f64], now: &[f64], noise: &Noise) -> Judged {
        judge(&Sides {
            metric,
            before,
            runs: 10,
            now,
            noise,
            within: 0.05,
            scale: 1.0,
            floor: None,
            error_rate: 0.001,
            most_passes: 60,
        })
    }

    /// `n` values evenly spread over `width` around `centre`.
    fn around(centre: f64, width: f64, n: u32) -> Vec<f64> {
        (0..n).map(|index| centre + width * (f64::from(index) / f64::from(n - 1) - 0.5)).collect()
    }

    #[test]
    fn each_verdict_has_its_case() {
        let (quiet, before) = (noise(0.01, 0.002), around(10.0, 0.02, 40));
        let of = |shift: f64, n: u32| {
            judged(Metric::Rate, &before, &around(10.0 + shift, 0.02, n), &quiet).verdict
        };
        assert_eq!(of(0.0, 12), Verdict::Same);
        assert_eq!(of(-0.10, 12), Verdict::Regressed);
        assert_eq!(of(0.10, 12), Verdict::Improved);
        // Surely slower, but by less than the tolerance: a change that nobody asked to be told of.
        assert_eq!(of(-0.03, 30), Verdict::Same);
        assert_eq!(of(0.0, 2), Verdict::TooFew);
        // Three passes cannot be as sure as one error in a thousand asks.
        let few = judged(Metric::Rate, &before[..12], &around(9.9, 0.02, 3), &quiet);
        assert_eq!(few.verdict, Verdict::Inconclusive);
        assert!(few.more_passes.is_some_and(|more| more < 20), "{:?}", few.more_passes);
        let loud = judged(Metric::Rate, &around(10.0, 0.5, 40), &around(10.0, 0.5, 12), &noise(0.15, 0.10));
        assert_eq!((loud.verdict, loud.more_passes), (Verdict::Noisy, None));
        assert!(loud.detectable.is_some_and(|least| least > 0.05) && loud.why.contains("cannot be detected"));
    }

    #[test]
    fn of_a_latency_more_is_worse() {
        let (quiet, before) = (noise(0.01, 0.002), around(10.0, 0.02, 40));
        assert_eq!(judged(Metric::P99, &before, &around(10.1, 0.02, 12), &quiet).verdict, Verdict::Regressed);
        assert_eq!(judged(Metric::P99, &before, &around(9.9, 0.02, 12), &quiet).verdict, Verdict::Improved);
    }

    #[test]
    fn more_passes_do_not_hide_what_runs_differ_by() {
        let between = noise(0.001, 0.05);
        let (before, now) = (around(10.0, 0.002, 200), around(9.9, 0.002, 200));
        assert_ne!(judged(Metric::Rate, &before, &now, &between).verdict, Verdict::Regressed);
    }

    proptest! {
        #[test]
        fn turned_round_a_regression_is_an_improvement(
            before in prop::collection::vec(9.0..11.0f64, 5..30), now in prop::collection::vec(9.0..11.0f64, 5..30),
        ) {
            let noise = noise(0.05, 0.0);
            let (forth, back) = (judged(Metric::Rate, &before, &now, &noise), judged(Metric::Rate, &now, &before, &noise));
            let turned = match back.verdict {
                Verdict::Regressed => Verdict::Improved,
                Verdict::Improved => Verdict::Regressed,
                other => other,
            };
            // How many passes are still missing counts those of now, which are others when turned round.
            let decided = |verdict| matches!(verdict, Verdict::Regressed | Verdict::Improved | Verdict::Same);
            prop_assert!(forth.verdict == turned || !decided(forth.verdict) && !decided(turned), "{:?} {turned:?}", forth.verdict);
        }

        #[test]
        fn a_larger_slowdown_is_never_less_clear(
            values in prop::collection::vec(9.0..11.0f64, 10..40), by in 0.0..3.0f64, more in 0.0..3.0f64,
        ) {
            let (before, now) = values.split_at(values.len() / 2);
            let at = |by: f64| {
                let slower: Vec<f64> = now.iter().map(|value| value - by).collect();
                judged(Metric::Rate, before, &slower, &noise(0.05, 0.01)).verdict
            };
            prop_assert!(at(by) != Verdict::Regressed || at(by + more) == Verdict::Regressed);
        }

        #[test]
        fn the_unit_does_not_matter(
            values in prop::collection::vec(9.0..11.0f64, 10..40), unit in -20.0..20.0f64,
        ) {
            let (before, now) = values.split_at(values.len() / 2);
            let moved = |values: &[f64]| values.iter().map(|value| value + unit).collect::<Vec<f64>>();
            let noise = noise(0.05, 0.01);
            let (a, b) = (
                judged(Metric::Rate, before, now, &noise),
                judged(Metric::Rate, &moved(before), &moved(now), &noise),
            );
            prop_assert!((a.shift.unwrap().estimate - b.shift.unwrap().estimate).abs() < 1e-6);
        }
    }
}
