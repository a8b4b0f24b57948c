use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::connection::{Connection, Surprise};
use super::judge::{Court, Fault, Rules};
use super::latency::Latency;
use super::pair::Pair;
use super::payload::End;
use super::protocol::{Batch, ClientJob, ClockFacts};
use super::worker::{Stop, Tally, Worker};
use super::{Extent, Kind, Params, Wait, load, pingpong, verify};
use crate::record::{Counters, VoidReason};
use crate::wire::Target;

/// Connections from one source address; the kernel has some 28,000 ports for each.
const PER_SOURCE: u32 = 20_000;

/// After the last trial nobody may receive anything for this long.
const LAST_QUIET: Duration = Duration::from_millis(5);

/// A load generator with all its connections: does one phase after the other.
pub(super) struct Engine<C: Connection> {
    workers: Vec<Worker<C>>,
    params: Params,
    latency: Latency,
    latency_from_schedule: Latency,
    /// What one reading of the clock costs, in nanoseconds.
    clock_cost_ns: f64,
    halt: Arc<AtomicBool>,
    counters: Counters,
}

/// What is known once all connections are open.
#[derive(Clone, Debug, Default)]
pub(super) struct Connected {
    pub(super) connections: u64,
    pub(super) connect_ns: u64,
    /// Each extension once.
    pub(super) extensions: Vec<String>,
}

impl<C: Connection> Engine<C> {
    /// Opens all connections, the two ends of a pair back to back, so that arrival order pairs them.
    pub(super) fn connect(
        job: &ClientJob,
        server: SocketAddrV4,
        clock: &ClockFacts,
        halt: Arc<AtomicBool>,
    ) -> Result<(Self, Connected), Stop> {
        let params = job.params.clone();
        raise_descriptor_limit();
        let stall = Duration::from_nanos(job.stall_ns);
        let rules = Rules { opcode: params.opcode.into(), payload: params.payload as usize, stall };
        let begun = Instant::now();
        let mut connected = Connected::default();
        let mut open = |end: End, pair: u32| {
            let source = source_address(pair * 2 + end.index() as u32, params.pairs * 2);
            let (connection, handshake) = C::open(&Target { server, source, timeout: stall }, end, pair)
                .map_err(|error| {
                    let number = connected.connections + 1;
                    Fault::failure(format!("connection {number} to {server} failed: {error}"))
                })?;
            connected.connections += 1;
            for extension in handshake.extensions {
                if !connected.extensions.contains(&extension) {
                    connected.extensions.push(extension);
                }
            }
            Ok::<_, Stop>(connection)
        };
        let threads = params.threads.min(params.pairs);
        let mut workers = Vec::new();
        for thread in 0..threads {
            let mut pairs = Vec::new();
            for number in share(params.pairs, thread, threads)..share(params.pairs, thread + 1, threads) {
                if halt.load(Ordering::Relaxed) {
                    return Err(Stop::Halted);
                }
                pairs.push(Pair::new(number, [open(End::A, number)?, open(End::B, number)?]));
            }
            let core = job.cores.get(thread as usize % job.cores.len().max(1)).copied();
            workers.push(Worker::new(pairs, &params, rules, clock.resolution_ns, core)?);
        }
        connected.connect_ns = begun.elapsed().as_nanos() as u64;
        if let Some(worker) = workers.first() {
            worker.pin()?;
        }
        let latency = Latency::new(clock.resolution_ns);
        let latency_from_schedule = latency.clone();
        let counters = Counters::default();
        let engine = Engine {
            workers,
            params,
            latency,
            latency_from_schedule,
            clock_cost_ns: clock.cost_ns,
            halt,
            counters,
        };
        Ok((engine, connected))
    }

    /// Checks that the server relays. The probes are not counted.
    pub(super) fn verify(&mut self) -> Result<(), Stop> {
        verify::verify(&mut self.workers, &self.halt)?;
        let mut probes = Counters::default();
        self.workers.iter_mut().for_each(|worker| worker.settle(&mut probes));
        Ok(())
    }

