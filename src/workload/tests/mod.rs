//! The built-in clients against small servers in this process: honest ones, and one for each fault.

mod allocations;
mod faults;
mod honest;
mod server;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::protocol::{ClientEvent, ClientJob};
use super::{BUILT_IN_CLIENTS, Extent, Kind, Mask, Opcode, Params, Stage, Wait, run_session};
use crate::record::{Counters, VoidReason};

/// A small job; each test changes what it is about.
fn job(client: &str, port: u16, kind: Kind) -> ClientJob {
    let (pairs, threads) = match kind {
        Kind::Pingpong => (1, 1),
        Kind::Load => (6, 2),
    };
    ClientJob {
        client: client.to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        params: Params {
            kind,
            payload: 16,
            opcode: Opcode::Binary,
            pairs,
            in_flight: 1,
            rate_per_s: None,
            threads,
            warmup: Extent::Rounds(40),
            trial: Extent::Rounds(120),
            trials: 2,
            mask: Mask::Zero,
            wait: Wait::Spin,
        },
        cores: Vec::new(),
        stall_ns: 400_000_000,
    }
}

/// All events of a session that is told to go on each time.
fn events(job: &ClientJob) -> Vec<ClientEvent> {
    let mut events = Vec::new();
    let mut emit = |event| {
        events.push(event);
        true
    };
    run_session(
        job,
        Stage { emit: &mut emit, proceed: &mut || true, halt: Arc::new(AtomicBool::new(false)) },
    );
    events
}

/// The fault that a job ends with.
fn fault(job: &ClientJob) -> (Option<VoidReason>, String, Counters) {
    match events(job).pop() {
        Some(ClientEvent::Fault { reason, detail, counters }) => (reason, detail, counters),
        other => panic!("no fault, but {other:?}"),
    }
}

/// The totals that a job ends with.
fn done(job: &ClientJob) -> Counters {
    match events(job).pop() {
        Some(ClientEvent::Done { counters }) => counters,
        other => panic!("not done, but {other:?}"),
    }
}
