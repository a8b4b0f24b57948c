use std::collections::{BTreeMap, BTreeSet};

use chrono::NaiveDate;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::judge::{Judged, Sides, judge, percent};
use super::measured::{Measured, MeasuredCell, Values};
use super::noise::adjusted;
use super::notes::{notes, versions};
use super::{AcceptedRun, Baseline, Finding, Limit, Looks, NightVerdict, Noise, Verdict, learn_noise};
use crate::manifest::{Metric, Rules};
use crate::plan::CellId;
use crate::stats::Spread;

/// The schema of a comparison in JSON.
pub const NIGHT_SCHEMA: &str = "runner.night/1";

/// What a run says beside its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Night {
    /// Always [`NIGHT_SCHEMA`].
    pub schema: String,
    /// Id of the run.
    pub run_id: String,
    /// Name of the manifest.
    pub manifest: String,
    /// Of the whole run.
    pub verdict: NightVerdict,
    /// Why, in one clause.
    pub why: String,
    /// Runs that the baseline holds.
    pub baseline_runs: u32,
    /// Share of nights that may be red without cause, over all that is judged here.
    pub error_rate: f64,
    /// How many metrics of cells share it.
    pub judged: u32,
    /// Whether the machine moved.
    pub control: Option<ControlFinding>,
    /// Each metric of each cell, the gravest first.
    pub findings: Vec<Finding>,
    /// Findings by verdict.
    pub counts: BTreeMap<Verdict, u32>,
    /// Versions that differ from the last accepted run, by server, as `program before -> now`.
    pub versions: BTreeMap<String, Vec<String>>,
    /// What a reader should know besides.
    pub notes: Vec<String>,
}

/// What the control says of the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ControlFinding {
    /// The control's own rate against the baseline, by the rule for any cell.
    pub finding: Finding,
    /// Whether it moved.
    pub moved: bool,
}

/// Judges a run. `looks` says how often one may have looked at it, none for once; `day` is that of the run, for tolerances that
/// expire.
pub fn judge_night(
    baseline: &Baseline,
    measured: &Measured,
    rules: &Rules,
    looks: Option<&Looks>,
    day: NaiveDate,
) -> Night {
    let bench = Bench { baseline, measured, rules, looks, day };
    let control = bench.control();
    let cells = bench.cells();
    let metrics: Vec<(&CellId, Metric)> =
        cells.iter().flat_map(|cell| rules.metrics.iter().map(move |metric| (*cell, *metric))).collect();
    // Bonferroni, over all that is judged in the night: stricter than the false discovery rate.
    let share = rules.error_rate / metrics.len().max(1) as f64;
    let mut findings: Vec<Finding> =
        metrics.iter().map(|(cell, metric)| bench.finding(cell, *metric, share)).collect();
    findings.sort_by(|a, b| (a.verdict, &a.cell, a.metric).cmp(&(b.verdict, &b.cell, b.metric)));
    let mut counts = BTreeMap::new();
    for finding in &findings {
        *counts.entry(finding.verdict).or_insert(0) += 1;
    }
    let (verdict, why) = whole(control.as_ref(), &findings, &counts);
    Night {
        schema: NIGHT_SCHEMA.to_owned(),
        run_id: measured.run_id.clone(),
        manifest: measured.manifest.clone(),
        verdict,
        why,
        baseline_runs: baseline.run.len() as u32,
        error_rate: rules.error_rate,
        judged: findings.len() as u32,
        control,
        findings,
        counts,
        versions: versions(baseline, measured),
        notes: notes(baseline, measured, rules, day),
    }
}

impl Night {
    /// Cells that should be measured again: those that are undecided and, at the first look, those that regressed: one
    /// bad moment of the machine is no regression.
    pub fn undecided(&self, is_first: bool) -> BTreeSet<CellId> {
        let again = |finding: &&Finding| {
            finding.verdict.wants_more() && (is_first || finding.verdict != Verdict::Regressed)
        };
        self.findings.iter().filter(again).map(|finding| finding.cell.clone()).collect()
    }
}

