use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a machine is. Two machines of equal [`Fingerprint::class`] may be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// Short name of the class of host, from CPU model, core count, virtualisation and kernel's major version.
    pub class: String,
    /// Kernel release.
    pub kernel: String,
    /// Distribution, as it names itself.
    pub os: String,
    /// Version of the C library; empty when unknown.
    pub libc: String,
    /// Architecture, e.g. `x86_64`.
    pub arch: String,
    /// CPU model as the kernel names it.
    pub cpu_model: String,
    /// Family, model and stepping, which tell CPUs apart that share a name.
    pub cpu_id: String,
    /// Logical CPUs online.
    pub cpus: u32,
    /// Physical cores.
    pub physical_cores: u32,
    /// NUMA nodes.
    pub numa_nodes: u32,
    /// Whether simultaneous multithreading is on.
    pub smt: bool,
    /// Hypervisor, or `none`.
    pub virtualisation: String,
    /// Frequency governor; none where the kernel exposes no frequency control.
    pub governor: Option<String>,
    /// Whether turbo is on; none where unknown.
    pub turbo: Option<bool>,
    /// Clock source of the kernel.
    pub clock_source: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

/// The state of a machine at one moment. Differences of two say what happened between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Snapshot {
    /// Time since boot, in nanoseconds.
    pub monotonic_ns: u64,
    /// Load average over one minute.
    pub load_1m: f64,
    /// Memory available, in bytes.
    pub memory_available_bytes: u64,
    /// Swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// Pages swapped in or out since boot.
    pub pages_swapped: u64,
    /// Time since boot that the hypervisor took from each online CPU, in nanoseconds, by CPU number.
    pub steal_ns: Vec<u64>,
    /// Times since boot that heat throttled a core; none where unknown.
    pub thermal_throttles: Option<u64>,
    /// Current frequency of each CPU in kHz; empty where unknown.
    pub frequency_khz: Vec<u64>,
    /// Context switches since boot.
    pub context_switches: u64,
}
