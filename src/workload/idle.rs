use super::clock::now_ns;

/// One in so many polls that find nothing is timed.
const EVERY: u64 = 64;

/// Samples that are kept, so that none is ever allocated.
const SAMPLES: usize = 512;

/// Counts polls that find nothing, and samples what they cost where they happen: in a loop of its own a poll is up to
/// half as cheap. Only empty polls take the time for it, never a message.
#[derive(Debug)]
pub(super) struct Idle {
    polls: u64,
    /// When the poll before this one came back empty; 0 when it was not to be timed or found something.
    since_ns: u64,
    costs_ns: Vec<u64>,
}

impl Idle {
    pub(super) fn new() -> Self {
        Idle { polls: 0, since_ns: 0, costs_ns: Vec::with_capacity(SAMPLES) }
    }

    /// A poll found nothing.
    #[inline]
    pub(super) fn nothing(&mut self) {
        self.polls += 1;
        if self.since_ns != 0 || self.polls.is_multiple_of(EVERY) {
            self.sample();
        }
    }

    /// A poll found something: what would have been timed is not the cost of an empty one.
    #[inline]
    pub(super) fn something(&mut self) {
        self.since_ns = 0;
    }

    #[cold]
    fn sample(&mut self) {
        let now_ns = now_ns();
        if self.since_ns == 0 {
            self.since_ns = if self.costs_ns.len() < SAMPLES { now_ns } else { 0 };
        } else {
            self.costs_ns.push(now_ns - self.since_ns);
            self.since_ns = 0;
        }
    }

    /// Polls that found nothing.
    pub(super) fn polls(&self) -> u64 {
        self.polls
    }

    /// Time that was spent on them, from the median of the samples, in nanoseconds. Each sample holds one reading of
    /// the clock, which is taken off.
    pub(super) fn spent_ns(mut self, clock_cost_ns: f64) -> f64 {
        if self.costs_ns.is_empty() {
            return 0.0;
        }
        self.costs_ns.sort_unstable();
        let median = self.costs_ns[self.costs_ns.len() / 2] as f64;
        self.polls as f64 * (median - clock_cost_ns).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_of_empty_polls_is_extrapolated_from_a_few() {
        let mut idle = Idle::new();
        let begun_ns = now_ns();
        for _ in 0..EVERY * 3 {
            thread::sleep(Duration::from_micros(100));
            idle.nothing();
        }
        let elapsed_ns = (now_ns() - begun_ns) as f64;
        assert_eq!((idle.polls(), idle.costs_ns.len()), (EVERY * 3, 2));
        let spent_ns = idle.spent_ns(20.0);
        assert!(spent_ns > 0.5 * elapsed_ns && spent_ns < 2.0 * elapsed_ns, "{spent_ns} of {elapsed_ns}");
    }

    #[test]
    fn a_poll_that_found_something_is_no_sample() {
        let mut idle = Idle::new();
        for _ in 0..EVERY {
            idle.nothing();
        }
        idle.something();
        idle.nothing();
        assert!(idle.costs_ns.is_empty());
        assert_eq!(idle.spent_ns(20.0), 0.0);
    }
}
