use std::net::TcpListener;
use std::time::{Duration, Instant};

use tungstenite::Message;

use super::server::Server;
use super::*;

/// Both clients, in both kinds.
fn jobs(port: u16) -> impl Iterator<Item = ClientJob> {
    BUILT_IN_CLIENTS
        .into_iter()
        .flat_map(move |client| [Kind::Pingpong, Kind::Load].map(|kind| job(client, port, kind)))
}

/// Expects the reason from both clients in both kinds, against a fresh server each time; returns what was said.
fn each(
    server: impl Fn() -> Server,
    reason: impl Into<Option<VoidReason>> + Copy,
    check: impl Fn(&ClientJob, &str, &Counters),
) {
    for mut job in jobs(0) {
        let server = server();
        job.port = server.port;
        let (seen, detail, counters) = fault(&job);
        assert_eq!(seen, reason.into(), "{} {:?}: {detail}", job.client, job.params.kind);
        check(&job, &detail, &counters);
    }
}

fn changed(message: Message, change: impl FnOnce(&mut Vec<u8>)) -> Message {
    let binary = message.is_binary();
    let mut payload = message.into_data().to_vec();
    change(&mut payload);
    if binary { Message::binary(payload) } else { Message::text(String::from_utf8(payload).unwrap()) }
}

