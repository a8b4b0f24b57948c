use cgroups_rs::CgroupPid;
use cgroups_rs::fs::cgroup_builder::CgroupBuilder;
use cgroups_rs::fs::cpu::CpuController;
use cgroups_rs::fs::memory::MemController;
use cgroups_rs::fs::{Cgroup, hierarchies};

use crate::plan::Limits;

/// Length of a period of CPU time, in microseconds: the kernel's own default.
const PERIOD_US: u64 = 100_000;
/// What to do when limits cannot be set.
const HINT: &str = "run as root or in a delegated cgroup, or leave `[limits]` out of the manifest";

/// A control group that limits one server. It is removed with the value.
#[derive(Debug)]
pub struct ServerCgroup {
    group: Cgroup,
    limits: Limits,
}

impl ServerCgroup {
    /// The name of the group that the process `pid` makes for a cell.
    pub fn name(pid: u32, order: u32) -> String {
        format!("runner-{pid}-{order}")
    }

    /// Removes a group that was left behind by a process that was killed.
    pub fn remove(name: &str) {
        // One that is not empty stays; it limits nobody else.
        let _ = Cgroup::load(hierarchies::auto(), name).delete();
    }

    /// Makes a group with these limits and reads them back. The error says what was refused and what to do: a server
    /// never runs without a limit that was asked for.
    pub fn create(name: &str, limits: &Limits) -> Result<Self, String> {
        let mut controllers = Vec::new();
        let mut builder = CgroupBuilder::new(name);
        if let Some(cpus) = limits.cpus {
            controllers.push("cpu".to_owned());
            builder = builder.cpu().period(PERIOD_US).quota((cpus * PERIOD_US as f64) as i64).done();
        }
        if let Some(bytes) = limits.memory_bytes {
            controllers.push("memory".to_owned());
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            builder = builder.memory().memory_hard_limit(bytes).done();
        }
        let group = builder
            .set_specified_controllers(controllers)
            .build(hierarchies::auto())
            .map_err(|error| format!("the limits cannot be set: {}; {HINT}", with_causes(&error)))?;
        let made = ServerCgroup { group, limits: limits.clone() };
        let seen = made.read_back();
        let cpus_differ = match (limits.cpus, seen.cpus) {
            (Some(asked), Some(seen)) => (asked - seen).abs() > 0.001,
            (asked, seen) => asked.is_some() != seen.is_some(),
        };
        // The kernel rounds memory down to whole pages.
        let memory_differs = match (limits.memory_bytes, seen.memory_bytes) {
            (Some(asked), Some(seen)) => asked.abs_diff(seen) > 64 * 1024,
            (asked, seen) => asked.is_some() != seen.is_some(),
        };
        if cpus_differ || memory_differs {
            return Err(format!(
                "the limits were not taken: asked for {limits:?}, read back {seen:?}; {HINT}"
            ));
        }
        Ok(made)
    }

    /// Moves a process into the group; what it starts later is in it too.
    pub fn add(&self, pid: i32) -> Result<(), String> {
        let pid = CgroupPid::from(u64::try_from(pid).unwrap_or_default());
        self.group
            .add_task_by_tgid(pid)
            .map_err(|error| format!("the server cannot be limited: {}; {HINT}", with_causes(&error)))
    }

    /// The limits that the kernel says are in force.
    pub fn read_back(&self) -> Limits {
        let cpus = self.limits.cpus.and_then(|_| {
            let cpu: &CpuController = self.group.controller_of()?;
            let (quota, period) = (cpu.cfs_quota().ok()?, cpu.cfs_period().ok()?);
            (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
        });
        let memory_bytes = self.limits.memory_bytes.and_then(|_| {
            let memory: &MemController = self.group.controller_of()?;
            u64::try_from(memory.memory_stat().limit_in_bytes).ok()
        });
        Limits { cpus, memory_bytes }
    }

    /// Periods in which the CPU limit held the server back.
    pub fn throttled(&self) -> u64 {
        let Some(cpu) = self.limits.cpus.and_then(|_| self.group.controller_of::<CpuController>()) else {
            return 0;
        };
        let stat = cpu.cpu().stat;
        stat.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.trim().parse().ok()).unwrap_or(0)
    }

    /// Times that the memory limit made the kernel end a process of the server.
    pub fn memory_failures(&self) -> u64 {
        let Some(memory) = self.limits.memory_bytes.and_then(|_| self.group.controller_of::<MemController>())
        else {
            return 0;
        };
        memory.memory_stat().oom_control.oom_kill
    }
}

impl Drop for ServerCgroup {
    fn drop(&mut self) {
        // A group that is not empty stays; it limits nobody else.
        let _ = self.group.delete();
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
