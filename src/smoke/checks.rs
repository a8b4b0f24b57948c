use std::fmt::Display;
use std::io::{Read, Write};
use std::thread;

use tungstenite::Message;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{Data, OpCode};

use super::burst::Tally;
use super::end::{End, Nothing, describe};
use super::server::Server;
use super::sockets::{Fault, no_delay};

/// A part of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Name, in kebab case.
    pub name: &'static str,
    /// What a server does that keeps it, as a clause after its name.
    pub contract: &'static str,
    pub(super) kind: Kind,
}

/// How a part of the contract is checked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// The server starts.
    Start,
    /// Something is done with a running server, whether it relays or not.
    Running(fn(&Server) -> Result<(), Fault>),
    /// The server relays: without that the checks below would each say so in their own way.
    Relays,
    /// Something is done with a server that relays.
    Relaying(fn(&Server) -> Result<(), Fault>),
    /// All messages of a burst arrive; a server that fails otherwise in it fails here.
    Burst,
    /// Something else is counted in the same burst; the text is what happened to the messages that are counted.
    Count(fn(&Tally) -> u32, &'static str),
    /// The server stops.
    Stop,
    /// Nothing of it is left.
    Leave,
}

const fn check(name: &'static str, kind: Kind, contract: &'static str) -> Check {
    Check { name, contract, kind }
}

/// The contract, in the order in which it is checked.
pub const CHECKS: [Check; 22] = [
    check("starts", Kind::Start, "completes a handshake soon after its start"),
    check("no-extension", Kind::Running(no_extension), "negotiates no extension, even when one is offered"),
    check("no-delay", Kind::Running(no_delay), "sets TCP_NODELAY on its connections"),
    check("relays", Kind::Relays, "relays to the partner and sends nothing back"),
    check("partner-only", Kind::Relaying(partner_only), "keeps pairs apart"),
    check("none-missing", Kind::Burst, "loses no message of a burst"),
    check("none-echoed", Kind::Count(|tally| tally.echoed, "came back"), "sends nothing back"),
    check("none-doubled", Kind::Count(|tally| tally.doubled, "came twice"), "sends no message twice"),
    check("in-order", Kind::Count(|tally| tally.reordered, "came too late"), "keeps the order of messages"),
    check("unaltered", Kind::Count(|tally| tally.altered, "were altered"), "alters no payload"),
    check(
        "opcode",
        Kind::Count(|tally| tally.opcode_changed, "changed their opcode"),
        "leaves text text and binary binary",
    ),
    check(
        "none-unasked",
        Kind::Count(|tally| tally.unasked, "came although nobody had sent them"),
        "sends no message of its own",
    ),
    check("empty", Kind::Relaying(empty), "relays empty messages"),
    check("fragments", Kind::Relaying(fragments), "relays a fragmented message with a ping inside"),
    check("64-KiB", Kind::Relaying(around_64_kib), "relays messages around 64 KiB"),
    check("1-MiB", Kind::Relaying(one_mib), "relays messages of 1 MiB, both ways"),
    check("ping", Kind::Running(ping), "answers a ping with its payload"),
    check("close", Kind::Running(close), "answers a close, and ends the partner too"),
    check("waiting-leaves", Kind::Relaying(waiting_leaves), "forgets a waiting connection that leaves"),
    check("bad-frame", Kind::Relaying(bad_frame), "survives what no client may send"),
    check("term", Kind::Stop, "ends on SIGTERM"),
    check("leaves-nothing", Kind::Leave, "leaves no process and no listening socket"),
];

fn no_extension(server: &Server) -> Result<(), Fault> {
    const REQUEST: &str = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nSec-WebSocket-Version: 13\r\n\
        Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n";
    // A second one, so that none is left waiting.
    for request in [REQUEST.to_owned(), without_extension(REQUEST)] {
        let mut stream = server.stream()?;
        stream.write_all(request.as_bytes()).map_err(|error| format!("no handshake: {error}"))?;
        let response = read_response(&mut stream)?;
        let extension = response
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-extensions"));
        if let Some((_, value)) = extension {
            return Err(format!("negotiated `{}`", value.trim()).into());
        }
        if !response.starts_with("HTTP/1.1 101 ") {
            return Err(format!("answered `{}`", response.lines().next().unwrap_or_default()).into());
        }
    }
    Ok(())
}

