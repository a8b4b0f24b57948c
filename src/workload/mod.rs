//! What is exchanged: the parameters of each kind of workload, the payloads and their checks, and the client side.
//! `params` is the vocabulary, `protocol` the lines that every client program speaks, the rest does the work.

mod params;
pub mod protocol;

pub use params::{Extent, Kind, MIN_PAYLOAD, Mask, Opcode, Params, Wait};
