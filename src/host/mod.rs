//! The machine: what it is (fingerprint, topology), how it is (snapshots), what it can limit (cgroups), and whether
//! it is fit to measure. The root of the file system is a parameter, so that all of it is tested on made-up trees.

mod cgroup;
mod files;
mod fingerprint;
mod snapshot;
mod topology;
mod types;

pub use cgroup::ServerCgroup;
pub use files::Host;
pub use topology::{Cpu, Topology};
pub use types::{Fingerprint, Snapshot};
