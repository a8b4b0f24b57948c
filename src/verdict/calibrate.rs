use std::collections::BTreeMap;

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::baseline::CalibrationFacts;
use super::{
    AcceptedRun, Baseline, KEPT_RUNS, Measured, NightVerdict, Noise, Values, judge_night, learn_noise,
};
use crate::manifest::{Metric, Rules};
use crate::plan::CellId;

/// What nights of unchanged servers tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibrated {
    /// Nights.
    pub nights: u32,
    /// Passes of a night.
    pub passes: u32,
    /// Nights by verdict, each judged once against the others as its baseline.
    pub verdicts: BTreeMap<String, u32>,
    /// Each metric of each cell.
    pub cells: Vec<CalibratedCell>,
}

/// What nights of unchanged servers tell of one metric of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibratedCell {
    /// Which cell.
    pub cell: CellId,
    /// Which metric.
    pub metric: Metric,
    /// Its noise.
    pub noise: Noise,
    /// The noise that it has when the control is not taken off.
    pub uncontrolled: Noise,
    /// The smallest shift that is found four times out of five by a run that goes on until it is decided.
    pub detectable: f64,
    /// The same without the control.
    pub detectable_uncontrolled: f64,
}

/// Learns the noise of every metric that is judged, keeps it with the newest nights in the baseline, and judges each night
/// against the others: how often a night of unchanged servers is red.
pub fn calibrate(baseline: &mut Baseline, nights: &[Measured], rules: &Rules, day: NaiveDate) -> Calibrated {
    let runs: Vec<AcceptedRun> = nights
        .iter()
        .map(|night| AcceptedRun::of(night, day, &format!("calibration: one of {} nights", nights.len())))
        .collect();
    let control = baseline.control.clone();
    let mut found = Calibrated {
        nights: nights.len() as u32,
        passes: nights.iter().flat_map(|night| night.cells.values()).map(passes_of).max().unwrap_or(0),
        verdicts: BTreeMap::new(),
        cells: Vec::new(),
    };

    for (index, night) in nights.iter().enumerate() {
        let mut others: Vec<AcceptedRun> = runs.clone();
        others.remove(index);
        let mut without = Baseline {
            run: Vec::new(),
            noise: noise_of(&others, control.as_ref(), rules),
            ..baseline.clone()
        };
        without.run = newest(others);
        let verdict = judge_night(&without, night, rules, None, night.started_at.date_naive()).verdict;
        *found.verdicts.entry(verdict.to_string()).or_insert(0) += 1;
    }

    baseline.noise = noise_of(&runs, control.as_ref(), rules);
    let kept = runs.len().min(KEPT_RUNS) as u32;
    let before = f64::from(kept * found.passes);
    let judged = (baseline.noise.len().saturating_sub(1).max(1) * rules.metrics.len().max(1)) as f64;
    for (cell, metrics) in &baseline.noise {
        for (metric, noise) in metrics {
            let uncontrolled = learn_noise(*metric, &pairs(&runs, cell, *metric, None));
            let detectable = |noise: &Noise| {
                noise
                    .of_shift()
                    .detectable(
                        f64::from(kept),
                        before,
                        f64::from(rules.max_passes),
                        rules.error_rate / judged / 2.0,
                        0.8,
                        metric.default_within().ln_1p(),
                    )
                    .exp_m1()
            };
            found.cells.push(CalibratedCell {
                cell: cell.clone(),
                metric: *metric,
                noise: noise.clone(),
                detectable: detectable(noise),
                detectable_uncontrolled: detectable(&uncontrolled),
                uncontrolled,
            });
        }
    }
    let of = |verdict: NightVerdict| found.verdicts.get(&verdict.to_string()).copied().unwrap_or(0);
    baseline.calibration = Some(CalibrationFacts {
        date: day,
        nights: found.nights,
        passes: found.passes,
        red: of(NightVerdict::Red),
        host_drift: of(NightVerdict::HostDrift),
    });
    baseline.run = newest(runs);
    found
}

fn passes_of(cell: &super::MeasuredCell) -> u32 {
    cell.metrics.values().filter_map(|values| values.keys().next_back().copied()).max().unwrap_or(0)
}

fn newest(mut runs: Vec<AcceptedRun>) -> Vec<AcceptedRun> {
    runs.sort_by(|a, b| (a.measured, &a.id).cmp(&(b.measured, &b.id)));
    let surplus = runs.len().saturating_sub(KEPT_RUNS);
    runs.drain(..surplus);
    runs
}

fn noise_of(
    runs: &[AcceptedRun],
    control: Option<&CellId>,
    rules: &Rules,
) -> BTreeMap<CellId, BTreeMap<Metric, Noise>> {
    let mut all: BTreeMap<CellId, BTreeMap<Metric, Noise>> = BTreeMap::new();
    for cell in runs.iter().flat_map(|run| run.cells.keys()) {
        if all.contains_key(cell) {
            continue;
        }
        let beside = control.filter(|control| *control != cell);
        // The control is judged by its rate, whatever is judged of the others.
        let metrics: Vec<Metric> = if beside.is_none() { vec![Metric::Rate] } else { rules.metrics.clone() };
        let learned = metrics
            .into_iter()
            .map(|metric| (metric, learn_noise(metric, &pairs(runs, cell, metric, beside))))
            .filter(|(_, noise)| noise.runs > 0);
        all.insert(cell.clone(), learned.collect());
    }
    all
}

fn pairs(
    runs: &[AcceptedRun],
    cell: &CellId,
    metric: Metric,
    control: Option<&CellId>,
) -> Vec<(Values, Values)> {
    runs.iter().filter_map(|run| run.pair(cell, metric, control)).collect()
}
