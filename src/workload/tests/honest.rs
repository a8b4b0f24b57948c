use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use proptest::prelude::*;
use tungstenite::Message;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};

use super::super::protocol::Batch;
use super::server::Server;
use super::*;

fn relay() -> Server {
    Server::tampering(|_, _, _, _| {})
}

fn latencies(batch: &Batch) -> Histogram<u64> {
    decoded(batch.latency.as_ref().unwrap())
}

fn decoded(encoded: &str) -> Histogram<u64> {
    let bytes = BASE64.decode(encoded).unwrap();
    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
}

#[test]
fn a_session_tells_its_phases_with_their_figures() {
    for client in BUILT_IN_CLIENTS {
        for kind in [Kind::Pingpong, Kind::Load] {
            let server = relay();
            let mut events = events(&job(client, server.port, kind)).into_iter();
            let connections = if kind == Kind::Pingpong { 2 } else { 12 };
            match events.next() {
                Some(ClientEvent::Ready { connections: open, versions, extensions, clock, .. }) => {
                    assert_eq!((open, extensions.len()), (connections, 0));
                    assert!(versions.contains_key("runner") && clock.is_some());
                }
                other => panic!("{other:?}"),
            }
            assert!(matches!(events.next(), Some(ClientEvent::Verified { .. })));
            match events.next() {
                Some(ClientEvent::Warm { slices }) => {
                    assert_eq!(slices.iter().map(|slice| slice.rounds).sum::<u64>(), 40);
                    assert!(slices.len() > 5, "{slices:?}");
                }
                other => panic!("{other:?}"),
            }
            for expected in 0..2 {
                match events.next() {
                    Some(ClientEvent::Trial { index, batch }) => {
                        assert_eq!((index, batch.rounds), (expected, 120));
                        let latencies = latencies(&batch);
                        assert_eq!(latencies.len(), 120);
                        assert!(latencies.max() <= batch.elapsed_ns + batch.elapsed_ns / 500, "{batch:?}");
                        assert!(batch.empty_polls > Some(0) && batch.busy < Some(1.0), "{batch:?}");
                    }
                    other => panic!("{other:?}"),
                }
            }
            match events.next() {
                Some(ClientEvent::Done { counters }) => {
                    let all = 2 * (40 + 2 * 120);
                    assert_eq!(counters, Counters { sent: all, received: all, ..Counters::default() });
                }
                other => panic!("{other:?}"),
            }
            assert!(events.next().is_none());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn every_message_arrives_whatever_the_parameters(
        client in prop::sample::select(&BUILT_IN_CLIENTS[..]),
        load: bool,
        text: bool,
        random: bool,
        block: bool,
        payload in prop_oneof![12..20u64, 120..130u64, 4000..5000u64, 65_530..65_540u64, Just(300_000)],
        pairs in 1..8u32,
        in_flight in 1..5u32,
        threads in 1..4u32,
    ) {
        let server = relay();
        let mut job = job(client, server.port, if load { Kind::Load } else { Kind::Pingpong });
        job.params.opcode = if text { Opcode::Text } else { Opcode::Binary };
        job.params.mask = if random { Mask::Random } else { Mask::Zero };
        job.params.wait = if block { Wait::Block } else { Wait::Spin };
        job.params.payload = payload;
        job.stall_ns = 5_000_000_000;
        job.params.warmup = Extent::Rounds(7);
        job.params.trial = Extent::Rounds(31);
        if load {
            (job.params.pairs, job.params.in_flight, job.params.threads) = (pairs, in_flight, threads);
        }
        let all = 2 * (7 + 2 * 31);
        prop_assert_eq!(done(&job), Counters { sent: all, received: all, ..Counters::default() });
    }
}

/// Far beyond what the kernel buffers, in both directions at once.
#[test]
fn messages_larger_than_all_buffers_are_pushed_through() {
    for client in BUILT_IN_CLIENTS {
        for (kind, wait) in
            [(Kind::Pingpong, Wait::Spin), (Kind::Load, Wait::Spin), (Kind::Load, Wait::Block)]
        {
            let server = relay();
            let mut job = job(client, server.port, kind);
            job.params.payload = 16 << 20;
            job.params.wait = wait;
            (job.params.warmup, job.params.trial) = (Extent::Rounds(0), Extent::Rounds(2));
            (job.params.pairs, job.params.threads, job.params.trials) = (1, 1, 1);
            job.stall_ns = 20_000_000_000;
            assert_eq!(done(&job).received, 4);
        }
    }
}

#[test]
fn many_pairs_are_polled_through_the_kernel() {
    for client in BUILT_IN_CLIENTS {
        let server = relay();
        let mut job = job(client, server.port, Kind::Load);
        (job.params.pairs, job.params.threads, job.stall_ns) = (300, 2, 5_000_000_000);
        (job.params.in_flight, job.params.trial) = (3, Extent::Rounds(2000));
        assert_eq!(done(&job).received, 2 * (40 + 2 * 2000));
    }
}

#[test]
fn a_trial_by_time_ends_on_time() {
    for client in BUILT_IN_CLIENTS {
        for kind in [Kind::Pingpong, Kind::Load] {
            let server = relay();
            let mut job = job(client, server.port, kind);
            job.params.warmup = Extent::DurationNs(50_000_000);
            job.params.trial = Extent::DurationNs(100_000_000);
            let begun = Instant::now();
            let events = events(&job);
            assert!(begun.elapsed() < Duration::from_secs(2));
            let mut trials = 0;
            for event in events {
                match event {
                    ClientEvent::Warm { slices } => {
                        let elapsed_ns: u64 = slices.iter().map(|slice| slice.elapsed_ns).sum();
                        // One thread's slices follow one another without a gap; those of several are averages.
                        assert!(kind == Kind::Load || elapsed_ns >= 50_000_000, "{slices:?}");
                        assert!((1..=10).contains(&slices.len()), "{slices:?}");
                    }
                    ClientEvent::Trial { batch, .. } => {
                        trials += 1;
                        assert!(batch.elapsed_ns >= 100_000_000, "{batch:?}");
                        assert_eq!(latencies(&batch).len(), batch.rounds);
                    }
                    ClientEvent::Fault { detail, .. } => panic!("{detail}"),
                    _ => {}
                }
            }
            assert_eq!(trials, 2);
        }
    }
}

/// Legal, if unusual: every message in three fragments with a ping between them.
#[test]
fn fragments_and_pings_are_taken_and_answered() {
    for client in BUILT_IN_CLIENTS {
        let pongs = Arc::new(AtomicU64::new(0));
        let server = Server::start({
            let pongs = pongs.clone();
            move |from, message| {
                if message.is_pong() {
                    pongs.fetch_add(1, Ordering::Relaxed);
                    return Vec::new();
                }
                let (data, payload) =
                    (if message.is_text() { Data::Text } else { Data::Binary }, message.into_data());
                let frame = |data, part: &[u8], last| {
                    (from ^ 1, Message::Frame(Frame::message(part.to_vec(), OpCode::Data(data), last)))
                };
                vec![
                    frame(data, &payload[..5], false),
                    (from ^ 1, Message::Ping("are you there?".into())),
                    frame(Data::Continue, &payload[5..9], false),
                    frame(Data::Continue, &payload[9..], true),
                ]
            }
        });
        for kind in [Kind::Pingpong, Kind::Load] {
            let mut job = job(client, server.port, kind);
            job.params.opcode = Opcode::Text;
            assert_eq!(done(&job).received, 2 * (40 + 2 * 120));
        }
        assert!(pongs.load(Ordering::Relaxed) > 1000, "{}", pongs.load(Ordering::Relaxed));
    }
}

#[test]
fn a_slow_server_is_not_at_fault() {
    for client in BUILT_IN_CLIENTS {
        for kind in [Kind::Pingpong, Kind::Load] {
            let server = Server::tampering(|_, _, _, _| thread::sleep(Duration::from_millis(15)));
            let mut job = job(client, server.port, kind);
            (job.params.warmup, job.params.trial) = (Extent::Rounds(0), Extent::Rounds(3));
            assert_eq!(done(&job).received, 12);
        }
    }
}

#[test]
fn a_wish_to_stop_ends_a_batch_quietly() {
    for client in BUILT_IN_CLIENTS {
        for kind in [Kind::Pingpong, Kind::Load] {
            let server = relay();
            let mut job = job(client, server.port, kind);
            job.params.trial = Extent::DurationNs(50_000_000_000);
            let halt = Arc::new(AtomicBool::new(false));
            let (mut seen, begun) = (Vec::new(), Instant::now());
            let mut emit = |event: ClientEvent| {
                if matches!(event, ClientEvent::Warm { .. }) {
                    let halt = halt.clone();
                    thread::spawn(move || {
                        thread::sleep(Duration::from_millis(50));
                        halt.store(true, Ordering::Relaxed);
                    });
                }
                seen.push(event);
                true
            };
            let stage = Stage { emit: &mut emit, proceed: &mut || true, halt: halt.clone() };
            run_session(&job, stage);
            assert!(begun.elapsed() < Duration::from_secs(2));
            assert!(matches!(seen.last(), Some(ClientEvent::Warm { .. })), "{seen:?}");
        }
    }
}

/// A server that stops for 100 ms within a trial of 500 ms delays a fifth of what arrives evenly. A closed loop waits with
/// it, and so asks it almost nothing meanwhile; an open loop does not.
#[test]
fn an_open_loop_sees_the_stall_that_a_closed_one_hides() {
    for client in BUILT_IN_CLIENTS {
        let p90_ms = |rate_per_s, from_schedule| {
            let server = Server::tampering(|number, _, _, _| {
                if number == 200 {
                    thread::sleep(Duration::from_millis(100));
                }
            });
            let mut job = job(client, server.port, Kind::Load);
            (job.params.pairs, job.params.threads, job.params.rate_per_s) = (4, 1, rate_per_s);
            job.params.warmup = Extent::Rounds(10);
            job.params.trial = Extent::DurationNs(500_000_000);
            let batch = first_trial(&job);
            let encoded = if from_schedule { batch.latency_from_schedule } else { batch.latency };
            decoded(&encoded.unwrap()).value_at_quantile(0.9) as f64 / 1e6
        };
        let (closed, open) = (p90_ms(None, false), p90_ms(Some(1000), true));
        assert!(
            closed < 20.0 && open > 20.0,
            "{client}: {closed} ms in a closed loop, {open} ms in an open one"
        );
    }
}

#[test]
fn an_open_loop_keeps_its_rate_whatever_waits_and_polls() {
    for client in BUILT_IN_CLIENTS {
        for (wait, pairs) in [(Wait::Spin, 3), (Wait::Block, 3), (Wait::Spin, 200)] {
            let server = relay();
            let mut job = job(client, server.port, Kind::Load);
            (job.params.pairs, job.params.threads, job.params.wait) = (pairs, 1, wait);
            job.params.rate_per_s = Some(500);
            job.params.trial = Extent::DurationNs(300_000_000);
            let batch = first_trial(&job);
            // Due at 0, 2, … 298 ms.
            assert_eq!(batch.rounds + batch.unsent.unwrap(), 150, "{client} {wait:?} {pairs}: {batch:?}");
            assert!(batch.unsent.unwrap() < 30, "{batch:?}");
            let all = decoded(batch.latency_from_schedule.as_ref().unwrap());
            assert_eq!(all.len(), 150);
            assert_eq!(latencies(&batch).len(), batch.rounds);
        }
    }
}

#[test]
fn a_rate_beyond_the_server_leaves_round_trips_unsent_and_says_so() {
    let server = relay();
    let mut job = job("native", server.port, Kind::Load);
    (job.params.pairs, job.params.threads, job.params.rate_per_s) = (2, 1, Some(5_000_000));
    job.params.trial = Extent::DurationNs(50_000_000);
    let batch = first_trial(&job);
    assert!(batch.unsent.unwrap() > 100_000, "{batch:?}");
    assert!(batch.elapsed_ns < 300_000_000, "{batch:?}");
}

fn first_trial(job: &ClientJob) -> Batch {
    events(job)
        .into_iter()
        .find_map(|event| match event {
            ClientEvent::Trial { batch, .. } => Some(batch),
            _ => None,
        })
        .unwrap()
}
