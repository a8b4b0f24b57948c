//! The contract of servers, proved on one that is started for it: what `runner smoke` runs.
//! `checks` is the contract and `session` goes through it; `server` is the process, `end` one end of a pair, and
//! `burst` tells the faults of messages apart.

mod burst;
mod checks;
mod end;
mod report;
mod server;
mod session;
mod sockets;

pub use checks::{CHECKS, Check};
pub use report::{Finding, Findings, Verdict};
pub use server::SmokeLimits;
pub use session::smoke;