fn without_extension(request: &str) -> String {
    let lines = request.split_inclusive("\r\n").filter(|line| !line.starts_with("Sec-WebSocket-Extensions"));
    lines.collect()
}

/// Reads an HTTP response up to its empty line, and nothing beyond it.
fn read_response(stream: &mut impl Read) -> Result<String, String> {
    const LONGEST: usize = 16 * 1024;
    let mut response = Vec::new();
    let mut byte = [0];
    while !response.ends_with(b"\r\n\r\n") && response.len() < LONGEST {
        match stream.read(&mut byte) {
            Ok(0) => return Err("the connection ended inside the handshake".to_owned()),
            Ok(_) => response.push(byte[0]),
            Err(error) => return Err(format!("no answer to a handshake: {error}")),
        }
    }
    Ok(String::from_utf8_lossy(&response).into_owned())
}

/// Does something with a new pair, which is closed after it went well.
fn with_pair(
    server: &Server,
    run: impl FnOnce(&mut End, &mut End) -> Result<(), String>,
) -> Result<(), Fault> {
    let (mut one, mut other) = server.pair()?;
    run(&mut one, &mut other)?;
    one.leave();
    other.leave();
    Ok(())
}

pub(super) fn relays(server: &Server) -> Result<(), Fault> {
    with_pair(server, |one, other| {
        let (there, back) = (Message::text("from the first end"), Message::text("from the second end"));
        one.send(there.clone())?;
        match one.receive_soon() {
            Err(Nothing::Silence(_)) => {}
            Ok(echo) if echo == there => return Err("echoes: the sender got its own message".to_owned()),
            Ok(message) => return Err(format!("the sender got {}", describe(&message))),
            Err(nothing) => return Err(format!("after the first message {nothing}")),
        }
        other.expect(&there)?;
        other.send(back.clone())?;
        one.expect(&back)?;
        other.expect_silence()
    })
}

fn partner_only(server: &Server) -> Result<(), Fault> {
    const MESSAGES: usize = 200;
    let mut pairs = Vec::new();
    for _ in 0..3 {
        pairs.push(server.pair()?);
    }
    for number in 0..MESSAGES {
        for (index, (one, other)) in pairs.iter_mut().enumerate() {
            let from = if number % 2 == 0 { one } else { other };
            from.send(Message::text(format!("pair {index}, message {number}")))?;
        }
    }
    for (index, (mut one, mut other)) in pairs.into_iter().enumerate() {
        let own = format!("pair {index}, ");
        for end in [&mut one, &mut other] {
            // Whether all arrive, once and as they were, is asked elsewhere: here it counts where they arrive.
            for _ in 0..MESSAGES / 2 {
                let Ok(message) = end.receive_soon() else { break };
                let strays =
                    message.to_text().is_ok_and(|text| text.starts_with("pair ") && !text.starts_with(&own));
                if strays {
                    return Err(format!("an end of pair {index} got {}", describe(&message)).into());
                }
            }
        }
        one.leave();
        other.leave();
    }
    Ok(())
}

fn both_ways(one: &mut End, other: &mut End, message: &Message) -> Result<(), String> {
    one_way(one, other, message)?;
    one_way(other, one, message)
}

fn one_way(from: &mut End, to: &mut End, message: &Message) -> Result<(), String> {
    // From a thread: a large message fits into no buffer on its way.
    thread::scope(|scope| {
        let sent = scope.spawn(|| from.send(message.clone()));
        let received = to.expect(message);
        let sent = sent.join().map_err(|_| "a thread of ours panicked".to_owned())?;
        received.and(sent)
    })
}

fn empty(server: &Server) -> Result<(), Fault> {
    with_pair(server, |one, other| {
        for message in [Message::text(""), Message::binary(Vec::new()), Message::text("after the empty ones")]
        {
            both_ways(one, other, &message)?;
        }
        Ok(())
    })
}

