use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Arrived, Connection, Surprise};
use super::pair::Pair;
use super::payload::{self, End, Identity};
use super::worker::{Trouble, Worker};
use crate::record::{Counters, VoidReason};
use crate::wire::{Opcode, set_wait};

/// How long a doubtful case waits for more evidence.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// Why a client gives up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Why the numbers may not be used; none when a side failed.
    pub(super) reason: Option<VoidReason>,
    /// What was seen, in one sentence.
    pub(super) detail: String,
    /// What the fault adds to the counters.
    pub(super) found: Counters,
}

impl Fault {
    /// The client or the server failed; no message is to blame.
    pub(super) fn failure(detail: impl Into<String>) -> Self {
        Fault { reason: None, detail: detail.into(), found: Counters::default() }
    }

    fn of(reason: VoidReason, detail: String, count: impl FnOnce(&mut Counters)) -> Self {
        let mut found = Counters::default();
        count(&mut found);
        Fault { reason: Some(reason), detail, found }
    }

    /// A message that reached another pair than its own.
    fn mixed_up(at: &str, identity: Identity) -> Self {
        let sender = format!("end {} of pair {}", identity.end.name(), identity.pair);
        let detail = format!("{at} received message {} of {sender}", identity.sequence);
        Fault::of(VoidReason::PartnerMixedUp, detail, |_| {})
    }

    /// Messages that did not arrive within the stall time.
    pub(super) fn lost(missing: u64, whose: String, stall: Duration) -> Self {
        let messages = if missing == 1 { "message" } else { "messages" };
        let detail = format!("{missing} {messages} {whose} did not arrive within {} ms", stall.as_millis());
        Fault::of(VoidReason::LostMessages, detail, |found| found.missing = missing)
    }
}

/// What every message of a client should be like, for the one who judges those that are not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) opcode: Opcode,
    pub(super) payload: usize,
    pub(super) stall: Duration,
}

/// All connections of a client, at the time when something unexpected arrived at one of them.
pub(super) struct Court<'a, C: Connection> {
    pub(super) workers: &'a mut [Worker<C>],
    /// How many pairs there are.
    pub(super) pairs: u32,
}

