//! The JSON lines by which every client program, built in or not, reports to its cell.
//!
//! The client reads one [`ClientJob`] as the first line of stdin, then works in phases. At the end of each it writes
//! one [`ClientEvent`] line on stdout and waits for a line (any content) on stdin before the next phase, so that
//! the cell can take its samples while nothing is in flight. The phases: connect (`ready`), check the relay
//! (`verified`), warm up (`warm`), each trial (`trial`), and at last `done`. At any point `fault` ends it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Params;
use crate::record::{Counters, VoidReason};

/// What a client is asked to do: the first line of its stdin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClientJob {
    /// Which load generator: `native`, `tungstenite`, or what a client program of another runtime understands.
    pub client: String,
    /// Address of the server, of the loopback network.
    pub host: String,
    /// TCP port of the server.
    pub port: u16,
    /// The workload.
    pub params: Params,
    /// Cores that threads may be pinned to, one each in turn; empty leaves them where the process is.
    pub cores: Vec<u32>,
    /// A message that takes longer than this is lost, in nanoseconds.
    pub stall_ns: u64,
}

/// One line of a client's stdout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ClientEvent {
    /// All connections are open.
    Ready {
        /// Name and version of the program, of its runtime and of its WebSocket library.
        versions: std::collections::BTreeMap<String, String>,
        /// Connections that are open.
        connections: u64,
        /// Time that opening them took, in nanoseconds.
        connect_ns: u64,
        /// Extensions that the server negotiated, as sent; empty when none.
        #[serde(default)]
        extensions: Vec<String>,
        /// The clock that times round trips.
        #[serde(default)]
        clock: Option<ClockFacts>,
    },
    /// Each pair relays, in both directions, to the partner only.
    Verified {
        /// Time that the check took, in nanoseconds.
        elapsed_ns: u64,
    },
    /// The warm-up is over.
    Warm {
        /// The warm-up in slices, so that a rate that has not settled can be seen.
        slices: Vec<Batch>,
    },
    /// A trial is over.
    Trial {
        /// Which trial, from 0.
        index: u32,
        /// What was measured.
        #[serde(flatten)]
        batch: Batch,
    },
    /// All trials are over and the connections are closed.
    Done {
        /// Totals over the whole life of the client, probes excluded.
        counters: Counters,
    },
    /// The client gave up.
    Fault {
        /// Why the numbers may not be used; none when the client itself failed.
        reason: Option<VoidReason>,
        /// What was seen, in one sentence.
        detail: String,
        /// Totals up to the fault.
        counters: Counters,
    },
}

/// Facts about the clock that times round trips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockFacts {
    /// Which clock, e.g. `CLOCK_MONOTONIC`.
    pub source: String,
    /// Median cost of one reading, in nanoseconds.
    pub cost_ns: f64,
    /// Smallest step seen between two readings that differ, in nanoseconds.
    pub resolution_ns: u64,
}

/// One timed batch of round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Batch {
    /// Round trips that were completed in the timed window.
    pub rounds: u64,
    /// Length of the timed window, in nanoseconds.
    pub elapsed_ns: u64,
    /// Latency of each round trip in nanoseconds, as an HdrHistogram in its V2 encoding, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<String>,
    /// In an open loop: latency of each round trip from the time at which it was due, which counts what waited to be sent
    /// (coordinated omission). Round trips that were never begun are in it with the time they had waited at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_from_schedule: Option<String>,
    /// In an open loop: round trips that were due within the window and never begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsent: Option<u64>,
    /// Polls that found nothing, over all threads (busy-polled clients only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_polls: Option<u64>,
    /// Share of the window that the busiest client thread spent on messages and not on empty polls, 0 to 1.
    /// None when the client does not poll; then its CPU time says how busy it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busy: Option<f64>,
}
