//! Built-in servers: the control relay, the busy-polled relay, and faulty ones that prove the checks.
//! `relay` is the loop, `forward` what it does with each frame and `connection` its state; `hook` is where the faults
//! of `faulty` get in; `server` is the process around it.

mod connection;
mod faulty;
mod forward;
mod frame;
mod handshake;
mod hook;
mod leftover;
mod relay;
mod server;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use server::relay_for;
pub use server::{ServeError, is_built_in, max_payload, serve, variable_of, visible_names};