impl<C: Connection> Court<'_, C> {
    /// Says what was wrong. May wait for further messages: what overtook another can be told from what follows a loss
    /// only by them.
    pub(super) fn judge(&mut self, trouble: Trouble) -> Fault {
        let Trouble { pair: number, end, surprise } = trouble;
        let Some((w, i)) = self.find(number) else {
            return Fault::failure(format!("pair {number} is not one of the client's"));
        };
        for worker in self.workers.iter() {
            for pair in &worker.pairs {
                if End::BOTH.into_iter().any(|end| set_wait(pair.end(end), None).is_err()) {
                    return Fault::failure("a socket could not be made non-blocking");
                }
            }
        }
        let worker = &mut self.workers[w];
        let rules = worker.rules;
        let at = format!("end {} of pair {number}", end.name());
        let arrived = match surprise {
            Surprise::Closed(how) => return Fault::failure(format!("the server {how}, seen at {at}")),
            Surprise::Protocol(what) => {
                let detail = format!("{at} received {what}");
                return Fault::of(VoidReason::Altered, detail, |found| found.altered = 1);
            }
            Surprise::Message(arrived) => arrived,
        };
        let identity = payload::identify(&arrived.payload)
            .filter(|identity| arrived.payload.len() == rules.payload && identity.pair < self.pairs);
        let Some(identity) = identity else {
            return rules.altered_or_unasked(&mut worker.pairs[i], &mut worker.kit, end, &at, &arrived);
        };
        if identity.pair == number {
            let fault = rules.judge(&mut worker.pairs[i], &mut worker.kit, end, &at, &arrived, identity);
            // What is lost may have gone to another pair, which had no reason to look.
            return match fault.reason {
                Some(VoidReason::LostMessages) => self.found_elsewhere(number).unwrap_or(fault),
                _ => fault,
            };
        }
        // Where it came from nobody can tell: it is a message of another pair, or one of this pair with another number
        // on it. Then one must be missing here, and none there.
        let pair = &mut worker.pairs[i];
        let expected = pair.expected(end);
        let may_be_ours = identity.end == end.partner() && pair.outstanding(end) > 0;
        let is_expected = |arrived: &Arrived| {
            payload::identify(&arrived.payload)
                .is_some_and(|identity| identity.pair == number && identity.sequence == expected)
        };
        if may_be_ours
            && !rules.wait_for(pair, &mut worker.kit, end, SECOND_LOOK, is_expected)
            && !self.is_missed(identity)
        {
            return rules.altered(&self.workers[w].pairs[i], end, &at, &arrived);
        }
        Fault::mixed_up(&at, identity)
    }

    fn find(&self, number: u32) -> Option<(usize, usize)> {
        self.workers.iter().enumerate().find_map(|(w, worker)| {
            let i = worker.pairs.iter().position(|pair| pair.number == number)?;
            Some((w, i))
        })
    }

    /// Looks at the other pairs for a message of this one.
    fn found_elsewhere(&mut self, number: u32) -> Option<Fault> {
        for worker in self.workers.iter_mut() {
            for pair in worker.pairs.iter_mut().filter(|pair| pair.number != number) {
                for end in End::BOTH {
                    let surprise = loop {
                        match pair.receive(end, &mut worker.kit) {
                            Ok(0) => break None,
                            Ok(_) => {}
                            Err(surprise) => break Some(*surprise),
                        }
                    };
                    let Some(Surprise::Message(arrived)) = surprise else { continue };
                    let identity = payload::identify(&arrived.payload);
                    if let Some(identity) = identity.filter(|identity| identity.pair == number) {
                        let at = format!("end {} of pair {}", end.name(), pair.number);
                        return Some(Fault::mixed_up(&at, identity));
                    }
                }
            }
        }
        None
    }

    /// Whether a message was sent and has not reached the end that it was meant for.
    fn is_missed(&mut self, identity: Identity) -> bool {
        let Some((w, i)) = self.find(identity.pair) else { return false };
        let (worker, end) = (&mut self.workers[w], identity.end.partner());
        let pair = &mut worker.pairs[i];
        while let Ok(1..) = pair.receive(end, &mut worker.kit) {}
        identity.sequence.wrapping_sub(pair.expected(end)) < pair.outstanding(end)
    }
}

impl Rules {
    /// Says what was wrong with a message of `pair` itself.
    fn judge<C: Connection>(
        &self,
        pair: &mut Pair<C>,
        kit: &mut C::Kit,
        end: End,
        at: &str,
        arrived: &Arrived,
        identity: Identity,
    ) -> Fault {
        let sequence = identity.sequence;
        if identity.end == end {
            let detail = format!(
                "{at} received its own message {sequence} back: the server echoes instead of relaying to the partner"
            );
            return Fault::of(VoidReason::Echoed, detail, |found| found.echoed = 1);
        }
        if arrived.opcode != self.opcode {
            let detail = format!(
                "{at} received message {sequence} as {}, but it was sent as {}",
                name(arrived.opcode),
                name(self.opcode)
            );
            return Fault::of(VoidReason::Altered, detail, |found| found.opcode_changed = 1);
        }
        let (expected, outstanding) = (pair.expected(end), pair.outstanding(end));
        // Before or after the expected one, by the shorter way around.
        let ahead = sequence.wrapping_sub(expected);
        if ahead > u32::MAX / 2 {
            let is_expected = |arrived: &Arrived| self.sequence_of(arrived) == Some(expected);
            if outstanding > 0 && !self.wait_for(pair, kit, end, SECOND_LOOK, is_expected) {
                // Its number was changed on the way: the message that it should have been does not come.
                return self.altered(pair, end, at, arrived);
            }
            let detail = format!("{at} received message {sequence} a second time");
            return Fault::of(VoidReason::UnaskedMessage, detail, |found| found.doubled = 1);
        }
        if ahead >= outstanding {
            return self.altered_or_unasked(pair, kit, end, at, arrived);
        }
        let mut gap: Vec<u32> = (0..ahead).map(|i| expected.wrapping_add(i)).collect();
        let filled = self.wait_for(pair, kit, end, self.stall, |arrived| {
            let sequence = self.sequence_of(arrived);
            gap.retain(|missing| Some(*missing) != sequence);
            gap.is_empty()
        });
        let overtaken = u64::from(ahead) - gap.len() as u64;
        if filled || overtaken > 0 {
            let detail = format!(
                "{at} received message {sequence} before message {expected}: {overtaken} of {ahead} earlier ones \
                 came later"
            );
            return Fault::of(VoidReason::OrderBroken, detail, |found| {
                found.reordered = 1;
                found.missing = gap.len() as u64;
            });
        }
        let whose = format!("from number {expected} on, of those to {at} (number {sequence} came instead),");
        Fault::lost(u64::from(ahead), whose, self.stall)
    }

