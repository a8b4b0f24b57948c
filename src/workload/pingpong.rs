use std::sync::atomic::AtomicBool;

use super::clock::now_ns;
use super::connection::{Connection, Sent, Surprise};
use super::idle::Idle;
use super::judge::Fault;
use super::latency::Latency;
use super::pace::{Mark, Pace};
use super::pair::Pair;
use super::payload::End;
use super::worker::{BLOCK_FOR, Stop, Tally, Trouble, Worker, check_halt};
use super::{Extent, Wait};
use crate::wire::set_wait;

/// Empty polls between two looks at the clock.
const PATIENCE: u64 = 1024;

/// After this long without an answer, in nanoseconds, the other end is asked whether it got the message instead.
const LOOK_ELSEWHERE_NS: u64 = 10_000_000;

/// One batch of strictly sequential round trips over the worker's one pair.
pub(super) fn run<C: Connection>(
    worker: &mut Worker<C>,
    extent: Extent,
    slices: u32,
    halt: &AtomicBool,
) -> Result<Tally, Stop> {
    let block = worker.params.wait == Wait::Block;
    set_waits(worker, block)?;
    let stall_ns = worker.rules.stall.as_nanos() as u64;
    let mut turns = Turns {
        pair: &mut worker.pairs[0],
        kit: &mut worker.kit,
        halt,
        stall_ns,
        // A blocked wait has already taken its time.
        patience: if block { 1 } else { PATIENCE },
        block,
        idle: Idle::new(),
    };
    let (started_ns, marks) = turns.play(Pace::new(extent, slices), &mut worker.latency)?;
    let idle = turns.idle;
    set_waits(worker, false)?;
    Ok(Tally { started_ns, marks, idle, unsent: 0 })
}

struct Turns<'a, C: Connection> {
    pair: &'a mut Pair<C>,
    kit: &'a mut C::Kit,
    halt: &'a AtomicBool,
    stall_ns: u64,
    patience: u64,
    block: bool,
    idle: Idle,
}

impl<C: Connection> Turns<'_, C> {
    fn play(&mut self, mut pace: Pace, latency: &mut Latency) -> Result<(u64, Vec<Mark>), Stop> {
        let started_ns = now_ns();
        pace.start(started_ns);
        let mut done = 0;
        // The end of one round trip is the beginning of the next: one reading of the clock for each.
        let mut last_ns = started_ns;
        while pace.may_begin(done, last_ns) {
            self.turn(End::A, last_ns)?;
            self.turn(End::B, last_ns)?;
            let now_ns = now_ns();
            latency.record(now_ns - last_ns);
            last_ns = now_ns;
            done += 1;
            if pace.is_due(done, now_ns) && pace.look_up(done, now_ns) {
                check_halt(self.halt)?;
            }
        }
        Ok((started_ns, pace.finish(done, last_ns)))
    }

    /// One message from `from` to its partner.
    #[inline]
    fn turn(&mut self, from: End, begun_ns: u64) -> Result<(), Stop> {
        let to = from.partner();
        let sent = self.pair.send(from, self.kit).map_err(Trouble::at(self.pair.number, from))?;
        if sent == Sent::Queued {
            self.push_through(from, begun_ns)?;
        }
        let mut polls = 0;
        while self.pair.outstanding(to) != 0 {
            let count = self.pair.receive(to, self.kit).map_err(Trouble::at(self.pair.number, to))?;
            if count == 0 {
                self.idle.nothing();
                polls += 1;
                if polls % self.patience == 0 {
                    self.grow_impatient(from, begun_ns)?;
                }
            }
        }
        self.idle.something();
        Ok(())
    }

    /// Sends the rest of a message that the kernel had no room for, while its beginning may already arrive.
    #[cold]
    #[inline(never)]
    fn push_through(&mut self, from: End, begun_ns: u64) -> Result<(), Stop> {
        let to = from.partner();
        let mut polls = 0;
        loop {
            let sent = self.pair.flush(from, self.kit).map_err(Trouble::at(self.pair.number, from))?;
            if sent == Sent::Whole {
                return Ok(());
            }
            self.pair.receive(to, self.kit).map_err(Trouble::at(self.pair.number, to))?;
            polls += 1;
            if polls % self.patience == 0 {
                self.grow_impatient(from, begun_ns)?;
            }
        }
    }

    /// Nothing has come for a while: does someone wish to stop, did the message come back to its sender, is it lost?
    #[cold]
    #[inline(never)]
    fn grow_impatient(&mut self, from: End, begun_ns: u64) -> Result<(), Stop> {
        check_halt(self.halt)?;
        let waited_ns = now_ns() - begun_ns;
        if waited_ns < LOOK_ELSEWHERE_NS {
            return Ok(());
        }
        let wait = self.block.then_some(BLOCK_FOR);
        let switched = set_wait(self.pair.end(from), None);
        let elsewhere = self.pair.next_message(from, self.kit);
        if switched.and_then(|()| set_wait(self.pair.end(from), wait)).is_err() {
            return Err(Fault::failure("a socket could not change its mode").into());
        }
        if let Some(arrived) = elsewhere.map_err(Trouble::at(self.pair.number, from))? {
            let surprise = Surprise::Message(arrived);
            return Err(Box::new(Trouble { pair: self.pair.number, end: from, surprise }).into());
        }
        if waited_ns > self.stall_ns {
            let whose = format!("from end {} of the pair", from.name());
            let stall = std::time::Duration::from_nanos(self.stall_ns);
            return Err(Fault::lost(1, whose, stall).into());
        }
        Ok(())
    }
}

/// Puts both ends into the mode that their batch wants, or back.
fn set_waits<C: Connection>(worker: &Worker<C>, block: bool) -> Result<(), Stop> {
    for end in End::BOTH {
        set_wait(worker.pairs[0].end(end), block.then_some(BLOCK_FOR))
            .map_err(|errno| Fault::failure(format!("a socket could not change its mode: {errno}")))?;
    }
    Ok(())
}