fn whole(
    control: Option<&ControlFinding>,
    findings: &[Finding],
    counts: &BTreeMap<Verdict, u32>,
) -> (NightVerdict, String) {
    if let Some(control) = control.filter(|control| control.moved) {
        let shift = control.finding.shift.map_or(0.0, |shift| shift.estimate);
        let why = format!(
            "the control {} is at {}{} of its baseline: the machine moved, nothing is said of the servers",
            control.finding.cell,
            if shift > 0.0 { "+" } else { "-" },
            percent(shift.abs())
        );
        return (NightVerdict::HostDrift, why);
    }
    let said = |verdicts: &[Verdict]| -> Option<String> {
        let parts: Vec<String> = verdicts
            .iter()
            .filter_map(|verdict| Some(format!("{} {verdict}", counts.get(verdict)?)))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    };
    if let Some(worst) = findings.iter().find(|finding| finding.verdict == Verdict::Regressed) {
        let why = format!(
            "{}, {} of {} first",
            said(&[Verdict::Regressed]).unwrap_or_default(),
            worst.metric,
            worst.cell
        );
        return (NightVerdict::Red, why);
    }
    if let Some(why) = said(&[Verdict::Void, Verdict::Missing]) {
        return (NightVerdict::Incomplete, why);
    }
    let open: Vec<Verdict> =
        Verdict::ALL.into_iter().filter(|verdict| verdict.exit() == crate::exit::Exit::Undecided).collect();
    if let Some(why) = said(&open) {
        return (NightVerdict::CouldNotTell, why);
    }
    if findings.is_empty() {
        return (NightVerdict::CouldNotTell, "there is nothing to compare".to_owned());
    }
    (NightVerdict::Green, said(&[Verdict::Improved, Verdict::Same]).unwrap_or_default())
}

/// A run on the bench.
struct Bench<'a> {
    baseline: &'a Baseline,
    measured: &'a Measured,
    rules: &'a Rules,
    looks: Option<&'a Looks>,
    day: NaiveDate,
}