    /// Does one warm-up or trial; the slices follow one another without a pause. Only a batch of one slice has
    /// latencies.
    pub(super) fn batch(&mut self, extent: Extent, slices: u32) -> Result<Vec<Batch>, Stop> {
        let threads = self.workers.len() as u32;
        let barrier = Barrier::new(self.workers.len());
        let (kind, pairs, halt) = (self.params.kind, self.params.pairs, &*self.halt);
        let work = |index: usize, worker: &mut Worker<C>| {
            worker.latency.clear();
            worker.latency_from_schedule.clear();
            let pinned = worker.pin();
            // Also when that failed: the others wait.
            barrier.wait();
            pinned?;
            let extent = match extent {
                Extent::Rounds(rounds) => {
                    let part = |thread| rounds * u64::from(share(pairs, thread, threads)) / u64::from(pairs);
                    Extent::Rounds(part(index as u32 + 1) - part(index as u32))
                }
                duration => duration,
            };
            let outcome = match kind {
                Kind::Pingpong => pingpong::run(worker, extent, slices, halt),
                Kind::Load => load::run(worker, extent, slices, halt),
            };
            if outcome.is_err() {
                halt.store(true, Ordering::Relaxed);
            }
            outcome
        };
        let outcomes: Vec<Result<Tally, Stop>> = match self.workers.as_mut_slice() {
            [only] => vec![work(0, only)],
            workers => thread::scope(|scope| {
                let threads: Vec<_> = workers
                    .iter_mut()
                    .enumerate()
                    .map(|(index, worker)| scope.spawn(move || work(index, worker)))
                    .collect();
                threads
                    .into_iter()
                    .map(|thread| {
                        thread
                            .join()
                            .unwrap_or_else(|_| Err(Fault::failure("a client thread panicked").into()))
                    })
                    .collect()
            }),
        };
        self.workers.iter_mut().for_each(|worker| worker.settle(&mut self.counters));
        let tallies = all_or_worst(outcomes)?;
        self.workers.iter_mut().try_for_each(Worker::expect_silence)?;
        let mut batches = combine(&tallies);
        if let [batch] = batches.as_mut_slice() {
            self.latency.clear();
            self.workers.iter().for_each(|worker| self.latency.add(&worker.latency));
            batch.latency = Some(self.latency.encode());
            if self.params.rate_per_s.is_some() {
                self.latency_from_schedule.clear();
                let all = &mut self.latency_from_schedule;
                self.workers.iter().for_each(|worker| all.add(&worker.latency_from_schedule));
                batch.latency_from_schedule = Some(all.encode());
                batch.unsent = Some(tallies.iter().map(|tally| tally.unsent).sum());
            }
            if self.params.wait == Wait::Spin {
                batch.empty_polls = Some(tallies.iter().map(|tally| tally.idle.polls()).sum());
                batch.busy =
                    tallies.into_iter().map(|tally| busy(tally, self.clock_cost_ns)).reduce(f64::max);
            }
        }
        Ok(batches)
    }

    /// The last check: nothing may come after everything has arrived. Then says goodbye on every connection.
    pub(super) fn finish(&mut self) -> Result<(), Stop> {
        thread::sleep(LAST_QUIET);
        self.workers.iter_mut().try_for_each(Worker::expect_silence)?;
        self.workers.drain(..).for_each(|worker| worker.pairs.into_iter().for_each(Pair::close));
        Ok(())
    }

    /// Finds out what was wrong, with all the time that it takes; none when nothing was but a wish to stop.
    pub(super) fn judge(&mut self, stop: Stop) -> Option<Fault> {
        let trouble = match stop {
            Stop::Halted => return None,
            Stop::Trouble(trouble) => *trouble,
            Stop::Fault(fault) => {
                // What is lost may have gone to another pair, which had no reason to look.
                let found = match fault.reason {
                    Some(VoidReason::LostMessages) => self.workers.iter_mut().try_for_each(Worker::take_all),
                    _ => Ok(()),
                };
                match found {
                    Err(Stop::Trouble(trouble)) if matches!(trouble.surprise, Surprise::Message(_)) => {
                        *trouble
                    }
                    _ => return Some(*fault),
                }
            }
        };
        Some(Court { workers: &mut self.workers, pairs: self.params.pairs }.judge(trouble))
    }

    /// Messages so far, without the probes.
    pub(super) fn counters(&self) -> Counters {
        self.counters
    }
}

/// The first of `whole` things that belongs to part `index` of `parts` equal ones.
fn share(whole: u32, index: u32, parts: u32) -> u32 {
    (u64::from(whole) * u64::from(index) / u64::from(parts)) as u32
}

/// All tallies; or the fault of one thread, for which the others were halted.
fn all_or_worst(outcomes: Vec<Result<Tally, Stop>>) -> Result<Vec<Tally>, Stop> {
    let mut tallies = Vec::new();
    let mut stop = None;
    for outcome in outcomes {
        match outcome {
            Ok(tally) => tallies.push(tally),
            Err(Stop::Halted) => stop = stop.or(Some(Stop::Halted)),
            Err(cause) if matches!(stop, None | Some(Stop::Halted)) => stop = Some(cause),
            Err(_) => {}
        }
    }
    stop.map_or(Ok(tallies), Err)
}

