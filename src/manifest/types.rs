use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{CellId, Limits, Timeouts};
use crate::workload::Params;

/// A manifest with its includes, checked, with all defaults filled in. Names of servers and clients in `matrix` are
/// concrete: braces and globs were resolved against the catalogue.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The file that was named.
    pub path: PathBuf,
    /// Name of the manifest: the file's stem.
    pub name: String,
    /// Heading of reports.
    pub title: String,
    /// Sweeps over all cells.
    pub passes: u32,
    /// Seed of the order; none draws one at each run.
    pub seed: Option<u64>,
    /// The cell that tells whether the machine moved; part of every pass, whatever is selected.
    pub control: Option<CellId>,
    /// Whether skipped cells leave the exit code alone.
    pub allow_skips: bool,
    /// Cores of the server.
    pub server_cores: CoreChoice,
    /// Cores of the client.
    pub client_cores: CoreChoice,
    /// Workloads by name, axes expanded, in the order of the file.
    pub workloads: Vec<NamedWorkload>,
    /// What is crossed with what.
    pub matrix: Vec<MatrixRow>,
    /// Limits on every server.
    pub limits: Option<Limits>,
    /// What is judged, how far it may move, and how sure a red night must be.
    pub rules: Rules,
    /// Port that every server must use; none takes a free one for each cell.
    pub port: Option<u16>,
    /// The user's own executables, by runtime.
    pub runtimes: BTreeMap<String, PathBuf>,
    /// Each file read, the named one first, with its text as it was.
    pub sources: Vec<(PathBuf, String)>,
}

/// Which cores a side gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoreChoice {
    /// Distinct physical cores of one NUMA node, chosen at run time.
    Auto,
    /// These.
    These(Vec<u32>),
}

/// A workload under its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedWorkload {
    /// Its name, with the values of its axes, e.g. `load-4096`.
    pub name: String,
    /// The name in the file, before its axes were expanded, e.g. `load`.
    pub family: String,
    /// Every parameter.
    pub params: Params,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// Whether it runs only when asked for by `--cell` or `--include-opt-in`.
    pub opt_in: bool,
}

/// One `[[matrix]]`.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixRow {
    /// Expanded names of workloads.
    pub workloads: Vec<String>,
    /// Names of servers.
    pub servers: Vec<String>,
    /// Names of clients.
    pub clients: Vec<String>,
    /// What is left out of the cross product.
    pub exclude: Vec<Exclusion>,
}

/// A part of the cross product that is left out; each pattern is a glob over one part of the cell id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exclusion {
    /// Which workloads; `*` for all.
    pub workload: String,
    /// Which servers; `*` for all.
    pub server: String,
    /// Which clients; `*` for all.
    pub client: String,
    /// Why, for every reader of a report.
    pub reason: String,
}

/// A metric of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Round trips per second; more is better.
    Rate,
    /// Median latency; less is better.
    P50,
    /// 99th percentile of latency; less is better.
    P99,
    /// Server CPU time per message; less is better.
    ServerCpu,
}

impl Metric {
    /// Its name in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Rate => "rate",
            Metric::P50 => "p50",
            Metric::P99 => "p99",
            Metric::ServerCpu => "server-cpu",
        }
    }

    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        self == Metric::Rate
    }

    /// How far it may move where no tolerance says otherwise, relative. A tail is the noisier the further out it is: 5 % of a 99th
    /// percentile would hardly ever be decided.
    pub fn default_within(self) -> f64 {
        match self {
            Metric::P99 => 0.25,
            Metric::Rate | Metric::P50 | Metric::ServerCpu => 0.05,
        }
    }
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What a run is judged by when it is compared with its baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rules {
    /// What is judged.
    pub metrics: Vec<Metric>,
    /// Share of nights that may be red without cause.
    pub error_rate: f64,
    /// How often a cell is measured at most until it is decided.
    pub max_passes: u32,
    /// How far the control may move before a night says nothing of its cells, relative.
    pub control_within: f64,
    /// How far a metric may move where that differs from the default; the last that matches a cell applies.
    pub tolerances: Vec<Tolerance>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            metrics: vec![Metric::Rate, Metric::P99],
            error_rate: 0.01,
            max_passes: 60,
            control_within: 0.10,
            tolerances: Vec::new(),
        }
    }
}

/// How far a metric of some cells may move before it counts as a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tolerance {
    /// Pattern of cells, `workload/server/client`.
    pub cells: String,
    /// Which metric.
    pub metric: Metric,
    /// Relative, e.g. 0.05.
    pub within: f64,
    /// Absolute, in nanoseconds: a smaller difference counts for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_ns: Option<f64>,
    /// Why it differs from the default.
    pub reason: String,
    /// The last day on which it holds; none for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<chrono::NaiveDate>,
}
