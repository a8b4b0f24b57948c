//! What makes a machine fit to measure: what it is built of (`machine`), what it does besides (`company`), and how much
//! room it leaves (`room`).

use std::time::{Duration, Instant};

use super::finding::{Finding, Needs, Severity};
use super::neighbours::{Neighbour, busy};
use super::{Host, Snapshot, company, machine, room};

/// How long other processes are watched.
const WATCH: Duration = Duration::from_millis(200);

/// What only time tells about a machine.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched {
    pub(super) before: Snapshot,
    pub(super) after: Snapshot,
    pub(super) neighbours: Vec<Neighbour>,
}

impl Host {
    /// Everything that is known about how fit this machine is for what is to be measured, the worst first. Takes
    /// a fifth of a second, in which other processes are watched.
    pub fn fitness(&self, needs: &Needs) -> Vec<Finding> {
        let (before, times, started) = (self.snapshot(), self.times(), Instant::now());
        std::thread::sleep(WATCH);
        let (after, later, took) = (self.snapshot(), self.times(), started.elapsed());
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let watched = Watched { before, after, neighbours: busy(&times, &later, took, me) };
        self.fitness_of(needs, &watched)
    }

    pub(super) fn fitness_of(&self, needs: &Needs, watched: &Watched) -> Vec<Finding> {
        let mut findings = machine::findings(self, needs);
        findings.extend(company::findings(self, watched));
        findings.extend(room::findings(self, needs));
        // Within a severity the order of the checks stays.
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        findings
    }
}

