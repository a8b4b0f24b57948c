//! What exists: servers, runtimes and clients, how they are installed and which versions they are.
//! `wire` is the files as written and `types` what they mean; `resolve` says how to start what is there, `setup`
//! brings what is missing.

mod ask;
mod glibc;
mod install;
mod load;
mod lookup;
mod module;
mod resolve;
mod setup;
mod types;
mod wire;

pub use setup::{Ready, SetupEvent, setup};
pub use types::{Catalog, Setting};
