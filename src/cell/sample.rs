use std::fs;

use crate::record::Usage;

/// What these processes have used so far, but for `pss_bytes`.
pub(super) fn read(pids: &[i32]) -> Usage {
    let mut total = Usage::default();
    for pid in pids {
        add(&mut total, &of_process(*pid));
    }
    total
}

/// Memory of these processes, in bytes, with their share of what they share with others (proportional set size).
/// Walks their page tables, which is slow. `None` where the kernel does not say.
pub(super) fn pss_bytes(pids: &[i32]) -> Option<u64> {
    let of_process = |pid: &i32| {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
        field(&rollup, "Pss:").map(|kib| kib * 1024)
    };
    pids.iter().filter_map(of_process).reduce(|sum, bytes| sum + bytes)
}

/// What was used between two readings; memory is that of the later one.
pub(super) fn between(before: &Usage, after: &Usage) -> Usage {
    Usage {
        cpu_ns: after.cpu_ns.saturating_sub(before.cpu_ns),
        user_ns: after.user_ns.saturating_sub(before.user_ns),
        system_ns: after.system_ns.saturating_sub(before.system_ns),
        wait_ns: after.wait_ns.saturating_sub(before.wait_ns),
        voluntary_switches: after.voluntary_switches.saturating_sub(before.voluntary_switches),
        involuntary_switches: after.involuntary_switches.saturating_sub(before.involuntary_switches),
        rss_bytes: after.rss_bytes,
        pss_bytes: after.pss_bytes,
    }
}

/// The use of several windows together; memory is the largest seen.
pub(super) fn over<'a>(windows: impl IntoIterator<Item = &'a Usage>) -> Usage {
    windows.into_iter().fold(Usage::default(), |mut total, window| {
        let (rss, pss) = (total.rss_bytes.max(window.rss_bytes), total.pss_bytes.max(window.pss_bytes));
        add(&mut total, window);
        total.rss_bytes = rss;
        total.pss_bytes = pss;
        total
    })
}

fn add(total: &mut Usage, part: &Usage) {
    total.cpu_ns += part.cpu_ns;
    total.user_ns += part.user_ns;
    total.system_ns += part.system_ns;
    total.wait_ns += part.wait_ns;
    total.voluntary_switches += part.voluntary_switches;
    total.involuntary_switches += part.involuntary_switches;
    total.rss_bytes += part.rss_bytes;
    total.pss_bytes = match (total.pss_bytes, part.pss_bytes) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
}

fn of_process(pid: i32) -> Usage {
    let mut usage = Usage::default();
    let mut scheduled_ns = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
        let path = task.path();
        // Time on a core and time waiting for one, in nanoseconds.
        let times = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
        let mut times = times.split(' ').map(|text| text.parse::<u64>().unwrap_or(0));
        scheduled_ns += times.next().unwrap_or(0);
        usage.wait_ns += times.next().unwrap_or(0);
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        usage.voluntary_switches += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        usage.involuntary_switches += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
    }
    if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat"))
        && let Some((_, tail)) = stat.rsplit_once(") ")
    {
        let fields: Vec<&str> = tail.split(' ').collect();
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
        let ticks = |index: usize| fields.get(index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        // utime and stime are fields 14 and 15 of the line, 11 and 12 after the name.
        usage.user_ns = ticks(11) * tick_ns;
        usage.system_ns = ticks(12) * tick_ns;
        usage.rss_bytes = ticks(21) * rustix::param::page_size() as u64;
    }
    // Kernels without scheduler statistics say zero.
    usage.cpu_ns = if scheduled_ns > 0 { scheduled_ns } else { usage.user_ns + usage.system_ns };
    usage
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// Cores that the kernel lets each thread of these processes use, when all agree; else every set seen.
pub(super) fn cores_allowed(pids: &[i32]) -> Result<Vec<u32>, Vec<String>> {
    let mut seen: Vec<String> = Vec::new();
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            if let Some(list) = list.map(str::trim).filter(|list| !seen.iter().any(|one| one == list)) {
                seen.push(list.to_owned());
            }
        }
    }
    match seen.as_slice() {
        [one] => Ok(parse_list(one)),
        _ => Err(seen),
    }
}

/// Reads the kernel's notation, e.g. `0-2,5`.
fn parse_list(list: &str) -> Vec<u32> {
    list.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
        })
        .flatten()
        .take(4096)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_shows_as_cpu_time_and_memory() {
        let me = [std::process::id() as i32];
        let (before, begun) = (read(&me), Instant::now());
        let mut sum = 0_u64;
        while begun.elapsed().as_millis() < 30 {
            sum = std::hint::black_box(sum + 1);
        }
        let after = read(&me);
        let used = between(&before, &after);
        assert!(used.cpu_ns > 1_000_000, "{used:?}");
        assert!(used.rss_bytes > 100_000);
        assert!(pss_bytes(&me).unwrap() > 100_000);
    }

    #[test]
    fn windows_add_up_but_memory_is_the_largest() {
        let one = Usage { cpu_ns: 5, rss_bytes: 100, pss_bytes: Some(90), ..Usage::default() };
        let two = Usage { cpu_ns: 7, rss_bytes: 80, pss_bytes: None, ..Usage::default() };
        let both = over([&one, &two]);
        assert_eq!((both.cpu_ns, both.rss_bytes, both.pss_bytes), (12, 100, Some(90)));
    }

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_list("3"), [3]);
        assert!(parse_list("").is_empty());
    }

    #[test]
    fn a_process_that_is_gone_has_used_nothing() {
        assert_eq!(read(&[i32::MAX]), Usage::default());
        assert_eq!(pss_bytes(&[i32::MAX]), None);
    }
}
