//! What the faulty relays do to messages, one fault each.

use std::io::Write;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use super::connection::Slot;
use super::frame::{BINARY, CONTINUATION, TEXT};
use super::hook::{Frame, Hook, Outbox};
use crate::exit::say;

/// How long the reordering relay waits for the message that overtakes, before it lets go of the one it holds.
const HOLD: Duration = Duration::from_millis(5);
/// How long a relay that hangs does so, if nothing ends it before.
const HANG: Duration = Duration::from_secs(3_600);
/// Most that the flooding relay writes, in bytes.
const MAX_FLOOD: u64 = 64 * 1024 * 1024;

/// Counts frames, and says when one is due: each `every`-th.
#[derive(Debug)]
pub(super) struct Turn {
    every: u64,
    seen: u64,
}

impl Turn {
    pub(super) fn every(every: u64) -> Self {
        Turn { every: every.max(1), seen: 0 }
    }

    fn is_due(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(self.every)
    }

    /// Whether as many frames as one turn takes have gone by; the first turn never ends where it is once over.
    fn is_over(&mut self) -> bool {
        self.seen += 1;
        self.seen > self.every
    }
}

/// An echo that poses as a relay, from the first message on or after some.
#[derive(Debug)]
pub(super) struct Echoed {
    pub(super) after: u64,
    pub(super) seen: u64,
}

impl Hook for Echoed {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        self.seen += 1;
        let to = if self.seen > self.after { frame.from } else { frame.partner };
        out.send(to, frame.first, frame.payload);
    }
}

/// Flips one bit of a payload now and then.
#[derive(Debug)]
pub(super) struct Altered(pub(super) Turn);

impl Hook for Altered {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        if !self.0.is_due() {
            return out.relay(frame);
        }
        let mut payload = frame.payload.to_vec();
        if let Some(last) = payload.last_mut() {
            // The lowest bit: text stays text.
            *last ^= 1;
        }
        out.send(frame.partner, frame.first, &payload);
    }
}

/// Lets a message be overtaken by the next of the same sender, if there is one in flight.
#[derive(Debug)]
pub(super) struct Reordered {
    pub(super) turn: Turn,
    pub(super) held: Option<(Slot, Slot, u8, Vec<u8>, Instant)>,
}

impl Reordered {
    fn release(&mut self, out: &mut Outbox) {
        if let Some((_, partner, first, payload, _)) = self.held.take() {
            out.send(partner, first, &payload);
        }
    }
}

impl Hook for Reordered {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        if self.held.as_ref().is_some_and(|(from, ..)| *from == frame.from) {
            out.relay(frame);
            self.release(out);
        } else if self.turn.is_due() && self.held.is_none() {
            let payload = frame.payload.to_vec();
            self.held = Some((frame.from, frame.partner, frame.first, payload, Instant::now()));
        } else {
            out.relay(frame);
        }
    }

    fn wake_after(&self) -> Option<Duration> {
        self.held.as_ref().map(|(.., since)| HOLD.saturating_sub(since.elapsed()))
    }

    fn wake(&mut self, out: &mut Outbox) {
        self.release(out);
    }
}

/// Loses a message now and then.
#[derive(Debug)]
pub(super) struct Missing(pub(super) Turn);

impl Hook for Missing {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        if !self.0.is_due() {
            out.relay(frame);
        }
    }
}

/// Sends a message twice now and then.
#[derive(Debug)]
pub(super) struct Doubled(pub(super) Turn);

impl Hook for Doubled {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        out.relay(frame);
        if self.0.is_due() {
            out.relay(frame);
        }
    }
}

/// Makes text of binary and binary of text now and then.
#[derive(Debug)]
pub(super) struct OpcodeChanged(pub(super) Turn);

impl Hook for OpcodeChanged {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        let due = self.0.is_due() && frame.first & 0x0F != CONTINUATION;
        let first = if due { frame.first ^ (TEXT ^ BINARY) } else { frame.first };
        out.send(frame.partner, first, frame.payload);
    }
}

/// Sends a message to the partner of the sender before now and then.
#[derive(Debug)]
pub(super) struct PartnerMixedUp {
    pub(super) turn: Turn,
    /// Senders of the last messages, by pair, the latest last.
    pub(super) pairs: Vec<(Slot, Slot)>,
}

impl Hook for PartnerMixedUp {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        let pair = (frame.from.min(frame.partner), frame.from.max(frame.partner));
        self.pairs.retain(|other| *other != pair);
        let stranger = self.pairs.last().map(|(one, _)| *one);
        self.pairs.push(pair);
        match stranger {
            Some(stranger) if self.turn.is_due() => out.send(stranger, frame.first, frame.payload),
            _ => out.relay(frame),
        }
    }
}

/// Sends a message that nobody asked for now and then.
#[derive(Debug)]
pub(super) struct Unasked(pub(super) Turn);

impl Hook for Unasked {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        out.relay(frame);
        if self.0.is_due() {
            out.send(frame.partner, 0x80 | TEXT, b"nobody asked for this");
        }
    }
}

/// Relays well, then ends in the middle of it.
#[derive(Debug)]
pub(super) struct DiesMidTrial(pub(super) Turn);

impl Hook for DiesMidTrial {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        if self.0.is_over() {
            say("faulty server: dies in the middle of a trial, as it was asked to");
            process::exit(3);
        }
        out.relay(frame);
    }
}

/// Relays well, then reads no more.
#[derive(Debug)]
pub(super) struct Hangs(pub(super) Turn);

impl Hook for Hangs {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        if self.0.is_over() {
            thread::sleep(HANG);
        }
        out.relay(frame);
    }
}

/// Relays well, and writes more about it than anyone wants to read.
#[derive(Debug, Default)]
pub(super) struct FloodsLog {
    written: u64,
}

impl FloodsLog {
    /// Writes megabytes to both streams at once.
    pub(super) fn start() -> Self {
        let mut flood = FloodsLog::default();
        for _ in 0..2_048 {
            flood.write();
        }
        flood
    }

    fn write(&mut self) {
        if self.written >= MAX_FLOOD {
            return;
        }
        let line = [b'x'; 1_023];
        let mut text = line.to_vec();
        text.push(b'\n');
        // A log that nobody takes is no reason to stop serving.
        let _ = std::io::stdout().write_all(&text);
        let _ = std::io::stderr().write_all(&text);
        self.written += 2 * text.len() as u64;
    }
}

impl Hook for FloodsLog {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        out.relay(frame);
        self.write();
    }
}

/// Claims an extension that it does not speak.
#[derive(Debug)]
pub(super) struct NegotiatesCompression;

impl Hook for NegotiatesCompression {
    const EXTENSION: Option<&'static str> = Some("permessage-deflate");

    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        out.relay(frame);
    }
}

/// Spends a fixed time on each message: a slowdown of known size.
#[derive(Debug)]
pub(super) struct Delayed(pub(super) Duration);

impl Hook for Delayed {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        let start = Instant::now();
        while start.elapsed() < self.0 {
            std::hint::spin_loop();
        }
        out.relay(frame);
    }
}

/// Stops for a while now and then, as a collector of garbage might.
#[derive(Debug)]
pub(super) struct Stalls {
    pub(super) every: Duration,
    pub(super) stall: Duration,
    pub(super) last: Instant,
}

impl Hook for Stalls {
    fn frame(&mut self, frame: Frame<'_>, out: &mut Outbox) {
        if self.last.elapsed() >= self.every {
            thread::sleep(self.stall);
            self.last = Instant::now();
        }
        out.relay(frame);
    }
}
