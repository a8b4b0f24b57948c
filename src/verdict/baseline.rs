use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use chrono::{DateTime, NaiveDate, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::measured::{Measured, Values, Versions};
use super::{Noise, learn_noise};
use crate::manifest::Metric;
use crate::plan::CellId;
use crate::stats::Spread;

/// The schema that this version writes and reads.
pub const BASELINE_SCHEMA: &str = "runner.baseline/1";

/// Runs that a baseline keeps; an older one makes room.
pub const KEPT_RUNS: usize = 20;

/// The last line of every file: half a file may be TOML too.
const END: &str = "# end";

/// What was accepted of a manifest on a class of host: `baselines/<manifest>.<host-class>.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// Always [`BASELINE_SCHEMA`].
    pub schema: String,
    /// Name of the manifest.
    pub manifest: String,
    /// Class of the hosts that it was measured on.
    pub host_class: String,
    /// The control.
    #[serde(default)]
    pub control: Option<CellId>,
    /// The last calibration.
    #[serde(default)]
    pub calibration: Option<CalibrationFacts>,
    /// What was learned of the noise, by cell and metric: by calibration, or from the accepted runs where they are more.
    #[serde(default)]
    pub noise: BTreeMap<CellId, BTreeMap<Metric, Noise>>,
    /// Accepted runs, the oldest first.
    #[serde(default)]
    pub run: Vec<AcceptedRun>,
}

/// When the noise was learned, and from what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrationFacts {
    /// The day.
    #[schemars(with = "String")]
    pub date: NaiveDate,
    /// Nights of unchanged servers.
    pub nights: u32,
    /// Passes of each night.
    pub passes: u32,
    /// Of these nights, each judged against the others, how many were red.
    pub red: u32,
    /// How many were `host-drift`.
    pub host_drift: u32,
}

/// A run that was accepted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptedRun {
    /// Id of the run.
    pub id: String,
    /// When it was measured.
    pub measured: DateTime<Utc>,
    /// The day on which it was accepted.
    #[schemars(with = "String")]
    pub accepted: NaiveDate,
    /// Why, in the words of who accepted it.
    pub reason: String,
    /// Version of the program that measured.
    pub runner: String,
    /// Versions of each server.
    #[serde(default)]
    pub servers: BTreeMap<String, Versions>,
    /// Its cells.
    #[serde(default)]
    pub cells: BTreeMap<CellId, AcceptedCell>,
}

/// A cell of an accepted run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedCell {
    /// Identity of what was measured.
    pub content: String,
    /// What its client said of its version.
    pub client: String,
    /// The value of each pass, by metric: round trips per second, nanoseconds, nanoseconds per message. `nan` for a pass that has
    /// none.
    #[serde(flatten)]
    pub metrics: BTreeMap<Metric, Vec<f64>>,
}

/// Why a text is no baseline.
#[derive(Debug, thiserror::Error)]
pub enum BaselineError {
    /// Another schema.
    #[error("is of schema `{0}`; this version reads `{BASELINE_SCHEMA}`")]
    Schema(String),
    /// It does not fit.
    #[error("does not fit the schema `{BASELINE_SCHEMA}`:\n{0}")]
    Form(String),
    /// The last line is not there.
    #[error("does not end with the line `{END}`: a part of it is lost")]
    Torn,
    /// A value that no pass can have.
    #[error("holds {value} as the {metric} of `{cell}` in run `{run}`; a value is above 0")]
    Value {
        /// Which run.
        run: String,
        /// Which cell.
        cell: CellId,
        /// Which metric.
        metric: Metric,
        /// The value.
        value: f64,
    },
}

