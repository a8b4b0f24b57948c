//! TOML manifests: wire types (serde) to domain types, with errors that point into the file.
//! `types` is what the rest of the program sees.

mod types;

pub use types::{CoreChoice, Exclusion, Manifest, MatrixRow, Metric, NamedWorkload, Tolerance};
