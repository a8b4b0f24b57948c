use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::*;
use crate::allocations::count_into;
use crate::embedded::relay_for;

static CLIENT: AtomicU64 = AtomicU64::new(0);
static RELAY: AtomicU64 = AtomicU64::new(0);

/// Allocations of client and relay between the end of the first trial and the end of the last one.
fn allocations(kind: Kind, payload: u64, wait: Wait, mask: Mask, rounds: u64) -> (u64, u64) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let relay = thread::spawn(move || {
        count_into(&RELAY);
        relay_for(listener, Duration::from_secs(2)).unwrap();
    });
    let mut job = job("native", port, kind);
    (job.params.payload, job.params.wait, job.params.mask, job.params.threads) = (payload, wait, mask, 1);
    (job.params.trial, job.params.trials) = (Extent::Rounds(rounds), 3);
    job.stall_ns = 5_000_000_000;
    let mut at_trials = Vec::with_capacity(8);
    let mut done = false;
    count_into(&CLIENT);
    let mut emit = |event: ClientEvent| {
        match event {
            ClientEvent::Trial { .. } => {
                at_trials.push((CLIENT.load(Ordering::Relaxed), RELAY.load(Ordering::Relaxed)));
            }
            ClientEvent::Fault { detail, .. } => panic!("{detail}"),
            ClientEvent::Done { .. } => done = true,
            _ => {}
        }
        true
    };
    let halt = Arc::new(AtomicBool::new(false));
    run_session(&job, Stage { emit: &mut emit, proceed: &mut || true, halt });
    assert!(done);
    drop(relay);
    // The counting itself works: accepting a connection allocates, and so does a histogram.
    assert!(RELAY.load(Ordering::Relaxed) > 0 && CLIENT.load(Ordering::Relaxed) > 0);
    let (first, last) = (at_trials[0], at_trials[2]);
    (last.0 - first.0, last.1 - first.1)
}

/// A trial allocates a little, be it short or long; a message allocates nothing, on neither side.
#[test]
fn a_message_allocates_nothing() {
    for (kind, payload, wait, mask) in [
        (Kind::Pingpong, 16, Wait::Spin, Mask::Zero),
        (Kind::Load, 16, Wait::Spin, Mask::Zero),
        (Kind::Load, 4096, Wait::Block, Mask::Zero),
        (Kind::Load, 4096, Wait::Spin, Mask::Random),
    ] {
        let short = allocations(kind, payload, wait, mask, 100);
        let long = allocations(kind, payload, wait, mask, 2_100);
        assert_eq!((short.1, long.1), (0, 0), "the relay, {kind:?} {payload}");
        // What is over is how often the text of a larger histogram grew: a few times in a trial.
        assert!(long.0 < short.0 + 20, "the client, {kind:?} {payload}: {} and {}", short.0, long.0);
    }
}
