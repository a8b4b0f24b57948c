//! `runner run` on real processes: each fault of a server becomes the right record, later cells run all the same, and
//! nothing is left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::thread;

use serde_json::Value;
use support::real::{Bench, LOAD, PINGPONG, assert_no_server_left, assert_well, brief, flags, manifest};
use support::{Sandbox, runner};

#[test]
fn each_fault_of_a_server_becomes_the_right_record() {
    let expected = BTreeMap::from([
        ("faulty-echoed", "void echoed"),
        ("faulty-echoed-late", "void echoed"),
        ("faulty-altered", "void altered"),
        ("faulty-reordered", "void order-broken"),
        ("faulty-missing", "void lost-messages"),
        ("faulty-doubled", "void unasked-message"),
        ("faulty-opcode-changed", "void altered"),
        ("faulty-partner-mixed-up", "void partner-mixed-up"),
        ("faulty-unasked", "void unasked-message"),
        ("faulty-never-listens", "failed ready"),
        ("faulty-dies-at-once", "failed ready"),
        ("faulty-dies-mid-trial", "failed measure"),
        ("faulty-hangs", "void lost-messages"),
        ("faulty-negotiates-compression", "failed verify"),
    ]);
    let bench = expect(LOAD, &expected);
    // The echo that posed as a relay costs less than a second and leaves no figure.
    let echo = bench.record("faulty-echoed");
    assert!(echo["timings"]["total_ns"].as_u64().unwrap() < 1_000_000_000, "{:#}", echo["timings"]);
    assert_eq!(echo["trials"].as_array().map(Vec::len), Some(0));
    // What a dead server said last is in its record.
    assert!(bench.record("faulty-dies-at-once")["outcome"]["message"].as_str().unwrap().contains("server"));
}

#[test]
fn what_a_server_leaves_behind_is_found_and_ended() {
    let expected = BTreeMap::from([
        ("faulty-floods-log", "ok"),
        ("faulty-forks", "void process-leaked"),
        ("faulty-holds-port", "void port-leaked"),
        ("faulty-ignores-term", "ok"),
        ("relay", "ok"),
    ]);
    let bench = expect(PINGPONG, &expected);
    // A server that ignores the signal is ended and said so; one that floods its log keeps a bounded one.
    assert!(flags(&bench.record("faulty-ignores-term")).contains(&"killed"));
    let log = bench.sandbox.path().join("out/latest/log/w/faulty-floods-log/native/pass-1/server.log");
    let size = fs::metadata(&log).unwrap().len();
    assert!((1_000..=1_200_000).contains(&size), "{size}");
}

/// Healthy cells that the order of a run strews among the others.
const BETWEEN: &str = r#"
[workloads.between]
kind = "pingpong"
payload = [16, 32, 64, 128, 256, 512]
[[matrix]]
workloads = ["between-*"]
servers = ["relay-spin"]
"#;

/// Runs these servers and compares what became of each.
fn expect(workload: &str, expected: &BTreeMap<&str, &str>) -> Bench {
    let servers: Vec<&str> = expected.keys().copied().collect();
    let bench = Bench::new(workload, &servers, BETWEEN);
    let output = bench.run();
    assert_eq!(output.status.code(), Some(3), "{}", bench.sandbox.shown(&output));
    for (server, expected) in expected {
        let record = bench.record(server);
        let said = brief(&record);
        let same = match *server {
            // After so many messages, be it in the warm-up or later.
            "faulty-dies-mid-trial" => said.starts_with("failed"),
            _ if *expected == "ok" => {
                assert_well(&record);
                true
            }
            _ => said == *expected,
        };
        assert!(same, "{server}: {said}, not {expected}: {:#}", record["outcome"]);
        let total_ms = record["timings"]["total_ns"].as_u64().unwrap() / 1_000_000;
        assert!(total_ms < 12_000, "{server} took {total_ms} ms, with a deadline of 10 s");
    }
    // Healthy cells among the faulty ones are none the worse for them.
    let faulty: Vec<u64> =
        servers.iter().map(|server| bench.record(server)["order"].as_u64().unwrap()).collect();
    let mut after_a_faulty_one = 0;
    for payload in [16, 32, 64, 128, 256, 512] {
        let record = bench.record_of(&format!("between-{payload}/relay-spin/native"));
        assert_well(&record);
        let order = record["order"].as_u64().unwrap();
        after_a_faulty_one += u32::from(order > 0 && faulty.contains(&(order - 1)));
    }
    assert!(after_a_faulty_one >= 2, "{faulty:?}");
    assert_no_server_left();
    bench
}