/// One batch for each slice. Threads cut their own share into slices, each at its own time; their rates add up. The
/// window of the whole, when it is not sliced, is from the first thread's start to the last one's end.
fn combine(tallies: &[Tally]) -> Vec<Batch> {
    let slices = tallies.first().map_or(0, |tally| tally.marks.len());
    if slices == 1 {
        let started_ns = tallies.iter().map(|tally| tally.started_ns).min().unwrap_or_default();
        let ended_ns = tallies.iter().map(|tally| tally.marks[0].at_ns).max().unwrap_or_default();
        let rounds = tallies.iter().map(|tally| tally.marks[0].rounds).sum();
        return vec![Batch { rounds, elapsed_ns: ended_ns - started_ns, ..Batch::default() }];
    }
    (0..slices)
        .map(|slice| {
            let (mut rounds, mut rate) = (0, 0.0);
            for tally in tallies {
                let (from_rounds, from_ns) = match slice.checked_sub(1) {
                    Some(before) => (tally.marks[before].rounds, tally.marks[before].at_ns),
                    None => (0, tally.started_ns),
                };
                let mark = &tally.marks[slice];
                let elapsed_ns = mark.at_ns - from_ns;
                rounds += mark.rounds - from_rounds;
                if elapsed_ns > 0 {
                    rate += (mark.rounds - from_rounds) as f64 / elapsed_ns as f64;
                }
            }
            let elapsed_ns = if rate > 0.0 { (rounds as f64 / rate) as u64 } else { 0 };
            Batch { rounds, elapsed_ns, ..Batch::default() }
        })
        .filter(|batch| batch.rounds > 0)
        .collect()
}

/// Share of its window that a thread did not spend on polls that found nothing.
fn busy(tally: Tally, clock_cost_ns: f64) -> f64 {
    let window_ns = tally.marks.last().map_or(0, |mark| mark.at_ns - tally.started_ns);
    (1.0 - tally.idle.spent_ns(clock_cost_ns) / window_ns.max(1) as f64).clamp(0.0, 1.0)
}

/// The source address of a connection: the kernel's choice while ports suffice, else one of 127.0.0.0/8 for each
/// 20,000 connections.
fn source_address(connection: u32, connections: u32) -> Option<Ipv4Addr> {
    let block = connection / PER_SOURCE;
    (connections > PER_SOURCE).then(|| Ipv4Addr::new(127, 1, (block >> 8) as u8, (block & 0xFF) as u8 + 1))
}

/// Allows as many open files as may be allowed. When it cannot, the connection that is too many says so.
fn raise_descriptor_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

#[cfg(test)]
mod tests {
    use super::super::clock::now_ns;
    use super::super::idle::Idle;
    use super::super::pace::Mark;
    use super::*;

    fn tally(started_ns: u64, marks: &[(u64, u64)]) -> Tally {
        let marks = marks.iter().map(|&(rounds, at_ns)| Mark { rounds, at_ns }).collect();
        Tally { started_ns, marks, idle: Idle::new(), unsent: 0 }
    }

    #[test]
    fn shares_cover_everything_once() {
        let bounds: Vec<u32> = (0..=4).map(|thread| share(10, thread, 4)).collect();
        assert_eq!(bounds, [0, 2, 5, 7, 10]);
    }

    #[test]
    fn a_trial_lasts_from_the_first_start_to_the_last_end() {
        let batches = combine(&[tally(100, &[(50, 1100)]), tally(120, &[(70, 1300)])]);
        assert_eq!((batches.len(), batches[0].rounds, batches[0].elapsed_ns), (1, 120, 1200));
    }

    #[test]
    fn the_rates_of_the_threads_add_up_in_a_slice() {
        let one = tally(0, &[(10, 100), (30, 200)]);
        let two = tally(0, &[(20, 200), (40, 400)]);
        let batches = combine(&[one, two]);
        // 0.1 and 0.1 round trips per nanosecond: 30 take 150 ns. Then 0.2 and 0.1: 40 take 133 ns.
        let seen: Vec<_> = batches.iter().map(|batch| (batch.rounds, batch.elapsed_ns)).collect();
        assert_eq!(seen, [(30, 150), (40, 133)]);
    }

    #[test]
    fn busy_is_what_empty_polls_leave() {
        assert_eq!(busy(tally(0, &[(1, 1000)]), 20.0), 1.0);
        let (begun_ns, mut idle) = (now_ns(), Idle::new());
        for _ in 0..200 {
            thread::sleep(Duration::from_micros(100));
            idle.nothing();
        }
        let slept_ns = now_ns() - begun_ns;
        let marks = vec![Mark { rounds: 1, at_ns: begun_ns + 4 * slept_ns }];
        let busy = busy(Tally { started_ns: begun_ns, marks, idle, unsent: 0 }, 20.0);
        assert!((0.6..0.9).contains(&busy), "{busy}");
    }

    #[test]
    fn a_fault_is_reported_rather_than_the_halt_that_it_caused() {
        let fault = Stop::from(Fault::failure("x"));
        let outcomes = vec![Err(Stop::Halted), Ok(tally(0, &[])), Err(fault.clone())];
        assert_eq!(all_or_worst(outcomes).unwrap_err(), fault);
    }

    #[test]
    fn sources_are_spread_only_where_ports_would_run_out() {
        assert_eq!(source_address(5, 20_000), None);
        assert_eq!(source_address(5, 20_002), Some(Ipv4Addr::new(127, 1, 0, 1)));
        assert_eq!(source_address(20_000, 20_002), Some(Ipv4Addr::new(127, 1, 0, 2)));
        assert_eq!(source_address(256 * 20_000, 6_000_000), Some(Ipv4Addr::new(127, 1, 1, 1)));
    }
}
