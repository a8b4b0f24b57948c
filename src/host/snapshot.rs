use super::{Host, Snapshot};

impl Host {
    /// How this machine is at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let uptime = self.text("proc/uptime").unwrap_or_default();
        let uptime_s: f64 = uptime.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0.0);
        let stat = self.text("proc/stat").unwrap_or_default();
        let swap_total = self.kib("proc/meminfo", "SwapTotal").unwrap_or(0);
        let swap_free = self.kib("proc/meminfo", "SwapFree").unwrap_or(0);
        let pages =
            |name: &str| self.field("proc/vmstat", name).and_then(|text| text.parse().ok()).unwrap_or(0_u64);
        let numbers = self.topology().online();
        Snapshot {
            monotonic_ns: (uptime_s * 1e9) as u64,
            load_1m: self
                .text("proc/loadavg")
                .and_then(|text| text.split(' ').next()?.parse().ok())
                .unwrap_or(0.0),
            memory_available_bytes: self.kib("proc/meminfo", "MemAvailable").unwrap_or(0) * 1024,
            swap_used_bytes: swap_total.saturating_sub(swap_free) * 1024,
            pages_swapped: pages("pswpin") + pages("pswpout"),
            steal_ns: steal(&stat),
            thermal_throttles: numbers
                .iter()
                .map(|cpu| {
                    self.number::<u64>(&format!(
                        "sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count"
                    ))
                })
                .sum(),
            frequency_khz: numbers
                .iter()
                .filter_map(|cpu| {
                    self.number(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"))
                })
                .collect(),
            context_switches: stat
                .lines()
                .find_map(|line| line.strip_prefix("ctxt ")?.parse().ok())
                .unwrap_or(0),
        }
    }
}

/// Stolen time by CPU number, from the eighth figure of each `cpuN` line.
fn steal(stat: &str) -> Vec<u64> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let mut by_cpu = Vec::new();
    for line in stat.lines() {
        let mut fields = line.split_whitespace();
        let Some(number) = fields.next().and_then(|name| name.strip_prefix("cpu")?.parse::<usize>().ok())
        else {
            continue;
        };
        if number >= 65_536 {
            continue;
        }
        if by_cpu.len() <= number {
            by_cpu.resize(number + 1, 0);
        }
        by_cpu[number] = fields.nth(7).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0) * tick_ns;
    }
    by_cpu
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::files::test_support::host;

    #[test]
    fn steal_is_kept_by_cpu_number() {
        let stat =
            "cpu  1 2 3 4 5 6 7 800 0 0\ncpu0 1 2 3 4 5 6 7 3 0 0\ncpu2 1 2 3 4 5 6 7 5 0 0\nctxt 12\n";
        let tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(steal(stat), [3 * tick, 0, 5 * tick]);
    }

    #[test]
    fn the_state_is_read_from_proc() {
        let (_root, host) = host(&[
            ("proc/uptime", "12.50 20.00\n"),
            ("proc/loadavg", "0.75 0.5 0.1 1/100 4\n"),
            ("proc/stat", "cpu0 1 2 3 4 5 6 7 3 0 0\nctxt 12\n"),
            ("proc/meminfo", "MemAvailable: 10 kB\nSwapTotal: 8 kB\nSwapFree: 2 kB\n"),
            ("proc/vmstat", "pswpin 3\npswpout 4\n"),
        ]);
        let seen = host.snapshot();
        assert_eq!(seen.monotonic_ns, 12_500_000_000);
        assert_eq!((seen.load_1m, seen.context_switches), (0.75, 12));
        assert_eq!((seen.swap_used_bytes, seen.pages_swapped), (6 * 1024, 7));
        assert_eq!(seen.memory_available_bytes, 10 * 1024);
    }
}
