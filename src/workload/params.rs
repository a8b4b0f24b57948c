use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The smallest payload that holds a direction, a pair and a sequence number, in bytes.
pub const MIN_PAYLOAD: u64 = 12;

/// The kind of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Strictly sequential round trips of one pair through a relay (Lemire 2026).
    Pingpong,
    /// Many pairs, each with a fixed number of messages in flight (Lemire 2026).
    Load,
}

/// The opcode of data frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Opcode {
    /// Binary frames.
    Binary,
    /// Text frames; payloads are ASCII.
    Text,
}

/// How the client masks its frames (RFC 6455, section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mask {
    /// A key of zeros: the mask bit and key are sent, the payload is left as it is.
    Zero,
    /// A new random key for each message.
    Random,
}

/// What the native client does while nothing has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Non-blocking sockets, polled busily.
    Spin,
    /// Sleep in the kernel until a message arrives.
    Block,
}

/// What ends a warm-up or a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// A count of round trips, over all pairs.
    Rounds(u64),
    /// A time, in nanoseconds.
    DurationNs(u64),
}

/// A workload with every parameter filled in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Params {
    /// What is exchanged.
    pub kind: Kind,
    /// Payload of each message, in bytes; at least [`MIN_PAYLOAD`].
    pub payload: u64,
    /// Opcode of each message.
    pub opcode: Opcode,
    /// Pairs of connections; 1 in `pingpong`.
    pub pairs: u32,
    /// Messages that each pair keeps in flight; 1 in `pingpong`.
    pub in_flight: u32,
    /// Round trips per second that are begun over all pairs, whatever has come back (an open loop): then `in_flight` is the
    /// most that a pair has in flight. None for a closed loop, in which each round trip begins when one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u64>,
    /// Client threads; 1 in `pingpong`. Pairs are divided evenly among them.
    pub threads: u32,
    /// What ends the warm-up, which is not counted.
    pub warmup: Extent,
    /// What ends each trial.
    pub trial: Extent,
    /// Number of timed trials after the warm-up.
    pub trials: u32,
    /// How frames are masked.
    pub mask: Mask,
    /// What the client does while nothing has arrived.
    pub wait: Wait,
}
