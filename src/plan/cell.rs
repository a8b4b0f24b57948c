use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::workload::Params;

/// The id of a cell: `workload/server/client`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CellId {
    /// Name of the workload, e.g. `pingpong-16`.
    pub workload: String,
    /// Name of the server, e.g. `ws@node-24`.
    pub server: String,
    /// Name of the client, e.g. `native`.
    pub client: String,
}

impl CellId {
    /// An id from its three parts.
    pub fn new(workload: impl Into<String>, server: impl Into<String>, client: impl Into<String>) -> Self {
        CellId { workload: workload.into(), server: server.into(), client: client.into() }
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.workload, self.server, self.client)
    }
}

/// A text that is not a cell id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a cell id; one reads `workload/server/client`")]
pub struct NotACellId(String);

impl FromStr for CellId {
    type Err = NotACellId;

    fn from_str(text: &str) -> Result<Self, NotACellId> {
        let mut parts = text.split('/');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(workload), Some(server), Some(client), None)
                if [workload, server, client].iter().all(|part| !part.is_empty()) =>
            {
                Ok(CellId::new(workload, server, client))
            }
            _ => Err(NotACellId(text.to_owned())),
        }
    }
}

impl TryFrom<String> for CellId {
    type Error = NotACellId;

    fn try_from(text: String) -> Result<Self, NotACellId> {
        text.parse()
    }
}

impl From<CellId> for String {
    fn from(id: CellId) -> String {
        id.to_string()
    }
}

/// What a server does with the messages it receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Pairs connections in arrival order and forwards each message to the peer only.
    Relay,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Relay => "relay",
        })
    }
}

/// One point of the cross product with everything filled in that is needed to run it, anywhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResolvedCell {
    /// The id, `workload/server/client`.
    pub id: CellId,
    /// What is exchanged.
    pub workload: Workload,
    /// What is measured.
    pub server: ServerSpec,
    /// What measures.
    pub client: ClientSpec,
    /// Where both sides run.
    pub cores: Cores,
    /// Limits on the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// How long each step may take.
    pub timeouts: Timeouts,
    /// Port that the server must use; none takes a free one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

impl ResolvedCell {
    /// Identity of what is measured: 16 hexadecimal digits that are equal for two cells whose figures may be
    /// compared on one class of host. Paths, versions and the numbers of cores are left out: a new version is what
    /// a comparison looks for, and a checkout may lie anywhere.
    pub fn content_id(&self) -> String {
        #[derive(Serialize)]
        struct Content<'a> {
            workload: &'a Workload,
            server: &'a str,
            role: Role,
            settings: &'a BTreeMap<String, String>,
            client: &'a str,
            cores: [usize; 2],
            limits: &'a Option<Limits>,
        }
        let content = Content {
            workload: &self.workload,
            server: &self.id.server,
            role: self.server.role,
            settings: &self.server.settings,
            client: &self.id.client,
            cores: [self.cores.server.len(), self.cores.client.len()],
            limits: &self.limits,
        };
        let json = serde_json::to_vec(&content).expect("plain data always serialises");
        Sha256::digest(json)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A workload under its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Workload {
    /// Name in the manifest, with the values of its axes.
    pub name: String,
    /// Every parameter.
    pub params: Params,
}

/// How a server is started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerSpec {
    /// Implementation, e.g. `ws`.
    pub name: String,
    /// Runtime that executes it, e.g. `node-24`; none for built-in servers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// The role it is asked to play.
    pub role: Role,
    /// What is executed.
    pub program: Program,
    /// Settings that differ from the library's defaults, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Largest message it accepts, in bytes; none when unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_payload: Option<u64>,
}

/// How a client is started. It speaks [`crate::workload::protocol`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientSpec {
    /// Load generator, e.g. `native`.
    pub name: String,
    /// Runtime that executes it; none for the built-in ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// What is executed.
    pub program: Program,
}

/// A program and what is set for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Program {
    /// Executable and arguments. The executable `{runner}` stands for the running program itself.
    pub argv: Vec<String>,
    /// Environment that is set beside `ROLE`, `HOST` and `PORT`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Working directory; none keeps the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Versions of the runtime, library and program, as they say themselves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Files whose SHA-256 goes into the record: the program, its lock file, the runtime's executable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<PathBuf>,
    /// SHA-256 of files as far as it is known already; the cell computes the others. A run computes each but once.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sha256: BTreeMap<String, String>,
}

/// Cores by the kernel's numbering.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cores {
    /// Cores of the server.
    pub server: Vec<u32>,
    /// Cores of the client.
    pub client: Vec<u32>,
}

/// Limits that a cgroup puts on the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// CPU time per wall-clock time, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// How long the steps of a cell may take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timeouts {
    /// From the server's start to its first complete handshake, in nanoseconds.
    pub start_ns: u64,
    /// From a message sent to its arrival, in nanoseconds.
    pub stall_ns: u64,
    /// For the whole cell, in nanoseconds.
    pub deadline_ns: u64,
    /// Between TERM and KILL, in nanoseconds.
    pub grace_ns: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        const SECOND: u64 = 1_000_000_000;
        Timeouts {
            start_ns: 10 * SECOND,
            stall_ns: 5 * SECOND,
            deadline_ns: 60 * SECOND,
            grace_ns: 2 * SECOND,
        }
    }
}

/// One execution of a cell: what `runner cell` reads on stdin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// The run that this belongs to.
    pub run_id: String,
    /// Name of the manifest.
    pub manifest: String,
    /// Which pass, from 1.
    pub pass: u32,
    /// Place in the order of execution of the run, from 0.
    pub order: u32,
    /// The run's seed.
    pub seed: u64,
    /// What to run.
    pub cell: ResolvedCell,
    /// Folder for the logs of both sides; none throws them away but for a tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_dir: Option<PathBuf>,
    /// The program that runs it, where that is known already; else the cell finds out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<crate::record::RunnerFacts>,
}
