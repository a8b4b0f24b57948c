use super::connection::{Arrived, Connection, Sent, Surprise};
use super::payload::End;
use crate::record::Counters;

/// Two connections that the server joined, and how many messages each has sent and received. The counts wrap; their
/// differences do not.
pub(super) struct Pair<C> {
    /// Its number among all pairs of the client.
    pub(super) number: u32,
    ends: [C; 2],
    sent: [u32; 2],
    received: [u32; 2],
    /// `sent` and `received` when they were last added to a total.
    settled: [[u32; 2]; 2],
}

impl<C: Connection> Pair<C> {
    pub(super) fn new(number: u32, ends: [C; 2]) -> Self {
        Pair { number, ends, sent: [0; 2], received: [0; 2], settled: [[0; 2]; 2] }
    }

    /// The connection of one end.
    pub(super) fn end(&self, end: End) -> &C {
        &self.ends[end.index()]
    }

    /// Messages on their way to `end`.
    #[inline]
    pub(super) fn outstanding(&self, end: End) -> u32 {
        self.sent[end.partner().index()].wrapping_sub(self.received[end.index()])
    }

    /// Number of the next message that `end` expects.
    #[inline]
    pub(super) fn expected(&self, end: End) -> u32 {
        self.received[end.index()]
    }

    /// Sends the next message of `end`.
    #[inline]
    pub(super) fn send(&mut self, end: End, kit: &mut C::Kit) -> Result<Sent, Box<Surprise>> {
        let sequence = self.sent[end.index()];
        self.sent[end.index()] = sequence.wrapping_add(1);
        self.ends[end.index()].send(kit, sequence)
    }

    /// Tries again to send what waits at `end`.
    pub(super) fn flush(&mut self, end: End, kit: &mut C::Kit) -> Result<Sent, Box<Surprise>> {
        self.ends[end.index()].flush(kit)
    }

    /// Takes what has arrived at `end`: how many messages, in order and as they were sent.
    #[inline]
    pub(super) fn receive(&mut self, end: End, kit: &mut C::Kit) -> Result<u32, Box<Surprise>> {
        let limit = self.outstanding(end);
        let expected = self.received[end.index()];
        let count = self.ends[end.index()].receive(kit, expected, limit)?;
        self.received[end.index()] = expected.wrapping_add(count);
        Ok(count)
    }

    /// Whatever arrives next at `end`, without comparing or counting.
    pub(super) fn next_message(
        &mut self,
        end: End,
        kit: &mut C::Kit,
    ) -> Result<Option<Arrived>, Box<Surprise>> {
        let expected = self.expected(end);
        self.ends[end.index()].next_message(kit, expected)
    }

    /// A number that changes whenever something has arrived at either end.
    pub(super) fn progress(&self) -> u32 {
        self.received[0].wrapping_add(self.received[1])
    }

    /// Adds what was sent and received since the last call.
    pub(super) fn settle(&mut self, counters: &mut Counters) {
        for end in End::BOTH {
            let i = end.index();
            counters.sent += u64::from(self.sent[i].wrapping_sub(self.settled[0][i]));
            counters.received += u64::from(self.received[i].wrapping_sub(self.settled[1][i]));
        }
        self.settled = [self.sent, self.received];
    }

    /// Says goodbye at both ends.
    pub(super) fn close(self) {
        self.ends.into_iter().for_each(C::close);
    }
}
