//! The relay over real sockets, against an independent implementation of the protocol.

use std::io::{ErrorKind, PipeWriter, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::frame::coding::{Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame};
use tungstenite::{Message, WebSocket};

use super::faulty::{
    Altered, Doubled, Echoed, Missing, OpcodeChanged, PartnerMixedUp, Reordered, Turn, Unasked,
};
use super::hook::{Honest, Hook};
use super::relay::{Relay, Wait};

const PATIENCE: Duration = Duration::from_secs(5);
const QUIET: Duration = Duration::from_millis(50);

/// A relay in a thread, which ends with the value.
struct Running {
    address: SocketAddr,
    life: Option<PipeWriter>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Running {
    fn start(hook: impl Hook + Send + 'static) -> Self {
        Self::start_waiting(hook, Wait::Block)
    }

    fn start_waiting(hook: impl Hook + Send + 'static, wait: Wait) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (reader, life) = std::io::pipe().unwrap();
        let mut relay = Relay::new(listener, reader.into(), hook).unwrap();
        let thread = thread::spawn(move || relay.run(wait));
        Running { address, life: Some(life), thread: Some(thread) }
    }

    fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    fn connect(&self) -> WebSocket<TcpStream> {
        tungstenite::client(format!("ws://{}/", self.address), self.stream()).unwrap().0
    }

    fn pair(&self) -> (WebSocket<TcpStream>, WebSocket<TcpStream>) {
        (self.connect(), self.connect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.life.take();
        let ended = self.thread.take().unwrap().join().expect("the relay does not panic");
        if !thread::panicking() {
            ended.expect("the relay ends well");
        }
    }
}

fn text(number: usize) -> Message {
    Message::text(format!("message {number:06}"))
}

/// Whether nothing arrives for a while.
fn is_quiet(socket: &mut WebSocket<TcpStream>) -> bool {
    socket.get_ref().set_read_timeout(Some(QUIET)).unwrap();
    let quiet = matches!(
        socket.read(),
        Err(tungstenite::Error::Io(error)) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
    );
    socket.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    quiet
}

/// What the partner receives of a number of messages, until it is quiet.
fn burst(running: &Running, count: usize) -> Vec<Message> {
    let (mut one, mut other) = running.pair();
    for number in 0..count {
        one.write(text(number)).unwrap();
    }
    one.flush().unwrap();
    other.get_ref().set_read_timeout(Some(QUIET)).unwrap();
    std::iter::from_fn(|| other.read().ok()).collect()
}

fn assert_closed(socket: &mut WebSocket<TcpStream>, code: u16) {
    let start = Instant::now();
    let mut seen = None;
    loop {
        assert!(start.elapsed() < PATIENCE, "it does not close");
        match socket.read() {
            Ok(Message::Close(frame)) => seen = frame.map(|frame| u16::from(frame.code)),
            Ok(_) => {}
            Err(tungstenite::Error::ConnectionClosed) => break,
            Err(error) => panic!("no clean close: {error}"),
        }
    }
    assert_eq!(seen, Some(code));
}

#[test]
fn each_message_reaches_the_partner_only_with_its_opcode() {
    for wait in [Wait::Block, Wait::Spin] {
        let running = Running::start_waiting(Honest, wait);
        let (mut a, mut b) = running.pair();
        let (mut c, mut d) = running.pair();
        for message in [text(1), Message::binary(vec![0, 255, 3]), Message::text(""), Message::binary(vec![])]
        {
            a.send(message.clone()).unwrap();
            assert_eq!(b.read().unwrap(), message);
            b.send(message.clone()).unwrap();
            assert_eq!(a.read().unwrap(), message);
        }
        c.send(text(2)).unwrap();
        assert_eq!(d.read().unwrap(), text(2));
        for socket in [&mut a, &mut b, &mut c, &mut d] {
            assert!(is_quiet(socket));
        }
    }
}

#[test]
fn a_burst_arrives_whole_and_in_order() {
    let running = Running::start(Honest);
    let expected: Vec<Message> = (0..5_000).map(text).collect();
    assert_eq!(burst(&running, 5_000), expected);
}

#[test]
fn messages_of_every_size_around_the_limits_of_headers_and_buffers_arrive() {
    let running = Running::start(Honest);
    let (mut a, mut b) = running.pair();
    let sizes =
        [125, 126, 127, 65_535, 65_536, 65_537, 262_143, 262_144, 262_145, 1 << 20, (1 << 20) + 1, 16 << 20];
    for size in sizes {
        let payload: Vec<u8> = (0..size).map(|index| (index * 31 % 251) as u8).collect();
        let message = Message::binary(payload);
        // From a thread: both ends' buffers are smaller than the message.
        thread::scope(|scope| {
            scope.spawn(|| a.send(message.clone()).unwrap());
            assert_eq!(b.read().unwrap(), message, "{size} bytes");
        });
    }
}

#[test]
fn large_messages_in_both_directions_at_once_arrive() {
    let running = Running::start(Honest);
    let (a, b) = running.pair();
    let message = Message::binary(vec![0xA5; 4 << 20]);
    thread::scope(|scope| {
        for mut socket in [a, b] {
            let message = message.clone();
            scope.spawn(move || {
                // A second handle on the socket lets one thread read what the other has not finished writing.
                let mut reader = WebSocket::from_raw_socket(
                    socket.get_ref().try_clone().unwrap(),
                    tungstenite::protocol::Role::Client,
                    None,
                );
                let expected = message.clone();
                thread::scope(|scope| {
                    scope.spawn(move || assert_eq!(reader.read().unwrap(), expected));
                    socket.send(message).unwrap();
                });
            });
        }
    });
}

#[test]
fn a_receiver_that_does_not_read_holds_its_sender_back_and_nothing_is_lost() {
    let running = Running::start(Honest);
    let (mut a, mut b) = running.pair();
    let message = Message::binary(vec![0x5A; 1 << 20]);
    let count = 64;
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            a.get_ref().set_write_timeout(Some(Duration::from_secs(20))).unwrap();
            for _ in 0..count {
                a.send(message.clone()).unwrap();
            }
        });
        thread::sleep(Duration::from_millis(300));
        assert!(!sender.is_finished(), "64 MiB fit nowhere: the sender cannot be done");
        for _ in 0..count {
            assert_eq!(b.read().unwrap(), message);
        }
    });
    assert!(is_quiet(&mut b));
}

