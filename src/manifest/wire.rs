use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Metric;
use super::at::{At, CoreList, CountOrTime, OneOrMany};
use crate::workload::{Kind, Mask, Opcode, Wait};

/// A manifest of `runner`: which servers are measured by which clients under which workloads.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Manifest")]
pub(super) struct ManifestFile {
    /// Heading of reports; the file's name without its ending by default.
    pub(super) title: Option<At<String>>,
    /// Other manifests whose workloads, rows and tolerances are added, relative to this file.
    pub(super) include: Option<At<Vec<At<String>>>>,
    /// Sweeps over all cells; 1 by default.
    pub(super) passes: Option<At<u64>>,
    /// Seed of the order of cells; each run draws one by default.
    pub(super) seed: Option<At<u64>>,
    /// The cell measured in every pass to tell whether the machine moved; `none` for none,
    /// `pingpong-16/relay/native` by default.
    pub(super) control: Option<At<String>>,
    /// Whether skipped cells leave the exit code alone.
    pub(super) allow_skips: Option<At<bool>>,
    /// Port that every server must use; a free one for each cell by default.
    pub(super) port: Option<At<u64>>,
    /// Where both sides run.
    pub(super) cores: Option<CoresTable>,
    /// Workload parameters that hold for every workload of this file that does not say otherwise.
    pub(super) defaults: Option<WorkloadTable>,
    /// Workloads by name.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, WorkloadTable>")]
    pub(super) workloads: BTreeMap<At<String>, WorkloadTable>,
    /// What is crossed with what.
    #[serde(default)]
    pub(super) matrix: Vec<At<MatrixTable>>,
    /// Limits on every server.
    pub(super) limits: Option<LimitsTable>,
    /// How far a metric may move.
    #[serde(default)]
    pub(super) tolerance: Vec<At<ToleranceTable>>,
    /// What is compared with a baseline, and how sure a red night must be.
    pub(super) judge: Option<JudgeTable>,
    /// The user's own executables, by runtime.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, RuntimeTable>")]
    pub(super) runtimes: BTreeMap<At<String>, RuntimeTable>,
}

/// Cores of both sides: a list of numbers, or `"auto"`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CoresTable {
    /// Cores of the server; `"auto"` by default.
    pub(super) server: Option<At<CoreList>>,
    /// Cores of the client; `"auto"` by default.
    pub(super) client: Option<At<CoreList>>,
}

/// Parameters of a workload. A list makes an axis: one workload for each value.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadTable {
    /// What is exchanged.
    pub(super) kind: Option<At<Kind>>,
    /// Payload of each message, in bytes; 16 by default.
    pub(super) payload: Option<At<OneOrMany<u64>>>,
    /// Pairs of connections; 64 in `load` by default, always 1 in `pingpong`.
    pub(super) pairs: Option<At<OneOrMany<u64>>>,
    /// Messages that each pair keeps in flight; 1 by default.
    pub(super) in_flight: Option<At<OneOrMany<u64>>>,
    /// Client threads; 1 by default.
    pub(super) threads: Option<At<OneOrMany<u64>>>,
    /// Round trips per second that are begun over all pairs, whatever has come back: an open loop. None by default: each
    /// begins when one has ended.
    pub(super) rate: Option<At<OneOrMany<u64>>>,
    /// Opcode of each message; `binary` by default.
    pub(super) opcode: Option<At<OneOrMany<Opcode>>>,
    /// How the client masks its frames; `zero` by default.
    pub(super) mask: Option<At<OneOrMany<Mask>>>,
    /// What the native client does while nothing has arrived; `spin` by default.
    pub(super) wait: Option<At<OneOrMany<Wait>>>,
    /// Round trips of each trial, over all pairs; 50,000 by default. Not together with `duration`.
    pub(super) rounds: Option<At<OneOrMany<u64>>>,
    /// Length of each trial, e.g. `"5s"`. Not together with `rounds`.
    pub(super) duration: Option<At<OneOrMany<String>>>,
    /// Warm-up before the trials: round trips or a time; 20,000 by default.
    pub(super) warmup: Option<At<CountOrTime>>,
    /// Timed trials; 5 by default.
    pub(super) trials: Option<At<u64>>,
    /// From the server's start to its first handshake at most, e.g. `"10s"`.
    pub(super) start_timeout: Option<At<String>>,
    /// A message that takes longer is lost, e.g. `"5s"`.
    pub(super) stall: Option<At<String>>,
    /// The whole cell takes at most this long, e.g. `"60s"`.
    pub(super) deadline: Option<At<String>>,
    /// Between TERM and KILL, e.g. `"2s"`.
    pub(super) grace: Option<At<String>>,
    /// Whether the workload runs only when asked for by `--cell` or `--include-opt-in`.
    pub(super) opt_in: Option<At<bool>>,
}

/// One cross product. Names may hold `*` and braces.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MatrixTable {
    /// Workloads of this file and of those it includes, with or without the values of their axes.
    pub(super) workloads: Option<At<Vec<At<String>>>>,
    /// Servers.
    pub(super) servers: Option<At<Vec<At<String>>>>,
    /// Clients; `["native"]` by default.
    pub(super) clients: Option<At<Vec<At<String>>>>,
    /// What is left out of the product.
    #[serde(default)]
    pub(super) exclude: Vec<At<ExcludeTable>>,
}

/// Cells that are left out of a row, with the reason.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ExcludeTable {
    /// Which workloads; all by default.
    pub(super) workload: Option<At<String>>,
    /// Which servers; all by default.
    pub(super) server: Option<At<String>>,
    /// Which clients; all by default.
    pub(super) client: Option<At<String>>,
    /// Why. Mandatory.
    pub(super) reason: Option<At<String>>,
}

/// Limits that a cgroup puts on the server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsTable {
    /// CPU time per wall-clock time, in cores.
    pub(super) cpus: Option<At<f64>>,
    /// Memory, e.g. `"1GiB"`.
    pub(super) memory: Option<At<String>>,
}

/// How far a metric of some cells may move before it counts as a change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToleranceTable {
    /// Pattern of cells, `workload/server/client`.
    pub(super) cells: Option<At<String>>,
    /// Which metric.
    pub(super) metric: Option<At<Metric>>,
    /// Relative, e.g. 0.05.
    pub(super) within: Option<At<f64>>,
    /// A difference of less than this counts for nothing, however large it is relatively: a time, e.g. `"20us"`. None by default.
    pub(super) floor: Option<At<String>>,
    /// Why it differs from the default. Mandatory.
    pub(super) reason: Option<At<String>>,
    /// The last day on which it holds, e.g. `"2027-03-31"`; for ever by default.
    pub(super) expires: Option<At<String>>,
}

/// How a run is compared with its baseline.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgeTable {
    /// What is judged; `["rate", "p99"]` by default.
    pub(super) metrics: Option<At<Vec<Metric>>>,
    /// Share of nights that may be red without cause, over all cells and metrics of a night; 0.01 by default.
    pub(super) error_rate: Option<At<f64>>,
    /// How often a cell is measured at most until it is decided, by `run --against`; 60 by default.
    pub(super) max_passes: Option<At<u64>>,
    /// How far the control may move before a night says nothing of its cells, relative; 0.10 by default.
    pub(super) control_within: Option<At<f64>>,
}

/// The user's own executable of a runtime.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RuntimeTable {
    /// The executable, relative to this file.
    pub(super) path: Option<At<String>>,
}
