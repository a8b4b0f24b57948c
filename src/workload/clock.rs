use rustix::time::{ClockId, clock_gettime};

use super::protocol::ClockFacts;

/// Time on the monotonic clock, in nanoseconds. Read through the kernel's shared page, without a system call.
#[inline]
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Measures what a reading costs and the smallest step between two of them. Takes about a millisecond.
pub(super) fn clock_facts() -> ClockFacts {
    const READINGS: usize = 512;
    let mut costs = Vec::new();
    let mut resolution_ns = u64::MAX;
    for _ in 0..32 {
        let mut last = now_ns();
        let first = last;
        for _ in 0..READINGS {
            let now = now_ns();
            if now != last {
                resolution_ns = resolution_ns.min(now - last);
            }
            last = now;
        }
        costs.push((last - first) as f64 / READINGS as f64);
    }
    costs.sort_by(f64::total_cmp);
    ClockFacts { source: "CLOCK_MONOTONIC".to_owned(), cost_ns: costs[costs.len() / 2], resolution_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_on_and_its_facts_are_plausible() {
        let before = now_ns();
        let facts = clock_facts();
        let elapsed = now_ns() - before;
        // All readings together cannot have cost more than the time that passed.
        assert!(facts.cost_ns > 0.0 && facts.cost_ns * 512.0 * 16.0 <= elapsed as f64, "{facts:?}");
        assert!(facts.resolution_ns >= 1 && facts.resolution_ns < 10_000_000, "{facts:?}");
    }
}