#[test]
fn frames_cut_at_any_byte_and_pipelined_frames_arrive() {
    let running = Running::start(Honest);
    let (a, mut b) = running.pair();
    let mut raw = a.get_ref();
    let mut bytes = Vec::new();
    for (first, payload) in [(0x81, "first"), (0x89, "ping"), (0x02, "sec"), (0x80, "ond"), (0x81, "")] {
        bytes.extend([first, 0x80 | payload.len() as u8, 1, 2, 3, 4]);
        bytes.extend(
            payload.bytes().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, key): (u8, u8)| byte ^ key),
        );
    }
    for round in 0..2 {
        if round == 0 {
            raw.write_all(&bytes).unwrap();
        } else {
            for byte in &bytes {
                raw.write_all(&[*byte]).unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        }
        assert_eq!(b.read().unwrap(), Message::text("first"));
        assert_eq!(b.read().unwrap(), Message::binary(b"second".to_vec()));
        assert_eq!(b.read().unwrap(), Message::text(""));
        let mut pong = [0; 6];
        raw.read_exact(&mut pong).unwrap();
        assert_eq!(&pong, b"\x8A\x04ping");
    }
}

#[test]
fn fragments_are_forwarded_frame_by_frame() {
    let running = Running::start(Honest);
    let (mut a, b) = running.pair();
    let frames = [
        Frame::message("one ", OpCode::Data(Data::Text), false),
        Frame::message("two ", OpCode::Data(Data::Continue), false),
        Frame::message("three", OpCode::Data(Data::Continue), true),
    ];
    for frame in frames {
        a.send(Message::Frame(frame)).unwrap();
    }
    let mut received = [0; 2 + 4 + 2 + 4 + 2 + 5];
    b.get_ref().read_exact(&mut received).unwrap();
    assert_eq!(&received, b"\x01\x04one \x00\x04two \x80\x05three");
}