impl Baseline {
    /// One in which nothing is accepted yet.
    pub fn new(manifest: &str, host_class: &str, control: Option<CellId>) -> Self {
        Baseline {
            schema: BASELINE_SCHEMA.to_owned(),
            manifest: manifest.to_owned(),
            host_class: host_class.to_owned(),
            control,
            calibration: None,
            noise: BTreeMap::new(),
            run: Vec::new(),
        }
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self, BaselineError> {
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
        }
        if let Ok(Head { schema: Some(other) }) = toml::from_str(text)
            && other != BASELINE_SCHEMA
        {
            return Err(BaselineError::Schema(other));
        }
        let baseline: Baseline =
            toml::from_str(text).map_err(|error| BaselineError::Form(error.to_string()))?;
        for run in &baseline.run {
            for (cell, accepted) in &run.cells {
                for (metric, values) in &accepted.metrics {
                    if let Some(value) = values.iter().find(|value| !(value.is_nan() || **value > 0.0)) {
                        let (run, cell) = (run.id.clone(), cell.clone());
                        return Err(BaselineError::Value { run, cell, metric: *metric, value: *value });
                    }
                }
            }
        }
        if text.trim_end().lines().next_back() != Some(END) {
            return Err(BaselineError::Torn);
        }
        Ok(baseline)
    }

    /// Adds a run, in place of one of the same id; the oldest beyond [`KEPT_RUNS`] go.
    pub fn accept(&mut self, measured: &Measured, day: NaiveDate, reason: &str) {
        self.run.retain(|run| run.id != measured.run_id);
        self.run.push(AcceptedRun::of(measured, day, reason));
        self.run.sort_by(|a, b| (a.measured, &a.id).cmp(&(b.measured, &b.id)));
        let surplus = self.run.len().saturating_sub(KEPT_RUNS);
        self.run.drain(..surplus);
        self.learn();
    }

    /// Learns the noise from the accepted runs, where nothing that knows more runs has said it.
    fn learn(&mut self) {
        let known: BTreeSet<(CellId, Metric)> = self
            .run
            .iter()
            .flat_map(|run| &run.cells)
            .flat_map(|(cell, accepted)| accepted.metrics.keys().map(|metric| (cell.clone(), *metric)))
            .collect();
        for (cell, metric) in known {
            let learned = self.learned(&cell, metric);
            let metrics = self.noise.entry(cell).or_default();
            if metrics.get(&metric).is_none_or(|noise| noise.runs <= learned.runs) {
                metrics.insert(metric, learned);
            }
        }
    }

    fn learned(&self, cell: &CellId, metric: Metric) -> Noise {
        let runs: Vec<(Values, Values)> =
            self.run.iter().filter_map(|run| run.pair(cell, metric, self.control.as_ref())).collect();
        learn_noise(metric, &runs)
    }

    /// Every cell of every accepted run.
    pub fn cells(&self) -> BTreeSet<&CellId> {
        self.run.iter().flat_map(|run| run.cells.keys()).collect()
    }

    /// What is known of the noise of a metric of a cell: from calibration, else from the accepted runs.
    pub fn noise(&self, cell: &CellId, metric: Metric) -> Noise {
        match self.noise.get(cell).and_then(|metrics| metrics.get(&metric)) {
            Some(noise) => noise.clone(),
            None => self.learned(cell, metric),
        }
    }

    /// The file's text: settings, then the noise, then the runs, one cell to a line, in an order that does not change.
    pub fn render(&self) -> String {
        let mut text = format!(
            "# What `{}` measures on hosts of class `{}`, as accepted by `runner accept`.\n\
             # docs/NIGHTLY.md says how to read it: rate in round trips per second, p50 and p99 in ns, server-cpu in ns per message.\n\
             schema = {}\nmanifest = {}\nhost_class = {}\n",
            self.manifest,
            self.host_class,
            quoted(&self.schema),
            quoted(&self.manifest),
            quoted(&self.host_class)
        );
        if let Some(control) = &self.control {
            let _ = writeln!(text, "control = {}", quoted(&control.to_string()));
        }
        if let Some(facts) = &self.calibration {
            let _ = write!(
                text,
                "\n[calibration]\ndate = \"{}\"\nnights = {}\npasses = {}\nred = {}\nhost_drift = {}\n",
                facts.date, facts.nights, facts.passes, facts.red, facts.host_drift
            );
        }
        if !self.noise.is_empty() {
            text.push_str(
                "\n# Standard deviations of logarithms, about relative: within a run, between runs.\n[noise]\n",
            );
        }
        for (cell, metrics) in &self.noise {
            let parts: Vec<String> =
                metrics.iter().map(|(metric, noise)| format!("{metric} = {}", noise.inline())).collect();
            let _ = writeln!(text, "{} = {{ {} }}", quoted(&cell.to_string()), parts.join(", "));
        }
        let mut before: Option<&AcceptedRun> = None;
        for run in &self.run {
            text.push_str(&run.render(before));
            before = Some(run);
        }
        let _ = writeln!(text, "\n{END}");
        text
    }
}