/// The worst of them; fit when there are none.
pub fn worst(findings: &[Finding]) -> Severity {
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Fit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::files::test_support::host;

    /// A machine as one would like it to be.
    pub(super) const GOOD: &[(&str, &str)] = &[
        ("proc/cpuinfo", "processor: 0\nmodel name: Good CPU\nflags: tsc\n"),
        ("proc/stat", "cpu  0 0 0 100000 0 0 0 0 0 0\ncpu0 0 0 0 1 0 0 0 0 0 0\n"),
        ("proc/loadavg", "0.01 0.02 0.00 1/200 4242\n"),
        ("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3\n"),
        (
            "proc/self/limits",
            "Limit    Soft Limit  Hard Limit  Units\nMax open files   65536   524288   files\n",
        ),
        ("proc/self/cgroup", "0::/\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "32768\t60999\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ];

    fn changed(changes: &[(&'static str, &'static str)]) -> Vec<Finding> {
        seen(changes, &Needs { tools: Vec::new(), ..Needs::default() }, &Watched::default())
    }

    fn seen(changes: &[(&str, &str)], needs: &Needs, watched: &Watched) -> Vec<Finding> {
        let files: Vec<(&str, &str)> = GOOD.iter().chain(changes).copied().collect();
        let (_root, host) = host(&files);
        let watched = Watched { after: host.snapshot(), ..watched.clone() };
        host.fitness_of(needs, &watched)
    }

    /// The one finding that is not fit.
    fn only(findings: &[Finding]) -> (&'static str, Severity, &str) {
        let bad: Vec<&Finding> = findings.iter().filter(|one| one.severity > Severity::Fit).collect();
        let [one] = bad.as_slice() else { panic!("{bad:#?}") };
        assert!(!one.why.is_empty(), "{one:?}");
        (one.check, one.severity, &one.seen)
    }

    #[test]
    fn a_good_machine_is_fit_in_every_respect() {
        let findings = changed(&[]);
        assert_eq!(worst(&findings), Severity::Fit, "{findings:#?}");
        assert!(findings.len() >= 16, "{}", findings.len());
    }

    #[test]
    fn each_fault_is_found_and_nothing_else() {
        use Severity::{Caution, Unfit};
        type File = (&'static str, &'static str);
        let table: &[(&[File], &str, Severity)] = &[
            (
                &[("sys/devices/system/cpu/online", "0\n"), ("proc/self/status", "Cpus_allowed_list: 0\n")],
                "cores",
                Unfit,
            ),
            (&[("proc/self/status", "Cpus_allowed_list:\t1\n")], "cores", Unfit),
            (&[("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "0-1\n")], "SMT", Caution),
            (&[("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")], "governor", Caution),
            (&[("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")], "turbo", Caution),
            (&[("proc/cpuinfo", "flags: hypervisor\n")], "virtualisation", Caution),
            (
                &[("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")],
                "clock source",
                Caution,
            ),
            (&[("proc/loadavg", "2.50 0 0 1/1 1\n")], "load average", Caution),
            (&[("proc/stat", "cpu  0 0 0 900 0 0 0 100 0 0\n")], "steal", Caution),
            (
                &[("proc/meminfo", "MemAvailable: 7000000 kB\nSwapTotal: 90000 kB\nSwapFree: 0 kB\n")],
                "swap",
                Caution,
            ),
            (&[("proc/meminfo", "MemAvailable: 100000 kB\n")], "memory", Unfit),
            (&[("proc/meminfo", "MemAvailable: 400000 kB\n")], "memory", Caution),
            (&[("proc/self/limits", "Max open files   100   524288   files\n")], "open files", Caution),
            (&[("proc/self/limits", "Max open files   100   100   files\n")], "open files", Unfit),
            (&[("proc/sys/net/ipv4/ip_local_port_range", "60000\t60100\n")], "local ports", Unfit),
            (&[("sys/fs/cgroup/cpu.max", "150000 100000\n")], "CPU quota", Unfit),
            (&[("sys/fs/cgroup/cpu.max", "300000 100000\n")], "CPU quota", Caution),
            (&[("sys/fs/cgroup/memory.max", "100000000\n")], "memory limit", Caution),
        ];
        for (files, check, severity) in table {
            let findings = changed(files);
            let (found, how, seen) = only(&findings);
            assert_eq!((found, how), (*check, *severity), "{seen}");
        }
    }

    #[test]
    fn neighbours_are_named_and_make_a_small_machine_unfit() {
        let neighbour = |cpus| Neighbour { pid: 77, name: "make".to_owned(), cpus };
        let needs = Needs { tools: Vec::new(), ..Needs::default() };
        let with = |cpus| {
            let watched = Watched { neighbours: vec![neighbour(cpus)], ..Watched::default() };
            let findings = seen(&[], &needs, &watched);
            let (check, severity, seen) = only(&findings);
            (check, severity, seen.to_owned())
        };
        let (check, severity, text) = with(1.0);
        assert_eq!((check, severity), ("neighbours", Severity::Caution));
        assert!(text.contains("make (pid 77) 100 %"), "{text}");
        // Four CPUs less three are not enough for two sides.
        assert_eq!(with(3.0).1, Severity::Unfit);
    }

    #[test]
    fn what_a_manifest_asks_for_is_checked() {
        let base = Needs { tools: Vec::new(), ..Needs::default() };
        let many = Needs { connections: 40_000, ..base.clone() };
        let findings = seen(&[], &many, &Watched::default());
        assert_eq!(only(&findings).0, "local ports");
        let threads = Needs { client_threads: 8, ..base.clone() };
        let findings = seen(&[], &threads, &Watched::default());
        assert_eq!((only(&findings).0, only(&findings).1), ("cores", Severity::Caution));
        let absent = Needs { server: crate::manifest::CoreChoice::These(vec![9]), ..base };
        let findings = seen(&[], &absent, &Watched::default());
        assert_eq!((only(&findings).0, only(&findings).1), ("cores", Severity::Unfit));
    }

    #[test]
    fn of_a_machine_that_says_nothing_nothing_is_invented() {
        let (_root, host) = host(&[]);
        let findings = host.fitness_of(&Needs { tools: Vec::new(), ..Needs::default() }, &Watched::default());
        let unfit: Vec<&str> = findings
            .iter()
            .filter(|finding| finding.severity == Severity::Unfit)
            .map(|finding| finding.check)
            .collect();
        assert_eq!(unfit, ["cores"]);
    }
}