    /// A message that nobody sent so: one in place of the expected one, or one too many, after which that comes.
    fn altered_or_unasked<C: Connection>(
        &self,
        pair: &mut Pair<C>,
        kit: &mut C::Kit,
        end: End,
        at: &str,
        arrived: &Arrived,
    ) -> Fault {
        let (expected, outstanding) = (pair.expected(end), pair.outstanding(end));
        let is_expected = |arrived: &Arrived| self.sequence_of(arrived) == Some(expected);
        if outstanding > 0 && !self.wait_for(pair, kit, end, SECOND_LOOK, is_expected) {
            return self.altered(pair, end, at, arrived);
        }
        let detail = format!("{at} received {} bytes that nobody had sent", arrived.payload.len());
        Fault::of(VoidReason::UnaskedMessage, detail, |_| {})
    }

    /// What was wrong with a message that nobody sent so.
    fn altered<C: Connection>(&self, pair: &Pair<C>, end: End, at: &str, arrived: &Arrived) -> Fault {
        let bytes = &arrived.payload;
        let mut wanted = payload::blank(end.partner(), self.payload);
        let head = wanted.first_chunk_mut().expect("a payload is never shorter than its head");
        payload::stamp(head, payload::Tag::new(end.partner(), pair.number), pair.expected(end));
        let differing = wanted.iter().zip(bytes).filter(|(wanted, got)| wanted != got).count();
        let detail = if bytes.len() != wanted.len() {
            format!("{at} received {} bytes where {} were sent", bytes.len(), wanted.len())
        } else {
            let first = wanted.iter().zip(bytes).position(|(wanted, got)| wanted != got).unwrap_or_default();
            format!(
                "{at} received {differing} of {} bytes other than sent, first at byte {first}",
                bytes.len()
            )
        };
        Fault::of(VoidReason::Altered, detail, |found| found.altered = 1)
    }

    fn sequence_of(&self, arrived: &Arrived) -> Option<u32> {
        payload::identify(&arrived.payload).map(|identity| identity.sequence)
    }

    /// Reads on at `end` until `enough` says so, or the time is over, or the connection is: whether it said so.
    fn wait_for<C: Connection>(
        &self,
        pair: &mut Pair<C>,
        kit: &mut C::Kit,
        end: End,
        time: Duration,
        mut enough: impl FnMut(&Arrived) -> bool,
    ) -> bool {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            match pair.next_message(end, kit) {
                Ok(Some(arrived)) if enough(&arrived) => return true,
                Ok(Some(_)) => {}
                Ok(None) => thread::sleep(Duration::from_micros(200)),
                Err(_) => return false,
            }
        }
        false
    }
}

fn name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Text => "text",
        _ => "binary",
    }
}