impl AcceptedRun {
    /// A run as a baseline keeps it.
    pub fn of(measured: &Measured, day: NaiveDate, reason: &str) -> Self {
        let cells = measured.cells.iter().filter_map(|(id, cell)| {
            let metrics: BTreeMap<Metric, Vec<f64>> = cell
                .metrics
                .iter()
                .filter_map(|(metric, values)| {
                    let last = *values.keys().next_back()?;
                    let of = |pass: u32| values.get(&pass).map_or(f64::NAN, |value| rounded(*value));
                    Some((*metric, (1..=last).map(of).collect()))
                })
                .collect();
            if metrics.is_empty() {
                return None;
            }
            let content = cell.content_id.clone()?;
            Some((id.clone(), AcceptedCell { content, client: cell.client.clone(), metrics }))
        });
        AcceptedRun {
            id: measured.run_id.clone(),
            measured: measured.started_at,
            accepted: day,
            reason: reason.to_owned(),
            runner: measured.runner_version.clone(),
            servers: measured.servers.clone(),
            cells: cells.collect(),
        }
    }

    /// The values of a metric of a cell by pass.
    pub fn values(&self, cell: &CellId, metric: Metric) -> Option<Values> {
        let values = self.cells.get(cell)?.metrics.get(&metric)?;
        Some((1..).zip(values.iter().copied()).filter(|(_, value)| value.is_finite()).collect())
    }

    /// The values of a metric of a cell, and the control's rate beside them.
    pub(super) fn pair(
        &self,
        cell: &CellId,
        metric: Metric,
        control: Option<&CellId>,
    ) -> Option<(Values, Values)> {
        let values = self.values(cell, metric)?;
        let control = control.and_then(|control| self.values(control, Metric::Rate)).unwrap_or_default();
        Some((values, control))
    }

    fn render(&self, before: Option<&AcceptedRun>) -> String {
        let mut text = format!(
            "\n[[run]]\nid = {}\nmeasured = \"{}\"\naccepted = \"{}\"\nreason = {}\nrunner = {}\n",
            quoted(&self.id),
            self.measured.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            self.accepted,
            quoted(&self.reason),
            quoted(&self.runner)
        );
        if !self.servers.is_empty() {
            text.push_str("[run.servers]\n");
        }
        for (server, versions) in &self.servers {
            let parts: Vec<String> = versions
                .iter()
                .map(|(program, version)| format!("{} = {}", quoted(program), quoted(version)))
                .collect();
            let _ = writeln!(text, "{} = {{ {} }}", quoted(server), parts.join(", "));
        }
        text.push_str("[run.cells]\n");
        for (id, cell) in &self.cells {
            let mut parts = vec![
                format!("content = {}", quoted(&cell.content)),
                format!("client = {}", quoted(&cell.client)),
            ];
            for (metric, values) in &cell.metrics {
                let values: Vec<String> = values.iter().map(|value| number(*value)).collect();
                parts.push(format!("{metric} = [{}]", values.join(", ")));
            }
            let moved = moved(id, self, before).map(|moved| format!("  # {moved}")).unwrap_or_default();
            let _ = writeln!(text, "{} = {{ {} }}{moved}", quoted(&id.to_string()), parts.join(", "));
        }
        text
    }
}

