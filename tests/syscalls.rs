//! How many system calls a message takes, counted by `strace`: one to send and one to receive on either side, and no
//! needless ones. Where `strace` is missing or may not trace, that is said, and is a failure under `CI`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it leaves out"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use runner::workload::protocol::{ClientEvent, ClientJob};
use runner::workload::{Extent, Kind, Mask, Opcode, Params, Wait};
use rustix::process::{Pid, Signal, kill_process};
use support::Sandbox;

const ROUNDS: u64 = 2_000;

/// Calls by their name, as `strace -c` sums them up.
fn calls(summary: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(summary).unwrap();
    text.lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // % time, seconds, usecs/call, calls, errors (may be empty), syscall
            let count = words.get(3)?.parse().ok()?;
            Some((words.last()?.to_string(), count))
        })
        .collect()
}

fn traced(summary: &Path, verb: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(summary);
    command.arg(assert_cmd::cargo::cargo_bin!("runner")).args(verb);
    command
}

fn plain(verb: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("runner"));
    command.args(verb);
    command
}

fn start(mut command: Command, port: u16) -> Child {
    let child = command
        .envs([("ROLE", "relay"), ("HOST", "127.0.0.1"), ("PORT", &port.to_string())])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server does not listen");
        thread::sleep(Duration::from_millis(10));
    }
    child
}

/// Runs a client to its end.
fn measure(mut command: Command, port: u16) {
    let job = ClientJob {
        client: "native".to_owned(),
        host: "127.0.0.1".to_owned(),
        port,
        params: Params {
            kind: Kind::Load,
            payload: 16,
            opcode: Opcode::Binary,
            pairs: 4,
            in_flight: 1,
            rate_per_s: None,
            threads: 1,
            warmup: Extent::Rounds(10),
            trial: Extent::Rounds(ROUNDS),
            trials: 1,
            mask: Mask::Zero,
            // A busy loop would ask in vain by design.
            wait: Wait::Block,
        },
        cores: Vec::new(),
        stall_ns: 10_000_000_000,
    };
    let mut client = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = client.stdin.take().unwrap();
    writeln!(stdin, "{}", serde_json::to_string(&job).unwrap()).unwrap();
    for line in BufReader::new(client.stdout.take().unwrap()).lines() {
        match serde_json::from_str(&line.unwrap()).unwrap() {
            ClientEvent::Done { .. } => break,
            ClientEvent::Fault { detail, .. } => panic!("{detail}"),
            _ => writeln!(stdin).unwrap(),
        }
    }
    drop(stdin);
    assert!(client.wait().unwrap().success());
}

fn may_trace() -> bool {
    let tried = Command::new("strace").args(["-c", "-o", "/dev/null", "true"]).output();
    if matches!(&tried, Ok(output) if output.status.success()) {
        return true;
    }
    eprintln!("left out: `strace` cannot be used here: {tried:?}");
    assert!(std::env::var_os("CI").is_none(), "left out under CI");
    false
}

fn assert_one_each(side: &str, calls: &BTreeMap<String, u64>) {
    // Each side sends and receives two messages in a round trip. Beside them: handshakes, probes, the warm-up, closes.
    let (messages, beside) = (2 * ROUNDS, 150);
    for call in ["sendto", "recvfrom"] {
        let count = calls.get(call).copied().unwrap_or_default();
        assert!((messages..messages + beside).contains(&count), "{side}: {count} calls of {call}: {calls:?}");
    }
    for call in ["read", "write", "readv", "writev", "recvmsg", "sendmsg"] {
        let count = calls.get(call).copied().unwrap_or_default();
        assert!(count < beside, "{side}: {count} calls of {call}: {calls:?}");
    }
}

#[test]
fn a_message_takes_one_call_to_send_and_one_to_receive() {
    if !may_trace() {
        return;
    }
    let sandbox = Sandbox::new();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let mut server = start(plain(&["serve", "relay"]), port);
    let summary = sandbox.path().join("client");
    measure(traced(&summary, &["client"]), port);
    assert_one_each("client", &calls(&summary));
    server.kill().unwrap();
    server.wait().unwrap();

    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let summary = sandbox.path().join("server");
    let mut server = start(traced(&summary, &["serve", "relay"]), port);
    measure(plain(&["client"]), port);
    // The tracer passes nothing on: its child is told to end, and then it sums up.
    let tracer = server.id();
    let children = fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children")).unwrap();
    let relay: i32 = children.split_whitespace().next().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(relay).unwrap(), Signal::TERM).unwrap();
    server.wait().unwrap();
    assert_one_each("relay", &calls(&summary));
}
