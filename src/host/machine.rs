//! Fitness: what the machine is built of and how it is set up.

use super::Host;
use super::files::{cpu_list, ranges};
use super::finding::{Finding, Needs};

/// Clocks that programs read without entering the kernel.
const CHEAP_CLOCKS: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "timebase"];

pub(super) fn findings(host: &Host, needs: &Needs) -> Vec<Finding> {
    vec![
        cores(host, needs),
        smt(host),
        isolated(host),
        governor(host),
        turbo(host),
        virtualisation(host),
        clock_source(host),
        huge_pages(host),
    ]
}

fn cores(host: &Host, needs: &Needs) -> Finding {
    const CHECK: &str = "cores";
    const WHY: &str = "server and client would share a core, and each would measure the other";
    let mut topology = host.topology();
    let online = topology.online();
    if let Some(list) = host.field("proc/self/status", "Cpus_allowed_list") {
        let allowed = cpu_list(&list);
        topology.cpus.retain(|cpu| allowed.contains(&cpu.number));
    }
    let (physical, here) = (topology.physical_cores(), topology.online());
    let mut seen = format!("{physical} physical, CPUs {}", ranges(&here));
    if here.len() < online.len() {
        seen.push_str(&format!(" of the {} that are online", online.len()));
    }
    match topology.pick(&needs.server, &needs.client, needs.client_threads) {
        Err(why) => Finding::unfit(CHECK, format!("{seen}: {why}"), WHY).mend(
            "use a machine, a virtual machine or a CPU set with more cores; or name others in `[cores]`",
        ),
        Ok(cores) => {
            seen.push_str(&format!(
                "; server on {}, client on {}",
                ranges(&cores.server),
                ranges(&cores.client)
            ));
            if cores.client.len() < needs.client_threads as usize {
                let seen = format!("{seen}, which has {} threads", needs.client_threads);
                return Finding::caution(CHECK, seen, "client threads that share a core hold each other up")
                    .mend(format!(
                        "`threads = {}` in the workload, or a larger machine",
                        cores.client.len()
                    ));
            }
            Finding::fit(CHECK, seen)
        }
    }
}

fn smt(host: &Host) -> Finding {
    const CHECK: &str = "SMT";
    let topology = host.topology();
    let (cpus, cores) = (topology.cpus.len(), topology.physical_cores());
    if cpus <= cores {
        return Finding::fit(CHECK, "no core has a second hardware thread");
    }
    Finding::caution(
        CHECK,
        format!("on: {cpus} hardware threads on {cores} cores"),
        "work on the sibling of a measured core slows it; one thread of each core is used, but others may use the second",
    )
    .mend("echo off | sudo tee /sys/devices/system/cpu/smt/control")
}

fn isolated(host: &Host) -> Finding {
    let seen = match host.text("sys/devices/system/cpu/isolated") {
        Some(list) => format!("CPUs {list} are kept free of other work"),
        None => "none; other work may be put on the measured cores".to_owned(),
    };
    let finding = Finding::fit("isolated CPUs", seen.clone());
    if seen.starts_with("none") {
        finding.mend(
            "for the quietest figures, `isolcpus=` on the kernel's command line and those CPUs in `[cores]`",
        )
    } else {
        finding
    }
}

fn governor(host: &Host) -> Finding {
    const CHECK: &str = "governor";
    match host.governor() {
        None => Finding::fit(CHECK, "the kernel controls no frequency here"),
        Some(name) if name == "performance" => Finding::fit(CHECK, name),
        Some(name) => Finding::caution(
            CHECK,
            name,
            "the frequency follows the load: a server that sleeps between messages is measured on a slower CPU",
        )
        .mend("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"),
    }
}

fn turbo(host: &Host) -> Finding {
    const CHECK: &str = "turbo";
    const WHY: &str = "the frequency depends on heat and on what other cores do, so figures drift";
    match host.turbo() {
        None => Finding::fit(CHECK, "not known to the kernel"),
        Some(false) => Finding::fit(CHECK, "off"),
        Some(true) => {
            let mend = if host.text("sys/devices/system/cpu/intel_pstate/no_turbo").is_some() {
                "echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo"
            } else {
                "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
            };
            Finding::caution(CHECK, "on", WHY).mend(mend)
        }
    }
}

fn virtualisation(host: &Host) -> Finding {
    const CHECK: &str = "virtualisation";
    match host.virtualisation().as_str() {
        "none" => Finding::fit(CHECK, "none"),
        name => Finding::caution(
            CHECK,
            name.to_owned(),
            "other guests of the same machine are not visible from inside, and move figures by ten per cent and more",
        )
        .mend("compare within one run only, with several passes and by the ratio to the control; or use a dedicated host"),
    }
}

fn clock_source(host: &Host) -> Finding {
    const CHECK: &str = "clock source";
    const FOLDER: &str = "sys/devices/system/clocksource/clocksource0";
    let Some(name) = host.text(&format!("{FOLDER}/current_clocksource")) else {
        return Finding::fit(CHECK, "the kernel does not say");
    };
    if CHEAP_CLOCKS.contains(&name.as_str()) {
        return Finding::fit(CHECK, name);
    }
    let others = host.text(&format!("{FOLDER}/available_clocksource")).unwrap_or_default();
    let finding =
        Finding::caution(CHECK, name, "reading it enters the kernel each time, which adds to every latency");
    match others.split(' ').find(|other| CHEAP_CLOCKS.contains(other)) {
        Some(other) => finding.mend(format!("echo {other} | sudo tee /{FOLDER}/current_clocksource")),
        None => finding,
    }
}

fn huge_pages(host: &Host) -> Finding {
    const CHECK: &str = "huge pages";
    let text = host.text("sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let chosen = text.split(' ').find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Finding::fit(
        CHECK,
        match chosen {
            None => "not supported".to_owned(),
            Some("always") => {
                "always: memory figures are higher than with `madvise`; compare like with like".to_owned()
            }
            Some(other) => other.to_owned(),
        },
    )
}
