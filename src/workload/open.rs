use super::latency::Latency;

/// One thread's part of an open loop: when its round trips are due, and which pair has room for the next.
///
/// Latencies are taken from the time at which a round trip was due, so that what waited to be sent behind a server that
/// stalls is not left out (coordinated omission; G. Tene, HdrHistogram and wrk2).
#[derive(Debug)]
pub(super) struct Open {
    interval_ns: f64,
    started_ns: u64,
    /// Round trips that were begun.
    begun: u64,
    /// The pair whose turn it is.
    turn: usize,
    /// Messages that each pair has in flight.
    in_use: Vec<usize>,
    in_flight: usize,
    /// When each round trip in flight was due: `in_flight` places for each pair, used in turn.
    due_ns: Vec<u64>,
}

impl Open {
    /// For a thread that drives `pairs` pairs at `rate_per_s` round trips per second.
    pub(super) fn new(rate_per_s: f64, pairs: usize, in_flight: usize) -> Self {
        Open {
            interval_ns: 1e9 / rate_per_s,
            started_ns: 0,
            begun: 0,
            turn: 0,
            in_use: vec![0; pairs],
            in_flight,
            due_ns: vec![0; pairs * in_flight],
        }
    }

    /// The clock starts: the first round trip is due at once.
    pub(super) fn start(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
    }

    /// When the next round trip is due.
    #[inline]
    pub(super) fn next_due_ns(&self) -> u64 {
        self.due_ns_of(self.begun)
    }

    #[inline]
    fn due_ns_of(&self, number: u64) -> u64 {
        self.started_ns + (number as f64 * self.interval_ns) as u64
    }

    /// Takes a place for the next round trip: its pair, the pair's place and when it was due. None when every pair has
    /// all in flight that it may have. `oldest` is the place of each pair's oldest round trip.
    #[inline]
    pub(super) fn take(&mut self, oldest: &[usize]) -> Option<(usize, usize)> {
        let pairs = self.in_use.len();
        for _ in 0..pairs {
            let pair = self.turn;
            self.turn = if pair + 1 == pairs { 0 } else { pair + 1 };
            if self.in_use[pair] < self.in_flight {
                let place = (oldest[pair] + self.in_use[pair]) % self.in_flight;
                self.due_ns[pair * self.in_flight + place] = self.next_due_ns();
                self.in_use[pair] += 1;
                self.begun += 1;
                return Some((pair, place));
            }
        }
        None
    }

    /// Gives the place of a pair's oldest round trip back; when it was due.
    #[inline]
    pub(super) fn give_back(&mut self, pair: usize, place: usize) -> u64 {
        self.in_use[pair] -= 1;
        self.due_ns[pair * self.in_flight + place]
    }

    /// Counts those that were due before `end_ns` and never begun, with the time that they had waited by `now_ns`.
    pub(super) fn give_up(&self, end_ns: u64, now_ns: u64, latency: &mut Latency) -> u64 {
        let due = |number| Some(self.due_ns_of(number)).filter(|due| *due < end_ns);
        let mut unsent = 0;
        while let Some(due_ns) = due(self.begun + unsent) {
            latency.record(now_ns.saturating_sub(due_ns));
            unsent += 1;
        }
        unsent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_due_evenly_and_pairs_take_turns() {
        let mut open = Open::new(1000.0, 3, 2);
        open.start(500);
        let oldest = [0, 1, 0];
        let taken: Vec<_> = (0..6)
            .map(|number| {
                assert_eq!(open.next_due_ns(), 500 + number * 1_000_000);
                open.take(&oldest).unwrap()
            })
            .collect();
        assert_eq!(taken, [(0, 0), (1, 1), (2, 0), (0, 1), (1, 0), (2, 1)]);
        assert_eq!(open.take(&oldest), None);
        assert_eq!(open.give_back(1, 1), 1_000_500);
        assert_eq!(open.take(&[0, 0, 0]), Some((1, 1)));
    }

    #[test]
    fn what_was_never_begun_is_counted_with_its_wait() {
        let mut open = Open::new(1000.0, 1, 1);
        open.start(0);
        open.take(&[0]).unwrap();
        let mut latency = Latency::new(1);
        // Due at 1, 2, 3 and 4 ms; the window ends at 4.5 ms.
        assert_eq!(open.give_up(4_500_000, 5_000_000, &mut latency), 4);
        assert_eq!(latency.count(), 4);
    }
}