#[test]
fn an_echo_is_found_out_within_a_second_and_before_any_number() {
    for mut job in jobs(0) {
        let server = Server::start(|from, message| vec![(from, message)]);
        (job.port, job.stall_ns) = (server.port, 5_000_000_000);
        let begun = Instant::now();
        let events = events(&job);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        match &events[..] {
            [ClientEvent::Ready { .. }, ClientEvent::Fault { reason, detail, counters }] => {
                assert_eq!(*reason, Some(VoidReason::Echoed));
                assert!(detail.contains("echoes instead of relaying"), "{detail}");
                assert_eq!(counters.echoed, 1);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_echo_that_begins_after_the_check_is_found_out_within_a_second() {
    for mut job in jobs(0) {
        for wait in [Wait::Spin, Wait::Block] {
            let server = Server::tampering(|number, from, _, answers| {
                if number > 100 {
                    answers[0].0 = from;
                }
            });
            (job.port, job.stall_ns, job.params.wait) = (server.port, 5_000_000_000, wait);
            let begun = Instant::now();
            let (reason, detail, counters) = fault(&job);
            assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
            assert_eq!((reason, counters.echoed), (Some(VoidReason::Echoed), 1), "{detail}");
        }
    }
}

#[test]
fn a_relay_that_also_echoes_is_an_echo() {
    let both = || Server::tampering(|_, from, message, answers| answers.push((from, message)));
    each(both, VoidReason::Echoed, |_, _, counters| assert_eq!(counters.echoed, 1));
    let later = || {
        Server::tampering(|number, from, message, answers| {
            if number > 100 {
                answers.push((from, message));
            }
        })
    };
    each(later, VoidReason::Echoed, |_, _, counters| assert_eq!(counters.echoed, 1));
}

#[test]
fn a_broadcast_and_a_wrong_partner_are_told_from_a_relay() {
    for client in BUILT_IN_CLIENTS {
        let broadcast = Server::start(|from, message| {
            (0..12).filter(|to| *to != from).map(|to| (to, message.clone())).collect()
        });
        let (reason, detail, _) = fault(&job(client, broadcast.port, Kind::Load));
        assert_eq!(reason, Some(VoidReason::PartnerMixedUp), "{detail}");
        // Pairs 0-2, 1-3 instead of 0-1, 2-3.
        let wrong = Server::start(|from, message| vec![(from ^ 2, message)]);
        let (reason, detail, _) = fault(&job(client, wrong.port, Kind::Load));
        assert_eq!(reason, Some(VoidReason::PartnerMixedUp), "{detail}");
        // One message that goes astray in the middle of a trial.
        let once = Server::tampering(|number, from, _, answers| {
            if number == 300 {
                answers[0].0 = from ^ 3;
            }
        });
        let (reason, detail, _) = fault(&job(client, once.port, Kind::Load));
        assert_eq!(reason, Some(VoidReason::PartnerMixedUp), "{detail}");
    }
}

#[test]
fn a_changed_byte_is_altered_wherever_it_is() {
    for at in 0..16 {
        let server = move || {
            Server::tampering(move |number, _, message, answers| {
                if number == 100 {
                    answers[0].1 = changed(message, |payload| payload[at] ^= 1);
                }
            })
        };
        each(server, VoidReason::Altered, |_, detail, counters| {
            assert_eq!(counters.altered, 1, "byte {at}: {detail}");
        });
    }
}

#[test]
fn a_changed_length_is_altered() {
    let shorter = || {
        Server::tampering(|number, _, message, answers| {
            if number == 100 {
                answers[0].1 = changed(message, |payload| payload.truncate(15));
            }
        })
    };
    each(shorter, VoidReason::Altered, |_, detail, _| {
        assert!(detail.contains("15 bytes where 16"), "{detail}")
    });
    let longer = || {
        Server::tampering(|number, _, message, answers| {
            if number == 100 {
                answers[0].1 = changed(message, |payload| payload.push(b'!'));
            }
        })
    };
    each(longer, VoidReason::Altered, |_, detail, _| {
        assert!(detail.contains("17 bytes where 16"), "{detail}")
    });
}

#[test]
fn a_changed_opcode_is_altered() {
    let server = || {
        Server::tampering(|number, _, message, answers| {
            if number == 100 {
                answers[0].1 = Message::text(String::from_utf8(message.into_data().to_vec()).unwrap());
            }
        })
    };
    each(server, VoidReason::Altered, |_, detail, counters| {
        assert_eq!((counters.opcode_changed, counters.altered), (1, 0), "{detail}");
        assert!(detail.contains("as text, but it was sent as binary"), "{detail}");
    });
}

#[test]
fn a_doubled_message_is_found_at_once_and_even_when_it_is_the_last() {
    for last in [100, 2 + 2 * (40 + 2 * 120) - 1] {
        let server = move || {
            Server::tampering(move |number, from, message, answers| {
                if number == last {
                    answers.push((from ^ 1, message));
                }
            })
        };
        for client in BUILT_IN_CLIENTS {
            let server = server();
            let (reason, detail, counters) = fault(&job(client, server.port, Kind::Pingpong));
            assert_eq!((reason, counters.doubled), (Some(VoidReason::UnaskedMessage), 1), "{detail}");
        }
        if last == 100 {
            each(server, VoidReason::UnaskedMessage, |_, detail, counters| {
                assert_eq!(counters.doubled, 1, "{detail}");
            });
        }
    }
}

#[test]
fn a_reordered_message_is_told_from_a_lost_one() {
    for client in BUILT_IN_CLIENTS {
        for wait in [Wait::Spin, Wait::Block] {
            let mut held = None;
            let reordering = Server::tampering(move |number, from, _, answers| {
                if number == 100 {
                    held = answers.pop();
                } else if held.as_ref().is_some_and(|(to, _)| *to == from ^ 1) {
                    answers.extend(held.take());
                }
            });
            let mut job = job(client, reordering.port, Kind::Load);
            (job.params.in_flight, job.params.wait) = (4, wait);
            let (reason, detail, counters) = fault(&job);
            assert_eq!((reason, counters.reordered), (Some(VoidReason::OrderBroken), 1), "{detail}");
            assert_eq!(counters.missing, 0, "{detail}");

            let losing = Server::tampering(|number, _, _, answers| {
                if number == 100 {
                    answers.clear();
                }
            });
            job.port = losing.port;
            let begun = Instant::now();
            let (reason, detail, counters) = fault(&job);
            assert_eq!((reason, counters.missing), (Some(VoidReason::LostMessages), 1), "{detail}");
            assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        }
    }
}

#[test]
fn a_lost_message_ends_it_after_the_stall_time() {
    let server = || {
        Server::tampering(|number, _, _, answers| {
            if number == 100 {
                answers.clear();
            }
        })
    };
    let begun = Instant::now();
    each(server, VoidReason::LostMessages, |_, detail, counters| {
        assert_eq!(counters.missing, 1, "{detail}");
        assert!(counters.sent > counters.received, "{counters:?}");
        assert!(detail.contains("did not arrive within 400 ms"), "{detail}");
    });
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    let silent = || Server::start(|_, _| Vec::new());
    each(silent, VoidReason::LostMessages, |job, detail, counters| {
        assert_eq!(counters.missing, u64::from(job.params.pairs), "{detail}");
    });
}

#[test]
fn a_server_that_closes_is_a_failure_and_no_fault_of_a_message() {
    let server = || {
        Server::tampering(|number, _, _, answers| {
            if number == 100 {
                answers[0].1 = Message::Close(None);
            }
        })
    };
    each(server, None, |_, detail, counters| {
        assert!(detail.starts_with("the server closed the connection"), "{detail}");
        assert_eq!(counters.missing, 0);
    });
}

#[test]
fn what_cannot_be_done_is_said() {
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    for job in jobs(port) {
        let (reason, detail, _) = fault(&job);
        assert_eq!(reason, None);
        assert!(detail.contains("connection 1 to 127.0.0.1:") && detail.contains("refused"), "{detail}");
    }
    let mut job = job("netive", port, Kind::Load);
    assert!(fault(&job).1.contains("`netive` is not a built-in client"));
    job.client = "native".to_owned();
    for (change, said) in [
        ((|job: &mut ClientJob| job.host = "192.0.2.1".to_owned()) as fn(&mut ClientJob), "127.0.0.0/8"),
        (|job| job.params.payload = 11, "a payload of 11 bytes"),
        (|job| job.params.pairs = 0, "0 pairs"),
        (|job| job.params.trial = Extent::Rounds(0), "a trial of nothing"),
        (|job| job.params.kind = Kind::Pingpong, "a ping-pong has one pair"),
    ] {
        let mut job = job.clone();
        change(&mut job);
        let (reason, detail, _) = fault(&job);
        assert!(reason.is_none() && detail.contains(said), "{detail}");
    }
}

#[test]
fn a_handshake_without_an_answer_ends_in_time() {
    for client in BUILT_IN_CLIENTS {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let begun = Instant::now();
        let (reason, detail, _) = fault(&job(client, listener.local_addr().unwrap().port(), Kind::Load));
        assert!(reason.is_none() && detail.contains("no answer to the handshake"), "{detail}");
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}
