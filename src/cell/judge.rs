use crate::host::Snapshot;
use crate::plan::Cores;
use crate::record::{CONTENDED, Flag, Outcome, Trial, VoidReason};
use crate::stats;
use crate::workload::protocol::Batch;
use crate::workload::{Extent, Kind, Params};

/// Share of its CPU time from which on a side is saturated, as reports have it.
const SATURATED: f64 = 0.95;
/// Below this share of its CPU time a server had so much left that a saturated client hid it. Between this and
/// saturation both sides were nearly at their end: the figure belongs to the pair, which a flag says.
const SERVER_IDLE: f64 = 0.90;
/// Share of the cell's time that the hypervisor may take from its cores. A stolen tenth moves a rate by about that
/// much, twice the default tolerance.
const STEAL_VOID: f64 = 0.10;
const STEAL_FLAG: f64 = 0.02;
/// Share of a trial that a side may spend ready to run without a core.
const WAITED: f64 = 0.10;
/// Fewer round trips than this have no 99th percentile.
const FEWEST_ROUNDS: u64 = 100;
/// A trial by time may take this much longer than asked, and this many nanoseconds on top, for what is in flight.
const OVERRUN: f64 = 1.2;
const OVERRUN_NS: u64 = 100_000_000;
/// Trials that rise one after the other, the last this much above the first, show a warm-up that was too short.
/// Noise between trials is 7 to 13 % on small machines and does not rise in step.
const RISING: f64 = 1.25;
/// A first trial this far below the median of the others gets a flag.
const FIRST_TRIAL: f64 = 0.10;
/// How far the product of rate and mean latency may be from the messages in flight (Little, 1961).
const LITTLE: f64 = 0.05;
/// Share of an open loop's round trips that may be unsent at the end of a trial, as reports have it.
const UNSENT: f64 = 0.01;
/// Fewer messages than this many times those in flight make the start and end of a trial weigh too much.
const LITTLE_ROUNDS: u64 = 50;

/// What is known of a cell that ran to its end.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts<'a> {
    pub(super) cores: Option<&'a Cores>,
    pub(super) trials: &'a [Trial],
    pub(super) warmup: &'a [Batch],
    pub(super) before: Option<&'a Snapshot>,
    pub(super) after: Option<&'a Snapshot>,
    /// A side that was found on other cores than asked, as a sentence.
    pub(super) misplaced: Option<String>,
    /// CPU limit of the server, in cores.
    pub(super) cpu_limit: Option<f64>,
    /// Periods in which the server's own limit held it back.
    pub(super) limited_periods: u64,
    /// Times that the server met its memory limit.
    pub(super) memory_failures: u64,
    /// Processes of the server that outlived it.
    pub(super) left_behind: Vec<String>,
    /// Who still listened on the port.
    pub(super) port_holder: Option<String>,
}

/// Says whether numbers may be used, and what is worth knowing about them.
pub(super) fn judge(params: &Params, facts: &Facts) -> (Outcome, Vec<Flag>) {
    let mut flags = Vec::new();
    let outcome = void(params, facts, &mut flags)
        .map_or(Outcome::Ok, |(reason, detail)| Outcome::Void { reason, detail });
    (outcome, flags)
}

fn void(params: &Params, facts: &Facts, flags: &mut Vec<Flag>) -> Option<(VoidReason, String)> {
    let mut found: Option<(VoidReason, String)> = None;
    let mut say = |reason, detail: String| {
        found.get_or_insert((reason, detail));
    };
    if let Some(detail) = &facts.misplaced {
        say(VoidReason::WrongPlacement, detail.clone());
    }
    if let Some(holder) = &facts.port_holder {
        say(VoidReason::PortLeaked, format!("after the stop the port was still held by {holder}"));
    }
    if !facts.left_behind.is_empty() {
        say(
            VoidReason::ProcessLeaked,
            format!("the server left behind {}; ended now", facts.left_behind.join(", ")),
        );
    }
    if facts.memory_failures > 0 {
        say(
            VoidReason::MemoryLimit,
            format!("the server met its memory limit {} times", facts.memory_failures),
        );
    }
    machine(facts, flags, &mut say);
    contended(facts, flags);
    samples(params, facts, flags, &mut say);
    if let Some((reason, detail)) = client_limited(params, facts, flags) {
        say(reason, detail);
    }
    littles_law(params, facts, flags);
    schedule(params, facts, flags);
    if facts.limited_periods > 0 {
        flags.push(Flag {
            name: "cpu-limit".to_owned(),
            detail: format!("the server's CPU limit held it back in {} periods", facts.limited_periods),
        });
    }
    found
}