impl Bench<'_> {
    /// What is judged: every cell that was measured or should have been, but for the control, which is judged apart.
    fn cells(&self) -> Vec<&CellId> {
        let known = self.baseline.cells();
        let mut cells: BTreeSet<&CellId> = self
            .measured
            .cells
            .iter()
            // What was skipped here and was never accepted is no part of the comparison.
            .filter(|(id, cell)| !cell.metrics.is_empty() || cell.unusable > 0 || known.contains(id))
            .map(|(id, _)| id)
            .collect();
        if !self.measured.narrowed {
            cells.extend(known);
        }
        let control = self.measured.control.as_ref().or(self.baseline.control.as_ref());
        // A control that is the only cell is judged as one: else there would be nothing to say.
        if cells.len() > 1 {
            cells.retain(|cell| Some(*cell) != control);
        }
        cells.into_iter().collect()
    }

    /// The control's own rate, without a control.
    fn control(&self) -> Option<ControlFinding> {
        let cell = self.measured.control.as_ref()?;
        let metric = Metric::Rate;
        let limit = Limit {
            within: self.rules.control_within,
            floor_ns: None,
            source: "`control_within` of the manifest's rules".to_owned(),
        };
        let finding = self.compare(cell, metric, limit, self.rules.error_rate, true);
        let moved = matches!(finding.verdict, Verdict::Regressed | Verdict::Improved);
        Some(ControlFinding { finding, moved })
    }

    fn finding(&self, cell: &CellId, metric: Metric, share: f64) -> Finding {
        let limit = Limit::of(self.rules, cell, metric, self.day);
        self.compare(cell, metric, limit, share, false)
    }

    fn compare(&self, cell: &CellId, metric: Metric, limit: Limit, share: f64, is_control: bool) -> Finding {
        let plain = |verdict, why: String| Finding::plain(cell, metric, limit.clone(), verdict, why);
        let Some(now) = self.measured.cells.get(cell) else {
            return plain(Verdict::Missing, "the baseline has it; the manifest has it no more".to_owned());
        };
        let values = self.measured.values(cell, metric);
        if values.is_none() && now.unusable > 0 {
            return plain(
                Verdict::Void,
                now.trouble.clone().unwrap_or_else(|| "no pass of it may be used".to_owned()),
            );
        }
        if values.is_none() && now.left_out.contains(&metric) {
            return plain(
                Verdict::TooFew,
                "something else ran on the control's cores in each of its passes".to_owned(),
            );
        }
        let known = self.baseline.run.iter().any(|run| run.cells.contains_key(cell));
        if !known {
            let why = now.trouble.clone().filter(|_| values.is_none());
            return plain(Verdict::New, why.unwrap_or_else(|| "the baseline has nothing of it".to_owned()));
        }
        let Some(values) = values else {
            let why = now.trouble.clone().unwrap_or_else(|| format!("the run has no {metric} of it"));
            return plain(Verdict::Missing, why);
        };
        if let Some(bad) = values.values().find(|value| !(value.is_finite() && **value > 0.0)) {
            return plain(Verdict::NotComparable, format!("a {metric} of {bad} has no ratio"));
        }
        let runs = match self.comparable(cell, now, metric) {
            Ok(runs) => runs,
            Err((verdict, why)) => return plain(verdict, why),
        };

        let nothing = Values::new();
        let control = self
            .measured
            .control
            .as_ref()
            .filter(|_| !is_control && self.measured.control.as_ref() != Some(cell));
        let control_now =
            control.and_then(|control| self.measured.values(control, Metric::Rate)).unwrap_or(&nothing);
        let mut noise = self.noise(cell, metric, &runs, control.is_some());
        if control.is_some() && control_now.is_empty() && noise.weight > 0.0 {
            let verdict = match self.measured.disturbed.is_empty() {
                true => Verdict::NotComparable,
                // There may be quiet passes yet.
                false => Verdict::TooFew,
            };
            return plain(verdict, "the control has no value to take the machine's move off".to_owned());
        }
        if control.is_none() {
            noise.weight = 0.0;
        }
        let before: Vec<Vec<f64>> = runs
            .iter()
            .filter_map(|run| run.pair(cell, metric, control))
            .map(|(values, control)| adjusted(metric, &values, &control, noise.weight))
            .filter(|values| !values.is_empty())
            .collect();
        let after = adjusted(metric, values, control_now, noise.weight);
        let pooled = before.concat();
        let all = |run: &&AcceptedRun| {
            run.values(cell, metric).into_iter().flat_map(Values::into_values).collect::<Vec<_>>()
        };
        let baseline = Spread::of(&runs.iter().flat_map(all).collect::<Vec<_>>());
        let passes = values.len() as u32;
        let error_rate = share * self.looks.map_or(1.0, |looks| looks.share(passes));
        let Judged { verdict, why, shift, detectable, more_passes } = judge(&Sides {
            metric,
            before: &pooled,
            runs: before.len() as u32,
            now: &after,
            noise: &noise,
            within: limit.within,
            scale: baseline.map_or(0.0, |baseline| baseline.median),
            floor: limit.floor_ns,
            error_rate,
            most_passes: self.rules.max_passes.max(passes),
        });
        Finding {
            baseline,
            baseline_runs: before.len() as u32,
            now: Spread::of(&values.values().copied().collect::<Vec<_>>()),
            shift,
            noise: Some(noise),
            error_rate,
            detectable,
            more_passes,
            ..plain(verdict, why)
        }
    }

    /// The accepted runs that this one may be compared with.
    fn comparable(
        &self,
        cell: &CellId,
        now: &MeasuredCell,
        metric: Metric,
    ) -> Result<Vec<&AcceptedRun>, (Verdict, String)> {
        let not = |why: String| Err((Verdict::NotComparable, why));
        if self.measured.host_classes.len() > 1 {
            return not("it was measured on hosts of several classes".to_owned());
        }
        match self.measured.host_classes.first() {
            Some(class) if *class != self.baseline.host_class => {
                return not(format!(
                    "measured on a host of class `{class}`, the baseline on `{}`",
                    self.baseline.host_class
                ));
            }
            _ => {}
        }
        let with_cell: Vec<&AcceptedRun> =
            self.baseline.run.iter().filter(|run| run.cells.contains_key(cell)).collect();
        let same_cell: Vec<&AcceptedRun> = with_cell
            .iter()
            .copied()
            .filter(|run| Some(&run.cells[cell].content) == now.content_id.as_ref())
            .collect();
        if same_cell.is_empty() {
            return not("its parameters or settings are others than in every accepted run".to_owned());
        }
        let same_client: Vec<&AcceptedRun> =
            same_cell.iter().copied().filter(|run| run.cells[cell].client == now.client).collect();
        if same_client.is_empty() {
            let was = same_cell.last().map_or("", |run| run.cells[cell].client.as_str());
            return not(format!("its client was `{was}` and is `{}`", now.client));
        }
        let with_metric: Vec<&AcceptedRun> = same_client
            .into_iter()
            .filter(|run| run.values(cell, metric).is_some_and(|values| !values.is_empty()))
            .collect();
        if with_metric.is_empty() {
            return Err((Verdict::New, format!("no accepted run has its {metric}")));
        }
        Ok(with_metric)
    }

    fn noise(&self, cell: &CellId, metric: Metric, runs: &[&AcceptedRun], with_control: bool) -> Noise {
        let calibrated = self.baseline.noise.get(cell).and_then(|metrics| metrics.get(&metric));
        match calibrated {
            // Learned with the control taken off; where it is not, it must be learned without.
            Some(noise) if with_control || noise.weight == 0.0 => noise.clone(),
            _ => {
                let control = self.baseline.control.as_ref().filter(|_| with_control);
                let pairs: Vec<(Values, Values)> =
                    runs.iter().filter_map(|run| run.pair(cell, metric, control)).collect();
                learn_noise(metric, &pairs)
            }
        }
    }
}
