use std::collections::BTreeMap;
use std::os::fd::AsFd;

use super::Params;
use super::payload::End;
use crate::wire::{ConnectError, Opcode, Target};

/// One end of a pair, as a load generator drives it: the one interface between the workloads, which know when to
/// send and what must arrive, and the generators, which know how. Everything is generic over it, so that no call on
/// the way of a message is indirect.
pub(super) trait Connection: AsFd + Send + Sized {
    /// What the connections of one thread share: prebuilt frames and buffers, so that a connection itself is small
    /// whatever the payload.
    type Kit: Send;

    /// Versions of what it is made of.
    fn versions() -> BTreeMap<String, String>;

    /// Prebuilds what the connections of one thread share.
    fn kit(params: &Params) -> Self::Kit;

    /// Opens a connection and shakes hands. The socket is left in non-blocking mode.
    fn open(target: &Target, end: End, pair: u32) -> Result<(Self, Handshake), ConnectError>;

    /// Sends this end's message number `sequence`. Numbers must follow one another.
    fn send(&mut self, kit: &mut Self::Kit, sequence: u32) -> Result<Sent, Box<Surprise>>;

    /// Tries again to send what was queued.
    fn flush(&mut self, kit: &mut Self::Kit) -> Result<Sent, Box<Surprise>>;

    /// Takes what has arrived and compares it with the partner's messages from number `expected` on: how many arrived
    /// exactly so, at most `limit`; 0 when nothing is there. Never leaves a whole message unread for a later call
    /// unless `limit` was reached, so that a poller can be trusted.
    fn receive(&mut self, kit: &mut Self::Kit, expected: u32, limit: u32) -> Result<u32, Box<Surprise>>;

    /// Whatever arrives next, without comparing; none when nothing is there. For non-blocking mode. `expected` is the
    /// number that [`Connection::receive`] would be given.
    fn next_message(&mut self, kit: &mut Self::Kit, expected: u32) -> Result<Option<Arrived>, Box<Surprise>>;

    /// Says goodbye without waiting for the answer.
    fn close(self);
}

/// What a handshake agreed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Handshake {
    /// WebSocket extensions, as the server sent them.
    pub(super) extensions: Vec<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel took all of it, and all that was queued before.
    Whole,
    /// The kernel has no room: [`Connection::flush`] must be called later.
    Queued,
}

/// A message as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Text or binary.
    pub(super) opcode: Opcode,
    /// Its payload.
    pub(super) payload: Vec<u8>,
}

/// Anything other than the message that was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Surprise {
    /// Another message.
    Message(Arrived),
    /// The connection is over; how it ended, as the end of a sentence that begins with the server.
    Closed(String),
    /// The server broke the protocol; what it sent, as a noun phrase.
    Protocol(String),
}

impl From<super::Opcode> for Opcode {
    fn from(opcode: super::Opcode) -> Self {
        match opcode {
            super::Opcode::Binary => Opcode::Binary,
            super::Opcode::Text => Opcode::Text,
        }
    }
}