fn fragments(server: &Server) -> Result<(), Fault> {
    with_pair(server, |one, other| {
        let parts = [
            Frame::message("a message ", OpCode::Data(Data::Text), false),
            Frame::message("in three ", OpCode::Data(Data::Continue), false),
            Frame::ping("are you there"),
            Frame::message("parts", OpCode::Data(Data::Continue), true),
        ];
        for part in parts {
            one.send(Message::Frame(part))?;
        }
        other.expect(&Message::text("a message in three parts"))?;
        one.expect(&Message::Pong(b"are you there".as_slice().into()))
    })
}

/// A payload in which no shift by a power of two goes unseen.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn around_64_kib(server: &Server) -> Result<(), Fault> {
    with_pair(server, |one, other| {
        for len in [65_535, 65_536, 65_537] {
            both_ways(one, other, &Message::binary(pattern(len)))?;
            both_ways(one, other, &Message::text("x".repeat(len)))?;
        }
        Ok(())
    })
}

fn one_mib(server: &Server) -> Result<(), Fault> {
    with_pair(server, |one, other| both_ways(one, other, &Message::binary(pattern(1 << 20))))
}

fn ping(server: &Server) -> Result<(), Fault> {
    with_pair(server, |one, other| {
        for payload in [Vec::new(), b"are you there".to_vec(), pattern(125)] {
            one.send(Message::Ping(payload.clone().into()))?;
            one.expect(&Message::Pong(payload.into()))?;
        }
        other.expect_silence()
    })
}

fn close(server: &Server) -> Result<(), Fault> {
    let (mut one, mut other) = server.pair()?;
    one.start_close()?;
    match one.expect_end()? {
        Some(1000) => {}
        Some(code) => return Err(format!("answered a close of 1000 with {code}").into()),
        None => return Err("ended the connection without an answer to its close".to_owned().into()),
    }
    // A server may wait for our side of the socket too.
    drop(one);
    other.expect_end().map_err(|error| format!("the partner of a closed connection: {error}"))?;
    Ok(())
}

fn waiting_leaves(server: &Server) -> Result<(), Fault> {
    for is_clean in [true, false] {
        let gone = server.connect()?;
        if is_clean {
            gone.leave();
        } else {
            drop(gone);
        }
        // Nothing tells us when the server's program has heard of it, not even the end of the connection: events of
        // one turn of a loop may come in any order.
        thread::sleep(server.limits.quiet);
        with_pair(server, |one, other| both_ways(one, other, &Message::text("we are a pair")))
            .map_err(|fault| context(fault, "after a waiting connection left"))?;
    }
    Ok(())
}

fn context(fault: Fault, what: impl Display) -> Fault {
    match fault {
        Fault::Broken(detail) => Fault::Broken(format!("{what}: {detail}")),
        Fault::Unseen(detail) => Fault::Unseen(detail),
    }
}

fn bad_frame(server: &Server) -> Result<(), Fault> {
    let bad: [(&str, &[u8]); 8] = [
        ("an unmasked frame", b"\x81\x02hi"),
        ("a reserved bit", b"\xC1\x82\0\0\0\0hi"),
        ("a reserved opcode", b"\x83\x82\0\0\0\0hi"),
        ("a fragmented ping", b"\x09\x80\0\0\0\0"),
        ("an oversized ping", b"\x89\xFE\x00\x7E\0\0\0\0"),
        ("a continuation of nothing", b"\x80\x82\0\0\0\0hi"),
        ("text that is no UTF-8", b"\x81\x82\0\0\0\0\xFF\xFE"),
        ("a length beyond all memory", b"\x82\xFF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\0"),
    ];
    for (name, bytes) in bad {
        // What becomes of this pair is between the server and the standard.
        let (mut one, other) = server.pair()?;
        one.send_raw(bytes)?;
        let _ = one.receive_soon();
        drop((one, other));
        thread::sleep(server.limits.quiet);
        with_pair(server, |one, other| both_ways(one, other, &Message::text("we are a pair")))
            .map_err(|fault| context(fault, format!("after {name}")))?;
    }
    let mut stream = server.stream()?;
    stream.write_all(b"\x16\x03\x01 this is no handshake\r\n\r\n").map_err(|error| error.to_string())?;
    with_pair(server, |one, other| both_ways(one, other, &Message::text("we are a pair")))
        .map_err(|fault| context(fault, "after what is no handshake"))
}
