//! What is exchanged: the parameters of each kind of workload, the payloads and their checks, and the client side.
//! `params` is the vocabulary, `protocol` the lines that every client program speaks, `session` does the work.

mod clock;
mod connection;
mod engine;
mod idle;
mod judge;
mod latency;
mod library;
mod load;
mod native;
mod open;
mod pace;
mod pair;
mod params;
/// Payloads that say who sent them.
pub mod payload;
mod pingpong;
pub mod protocol;
mod session;
mod template;
mod verify;
mod worker;

#[cfg(test)]
mod tests;

pub use latency::Latency;
pub use params::{Extent, Kind, MIN_PAYLOAD, Mask, Opcode, Params, Wait};
pub use session::{BUILT_IN_CLIENTS, Stage, run_session};
pub use template::Template;
