use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::io::Errno;

use super::clock::now_ns;
use super::connection::{Connection, Sent};
use super::idle::Idle;
use super::judge::Fault;
use super::open::Open;
use super::pace::Pace;
use super::payload::End;
use super::worker::{BLOCK_FOR, Stop, Tally, Trouble, Worker, check_halt, socket_of, token};
use super::{Extent, Wait};
use crate::wire::Interest;

/// Empty polls between two looks at the clock.
const PATIENCE: u64 = 1024;

/// One batch of the worker's share of a load: each pair keeps its messages in flight.
pub(super) fn run<C: Connection>(
    worker: &mut Worker<C>,
    extent: Extent,
    slices: u32,
    halt: &AtomicBool,
) -> Result<Tally, Stop> {
    let (pairs, in_flight) = (worker.pairs.len(), worker.params.in_flight as usize);
    let mut batch = Batch {
        halt,
        pace: Pace::new(extent, slices),
        in_flight,
        begun_ns: vec![0; pairs * in_flight],
        oldest: vec![0; pairs],
        swept: vec![Swept::default(); pairs],
        queued: Vec::with_capacity(pairs * 2),
        begun: 0,
        done: 0,
        last_ns: 0,
        sweeping: false,
        idle: Idle::new(),
        open: worker.params.rate_per_s.map(|rate| {
            let share = pairs as f64 / f64::from(worker.params.pairs);
            Open::new(rate as f64 * share, pairs, in_flight)
        }),
        worker,
    };
    let started_ns = batch.play()?;
    let Batch { worker, pace, done, last_ns, idle, open, .. } = batch;
    let unsent = match (&open, pace.end_ns()) {
        (Some(open), Some(end_ns)) => open.give_up(end_ns, now_ns(), &mut worker.latency_from_schedule),
        _ => 0,
    };
    Ok(Tally { started_ns, marks: pace.finish(done, last_ns), idle, unsent })
}

/// How far a pair was when it was last looked after.
#[derive(Clone, Copy, Default)]
struct Swept {
    progress: u32,
    since_ns: u64,
}

struct Batch<'a, C: Connection> {
    worker: &'a mut Worker<C>,
    halt: &'a AtomicBool,
    pace: Pace,
    /// Messages that each pair keeps in flight.
    in_flight: usize,
    /// When each round trip began: `in_flight` places for each pair, used in turn.
    begun_ns: Vec<u64>,
    /// The place of each pair's oldest round trip.
    oldest: Vec<usize>,
    swept: Vec<Swept>,
    /// Sockets that the kernel had no room for.
    queued: Vec<(usize, End)>,
    /// Round trips begun and done.
    begun: u64,
    done: u64,
    /// When the last one was done.
    last_ns: u64,
    /// Whether stragglers are being looked after, so that what they bring does not begin that again.
    sweeping: bool,
    idle: Idle,
    /// The schedule, in an open loop.
    open: Option<Open>,
}

