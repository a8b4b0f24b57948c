use super::files::field;
use super::{Fingerprint, Host};

impl Host {
    /// What this machine is.
    pub fn fingerprint(&self) -> Fingerprint {
        let topology = self.topology();
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let cpu = |name: &str| field(&cpuinfo, name);
        let cpu_model =
            cpu("model name").or_else(|| cpu("Processor")).unwrap_or_else(|| "unknown".to_owned());
        let cpu_id = ["cpu family", "model", "stepping"]
            .iter()
            .map(|name| {
                cpuinfo
                    .lines()
                    .find_map(|line| {
                        let (key, value) = line.split_once(':')?;
                        (key.trim() == *name).then(|| value.trim().to_owned())
                    })
                    .unwrap_or_else(|| "?".to_owned())
            })
            .collect::<Vec<_>>()
            .join("/");
        let virtualisation = self.virtualisation();
        let kernel = self.text("proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
        let physical_cores = topology.physical_cores() as u32;
        let cpus = topology.cpus.len() as u32;
        let class = class(&cpu_model, &cpu_id, cpus, &virtualisation, &kernel);
        Fingerprint {
            class,
            os: self
                .field("etc/os-release", "PRETTY_NAME=")
                .or_else(|| {
                    self.text("etc/os-release").and_then(|text| {
                        text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=").map(str::to_owned))
                    })
                })
                .map_or_else(|| "unknown".to_owned(), |name| name.trim_matches('"').to_owned()),
            libc: libc_version(),
            arch: std::env::consts::ARCH.to_owned(),
            cpu_model,
            cpu_id,
            cpus,
            physical_cores,
            numa_nodes: topology.nodes() as u32,
            smt: cpus > physical_cores,
            virtualisation,
            governor: self.governor(),
            turbo: self.turbo(),
            clock_source: self
                .text("sys/devices/system/clocksource/clocksource0/current_clocksource")
                .unwrap_or_else(|| "unknown".to_owned()),
            memory_bytes: self.kib("proc/meminfo", "MemTotal").unwrap_or(0) * 1024,
            kernel,
        }
    }

    /// Frequency governor; none where the kernel exposes no frequency control.
    pub(super) fn governor(&self) -> Option<String> {
        self.text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    }

    /// Whether turbo is on; none where unknown.
    pub(super) fn turbo(&self) -> Option<bool> {
        self.number::<u8>("sys/devices/system/cpu/intel_pstate/no_turbo")
            .map(|off| off == 0)
            .or_else(|| self.number::<u8>("sys/devices/system/cpu/cpufreq/boost").map(|on| on == 1))
    }

    /// Name of the hypervisor, or `none`.
    pub(super) fn virtualisation(&self) -> String {
        let cpuinfo = self.text("proc/cpuinfo").unwrap_or_default();
        let hypervisor =
            field(&cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
        // Small virtual machines have no firmware tables, but a clock that only their hypervisor offers.
        let by_clock = || {
            let clocks = self.text("sys/devices/system/clocksource/clocksource0/available_clocksource")?;
            ["kvm", "hyperv", "xen"].into_iter().find(|name| clocks.contains(name)).map(str::to_owned)
        };
        match self.text("sys/hypervisor/type").or_else(|| self.vendor()).or_else(by_clock) {
            Some(name) if hypervisor => name,
            _ if hypervisor => "unknown".to_owned(),
            _ => "none".to_owned(),
        }
    }

    fn vendor(&self) -> Option<String> {
        self.text("sys/class/dmi/id/product_name").or_else(|| self.text("sys/class/dmi/id/sys_vendor"))
    }

    /// A field in KiB.
    pub(super) fn kib(&self, path: &str, name: &str) -> Option<u64> {
        self.field(path, name)?.split_whitespace().next()?.parse().ok()
    }
}

/// Version of the C library that this process runs with.
fn libc_version() -> String {
    // The loader's own file name holds it on glibc; musl has none.
    std::process::Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()
        .filter(|output| output.status.success())
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}

/// Two machines of one class may be compared: the same CPU, as many of them, under the same kind of hypervisor and
/// the same series of kernels.
fn class(model: &str, id: &str, cpus: u32, virtualisation: &str, kernel: &str) -> String {
    let mut series = kernel.split(['.', '-']);
    let series = format!("{}.{}", series.next().unwrap_or("?"), series.next().unwrap_or("?"));
    let text = format!("{model} {id} {cpus}cpu {virtualisation} linux-{series}");
    let mut slug = String::new();
    for letter in text.chars() {
        if letter.is_ascii_alphanumeric() || letter == '.' {
            slug.push(letter.to_ascii_lowercase());
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use crate::host::files::test_support::host;

    #[test]
    fn a_virtual_machine_is_described() {
        let (_root, host) = host(&[
            (
                "proc/cpuinfo",
                "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nstepping\t: 1\nflags\t\t: fpu hypervisor\n",
            ),
            ("proc/sys/kernel/osrelease", "6.18.2-cloud\n"),
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian 12\"\n"),
            ("proc/meminfo", "MemTotal:       1024 kB\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/class/dmi/id/product_name", "KVM\n"),
        ]);
        let seen = host.fingerprint();
        assert_eq!(seen.class, "amd-epyc-25-17-1-2cpu-kvm-linux-6.18");
        assert_eq!((seen.os.as_str(), seen.memory_bytes), ("Debian 12", 1024 * 1024));
        assert_eq!((seen.cpus, seen.smt, seen.governor), (2, false, None));
    }

    #[test]
    fn an_empty_tree_is_no_error() {
        let (_root, host) = host(&[]);
        assert_eq!(host.fingerprint().cpu_model, "unknown");
        assert_eq!(host.fingerprint().virtualisation, "none");
    }
}