#[test]
fn a_ping_during_a_large_message_is_answered_between_frames() {
    let running = Running::start(Honest);
    let (mut a, mut b) = running.pair();
    let message = Message::binary(vec![7; 8 << 20]);
    thread::scope(|scope| {
        let sender = scope.spawn(|| a.send(message.clone()).unwrap());
        thread::sleep(Duration::from_millis(50));
        b.write(Message::Ping(b"are you there".as_slice().into())).unwrap();
        b.flush().unwrap();
        assert_eq!(b.read().unwrap(), message);
        assert_eq!(b.read().unwrap(), Message::Pong(b"are you there".as_slice().into()));
        sender.join().unwrap();
    });
}

#[test]
fn a_close_is_answered_and_ends_the_partner_too() {
    let running = Running::start(Honest);
    let (mut a, mut b) = running.pair();
    a.close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() })).unwrap();
    assert_closed(&mut a, 1000);
    assert_closed(&mut b, 1000);
}

#[test]
fn an_end_that_vanishes_ends_the_partner_too() {
    let running = Running::start(Honest);
    let (a, mut b) = running.pair();
    drop(a);
    assert_closed(&mut b, 1001);
}

#[test]
fn a_waiting_connection_that_leaves_is_forgotten() {
    let running = Running::start(Honest);
    for clean in [true, false] {
        let mut gone = running.connect();
        if clean {
            gone.close(None).unwrap();
            while gone.read().is_ok() {}
        }
        drop(gone);
        thread::sleep(QUIET);
        let (mut a, mut b) = running.pair();
        a.send(text(1)).unwrap();
        assert_eq!(b.read().unwrap(), text(1));
    }
}

#[test]
fn what_is_sent_before_there_is_a_partner_goes_nowhere_and_breaks_nothing() {
    let running = Running::start(Honest);
    let mut a = running.connect();
    a.send(text(1)).unwrap();
    a.send(Message::Frame(Frame::message("begun", OpCode::Data(Data::Text), false))).unwrap();
    thread::sleep(QUIET);
    let mut b = running.connect();
    a.send(Message::Frame(Frame::message("done", OpCode::Data(Data::Continue), true))).unwrap();
    a.send(text(2)).unwrap();
    assert_eq!(b.read().unwrap(), text(2));
}

#[test]
fn bad_frames_end_their_pair_and_no_other() {
    let running = Running::start(Honest);
    let (mut a, mut b) = running.pair();
    let bad: [(&str, &[u8], u16); 9] = [
        ("unmasked", &[0x82, 0x01, 0x00], 1002),
        ("reserved bit", &[0xC2, 0x81, 0, 0, 0, 0, 0], 1002),
        ("reserved opcode", &[0x83, 0x81, 0, 0, 0, 0, 0], 1002),
        ("reserved control opcode", &[0x8B, 0x80, 0, 0, 0, 0], 1002),
        ("oversized ping", &[0x89, 0xFE, 1, 0, 0, 0, 0, 0], 1002),
        ("fragmented ping", &[0x09, 0x80, 0, 0, 0, 0], 1002),
        ("continuation of nothing", &[0x80, 0x80, 0, 0, 0, 0], 1002),
        ("message inside a message", &[0x01, 0x80, 0, 0, 0, 0, 0x81, 0x80, 0, 0, 0, 0], 1002),
        ("beyond 16 MiB", &[0x82, 0xFF, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0], 1009),
    ];
    for (name, bytes, code) in bad {
        let (mut c, mut d) = running.pair();
        c.get_ref().write_all(bytes).unwrap();
        println!("{name}");
        assert_closed(&mut c, code);
        assert!(matches!(d.read(), Ok(Message::Close(_) | Message::Frame(_)) | Err(_)), "{name}");
    }
    a.send(text(1)).unwrap();
    assert_eq!(b.read().unwrap(), text(1));
}

