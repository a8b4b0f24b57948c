//! The machine: what it is (fingerprint, topology), how it is (snapshots), whether it is fit to measure.
//! The root of the file system is a parameter, so that all of it is tested on made-up trees.

mod types;

pub use types::{Fingerprint, Snapshot};
