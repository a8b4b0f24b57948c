use std::time::Duration;

use super::connection::Slot;
use super::frame::push_frame;

/// A data frame that arrived whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// Who sent it.
    pub(super) from: Slot,
    /// Who should receive it.
    pub(super) partner: Slot,
    /// FIN bit and opcode.
    pub(super) first: u8,
    /// Unmasked payload.
    pub(super) payload: &'a [u8],
}

/// Frames to send, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) frames: Vec<(Slot, Vec<u8>)>,
}

impl Outbox {
    /// Adds an unmasked frame.
    pub(super) fn send(&mut self, to: Slot, first: u8, payload: &[u8]) {
        let mut bytes = Vec::with_capacity(payload.len() + 10);
        push_frame(&mut bytes, first, payload);
        self.frames.push((to, bytes));
    }

    /// Adds the frame as a relay would.
    pub(super) fn relay(&mut self, frame: Frame<'_>) {
        self.send(frame.partner, frame.first, frame.payload);
    }
}

/// What a relay does with each data frame that arrives whole: where the faulty servers differ from the honest one.
pub(super) trait Hook {
    /// Whether there is anything to do. Where it is false the relay never leaves its fast path.
    const ACTIVE: bool = true;
    /// An extension that the handshake claims to have negotiated.
    const EXTENSION: Option<&'static str> = None;

    /// Decides what is sent for a frame.
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox);

    /// When the hook wants to be called without a frame; none for never.
    fn wake_after(&self) -> Option<Duration> {
        None
    }

    /// That call.
    fn wake(&mut self, _out: &mut Outbox) {}
}

/// The honest relay.
#[derive(Debug)]
pub(super) struct Honest;

impl Hook for Honest {
    const ACTIVE: bool = false;

    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        out.relay(frame);
    }
}
