//! Fitness: how much room the machine leaves.

use std::path::PathBuf;

use super::Host;
use super::finding::{Finding, Needs};

/// Descriptors that a side needs beside its connections: standard streams, event queue, library files.
const OTHER_FILES: u64 = 64;
/// Memory below which runtimes get into trouble, and below which they may, in bytes.
const TOO_LITTLE: u64 = 256 << 20;
const LITTLE: u64 = 1 << 30;

pub(super) fn findings(host: &Host, needs: &Needs) -> Vec<Finding> {
    let mut findings = vec![
        memory(host),
        open_files(host, needs),
        local_ports(host, needs),
        cpu_quota(host),
        memory_limit(host),
    ];
    if !needs.tools.is_empty() {
        findings.push(tools(needs));
    }
    findings
}

fn memory(host: &Host) -> Finding {
    const CHECK: &str = "memory";
    const WHY: &str = "runtimes collect garbage more often, or are ended by the kernel, when it runs short";
    const MEND: &str = "end what uses it: `ps -eo pid,rss,comm --sort=-rss | head`";
    let Some(kib) = host.kib("proc/meminfo", "MemAvailable") else {
        return Finding::fit(CHECK, "the kernel does not say");
    };
    let seen = format!("{} MiB available", kib >> 10);
    match kib * 1024 {
        ..TOO_LITTLE => Finding::unfit(CHECK, seen, WHY).mend(MEND),
        TOO_LITTLE..LITTLE => Finding::caution(CHECK, seen, WHY).mend(MEND),
        LITTLE.. => Finding::fit(CHECK, seen),
    }
}

fn open_files(host: &Host, needs: &Needs) -> Finding {
    const CHECK: &str = "open files";
    const WHY: &str = "a side that may open no more refuses connections";
    let needed = needs.connections + OTHER_FILES;
    let text = host.text("proc/self/limits").unwrap_or_default();
    let mut limits = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .unwrap_or_default()
        .split_whitespace()
        .map(|limit| limit.parse::<u64>().unwrap_or(u64::MAX));
    let (Some(soft), Some(hard)) = (limits.next(), limits.next()) else {
        return Finding::fit(CHECK, "the kernel does not say");
    };
    let shown = |limit: u64| if limit == u64::MAX { "any number".to_owned() } else { limit.to_string() };
    let seen = format!("{} in a process, {needed} needed", shown(soft));
    if needed <= soft {
        Finding::fit(CHECK, seen)
    } else if needed <= hard {
        Finding::caution(CHECK, seen, WHY).mend(format!("ulimit -n {needed}"))
    } else {
        Finding::unfit(CHECK, format!("{seen}, and the hard limit is {}", shown(hard)), WHY)
            .mend(format!("sudo prlimit --pid $$ --nofile={needed}:{needed}"))
    }
}

fn local_ports(host: &Host, needs: &Needs) -> Finding {
    const CHECK: &str = "local ports";
    let text = host.text("proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut range = text.split_whitespace().filter_map(|port| port.parse::<u64>().ok());
    let (Some(low), Some(high)) = (range.next(), range.next()) else {
        return Finding::fit(CHECK, "the kernel does not say");
    };
    let there = (high + 1).saturating_sub(low);
    let seen = format!("{low} to {high}: {there}, {} needed at once", needs.connections);
    // Those of the cell before linger for a minute.
    if needs.connections <= there {
        return Finding::fit(CHECK, seen);
    }
    Finding::unfit(CHECK, seen, "each connection of the client takes one")
        .mend("sudo sysctl net.ipv4.ip_local_port_range=\"32768 65535\"")
}

fn cpu_quota(host: &Host) -> Finding {
    const CHECK: &str = "CPU quota";
    const WHY: &str =
        "the kernel stops a group that has used up its quota for the rest of the period, up to 100 ms";
    const MEND: &str = "run outside the container, or give it whole CPUs (a CPU set) in place of a quota";
    match host.cpu_quota() {
        None => Finding::fit(CHECK, "none on this process"),
        Some(cores) if cores < 2.0 => {
            Finding::unfit(CHECK, format!("{cores:.2} cores for both sides"), WHY).mend(MEND)
        }
        Some(cores) => {
            Finding::caution(CHECK, format!("{cores:.2} cores for everything in this group"), WHY).mend(MEND)
        }
    }
}

fn memory_limit(host: &Host) -> Finding {
    const CHECK: &str = "memory limit";
    match host.memory_limit() {
        None => Finding::fit(CHECK, "none on this process"),
        Some(bytes) if bytes >= LITTLE => Finding::fit(CHECK, format!("{} MiB", bytes >> 20)),
        Some(bytes) => Finding::caution(
            CHECK,
            format!("{} MiB for everything in this group", bytes >> 20),
            "a server near the limit reclaims memory or is ended",
        )
        .mend("run outside the container, or raise its limit"),
    }
}

fn tools(needs: &Needs) -> Finding {
    const CHECK: &str = "tools";
    let missing: Vec<&str> = needs.tools.iter().copied().filter(|tool| find(tool).is_none()).collect();
    if missing.is_empty() {
        return Finding::fit(CHECK, format!("{} found", needs.tools.join(" and ")));
    }
    let packages = missing.iter().map(|tool| if *tool == "cc" { "gcc libc6-dev" } else { *tool });
    Finding::caution(
        CHECK,
        format!("{} not found", missing.join(" and ")),
        "servers that need them are skipped",
    )
    .mend(format!("sudo apt-get install {}", packages.collect::<Vec<_>>().join(" ")))
}

/// Where a program is, by `PATH`.
fn find(tool: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
}