#[test]
fn what_is_no_handshake_is_refused_and_takes_no_place() {
    let running = Running::start(Honest);
    let mut stream = running.stream();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    // Nor does one that says nothing.
    let _silent = running.stream();
    let (mut a, mut b) = running.pair();
    a.send(text(1)).unwrap();
    assert_eq!(b.read().unwrap(), text(1));
}

#[test]
fn frames_in_the_packet_of_the_handshake_are_read() {
    let running = Running::start(Honest);
    let mut b = running.connect();
    let mut stream = running.stream();
    let request = "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let mut bytes = request.as_bytes().to_vec();
    bytes.extend([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
    stream.write_all(&bytes).unwrap();
    assert_eq!(b.read().unwrap(), Message::text("hi"));
}

#[test]
fn hundreds_of_pairs_come_and_go() {
    let running = Running::start(Honest);
    for _ in 0..3 {
        let mut pairs: Vec<_> = (0..200).map(|_| running.pair()).collect();
        for (index, (a, b)) in pairs.iter_mut().enumerate() {
            a.send(text(index)).unwrap();
            b.send(text(index + 1_000)).unwrap();
        }
        for (index, (a, b)) in pairs.iter_mut().enumerate() {
            assert_eq!(b.read().unwrap(), text(index));
            assert_eq!(a.read().unwrap(), text(index + 1_000));
        }
        drop(pairs);
        thread::sleep(QUIET);
    }
}

#[test]
fn each_faulty_relay_has_its_fault_and_no_other() {
    let expected: Vec<Message> = (0..100).map(text).collect();
    let every = || Turn::every(10);

    let altered = burst(&Running::start(Altered(every())), 100);
    assert_eq!(altered.len(), 100);
    assert_eq!(altered.iter().zip(&expected).filter(|(one, other)| one != other).count(), 10);

    let reordered = burst(&Running::start(Reordered { turn: every(), held: None }), 100);
    assert_ne!(reordered, expected);
    let mut sorted = reordered;
    sorted.sort_by_key(|message| message.to_string());
    assert_eq!(sorted, expected);

    assert_eq!(burst(&Running::start(Missing(every())), 100).len(), 90);
    assert_eq!(burst(&Running::start(Doubled(every())), 100).len(), 110);

    let changed = burst(&Running::start(OpcodeChanged(every())), 100);
    assert_eq!(changed.iter().filter(|message| message.is_binary()).count(), 10);

    let unasked = burst(&Running::start(Unasked(every())), 100);
    assert_eq!(unasked.len(), 110);
    assert_eq!(unasked.iter().filter(|message| !expected.contains(message)).count(), 10);

    assert_eq!(burst(&Running::start(Echoed { after: 60, seen: 0 }), 100).len(), 60);
}

#[test]
fn a_held_message_is_let_go_when_nothing_overtakes_it() {
    let running = Running::start(Reordered { turn: Turn::every(1), held: None });
    let (mut a, mut b) = running.pair();
    for number in 0..10 {
        a.send(text(number)).unwrap();
        assert_eq!(b.read().unwrap(), text(number));
    }
}

#[test]
fn partners_are_mixed_up_once_there_are_two_pairs() {
    let running = Running::start(PartnerMixedUp { turn: Turn::every(1), pairs: Vec::new() });
    let (mut a, mut b) = running.pair();
    let (mut c, mut d) = running.pair();
    a.send(text(1)).unwrap();
    assert_eq!(b.read().unwrap(), text(1));
    c.send(text(2)).unwrap();
    assert!(is_quiet(&mut d));
    let strayed = !is_quiet(&mut a) || !is_quiet(&mut b);
    assert!(strayed);
}
