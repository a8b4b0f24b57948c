use std::str::FromStr;

use chrono::NaiveDate;

use super::at::At;
use super::load::Loader;
use super::problem::{Place, Problem};
use super::quantity::{TIME_UNITS, parse_time_ns};
use super::wire::{JudgeTable, ToleranceTable};
use super::workloads::MAX_REPEATS;
use super::{Metric, Rules, Tolerance};
use crate::plan::Pattern;

/// Rules of judgement: what may move by how much, and how sure a red night must be.
impl Loader<'_> {
    /// `[judge]` with its defaults, without tolerances.
    pub(super) fn judge(&mut self) -> Rules {
        let mut rules = Rules::default();
        if let Some((place, metrics)) = self.judge_setting(|judge| judge.metrics.as_ref()) {
            rules.metrics = metrics;
            rules.metrics.sort();
            rules.metrics.dedup();
            if rules.metrics.is_empty() {
                self.problems.push(
                    Problem::at(place, "an empty list of metrics", "no metric")
                        .hint("a night in which nothing is judged is always green; name at least `rate`"),
                );
            }
        }
        if let Some((place, rate)) = self.judge_setting(|judge| judge.error_rate.as_ref()) {
            rules.error_rate = rate;
            if !(rate > 0.0 && rate <= 0.5) {
                self.problems.push(
                    Problem::at(place, format!("`error_rate` is {rate}"), "above 0, at most 0.5")
                        .hint("the share of nights that may be red without cause: `error_rate = 0.01`"),
                );
            }
        }
        if let Some((place, passes)) = self.judge_setting(|judge| judge.max_passes.as_ref()) {
            rules.max_passes = passes.min(MAX_REPEATS) as u32;
            if passes == 0 || passes > MAX_REPEATS {
                self.problems.push(
                    Problem::at(
                        place,
                        format!("`max_passes` is {passes}"),
                        format!("from 1 to {MAX_REPEATS}"),
                    )
                    .hint("how often a cell is measured until it is decided"),
                );
            }
        }
        if let Some((place, within)) = self.judge_setting(|judge| judge.control_within.as_ref()) {
            rules.control_within = within;
            self.check_within("control_within", within, place);
        }
        rules
    }

    fn judge_setting<T: Clone>(&self, get: impl Fn(&JudgeTable) -> Option<&At<T>>) -> Option<(Place, T)> {
        self.setting(|file| get(file.wire.judge.as_ref()?)).map(|(place, at)| (place, at.value.clone()))
    }

    fn check_within(&mut self, key: &str, within: f64, place: Place) {
        if !(within.is_finite() && within > 0.0 && within <= 10.0) {
            self.problems.push(
                Problem::at(place, format!("`{key}` is {within}"), "above 0, at most 10")
                    .hint(format!("it is relative: `{key} = 0.10` is 10 %")),
            );
        }
    }

    /// One tolerance, with its pattern and where that stands.
    pub(super) fn tolerance(
        &mut self,
        file: usize,
        table: &At<ToleranceTable>,
    ) -> Option<(Tolerance, Pattern, Place)> {
        let before = self.problems.len();
        let here = Place::new(file, &table.span);
        let ToleranceTable { cells, metric, within, floor, reason, expires } = &table.value;
        let mut missing = |key: &str, hint: &str| {
            self.problems.push(
                Problem::at(here.clone(), format!("a tolerance without `{key}`"), "this one").hint(hint),
            );
        };
        if reason.as_ref().is_none_or(|reason| reason.value.trim().is_empty()) {
            missing("reason", "add `reason = \"…\"`: whoever reads a verdict must know why it was softened");
        }
        if metric.is_none() {
            missing("metric", "add `metric = \"…\"`: `rate`, `p50`, `p99` or `server-cpu`");
        }
        if within.is_none() {
            missing("within", "add `within = 0.10` for 10 %");
        }
        if cells.is_none() {
            missing("cells", "add `cells = \"workload/server/client\"`; `*` stands for any");
        }
        if let Some(within) = within {
            self.check_within("within", within.value, Place::new(file, &within.span));
        }
        let metric_is_time = metric.as_ref().is_none_or(|metric| metric.value != Metric::Rate);
        let floor_ns = floor.as_ref().and_then(|floor| self.floor_ns(file, floor, metric_is_time));
        let expires = expires.as_ref().and_then(|expires| self.expires(file, expires));
        let pattern = cells.as_ref().and_then(|cells| match cells.value.parse::<Pattern>() {
            Ok(pattern) => Some((pattern, Place::new(file, &cells.span))),
            Err(error) => {
                self.problems.push(
                    Problem::at(Place::new(file, &cells.span), error.to_string(), "not a pattern of cells")
                        .hint("e.g. `*/ws@node-{24,26}/*`, or `ws@*` for any one part"),
                );
                None
            }
        });
        if self.problems.len() > before {
            return None;
        }
        let (pattern, place) = pattern?;
        let tolerance = Tolerance {
            cells: pattern.as_str().to_owned(),
            metric: metric.as_ref()?.value,
            within: within.as_ref()?.value,
            floor_ns,
            expires,
            reason: reason.as_ref()?.value.trim().to_owned(),
        };
        Some((tolerance, pattern, place))
    }

    /// An absolute floor, in nanoseconds.
    fn floor_ns(&mut self, file: usize, floor: &At<String>, metric_is_time: bool) -> Option<f64> {
        let place = Place::new(file, &floor.span);
        if !metric_is_time {
            self.problems.push(
                Problem::at(place, "a floor of a rate", "a time")
                    .hint("only times have a floor; say how far a rate may move by `within`"),
            );
            return None;
        }
        match parse_time_ns(&floor.value) {
            Ok(ns) => Some(ns as f64),
            Err(error) => {
                self.problems.push(
                    Problem::at(
                        place,
                        format!("`floor` is not a time: `{}`", floor.value),
                        error.to_string(),
                    )
                    .hint(format!("e.g. `floor = \"20us\"`; units: {TIME_UNITS}")),
                );
                None
            }
        }
    }

    /// The last day on which a tolerance holds.
    fn expires(&mut self, file: usize, expires: &At<String>) -> Option<NaiveDate> {
        match NaiveDate::from_str(expires.value.trim()) {
            Ok(date) => Some(date),
            Err(error) => {
                self.problems.push(
                    Problem::at(
                        Place::new(file, &expires.span),
                        format!("`expires` is not a date: `{}`", expires.value),
                        error.to_string(),
                    )
                    .hint(
                        "a day, e.g. `expires = \"2027-03-31\"`: the last one on which the tolerance holds",
                    ),
                );
                None
            }
        }
    }
}
