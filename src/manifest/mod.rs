//! TOML manifests: wire types (serde) to domain types, with errors that point into the file.
//! `types` is what the rest of the program sees, `load` makes it; `host` holds the checks that depend on the machine.

mod at;
mod axes;
mod host;
mod judge;
mod load;
mod matrix;
mod names;
mod near;
mod pool;
mod problem;
mod quantity;
mod read;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod timeouts;
mod types;
mod wire;
mod workloads;

pub use host::{check_cores, check_descriptors, check_runtimes, cores_from_flags};
pub use load::{DEFAULT_CONTROL, load, load_problems};
pub use names::Names;
pub use near::nearest;
pub use problem::{Look, Problems};
pub use quantity::{QuantityError, SIZE_UNITS, TIME_UNITS, parse_bytes, parse_time_ns};
pub use types::{CoreChoice, Exclusion, Manifest, MatrixRow, Metric, NamedWorkload, Rules, Tolerance};
pub use workloads::MAX_PAYLOAD;

/// The JSON Schema of a manifest, as TOML maps to JSON.
pub fn json_schema() -> schemars::Schema {
    schemars::schema_for!(wire::ManifestFile)
}
