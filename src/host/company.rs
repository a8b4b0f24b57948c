//! Fitness: what the machine does besides.

use super::Host;
use super::finding::Finding;
use super::fitness::Watched;

/// Load average per CPU from which on somebody else has been at work.
const LOADED: f64 = 0.3;
/// Share of CPU time, since boot, that a hypervisor took away.
const STEAL: f64 = 0.01;
/// Swapped memory below this was put aside long ago and hurts nobody, in bytes.
const SWAPPED: u64 = 64 << 20;
/// Neighbours that are named.
const NAMED: usize = 5;

pub(super) fn findings(host: &Host, watched: &Watched) -> Vec<Finding> {
    vec![neighbours(host, watched), load(host, watched), steal(host, watched), swap(watched)]
}

fn neighbours(host: &Host, watched: &Watched) -> Finding {
    const CHECK: &str = "neighbours";
    const WHY: &str = "they take time, caches and memory bandwidth from both sides, not evenly";
    let cpus = host.topology().cpus.len() as f64;
    let all = &watched.neighbours;
    if all.is_empty() {
        return Finding::fit(CHECK, "no other process uses a CPU");
    }
    let names: Vec<String> = all
        .iter()
        .take(NAMED)
        .map(|one| format!("{} (pid {}) {:.0} %", one.name, one.pid, one.cpus * 100.0))
        .collect();
    let mut seen = names.join(", ");
    if all.len() > NAMED {
        seen.push_str(&format!(" and {} more", all.len() - NAMED));
    }
    let used: f64 = all.iter().map(|one| one.cpus).sum();
    // Two sides need a core each; a process that polls now and then is no reason to refuse.
    let finding =
        if cpus - used < 1.5 { Finding::unfit(CHECK, seen, WHY) } else { Finding::caution(CHECK, seen, WHY) };
    finding.mend(format!("end them, or keep them off the measured cores: `taskset -cp LIST {}`", all[0].pid))
}

fn load(host: &Host, watched: &Watched) -> Finding {
    const CHECK: &str = "load average";
    let cpus = host.topology().cpus.len().max(1) as f64;
    let load = watched.after.load_1m;
    let seen = format!("{load:.2} over the last minute, on {cpus:.0} CPUs");
    if load / cpus <= LOADED {
        return Finding::fit(CHECK, seen);
    }
    Finding::caution(CHECK, seen, "somebody else was at work, and may be again")
        .mend("wait a minute and look again; `top` shows who it is")
}

fn steal(host: &Host, watched: &Watched) -> Finding {
    const CHECK: &str = "steal";
    let text = host.text("proc/stat").unwrap_or_default();
    let all: Vec<f64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|figure| figure.parse().ok())
        .collect();
    let total: f64 = all.iter().take(8).sum();
    let share = all.get(7).map_or(0.0, |stolen| stolen / total.max(1.0));
    let now = |snapshot: &super::Snapshot| snapshot.steal_ns.iter().sum::<u64>();
    let just_now = now(&watched.after).saturating_sub(now(&watched.before)) / 1_000_000;
    let seen = if watched.before.steal_ns.is_empty() {
        format!("{:.2} % of CPU time since boot", share * 100.0)
    } else {
        format!("{:.2} % of CPU time since boot, {just_now} ms just now", share * 100.0)
    };
    if share <= STEAL {
        return Finding::fit(CHECK, seen);
    }
    Finding::caution(
        CHECK,
        seen,
        "the hypervisor gives this time to other guests; cells that lose over 10 % are void",
    )
    .mend("measure at a quieter time, or on dedicated CPUs")
}

fn swap(watched: &Watched) -> Finding {
    const CHECK: &str = "swap";
    let used = watched.after.swap_used_bytes;
    let pages = if watched.before.pages_swapped == 0 {
        0
    } else {
        watched.after.pages_swapped.saturating_sub(watched.before.pages_swapped)
    };
    let seen = match used {
        0 => "not in use".to_owned(),
        used => format!("{} MiB in use, {pages} pages moved just now", used >> 20),
    };
    if used < SWAPPED && pages == 0 {
        return Finding::fit(CHECK, seen);
    }
    Finding::caution(
        CHECK,
        seen,
        "a process that waits for the disk is no measure; cells during which the host swaps are void",
    )
    .mend("sudo swapoff -a && sudo swapon -a")
}
