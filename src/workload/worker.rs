use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use super::connection::{Connection, Surprise};
use super::idle::Idle;
use super::judge::{Fault, Rules};
use super::latency::Latency;
use super::pace::Mark;
use super::pair::Pair;
use super::payload::End;
use super::{Params, Wait};
use crate::record::Counters;
use crate::wire::{Interest, Poller};

/// Up to this many pairs, asking each socket in turn is cheaper than asking the kernel which of them is ready.
const SCAN_AT_MOST: usize = 128;

/// A blocked wait ends after this, so that a wish to stop is seen.
pub(super) const BLOCK_FOR: Duration = Duration::from_millis(50);

/// Why a batch ended early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Something went wrong.
    Fault(Box<Fault>),
    /// Something unexpected arrived; what was wrong is still to be found out, with all connections at hand.
    Trouble(Box<Trouble>),
    /// Someone wished it.
    Halted,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(Box::new(fault))
    }
}

impl From<Box<Trouble>> for Stop {
    #[cold]
    fn from(trouble: Box<Trouble>) -> Self {
        Stop::Trouble(trouble)
    }
}

/// Something unexpected, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Number of the pair.
    pub(super) pair: u32,
    pub(super) end: End,
    pub(super) surprise: Surprise,
}

impl Trouble {
    /// For `map_err`.
    #[inline]
    pub(super) fn at(pair: u32, end: End) -> impl FnOnce(Box<Surprise>) -> Box<Trouble> {
        move |surprise| Box::new(Trouble { pair, end, surprise: *surprise })
    }
}

/// What one thread owns. Threads share nothing but the wish to stop, which is read now and then.
pub(super) struct Worker<C: Connection> {
    pub(super) pairs: Vec<Pair<C>>,
    pub(super) kit: C::Kit,
    pub(super) latency: Latency,
    /// The same from the time at which each was due, in an open loop.
    pub(super) latency_from_schedule: Latency,
    pub(super) params: Params,
    pub(super) rules: Rules,
    /// Finds the sockets that are ready; none when all are asked in turn.
    pub(super) poller: Option<Poller>,
    core: Option<u32>,
}

/// What one thread did in one batch.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) started_ns: u64,
    /// The end of each slice.
    pub(super) marks: Vec<Mark>,
    pub(super) idle: Idle,
    /// Round trips that were due and never begun, in an open loop.
    pub(super) unsent: u64,
}

impl<C: Connection> Worker<C> {
    /// One that drives these pairs, on this core if one is given.
    pub(super) fn new(
        pairs: Vec<Pair<C>>,
        params: &Params,
        rules: Rules,
        resolution_ns: u64,
        core: Option<u32>,
    ) -> Result<Self, Fault> {
        let by_kernel =
            params.kind == super::Kind::Load && (params.wait == Wait::Block || pairs.len() > SCAN_AT_MOST);
        let poller = if by_kernel {
            let watch = || {
                let poller = Poller::new()?;
                for (i, pair) in pairs.iter().enumerate() {
                    for end in End::BOTH {
                        poller.add(pair.end(end), token(i, end), Interest::Readable)?;
                    }
                }
                Ok(poller)
            };
            let failed =
                |errno: rustix::io::Errno| Fault::failure(format!("watching the sockets failed: {errno}"));
            Some(watch().map_err(failed)?)
        } else {
            None
        };
        Ok(Worker {
            pairs,
            kit: C::kit(params),
            latency: Latency::new(resolution_ns),
            latency_from_schedule: Latency::new(resolution_ns),
            params: params.clone(),
            rules,
            poller,
            core,
        })
    }

    /// Pins the calling thread to the worker's core, if it has one.
    pub(super) fn pin(&self) -> Result<(), Fault> {
        let Some(core) = self.core else { return Ok(()) };
        let mut set = CpuSet::new();
        if core as usize >= CpuSet::MAX_CPU {
            return Err(Fault::failure(format!("core {core} is beyond what this system can name")));
        }
        set.set(core as usize);
        sched_setaffinity(None, &set).map_err(|errno| {
            Fault::failure(format!("pinning a client thread to core {core} failed: {errno}"))
        })
    }

    /// Fails if anything has arrived anywhere that no one asked for. Nothing may be in flight.
    pub(super) fn expect_silence(&mut self) -> Result<(), Stop> {
        for pair in &mut self.pairs {
            for end in End::BOTH {
                if let Some(arrived) =
                    pair.next_message(end, &mut self.kit).map_err(Trouble::at(pair.number, end))?
                {
                    let surprise = Surprise::Message(arrived);
                    return Err(Box::new(Trouble { pair: pair.number, end, surprise }).into());
                }
            }
        }
        Ok(())
    }

    /// Takes whatever has arrived anywhere, after all that was sent in good faith. Fails if any of it is unexpected.
    pub(super) fn take_all(&mut self) -> Result<(), Stop> {
        for pair in &mut self.pairs {
            for end in End::BOTH {
                while pair.receive(end, &mut self.kit).map_err(Trouble::at(pair.number, end))? != 0 {}
            }
        }
        Ok(())
    }

    /// Adds what was sent and received since the last call.
    pub(super) fn settle(&mut self, counters: &mut Counters) {
        self.pairs.iter_mut().for_each(|pair| pair.settle(counters));
    }
}

/// How a poller names a socket.
pub(super) fn token(pair: usize, end: End) -> u64 {
    (pair as u64) << 1 | end.index() as u64
}

/// Whose socket a token names.
#[inline]
pub(super) fn socket_of(token: u64) -> (usize, End) {
    ((token >> 1) as usize, if token & 1 == 0 { End::A } else { End::B })
}

/// Whether someone wishes to stop.
pub(super) fn check_halt(halt: &AtomicBool) -> Result<(), Stop> {
    if halt.load(Ordering::Relaxed) { Err(Stop::Halted) } else { Ok(()) }
}