#[test]
fn placement_is_asked_for_and_read_back() {
    let bench = Bench::new(PINGPONG, &["relay"], "");
    bench.runs_well();
    let record = bench.record("relay");
    for side in ["server", "client"] {
        assert_eq!(record[side]["cores_asked"], record[side]["cores_seen"], "{side}");
        assert_eq!(record[side]["cores_seen"].as_array().unwrap().len(), 1);
        assert!(record[side]["usage"]["cpu_ns"].as_u64().unwrap() > 0);
        assert_eq!(record[side]["exited"]["code"], 0, "{side}");
    }
    if thread::available_parallelism().unwrap().get() > 1 {
        assert_ne!(record["server"]["cores_seen"], record["client"]["cores_seen"]);
    }
    let counters = &record["counters"];
    assert_eq!(counters["sent"], counters["received"]);
}

#[test]
fn a_port_in_use_is_said_with_its_holder_and_later_cells_run() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let bench = Bench::new(PINGPONG, &["relay", "relay-spin"], &format!("port = {port}"));
    let output = bench.run();
    assert_eq!(output.status.code(), Some(3), "{}", bench.sandbox.shown(&output));
    for server in ["relay", "relay-spin"] {
        let record = bench.record(server);
        assert_eq!(brief(&record), "failed place");
        let message = record["outcome"]["message"].as_str().unwrap().to_owned();
        let me = format!("pid {}", std::process::id());
        assert!(message.contains(&port.to_string()) && message.contains(&me), "{message}");
    }
    drop(listener);
    bench.runs_well();
}

#[test]
fn a_cpu_limit_is_set_and_read_back_or_its_lack_is_said() {
    let bench = Bench::new(PINGPONG, &["relay"], "[limits]\ncpus = 0.5\nmemory = \"64MiB\"\n");
    let output = bench.run();
    let record = bench.record("relay");
    let limits = &record["server"]["limits_asked"];
    assert_eq!(limits["cpus"], 0.5, "{limits}");
    if brief(&record) == "failed place" {
        let message = record["outcome"]["message"].as_str().unwrap();
        assert!(message.contains("cgroup") || message.contains("control group"), "{message}");
        eprintln!("left out: control groups cannot be used here: {message}");
        assert!(std::env::var_os("CI").is_none(), "left out under CI");
        return;
    }
    assert_eq!(&record["server"]["limits_seen"], limits, "{}", bench.sandbox.shown(&output));
    let used = record["server"]["usage"]["cpu_ns"].as_f64().unwrap();
    let window: f64 =
        record["trials"].as_array().unwrap().iter().map(|t| t["window_ns"].as_f64().unwrap()).sum();
    assert!(used / window < 0.9, "{} of a core", used / window);
}

/// A run that has begun its only cell, which lasts half a minute.
/// Start-up, warm-up and trials apart, a cell costs little. The bound is generous: other tests run beside this one.

#[test]
fn a_cell_costs_little_beside_its_trials() {
    let bench = Bench::new(PINGPONG, &["relay"], "passes = 9");
    bench.runs_well();
    let folder = bench.sandbox.path().join("out/latest/cells/w/relay/native");
    let mut overheads: Vec<u64> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let record: Value =
                serde_json::from_str(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
            record["timings"]["overhead_ns"].as_u64().unwrap()
        })
        .collect();
    overheads.sort_unstable();
    assert_eq!(overheads.len(), 9);
    assert!(overheads[4] < 250_000_000, "{overheads:?}");
}

#[test]
fn a_core_that_is_not_there_is_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    let path = sandbox.file("cells.toml", &manifest(PINGPONG, &["relay"], "[cores]\nserver = [4000]\n"));
    let output = runner()
        .args(["run", path.to_str().unwrap(), "--out"])
        .arg(sandbox.path().join("out"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", sandbox.shown(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("4000"));
    assert!(!Path::new(&sandbox.path().join("out/cells")).exists());
}

#[test]
fn a_server_that_never_listens_costs_its_start_timeout_and_no_more() {
    let bench = Bench::new(&format!("{PINGPONG}\nstart_timeout = \"300ms\""), &["faulty-never-listens"], "");
    let output = bench.run();
    assert_eq!(output.status.code(), Some(3), "{}", bench.sandbox.shown(&output));
    let record = bench.record("faulty-never-listens");
    assert_eq!(brief(&record), "failed ready");
    let message = record["outcome"]["message"].as_str().unwrap();
    assert!(message.contains("300ms") && message.contains("refused"), "{message}");
    let total_ms = record["timings"]["total_ns"].as_u64().unwrap() / 1_000_000;
    assert!((300..2_500).contains(&total_ms), "{total_ms} ms");
    assert_no_server_left();
}