fn machine(facts: &Facts, flags: &mut Vec<Flag>, say: &mut impl FnMut(VoidReason, String)) {
    let (Some(before), Some(after)) = (facts.before, facts.after) else { return };
    let window = after.monotonic_ns.saturating_sub(before.monotonic_ns);
    let cores = facts.cores.into_iter().flat_map(|cores| cores.server.iter().chain(&cores.client));
    for core in cores {
        let at = |snapshot: &Snapshot| snapshot.steal_ns.get(*core as usize).copied().unwrap_or(0);
        let share = at(after).saturating_sub(at(before)) as f64 / window.max(1) as f64;
        let detail = format!("the hypervisor took {:.1} % of the time from core {core}", share * 100.0);
        if share > STEAL_VOID {
            say(VoidReason::CpuSteal, detail);
        } else if share > STEAL_FLAG {
            flags.push(Flag { name: "cpu-steal".to_owned(), detail });
        }
    }
    let swapped = after.pages_swapped.saturating_sub(before.pages_swapped);
    if swapped > 0 {
        say(VoidReason::Swapped, format!("the host swapped {swapped} pages"));
    }
    if let (Some(first), Some(last)) = (before.thermal_throttles, after.thermal_throttles)
        && last > first
    {
        say(VoidReason::Throttled, format!("heat throttled a core {} times", last - first));
    }
}

/// Somebody else on the cores of the cell. Threads of one side wait for one another too, so this is no more than a
/// flag; that the machine moved is seen in the control.
fn contended(facts: &Facts, flags: &mut Vec<Flag>) {
    let waited = |of: &dyn Fn(&Trial) -> u64| {
        let shares: Vec<f64> =
            facts.trials.iter().map(|trial| of(trial) as f64 / trial.window_ns.max(1) as f64).collect();
        stats::median(&shares).unwrap_or(0.0)
    };
    let sides = [
        ("server", waited(&|trial| trial.server.wait_ns)),
        ("client", waited(&|trial| trial.client.wait_ns)),
    ];
    for (side, share) in sides {
        if share > WAITED {
            let detail = format!("the {side} waited for its core in {:.0} % of the time", share * 100.0);
            flags.push(Flag { name: CONTENDED.to_owned(), detail });
        }
    }
}

fn samples(params: &Params, facts: &Facts, flags: &mut Vec<Flag>, say: &mut impl FnMut(VoidReason, String)) {
    let rounds: u64 = facts.trials.iter().map(|trial| trial.batch.rounds).sum();
    if rounds < FEWEST_ROUNDS {
        say(
            VoidReason::TooFewSamples,
            format!(
                "{rounds} round trips in all trials together; {FEWEST_ROUNDS} are the fewest that say anything"
            ),
        );
    }
    if let Extent::DurationNs(asked) = params.trial {
        let longest = facts.trials.iter().map(|trial| trial.batch.elapsed_ns).max().unwrap_or(0);
        if longest > (asked as f64 * OVERRUN) as u64 + OVERRUN_NS {
            say(
                VoidReason::TimeOverrun,
                format!("a trial of {} ms took {} ms", asked / 1_000_000, longest / 1_000_000),
            );
        }
    }
    let rates: Vec<f64> = facts.trials.iter().map(|trial| rate(&trial.batch)).collect();
    let [first, rest @ ..] = rates.as_slice() else { return };
    let Some(last) = rest.last() else { return };
    // The rise must have begun in the warm-up: five trials rise by chance once in 120 cells.
    let before = facts.warmup.last().map_or(0.0, rate);
    let rising = before < *first && rates.windows(2).all(|pair| pair[0] < pair[1]);
    if rates.len() >= 3 && rising && *last > RISING * first {
        say(
            VoidReason::WarmUpNotSettled,
            format!(
                "each trial was faster than the one before, from {first:.0} to {last:.0} round trips a second"
            ),
        );
    } else if let Some(usual) = stats::median(rest)
        && *first < (1.0 - FIRST_TRIAL) * usual
    {
        flags.push(Flag {
            name: "warm-up".to_owned(),
            detail: format!(
                "the first trial ran at {first:.0}, the others at {usual:.0} round trips a second"
            ),
        });
    }
}

