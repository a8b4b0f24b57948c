//! The machine: what it is (fingerprint, topology), how it is (snapshots), what it can limit (cgroups), and whether
//! it is fit to measure. The root of the file system is a parameter, so that all of it is tested on made-up trees.

mod cgroup;
mod company;
mod files;
mod finding;
mod fingerprint;
mod fitness;
mod machine;
mod neighbours;
mod own_group;
mod room;
mod snapshot;
mod topology;
/// Processes below this one, as the kernel lists them.
pub(crate) mod tree;
mod types;

pub use cgroup::ServerCgroup;
pub use files::Host;
pub use finding::{Finding, Needs, Severity};
pub use fitness::worst;
pub use neighbours::Neighbour;
pub use topology::{Cpu, Topology};
pub use types::{Fingerprint, Snapshot};
