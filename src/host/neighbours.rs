use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Serialize;

use super::Host;

/// Share of one CPU from which on a process is worth naming.
const BUSY: f64 = 0.05;

/// A process that uses CPU time while nothing is measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbour {
    /// Its id.
    pub pid: i32,
    /// Name of its executable, cut by the kernel to 15 bytes.
    pub name: String,
    /// CPU time per wall-clock time, in cores.
    pub cpus: f64,
}

/// CPU time that every process has used, in ticks, by its id.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(BTreeMap<i32, (String, u64)>);

impl Host {
    /// What every process has used so far.
    pub(super) fn times(&self) -> Times {
        let Ok(entries) = fs::read_dir(self.path("proc")) else { return Times::default() };
        Times(
            entries
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
                .filter_map(|pid| Some((pid, parse(&self.text(&format!("proc/{pid}/stat"))?)?)))
                .collect(),
        )
    }
}

/// Name and ticks of the line `stat`.
fn parse(stat: &str) -> Option<(String, u64)> {
    // The name is in parentheses and may hold anything.
    let (head, tail) = stat.rsplit_once(") ")?;
    let name = head.split_once('(')?.1.to_owned();
    let mut fields = tail.split(' ').skip(11).map(str::parse::<u64>);
    // Fields 14 and 15 of the line: user and system time.
    Some((name, fields.next()?.ok()? + fields.next()?.ok()?))
}

/// Processes other than `me` that were busy between two looks, the busiest first.
pub(super) fn busy(before: &Times, after: &Times, between: Duration, me: i32) -> Vec<Neighbour> {
    let ticks_per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
    let mut busy: Vec<Neighbour> = after
        .0
        .iter()
        .filter(|(pid, _)| **pid != me)
        .filter_map(|(pid, (name, ticks))| {
            let used = ticks.saturating_sub(before.0.get(pid).map_or(0, |(_, ticks)| *ticks));
            let cpus = used as f64 / ticks_per_s / between.as_secs_f64();
            (cpus > BUSY).then(|| Neighbour { pid: *pid, name: name.clone(), cpus })
        })
        .collect();
    busy.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(of: &[(i32, &str, u64)]) -> Times {
        Times(of.iter().map(|(pid, name, ticks)| (*pid, ((*name).to_owned(), *ticks))).collect())
    }

    #[test]
    fn the_busiest_come_first_and_we_are_left_out() {
        let before = times(&[(1, "init", 500), (7, "cc1", 10), (9, "me", 0)]);
        let after = times(&[(1, "init", 501), (7, "cc1", 20), (8, "new", 20), (9, "me", 20)]);
        let hertz = rustix::param::clock_ticks_per_second();
        let busy = busy(&before, &after, Duration::from_secs_f64(20.0 / hertz as f64), 9);
        let shown: Vec<(i32, &str, f64)> = busy.iter().map(|n| (n.pid, n.name.as_str(), n.cpus)).collect();
        assert_eq!(shown, [(8, "new", 1.0), (7, "cc1", 0.5)]);
    }

    #[test]
    fn user_and_system_time_are_added() {
        let stat = "7 (a (b) c) S 3 7 7 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 100 0 0";
        assert_eq!(parse(stat), Some(("a (b) c".to_owned(), 42)));
        assert_eq!(parse("7 (x"), None);
    }
}