/// In ping-pong a client that polls is always busy and always waiting: only load can be limited by it.
fn client_limited(params: &Params, facts: &Facts, flags: &mut Vec<Flag>) -> Option<(VoidReason, String)> {
    if params.kind != Kind::Load {
        return None;
    }
    let cores = facts.cores.map_or(1, |cores| cores.server.len().max(1)) as f64;
    let room = facts.cpu_limit.map_or(cores, |limit| limit.min(cores));
    let threads = f64::from(params.threads.max(1));
    let shares = |of: &dyn Fn(&Trial) -> f64| {
        stats::median(&facts.trials.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let cpu = |used: u64, window: u64| used as f64 / window.max(1) as f64;
    let client =
        shares(&|trial| trial.batch.busy.unwrap_or(cpu(trial.client.cpu_ns, trial.window_ns) / threads));
    let server = shares(&|trial| cpu(trial.server.cpu_ns, trial.window_ns));
    if client < SATURATED || server >= SATURATED * room {
        return None;
    }
    let detail = format!(
        "the client was {:.0} % busy while the server used {:.2} of {room:.0} cores",
        client * 100.0,
        server
    );
    // With several cores one saturated thread of the server may be the limit.
    if server < SERVER_IDLE * room && room <= 1.0 {
        return Some((VoidReason::ClientLimited, detail));
    }
    flags.push(Flag { name: "client-limited".to_owned(), detail });
    None
}

/// In an open loop: whether what was asked for was sent.
fn schedule(params: &Params, facts: &Facts, flags: &mut Vec<Flag>) {
    let Some(rate_per_s) = params.rate_per_s else { return };
    let sum = |of: &dyn Fn(&Batch) -> u64| facts.trials.iter().map(|trial| of(&trial.batch)).sum::<u64>();
    let (done, unsent) = (sum(&|batch| batch.rounds), sum(&|batch| batch.unsent.unwrap_or(0)));
    if unsent as f64 > UNSENT * (done + unsent) as f64 {
        flags.push(Flag {
            name: "rate-not-reached".to_owned(),
            detail: format!(
                "of {} round trips that were due at {rate_per_s} per second, {unsent} were never begun: all that may be in flight was",
                done + unsent
            ),
        });
    }
}

fn littles_law(params: &Params, facts: &Facts, flags: &mut Vec<Flag>) {
    // What is in flight in an open loop is what the server makes of it.
    if params.rate_per_s.is_some() {
        return;
    }
    let in_flight = u64::from(params.pairs) * u64::from(params.in_flight);
    for (index, trial) in facts.trials.iter().enumerate() {
        let batch = &trial.batch;
        if batch.rounds < LITTLE_ROUNDS * in_flight {
            continue;
        }
        let Some(mean_ns) =
            batch.latency.as_deref().and_then(|text| stats::decode_histogram(text).ok()).map(|h| h.mean())
        else {
            continue;
        };
        let seen = rate(batch) * mean_ns / 1e9;
        if (seen / in_flight as f64 - 1.0).abs() > LITTLE {
            flags.push(Flag {
                name: "littles-law".to_owned(),
                detail: format!(
                    "in trial {index}, rate times mean latency is {seen:.2} messages in flight, but there were {in_flight}"
                ),
            });
            return;
        }
    }
}

fn rate(batch: &Batch) -> f64 {
    batch.rounds as f64 * 1e9 / batch.elapsed_ns.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Usage;
    use crate::workload::{Mask, Opcode, Wait};

    fn params(kind: Kind) -> Params {
        Params {
            kind,
            payload: 16,
            opcode: Opcode::Binary,
            pairs: if kind == Kind::Load { 64 } else { 1 },
            in_flight: 1,
            rate_per_s: None,
            threads: 1,
            warmup: Extent::Rounds(100),
            trial: Extent::DurationNs(1_000_000_000),
            trials: 3,
            mask: Mask::Zero,
            wait: Wait::Spin,
        }
    }

    fn trial(rate: u64, server: f64, busy: Option<f64>) -> Trial {
        let window_ns = 1_000_000_000;
        Trial {
            batch: Batch { rounds: rate, elapsed_ns: window_ns, busy, ..Batch::default() },
            window_ns,
            server: Usage { cpu_ns: (server * window_ns as f64) as u64, ..Usage::default() },
            client: Usage { cpu_ns: window_ns, ..Usage::default() },
        }
    }

    fn of(kind: Kind, trials: &[Trial]) -> (Outcome, Vec<String>) {
        let cores = Cores { server: vec![0], client: vec![1] };
        let facts = Facts { cores: Some(&cores), trials, ..Facts::default() };
        let (outcome, flags) = judge(&params(kind), &facts);
        (outcome, flags.into_iter().map(|flag| flag.name).collect())
    }

    fn reason(outcome: Outcome) -> Option<VoidReason> {
        match outcome {
            Outcome::Void { reason, .. } => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn a_saturated_client_before_an_idle_server_makes_load_void() {
        let (outcome, _) = of(Kind::Load, &[trial(50_000, 0.6, Some(0.99))]);
        assert_eq!(reason(outcome), Some(VoidReason::ClientLimited));
    }

    #[test]
    fn two_sides_at_their_end_get_a_flag() {
        let (outcome, flags) =
            of(Kind::Load, &[trial(50_000, 0.93, Some(0.99)), trial(50_000, 0.93, Some(0.99))]);
        assert_eq!((outcome, flags), (Outcome::Ok, vec!["client-limited".to_owned()]));
    }

    #[test]
    fn a_saturated_server_is_what_load_asks_for() {
        let trials = [trial(50_000, 0.99, Some(0.99)), trial(50_000, 0.99, Some(0.99))];
        assert_eq!(of(Kind::Load, &trials), (Outcome::Ok, vec![]));
    }

    #[test]
    fn a_client_that_does_not_poll_is_judged_by_its_cpu_time() {
        let (outcome, _) = of(Kind::Load, &[trial(50_000, 0.6, None), trial(50_000, 0.6, None)]);
        assert_eq!(reason(outcome), Some(VoidReason::ClientLimited));
    }

    #[test]
    fn a_busy_client_is_normal_in_ping_pong() {
        let trials = [trial(30_000, 0.5, Some(0.99)), trial(30_000, 0.5, Some(0.99))];
        assert_eq!(of(Kind::Pingpong, &trials), (Outcome::Ok, vec![]));
    }

    #[test]
    fn trials_that_rise_step_by_step_have_not_settled() {
        let trials = [20_000, 23_000, 26_000].map(|rate| trial(rate, 0.5, None));
        assert_eq!(reason(of(Kind::Pingpong, &trials).0), Some(VoidReason::WarmUpNotSettled));
    }

    #[test]
    fn a_rise_after_a_faster_warm_up_is_noise() {
        let trials = [20_000, 23_000, 26_000].map(|rate| trial(rate, 0.5, None));
        let warmup = [Batch { rounds: 2_500, elapsed_ns: 100_000_000, ..Batch::default() }];
        let facts = Facts { trials: &trials, warmup: &warmup, ..Facts::default() };
        assert_eq!(judge(&params(Kind::Pingpong), &facts).0, Outcome::Ok);
    }

    #[test]
    fn noise_is_no_rise() {
        let trials = [20_000, 26_000, 23_000, 27_000].map(|rate| trial(rate, 0.5, None));
        let (outcome, flags) = of(Kind::Pingpong, &trials);
        assert_eq!((outcome, flags), (Outcome::Ok, vec!["warm-up".to_owned()]));
    }

    #[test]
    fn a_trial_by_time_may_not_run_on() {
        let mut late = trial(30_000, 0.5, None);
        late.batch.elapsed_ns = 7_000_000_000;
        assert_eq!(reason(of(Kind::Pingpong, &[late]).0), Some(VoidReason::TimeOverrun));
    }

    #[test]
    fn a_handful_of_round_trips_says_nothing() {
        assert_eq!(reason(of(Kind::Pingpong, &[trial(9, 0.5, None)]).0), Some(VoidReason::TooFewSamples));
    }

    #[test]
    fn steal_is_counted_on_the_cells_own_cores() {
        let cores = Cores { server: vec![1], client: vec![2] };
        let before = Snapshot { steal_ns: vec![0; 3], ..Snapshot::default() };
        let with = |steal_ns: Vec<u64>| {
            let after = Snapshot { monotonic_ns: 1_000_000_000, steal_ns, ..Snapshot::default() };
            let trials = [trial(30_000, 0.5, None)];
            let facts = Facts {
                cores: Some(&cores),
                trials: &trials,
                before: Some(&before),
                after: Some(&after),
                ..Facts::default()
            };
            let (outcome, flags) = judge(&params(Kind::Pingpong), &facts);
            (reason(outcome), flags.len())
        };
        assert_eq!(with(vec![900_000_000, 0, 0]), (None, 0));
        assert_eq!(with(vec![0, 50_000_000, 0]), (None, 1));
        assert_eq!(with(vec![0, 0, 200_000_000]).0, Some(VoidReason::CpuSteal));
    }

    #[test]
    fn somebody_else_on_a_core_is_seen() {
        let mut crowded = trial(30_000, 0.5, None);
        crowded.client.wait_ns = crowded.window_ns / 4;
        assert_eq!(of(Kind::Pingpong, &[crowded]), (Outcome::Ok, vec!["contended".to_owned()]));
    }

    #[test]
    fn what_a_server_leaves_behind_is_named() {
        let trials = [trial(30_000, 0.5, None)];
        let facts = Facts {
            trials: &trials,
            left_behind: vec!["sleep (pid 7)".to_owned()],
            port_holder: Some("sleep (pid 7)".to_owned()),
            ..Facts::default()
        };
        let (outcome, _) = judge(&params(Kind::Pingpong), &facts);
        let Outcome::Void { reason, detail } = outcome else { panic!("{outcome:?}") };
        assert_eq!(reason, VoidReason::PortLeaked);
        assert!(detail.contains("sleep (pid 7)"));
    }

    #[test]
    fn a_rate_that_contradicts_its_latency_is_flagged() {
        let text = |nanoseconds: u64| {
            let mut histogram = hdrhistogram::Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
            for _ in 0..1_000 {
                histogram.record(nanoseconds).unwrap();
            }
            stats::encode_histogram(&histogram)
        };
        let mut fits = trial(30_000, 0.5, None);
        fits.batch.latency = Some(text(33_333));
        let mut contradicts = fits.clone();
        contradicts.batch.latency = Some(text(20_000));
        assert!(of(Kind::Pingpong, &[fits]).1.is_empty());
        assert_eq!(of(Kind::Pingpong, &[contradicts]).1, ["littles-law"]);
    }
}
