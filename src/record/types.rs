use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Outcome;
use crate::host::{Fingerprint, Snapshot};
use crate::plan::{Job, Limits, ResolvedCell};
use crate::workload::protocol::{Batch, ClockFacts};

/// The schema that this version writes and reads.
pub const RECORD_SCHEMA: &str = "runner.record/1";

/// Everything that is known of one execution of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Always [`RECORD_SCHEMA`].
    pub schema: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The run that it belongs to.
    pub run_id: String,
    /// Name of the manifest.
    pub manifest: String,
    /// Which pass, from 1.
    pub pass: u32,
    /// Place in the order of execution, from 0.
    pub order: u32,
    /// The run's seed.
    pub seed: u64,
    /// Identity of what was measured, see [`ResolvedCell::content_id`].
    pub content_id: String,
    /// The cell with all defaults filled in; enough to run it again.
    pub cell: ResolvedCell,
    /// When the cell began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: DateTime<Utc>,
    /// Where its time went.
    pub timings: Timings,
    /// What is worth knowing without making the numbers void.
    pub flags: Vec<Flag>,
    /// Timed trials.
    pub trials: Vec<Trial>,
    /// Slices of the warm-up, which are in no figure.
    pub warmup: Vec<Batch>,
    /// Verification over all messages, warm-up included.
    pub counters: Counters,
    /// The server.
    pub server: Side,
    /// The client.
    pub client: Side,
    /// The clock that timed the round trips.
    pub clock: Option<ClockFacts>,
    /// The machine, before and after.
    pub host: HostFacts,
    /// The program that wrote this.
    pub runner: RunnerFacts,
}

impl Record {
    /// A record of a job about which nothing is known yet but its outcome.
    pub fn blank(job: &Job, outcome: Outcome, at: DateTime<Utc>) -> Self {
        Record {
            schema: RECORD_SCHEMA.to_owned(),
            outcome,
            run_id: job.run_id.clone(),
            manifest: job.manifest.clone(),
            pass: job.pass,
            order: job.order,
            seed: job.seed,
            content_id: job.cell.content_id(),
            cell: job.cell.clone(),
            started_at: at,
            finished_at: at,
            timings: Timings::default(),
            flags: Vec::new(),
            trials: Vec::new(),
            warmup: Vec::new(),
            counters: Counters::default(),
            server: Side::default(),
            client: Side::default(),
            clock: None,
            host: HostFacts::default(),
            runner: RunnerFacts::default(),
        }
    }

    /// Whether its numbers may be used.
    pub fn is_ok(&self) -> bool {
        self.outcome == Outcome::Ok
    }
}

/// Where the time of a cell went, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// From the server's start to its first handshake.
    pub start_up_ns: u64,
    /// Client start, connections and the check of the relay.
    pub verify_ns: u64,
    /// Warm-up.
    pub warm_up_ns: u64,
    /// All trials.
    pub trials_ns: u64,
    /// Stop of both sides.
    pub stop_ns: u64,
    /// The whole cell as its own process saw it.
    pub total_ns: u64,
    /// Total less start-up, warm-up and trials.
    pub overhead_ns: u64,
}

/// The flag of a record in which a side of the cell waited for its core: something else ran there.
pub const CONTENDED: &str = "contended";

/// Something worth knowing about a record, e.g. `client-limited`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    /// Name, in kebab case.
    pub name: String,
    /// What was seen, in one sentence with figures.
    pub detail: String,
}

/// One timed trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// What the client measured.
    #[serde(flatten)]
    pub batch: Batch,
    /// Time between the samples around the trial, in nanoseconds; CPU shares are of this.
    pub window_ns: u64,
    /// What the server used in that window.
    pub server: Usage,
    /// What the client used in that window.
    pub client: Usage,
}

/// What the processes of one side used over a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time, in nanoseconds.
    pub cpu_ns: u64,
    /// Part of it in user mode, in nanoseconds, to the kernel's tick.
    pub user_ns: u64,
    /// Part of it in the kernel, in nanoseconds, to the kernel's tick.
    pub system_ns: u64,
    /// Time that its threads were ready to run and had to wait for a core, in nanoseconds, added over threads.
    #[serde(default)]
    pub wait_ns: u64,
    /// Times that a thread slept of its own will.
    pub voluntary_switches: u64,
    /// Times that a thread was taken off its core.
    pub involuntary_switches: u64,
    /// Resident memory at the end of the window, in bytes.
    pub rss_bytes: u64,
    /// Proportional share of memory at the end of the window, in bytes; none where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
}

/// Verification of every message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Messages sent.
    pub sent: u64,
    /// Messages received that were as expected.
    pub received: u64,
    /// Messages that came back to their sender.
    pub echoed: u64,
    /// Messages with other bytes than sent.
    pub altered: u64,
    /// Messages that overtook another.
    pub reordered: u64,
    /// Messages that did not arrive.
    pub missing: u64,
    /// Messages that arrived twice.
    pub doubled: u64,
    /// Messages that arrived with another opcode.
    pub opcode_changed: u64,
}

/// One side of a cell as it really ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Executable and arguments.
    pub argv: Vec<String>,
    /// Environment that was set.
    pub env: BTreeMap<String, String>,
    /// Versions that the programs said of themselves.
    pub versions: BTreeMap<String, String>,
    /// SHA-256 of each file that the program is made of.
    pub sha256: BTreeMap<String, String>,
    /// Cores asked for.
    pub cores_asked: Vec<u32>,
    /// Cores that the kernel allowed, read back while it ran.
    pub cores_seen: Vec<u32>,
    /// Limits asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits_asked: Option<Limits>,
    /// Limits read back from the cgroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits_seen: Option<Limits>,
    /// Address that it listened on or connected to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// WebSocket extensions negotiated; empty when none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Use over all trials; memory is the largest seen.
    pub usage: Usage,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exited: Option<Exited>,
}

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Exited {
    /// Exit code, when it ended by itself.
    pub code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Whether it had to be killed after the grace time.
    pub killed: bool,
}

/// The machine around one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostFacts {
    /// What the machine is.
    pub fingerprint: Fingerprint,
    /// Its state before the cell.
    pub before: Snapshot,
    /// Its state after the cell.
    pub after: Snapshot,
}

/// The program that wrote a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunnerFacts {
    /// Its version.
    pub version: String,
    /// SHA-256 of its executable.
    pub sha256: String,
}
