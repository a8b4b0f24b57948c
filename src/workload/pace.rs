use super::Extent;

/// How often a busy loop looks up from its work: for a wish to stop, and for messages that do not come. Nanoseconds.
const SWEEP_NS: u64 = 20_000_000;

/// Decides, for one thread and one batch, when no more is sent and when the loop must look up from its messages.
/// Asked after each round trip, it answers with two comparisons.
#[derive(Debug)]
pub(super) struct Pace {
    extent: Extent,
    slices: u32,
    /// Round trips that may be begun.
    target: u64,
    /// Time after which none may be begun.
    end_ns: u64,
    /// The next look-up: whichever comes first.
    next_rounds: u64,
    next_ns: u64,
    sweep_ns: u64,
    started_ns: u64,
    marks: Vec<Mark>,
}

/// How many round trips were done at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) rounds: u64,
    pub(super) at_ns: u64,
}

impl Pace {
    /// For a batch of which `slices` equal parts are to be told apart.
    pub(super) fn new(extent: Extent, slices: u32) -> Self {
        let target = match extent {
            Extent::Rounds(rounds) => rounds,
            Extent::DurationNs(_) => u64::MAX,
        };
        Pace {
            extent,
            slices: slices.max(1),
            target,
            end_ns: u64::MAX,
            next_rounds: 0,
            next_ns: 0,
            sweep_ns: 0,
            started_ns: 0,
            marks: Vec::with_capacity(slices.max(1) as usize),
        }
    }

    /// The clock starts.
    pub(super) fn start(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
        if let Extent::DurationNs(duration_ns) = self.extent {
            self.end_ns = now_ns.saturating_add(duration_ns);
        }
        self.sweep_ns = now_ns + SWEEP_NS;
        self.plan_next();
    }

    /// Whether another round trip may begin.
    #[inline]
    pub(super) fn may_begin(&self, begun: u64, now_ns: u64) -> bool {
        begun < self.target && now_ns < self.end_ns
    }

    /// When the time is over; none when a count ends it.
    pub(super) fn end_ns(&self) -> Option<u64> {
        matches!(self.extent, Extent::DurationNs(_)).then_some(self.end_ns)
    }

    /// Whether [`Pace::look_up`] is to be called.
    #[inline]
    pub(super) fn is_due(&self, done: u64, now_ns: u64) -> bool {
        done >= self.next_rounds || now_ns >= self.next_ns
    }

    /// Closes the slices that are over; says whether it is time to look after messages that do not come.
    #[cold]
    pub(super) fn look_up(&mut self, done: u64, now_ns: u64) -> bool {
        while self.marks.len() + 1 < self.slices as usize {
            let (rounds, at_ns) = self.boundary();
            if done < rounds && now_ns < at_ns {
                break;
            }
            self.marks.push(Mark { rounds: done, at_ns: now_ns });
        }
        let sweep = now_ns >= self.sweep_ns;
        if sweep {
            self.sweep_ns = now_ns + SWEEP_NS;
        }
        self.plan_next();
        sweep
    }

    /// The last round trip is done. Returns the end of each slice.
    pub(super) fn finish(mut self, done: u64, now_ns: u64) -> Vec<Mark> {
        self.marks.push(Mark { rounds: done, at_ns: now_ns });
        self.marks
    }

    /// Where the slice ends that is going on: rounds, or time.
    fn boundary(&self) -> (u64, u64) {
        let part = |whole: u64| {
            (u128::from(whole) * (self.marks.len() as u128 + 1) / u128::from(self.slices)) as u64
        };
        match self.extent {
            Extent::Rounds(rounds) => (part(rounds), u64::MAX),
            Extent::DurationNs(duration_ns) => (u64::MAX, self.started_ns.saturating_add(part(duration_ns))),
        }
    }

    fn plan_next(&mut self) {
        let (rounds, at_ns) =
            if self.marks.len() + 1 < self.slices as usize { self.boundary() } else { (u64::MAX, u64::MAX) };
        self.next_rounds = rounds;
        self.next_ns = at_ns.min(self.sweep_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_cut_into_equal_slices() {
        let mut pace = Pace::new(Extent::Rounds(100), 10);
        pace.start(1000);
        let mut done = 0;
        while pace.may_begin(done, 1000 + done) {
            done += 1;
            if pace.is_due(done, 1000 + done) {
                pace.look_up(done, 1000 + done);
            }
        }
        let marks = pace.finish(done, 1000 + done);
        let rounds: Vec<u64> = marks.iter().map(|mark| mark.rounds).collect();
        assert_eq!(rounds, [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]);
        assert!(marks.iter().all(|mark| mark.at_ns == 1000 + mark.rounds));
    }

    #[test]
    fn a_duration_is_cut_by_time_and_ends_on_time() {
        let mut pace = Pace::new(Extent::DurationNs(1000), 4);
        pace.start(0);
        let (mut done, mut now) = (0, 0);
        while pace.may_begin(done, now) {
            now += 30;
            done += 1;
            if pace.is_due(done, now) {
                pace.look_up(done, now);
            }
        }
        assert!((1000..1030).contains(&now), "{now}");
        let marks = pace.finish(done, now);
        let at: Vec<u64> = marks.iter().map(|mark| mark.at_ns).collect();
        assert_eq!(at, [270, 510, 750, 1020]);
    }

    #[test]
    fn more_slices_than_rounds_leave_none_behind() {
        let mut pace = Pace::new(Extent::Rounds(3), 10);
        pace.start(0);
        for done in 1..=3 {
            if pace.is_due(done, done) {
                pace.look_up(done, done);
            }
        }
        let marks = pace.finish(3, 3);
        assert_eq!((marks.len(), marks[9].rounds), (10, 3));
    }

    #[test]
    fn a_sweep_is_due_every_so_often() {
        let mut pace = Pace::new(Extent::Rounds(1_000_000), 1);
        pace.start(0);
        assert!(!pace.is_due(5, SWEEP_NS - 1));
        assert!(pace.is_due(5, SWEEP_NS) && pace.look_up(5, SWEEP_NS));
        assert!(!pace.is_due(6, SWEEP_NS + 1));
    }
}