impl<C: Connection> Batch<'_, C> {
    fn play(&mut self) -> Result<u64, Stop> {
        let started_ns = now_ns();
        self.last_ns = started_ns;
        self.pace.start(started_ns);
        self.swept.fill(Swept { progress: 0, since_ns: started_ns });
        if let Some(open) = &mut self.open {
            open.start(started_ns);
            self.serve_on_schedule()?;
            return Ok(started_ns);
        }
        for place in 0..self.in_flight {
            for i in 0..self.worker.pairs.len() {
                let now_ns = now_ns();
                if self.pace.may_begin(self.begun, now_ns) {
                    self.begin(i, place, now_ns)?;
                }
            }
        }
        if self.worker.poller.is_some() {
            self.serve_those_ready()?
        } else {
            self.serve_in_turn()?
        }
        Ok(started_ns)
    }

    /// Asks every socket that a message is on its way to, one after the other.
    fn serve_in_turn(&mut self) -> Result<(), Stop> {
        let mut idle_polls = 0;
        while self.done < self.begun {
            let (done, polls) = (self.done, self.idle.polls());
            let mut relayed = false;
            for i in 0..self.worker.pairs.len() {
                let pair = &self.worker.pairs[i];
                // Both asked for before either is served: what B answers now cannot have reached A yet.
                let (to_a, to_b) = (pair.outstanding(End::A), pair.outstanding(End::B));
                if to_b != 0 {
                    let served = self.serve_b(i)?;
                    self.note(served);
                    relayed |= served;
                }
                if to_a != 0 {
                    let served = self.serve_a(i)?;
                    self.note(served);
                }
            }
            if !self.queued.is_empty() {
                self.flush_queued()?;
            }
            if done == self.done && !relayed {
                idle_polls += self.idle.polls() - polls;
                if idle_polls >= PATIENCE {
                    idle_polls = 0;
                    self.look_up(now_ns())?;
                }
            } else {
                idle_polls = 0;
            }
        }
        Ok(())
    }

    /// Asks the kernel which sockets have something.
    fn serve_those_ready(&mut self) -> Result<(), Stop> {
        let block = self.worker.params.wait == Wait::Block;
        let timeout = if block { BLOCK_FOR } else { Duration::ZERO };
        let mut idle_polls = 0;
        while self.done < self.begun {
            let poller = self.worker.poller.as_mut().expect("chosen by whether there is one");
            let ready = poller.wait(timeout).map_err(cannot_wait)?;
            if ready == 0 {
                self.idle.nothing();
                idle_polls += 1;
                if block || idle_polls >= PATIENCE {
                    idle_polls = 0;
                    self.look_up(now_ns())?;
                }
                continue;
            }
            idle_polls = 0;
            self.idle.something();
            self.serve_ready(ready)?;
            if !self.queued.is_empty() {
                self.flush_queued()?;
            }
        }
        Ok(())
    }

    /// Begins round trips when they are due, and in between serves what has arrived.
    fn serve_on_schedule(&mut self) -> Result<(), Stop> {
        let block = self.worker.params.wait == Wait::Block;
        loop {
            let now_ns = now_ns();
            let next_due_ns = self.begin_those_due(now_ns)?;
            if self.done == self.begun && !self.pace.may_begin(self.begun, now_ns) {
                return Ok(());
            }
            if self.pace.is_due(self.done, now_ns) {
                self.look_up(now_ns)?;
            }
            let until_due = Duration::from_nanos(next_due_ns.saturating_sub(now_ns));
            let served = match &mut self.worker.poller {
                Some(poller) => {
                    let timeout = if block { until_due.min(BLOCK_FOR) } else { Duration::ZERO };
                    let ready = poller.wait(timeout).map_err(cannot_wait)?;
                    self.serve_ready(ready)?
                }
                None => self.serve_outstanding()?,
            };
            self.note(served);
            if !self.queued.is_empty() {
                self.flush_queued()?;
            }
        }
    }

    /// Begins what is due, as far as there is room. Returns when the next is due.
    #[inline]
    fn begin_those_due(&mut self, now_ns: u64) -> Result<u64, Stop> {
        loop {
            let open = self.open.as_mut().expect("only called in an open loop");
            let due_ns = open.next_due_ns();
            if due_ns > now_ns || !self.pace.may_begin(self.begun, now_ns) {
                return Ok(due_ns);
            }
            let Some((i, place)) = open.take(&self.oldest) else { return Ok(due_ns) };
            self.begin(i, place, super::clock::now_ns())?;
        }
    }

    /// Asks every socket that a message is on its way to; whether any had one.
    fn serve_outstanding(&mut self) -> Result<bool, Stop> {
        let mut served = false;
        for i in 0..self.worker.pairs.len() {
            let pair = &self.worker.pairs[i];
            let (to_a, to_b) = (pair.outstanding(End::A), pair.outstanding(End::B));
            if to_b != 0 {
                served |= self.serve_b(i)?;
            }
            if to_a != 0 {
                served |= self.serve_a(i)?;
            }
        }
        Ok(served)
    }

    /// Serves the sockets that the kernel named; whether there were any.
    fn serve_ready(&mut self, ready: usize) -> Result<bool, Stop> {
        for index in 0..ready {
            let poller = self.worker.poller.as_ref().expect("it was just asked");
            let (i, end) = socket_of(poller.token(index));
            match end {
                End::A => self.serve_a(i)?,
                End::B => self.serve_b(i)?,
            };
        }
        Ok(ready != 0)
    }

    /// Answers what has reached end B of a pair; whether there was anything.
    #[inline]
    fn serve_b(&mut self, i: usize) -> Result<bool, Box<Trouble>> {
        let worker = &mut *self.worker;
        let pair = &mut worker.pairs[i];
        let number = pair.number;
        let count = pair.receive(End::B, &mut worker.kit).map_err(Trouble::at(number, End::B))?;
        if count == 0 {
            return Ok(false);
        }
        for _ in 0..count {
            self.send(i, End::B)?;
        }
        Ok(true)
    }

    /// Ends the round trips that have come back to end A of a pair, and begins as many; whether there were any.
    #[inline]
    fn serve_a(&mut self, i: usize) -> Result<bool, Stop> {
        let worker = &mut *self.worker;
        let pair = &mut worker.pairs[i];
        let number = pair.number;
        let count = pair.receive(End::A, &mut worker.kit).map_err(Trouble::at(number, End::A))?;
        if count == 0 {
            return Ok(false);
        }
        let now_ns = now_ns();
        self.last_ns = now_ns;
        for _ in 0..count {
            let oldest = self.oldest[i];
            let place = i * self.in_flight + oldest;
            self.worker.latency.record(now_ns - self.begun_ns[place]);
            self.oldest[i] = if oldest + 1 == self.in_flight { 0 } else { oldest + 1 };
            self.done += 1;
            if let Some(open) = &mut self.open {
                let due_ns = open.give_back(i, oldest);
                self.worker.latency_from_schedule.record(now_ns - due_ns);
            } else if self.pace.may_begin(self.begun, now_ns) {
                self.begin(i, oldest, now_ns)?;
            }
        }
        if self.pace.is_due(self.done, now_ns) {
            self.look_up(now_ns)?;
        }
        Ok(true)
    }

    #[inline]
    fn note(&mut self, served: bool) {
        if served { self.idle.something() } else { self.idle.nothing() }
    }

    #[inline]
    fn begin(&mut self, i: usize, place: usize, now_ns: u64) -> Result<(), Box<Trouble>> {
        self.begun += 1;
        self.begun_ns[i * self.in_flight + place] = now_ns;
        self.send(i, End::A)
    }

    #[inline]
    fn send(&mut self, i: usize, end: End) -> Result<(), Box<Trouble>> {
        let worker = &mut *self.worker;
        let pair = &mut worker.pairs[i];
        let number = pair.number;
        let sent = pair.send(end, &mut worker.kit).map_err(Trouble::at(number, end))?;
        if sent == Sent::Queued {
            self.queue(i, end);
        }
        Ok(())
    }

    /// Remembers a socket without room.
    #[cold]
    #[inline(never)]
    fn queue(&mut self, i: usize, end: End) {
        if self.queued.contains(&(i, end)) {
            return;
        }
        self.queued.push((i, end));
        if let Some(poller) = &self.worker.poller {
            // Should it fail, the socket is tried again at the next look-up all the same.
            let _ = poller.change(self.worker.pairs[i].end(end), token(i, end), Interest::ReadableOrWritable);
        }
    }

    /// Tries the sockets without room again.
    #[cold]
    #[inline(never)]
    fn flush_queued(&mut self) -> Result<(), Box<Trouble>> {
        let mut index = 0;
        while let Some(&(i, end)) = self.queued.get(index) {
            let worker = &mut *self.worker;
            let pair = &mut worker.pairs[i];
            let number = pair.number;
            let sent = pair.flush(end, &mut worker.kit).map_err(Trouble::at(number, end))?;
            if sent == Sent::Queued {
                index += 1;
                continue;
            }
            self.queued.swap_remove(index);
            if let Some(poller) = &worker.poller {
                let _ = poller.change(worker.pairs[i].end(end), token(i, end), Interest::Readable);
            }
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn look_up(&mut self, now_ns: u64) -> Result<(), Stop> {
        if self.pace.look_up(self.done, now_ns) && !self.sweeping {
            self.sweeping = true;
            check_halt(self.halt)?;
            self.flush_queued()?;
            self.look_after_stragglers(now_ns)?;
            self.sweeping = false;
        }
        Ok(())
    }

    /// Asks both ends of each pair on which nothing has moved since the last time: its message may have come to the
    /// wrong end, or be lost.
    fn look_after_stragglers(&mut self, now_ns: u64) -> Result<(), Stop> {
        let stall_ns = self.worker.rules.stall.as_nanos() as u64;
        let (mut missing, mut pairs) = (0, Vec::new());
        for i in 0..self.worker.pairs.len() {
            let pair = &self.worker.pairs[i];
            let moves = pair.progress() != self.swept[i].progress;
            let waits = End::BOTH.into_iter().any(|end| pair.outstanding(end) != 0);
            if moves || !waits {
                self.swept[i] = Swept { progress: pair.progress(), since_ns: now_ns };
                continue;
            }
            self.ask_both(i)?;
            let pair = &self.worker.pairs[i];
            if pair.progress() == self.swept[i].progress && now_ns - self.swept[i].since_ns > stall_ns {
                missing += End::BOTH.into_iter().map(|end| u64::from(pair.outstanding(end))).sum::<u64>();
                pairs.push(pair.number);
            }
        }
        let Some(first) = pairs.first() else { return Ok(()) };
        let whose = match pairs.len() {
            1 => format!("of pair {first}"),
            several => format!("of {several} pairs (the first is pair {first})"),
        };
        Err(Fault::lost(missing, whose, self.worker.rules.stall).into())
    }

    fn ask_both(&mut self, i: usize) -> Result<(), Stop> {
        self.serve_b(i)?;
        self.serve_a(i)?;
        Ok(())
    }
}

#[cold]
fn cannot_wait(errno: Errno) -> Stop {
    Fault::failure(format!("waiting for the sockets failed: {errno}")).into()
}
