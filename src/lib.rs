//! `runner`: a declarative experiment runner for WebSocket servers.
//!
//! A manifest is expanded into cells; each cell runs in a process of its own and leaves one record; reports are
//! made from records alone. Dependencies point downwards in this list.

/// A file for each verb of the command line.
pub mod command;
/// Exit codes, and how an error reaches its user.
pub mod exit;

/// Tables and files made from the records of a run.
pub mod report;
/// Passes over the cells: order of execution, executors, resume, and the event stream.
pub mod schedule;
/// A run beside its baseline: the rule of judgement, what is known of the noise, change points. No I/O.
pub mod verdict;

/// The life of one cell: place, start, ready, verify, measure, sample, stop, judge.
pub mod cell;
/// Built-in servers: the control relay, the busy-polled relay, and faulty ones that prove the checks.
pub mod embedded;
/// Versioned JSON records and the store that holds them.
pub mod record;
/// The contract of servers, proved on a running one.
pub mod smoke;

/// What servers, runtimes and clients exist, how they are installed, which versions they are.
pub mod catalog;
/// TOML manifests: wire types, domain types, located errors.
pub mod manifest;
/// The cross product: cells, filters, order, time estimate. No I/O.
pub mod plan;

/// The machine: fingerprint, topology, snapshots, limits, fitness.
pub mod host;
/// Pure statistics, each formula with its source. No I/O.
pub mod stats;
/// The minimal WebSocket client that the native generator needs.
pub mod wire;
/// What is exchanged: parameters, payloads, checks, and the client side of each kind.
pub mod workload;

#[cfg(test)]
mod allocations;