/// For whoever reads the file in a pull request: the median rate and how it moved.
fn moved(cell: &CellId, run: &AcceptedRun, before: Option<&AcceptedRun>) -> Option<String> {
    let median = |run: &AcceptedRun| {
        let values = run.values(cell, Metric::Rate)?;
        Some(Spread::of(&values.into_values().collect::<Vec<_>>())?.median)
    };
    let now = median(run)?;
    let shown = format!("{:.1} krt/s", now / 1e3);
    Some(match before.and_then(median) {
        Some(before) => format!("{shown}, {:+.1} % on the run before", (now / before - 1.0) * 100.0),
        None => shown,
    })
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Five significant digits: noise is far above what is cut off.
fn rounded(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

fn number(value: f64) -> String {
    if value.is_nan() { "nan".to_owned() } else { format!("{:?}", rounded(value)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::measured::MeasuredCell;

    fn id(server: &str) -> CellId {
        CellId::new("pingpong-16", server, "native")
    }

    fn measured(run: u32, rates: &[f64]) -> Measured {
        let values: Values = (1..).zip(rates.iter().copied()).collect();
        let cell = MeasuredCell {
            content_id: Some("0123456789abcdef".to_owned()),
            client: "native 0.1.0".to_owned(),
            metrics: BTreeMap::from([(Metric::Rate, values)]),
            ..MeasuredCell::default()
        };
        Measured {
            run_id: format!("run-{run}"),
            manifest: "quick".to_owned(),
            started_at: DateTime::UNIX_EPOCH + chrono::TimeDelta::days(i64::from(run)),
            servers: BTreeMap::from([(
                "relay".to_owned(),
                BTreeMap::from([("a \"quoted\" program".to_owned(), "1".to_owned())]),
            )]),
            cells: BTreeMap::from([(id("relay"), cell)]),
            ..Measured::default()
        }
    }

    fn day() -> NaiveDate {
        NaiveDate::from_ymd_opt(2026, 12, 5).unwrap()
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_shows_what_moved() {
        let mut baseline = Baseline::new("quick", "a-host", Some(id("relay")));
        baseline.accept(&measured(1, &[20e3, 21e3, 22e3]), day(), "first");
        baseline.accept(&measured(2, &[23.1e3, f64::NAN, 23.1e3]), day(), "faster\nnow");
        let text = baseline.render();
        assert!(
            text.contains("# 21.0 krt/s\n") && text.contains("# 23.1 krt/s, +10.0 % on the run before"),
            "{text}"
        );
        let read = Baseline::parse(&text).unwrap();
        assert_eq!(read.render(), text);
        assert_eq!(
            read.run[1].values(&id("relay"), Metric::Rate).unwrap(),
            Values::from([(1, 23.1e3), (3, 23.1e3)])
        );
    }

    #[test]
    fn the_oldest_runs_make_room_and_a_run_is_accepted_once() {
        let mut baseline = Baseline::new("quick", "a-host", None);
        for run in 1..=25 {
            baseline.accept(&measured(run, &[20e3]), day(), "again");
            baseline.accept(&measured(run, &[20e3]), day(), "again");
        }
        assert_eq!(baseline.run.len(), KEPT_RUNS);
        assert_eq!(baseline.run[0].id, "run-6");
    }

    #[test]
    fn what_is_no_baseline_says_why() {
        let wrong = |text: &str| Baseline::parse(text).unwrap_err().to_string();
        assert!(wrong("schema = \"runner.baseline/9\"").starts_with("is of schema `runner.baseline/9`"));
        assert!(wrong("").contains("missing field `schema`"));
        let mut baseline = Baseline::new("quick", "a-host", None);
        baseline.accept(&measured(1, &[20e3]), day(), "first");
        for bad in ["0.0", "-1.0"] {
            let text = baseline.render().replace("[20000.0]", &format!("[{bad}]"));
            assert!(wrong(&text).contains("a value is above 0"), "{}", wrong(&text));
        }
        // Cut where the part before is TOML by itself.
        let whole = baseline.render();
        for cut in whole.match_indices('\n').map(|(at, _)| at).filter(|at| at + 1 < whole.len()) {
            assert!(Baseline::parse(&whole[..cut]).is_err(), "{}", &whole[..cut]);
        }
        let unknown = baseline.render().replace("rate = [", "rat = [");
        assert!(wrong(&unknown).contains("rat"), "{}", wrong(&unknown));
    }
}
