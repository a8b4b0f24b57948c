use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a cell ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Outcome {
    /// Measured; every check passed.
    Ok,
    /// It ran, but its numbers may not be used.
    Void {
        /// Which check failed.
        reason: VoidReason,
        /// What was seen, in one sentence with figures.
        detail: String,
    },
    /// It could not be run to its end.
    Failed {
        /// Where in the cell's life.
        stage: Stage,
        /// What happened and, where known, what to do.
        message: String,
        /// The last lines that the failing side printed.
        log_tail: Vec<String>,
    },
    /// It was not started.
    Skipped {
        /// Why, e.g. a runtime that could not be installed.
        reason: String,
    },
}

/// Why numbers may not be used. A closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VoidReason {
    /// The client was saturated while the server was not.
    ClientLimited,
    /// A side ran on other cores than asked.
    WrongPlacement,
    /// The hypervisor took too much time away.
    CpuSteal,
    /// The host swapped during the measurement.
    Swapped,
    /// A CPU limit that was not asked for, or heat, slowed a side.
    Throttled,
    /// The server met its memory limit.
    MemoryLimit,
    /// A message did not arrive in time.
    LostMessages,
    /// The server returned a message to its sender.
    Echoed,
    /// A message arrived with other bytes or another opcode.
    Altered,
    /// The rate was still rising in the trials.
    WarmUpNotSettled,
    /// Too few round trips to say anything of them.
    TooFewSamples,
    /// The port was still in use after the stop.
    PortLeaked,
    /// A process of the server outlived the stop.
    ProcessLeaked,
    /// Messages arrived out of order.
    OrderBroken,
    /// A trial took much longer than asked.
    TimeOverrun,
    /// A message arrived that nobody had sent, or twice.
    UnaskedMessage,
    /// A message arrived at a connection of another pair.
    PartnerMixedUp,
}

impl fmt::Display for VoidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(name)) => f.write_str(&name),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

/// A step in the life of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// Choosing cores, port and limits.
    Place,
    /// Starting the server.
    Start,
    /// Waiting for the first handshake.
    Ready,
    /// Connecting the client and checking the relay.
    Verify,
    /// Warming up.
    WarmUp,
    /// Measuring.
    Measure,
    /// Stopping both sides.
    Stop,
    /// The process of the cell itself.
    Cell,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Place => "place",
            Stage::Start => "start",
            Stage::Ready => "ready",
            Stage::Verify => "verify",
            Stage::WarmUp => "warm-up",
            Stage::Measure => "measure",
            Stage::Stop => "stop",
            Stage::Cell => "cell",
        })
    }
}

/// Executions by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Executions that were planned: cells times passes.
    pub planned: u32,
    /// Measured with every check passed.
    pub ok: u32,
    /// Ran, but the numbers may not be used.
    pub void: u32,
    /// Could not be run to their end.
    pub failed: u32,
    /// Not started.
    pub skipped: u32,
}

impl Counts {
    /// Adds one outcome.
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::Void { .. } => self.void += 1,
            Outcome::Failed { .. } => self.failed += 1,
            Outcome::Skipped { .. } => self.skipped += 1,
        }
    }

    /// Executions that were planned and have no outcome.
    pub fn missing(&self) -> u32 {
        self.planned.saturating_sub(self.ok + self.void + self.failed + self.skipped)
    }
}
