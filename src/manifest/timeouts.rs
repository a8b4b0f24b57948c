use crate::plan::Timeouts;
use crate::workload::{Extent, Params};

/// What a manifest says of timeouts.
pub(super) struct GivenTimeouts {
    pub(super) start_ns: Option<u64>,
    pub(super) stall_ns: Option<u64>,
    pub(super) deadline_ns: Option<u64>,
    pub(super) grace_ns: Option<u64>,
}

impl GivenTimeouts {
    /// The given ones, else the built-in ones; a deadline that was not given leaves room for what is measured.
    pub(super) fn fill(&self, params: &Params) -> Timeouts {
        let built_in = Timeouts::default();
        Timeouts {
            start_ns: self.start_ns.unwrap_or(built_in.start_ns),
            stall_ns: self.stall_ns.unwrap_or(built_in.stall_ns),
            deadline_ns: self.deadline_ns.unwrap_or_else(|| default_deadline_ns(params, &built_in)),
            grace_ns: self.grace_ns.unwrap_or(built_in.grace_ns),
        }
    }
}

/// A cell that takes longer than this hangs: the built-in deadline, or, where more was asked for, start, stop and
/// twice the batches, round trips being counted at a rate that any server reaches.
fn default_deadline_ns(params: &Params, built_in: &Timeouts) -> u64 {
    const SLOWEST_NS: u64 = 400_000;
    let each_ns = params.rate_per_s.map_or(SLOWEST_NS, |rate| SLOWEST_NS.max(1_000_000_000 / rate.max(1)));
    let ns = |extent| match extent {
        Extent::Rounds(rounds) => u64::saturating_mul(rounds, each_ns),
        Extent::DurationNs(ns) => ns,
    };
    let batches = ns(params.warmup).saturating_add(ns(params.trial).saturating_mul(u64::from(params.trials)));
    let needed =
        batches.saturating_mul(2).saturating_add(built_in.start_ns).saturating_add(built_in.grace_ns);
    built_in.deadline_ns.max(needed)
}
