use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Connection, Sent, Surprise};
use super::judge::Fault;
use super::payload::End;
use super::worker::{Stop, Trouble, Worker, check_halt};

/// How long nobody may receive anything after all probes have arrived.
const QUIET: Duration = Duration::from_millis(20);

/// Between two rounds of asking all sockets while nothing arrives.
const NAP: Duration = Duration::from_micros(100);

/// Checks, for all pairs at once and in both directions, that a message reaches the partner, as it was sent, and
/// nobody else: not its sender, not another pair. Nothing is in flight before or after.
pub(super) fn verify<C: Connection>(workers: &mut [Worker<C>], halt: &AtomicBool) -> Result<(), Stop> {
    for from in End::BOTH {
        let mut waiting = Vec::new();
        for (w, worker) in workers.iter_mut().enumerate() {
            for i in 0..worker.pairs.len() {
                let pair = &mut worker.pairs[i];
                let number = pair.number;
                let sent = pair.send(from, &mut worker.kit).map_err(Trouble::at(number, from))?;
                waiting.push(Probe { worker: w, pair: i, unsent: sent == Sent::Queued });
            }
        }
        let begun = Instant::now();
        while !waiting.is_empty() {
            check_halt(halt)?;
            let before = waiting.len();
            let late = workers.first().is_some_and(|worker| begun.elapsed() > worker.rules.stall);
            let mut index = 0;
            while index < waiting.len() {
                let probe = &mut waiting[index];
                if has_arrived(&mut workers[probe.worker], probe, from)? {
                    waiting.swap_remove(index);
                } else {
                    index += 1;
                }
            }
            if late && let Some(probe) = waiting.first() {
                let worker = &workers[probe.worker];
                let number = worker.pairs[probe.pair].number;
                let whose =
                    format!("from end {} before the measurement (one is of pair {number})", from.name());
                return Err(Fault::lost(waiting.len() as u64, whose, worker.rules.stall).into());
            }
            if waiting.len() == before {
                thread::sleep(NAP);
            }
        }
    }
    // One quiet time for all pairs and both directions: whatever came back to a sender in the first is still there.
    thread::sleep(QUIET);
    workers.iter_mut().try_for_each(Worker::expect_silence)?;
    Ok(())
}

/// A probe on its way.
struct Probe {
    worker: usize,
    pair: usize,
    unsent: bool,
}

/// Whether a probe has reached the partner. Fails at once when its sender receives anything.
fn has_arrived<C: Connection>(worker: &mut Worker<C>, probe: &mut Probe, from: End) -> Result<bool, Stop> {
    let (to, pair) = (from.partner(), &mut worker.pairs[probe.pair]);
    let number = pair.number;
    if probe.unsent {
        let sent = pair.flush(from, &mut worker.kit).map_err(Trouble::at(number, from))?;
        probe.unsent = sent == Sent::Queued;
    }
    if pair.receive(to, &mut worker.kit).map_err(Trouble::at(number, to))? != 0 {
        return Ok(true);
    }
    match pair.next_message(from, &mut worker.kit).map_err(Trouble::at(number, from))? {
        None => Ok(false),
        Some(arrived) => {
            let surprise = Surprise::Message(arrived);
            Err(Box::new(Trouble { pair: number, end: from, surprise }).into())
        }
    }
}
