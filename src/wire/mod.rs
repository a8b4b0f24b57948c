//! The minimal WebSocket client that the native generator needs. `connect` opens sockets and shakes hands, `frame`
//! and `assembler` read and write frames, `poller` waits for many sockets. Nothing here knows about workloads.

mod assembler;
mod connect;
mod frame;
mod poller;

pub use assembler::{Assembler, Incoming};
pub use connect::{ConnectError, Opened, Target, connect, set_wait, shake_hands};
pub use frame::{FrameError, Header, MAX_HEADER, Opcode, apply_mask};
pub use poller::{Interest, Poller};
