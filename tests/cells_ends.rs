//! Cells of `runner run` that are cut short: by a signal to any of their processes, by a deadline, by the user.

mod support;

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use support::real::{
    Bench, LONG_FIRST, Long, PINGPONG, SHORT, SHORT_FIRST, assert_no_server_left, assert_well, brief,
    eventually, groups_of, is_alive, signal,
};
use support::runner;

const SHORT_CELL: &str = "short/relay-spin/native";

#[test]
fn a_cell_that_is_killed_fails_alone() {
    let mut long = Long::start("relay", "", LONG_FIRST);
    let (cell, server, client) = long.processes();
    signal(cell, Signal::KILL);
    assert_eq!(long.end().0, Some(3));
    assert!(!is_alive(server) && !is_alive(client));
    let record = long.bench.record("relay");
    assert_eq!(brief(&record), "failed cell", "{:#}", record["outcome"]);
    assert!(record["outcome"]["message"].as_str().unwrap().contains("signal"), "{:#}", record["outcome"]);
    assert_well(&long.bench.record_of(SHORT_CELL));
    assert_no_server_left();
}

/// What a server starts does not end with the server, and its control group ends with nobody.
#[test]
fn a_cell_that_is_killed_leaves_no_process_and_no_group() {
    let limits = if groups_can_be_made() { "[limits]\nmemory = \"512MiB\"\n" } else { "" };
    let mut long = Long::start("faulty-forks", limits, LONG_FIRST);
    let (cell, ..) = long.processes();
    assert_eq!(groups_of(cell).is_empty(), limits.is_empty());
    signal(cell, Signal::KILL);
    assert_eq!(long.end().0, Some(3));
    assert_eq!(brief(&long.bench.record("faulty-forks")), "failed cell");
    assert_no_server_left();
    assert!(groups_of(cell).is_empty(), "{:?}", groups_of(cell));
}

/// Whether a server can be limited here. Where it cannot, the test says so and fails under `CI`.
#[expect(clippy::print_stderr, reason = "it says that it left something out")]
fn groups_can_be_made() -> bool {
    let bench = Bench::new(PINGPONG, &["relay"], "[limits]\nmemory = \"512MiB\"\n");
    bench.run();
    let can = brief(&bench.record("relay")) != "failed place";
    if !can {
        eprintln!("left out: control groups cannot be used here");
        assert!(std::env::var_os("CI").is_none(), "left out under CI");
    }
    can
}

#[test]
fn a_server_that_is_killed_fails_its_cell_alone() {
    let mut long = Long::start("relay", "", LONG_FIRST);
    let (_, server, _) = long.processes();
    signal(server, Signal::KILL);
    assert_eq!(long.end().0, Some(3));
    let record = long.bench.record("relay");
    assert!(brief(&record).starts_with("failed"), "{:#}", record["outcome"]);
    let message = record["outcome"]["message"].as_str().unwrap();
    assert!(message.contains("the server was ended by signal 9"), "{message}");
    assert_eq!(record["server"]["exited"]["signal"], 9);
    assert_well(&long.bench.record_of(SHORT_CELL));
    assert_no_server_left();
}

#[test]
fn a_client_that_is_killed_fails_its_cell_alone() {
    let mut long = Long::start("relay", "", LONG_FIRST);
    let (_, _, client) = long.processes();
    signal(client, Signal::KILL);
    assert_eq!(long.end().0, Some(3));
    let record = long.bench.record("relay");
    assert!(brief(&record).starts_with("failed"), "{:#}", record["outcome"]);
    assert!(record["outcome"]["message"].as_str().unwrap().contains("the client"), "{:#}", record["outcome"]);
    assert_eq!(record["client"]["exited"]["signal"], 9);
    assert_well(&long.bench.record_of(SHORT_CELL));
    assert_no_server_left();
}

#[test]
fn a_cell_ends_at_its_deadline() {
    let workload = format!("{PINGPONG}\ndeadline = \"1500ms\"\nduration = \"30s\"");
    let bench = Bench::new(&workload, &["relay"], SHORT);
    let output = bench.run();
    assert_eq!(output.status.code(), Some(3), "{}", bench.sandbox.shown(&output));
    let record = bench.record("relay");
    assert!(brief(&record).starts_with("failed"), "{:#}", record["outcome"]);
    assert!(record["outcome"]["message"].as_str().unwrap().contains("deadline of 1.5s"), "{record:#}");
    let total_ms = record["timings"]["total_ns"].as_u64().unwrap() / 1_000_000;
    assert!((1_500..10_000).contains(&total_ms), "{total_ms} ms");
    assert_well(&bench.record_of(SHORT_CELL));
    assert_no_server_left();
}

/// A cell's own process keeps its deadline, as long as it can.
#[test]
fn a_cell_whose_own_process_hangs_is_ended_from_outside() {
    let hasty = |text: String| text.replace("\"60s\"", "\"3s\"");
    let mut long = Long::start_with("faulty-forks", "", LONG_FIRST, hasty);
    let (cell, ..) = long.processes();
    signal(cell, Signal::STOP);
    assert_eq!(long.end().0, Some(3));
    let record = long.bench.record("faulty-forks");
    assert_eq!(brief(&record), "failed cell", "{:#}", record["outcome"]);
    assert!(record["outcome"]["message"].as_str().unwrap().contains("deadline"), "{:#}", record["outcome"]);
    assert_well(&long.bench.record_of(SHORT_CELL));
    assert_no_server_left();
}

#[test]
fn an_interrupted_run_ends_soon_with_nothing_left() {
    for asked in [Signal::INT, Signal::TERM] {
        let mut long = Long::start("relay", "", LONG_FIRST);
        let (cell, server, client) = long.processes();
        let begun = Instant::now();
        signal(long.pid(), asked);
        let (code, said) = long.end();
        assert_eq!(code, Some(130), "{said}");
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!([cell, server, client].iter().all(|pid| !is_alive(*pid)));
        assert!(said.contains("--resume"), "{said}");
        assert_no_server_left();
    }
}

#[test]
fn a_user_who_asks_twice_does_not_wait_for_a_server_that_will_not_end() {
    let patient = |text: String| text.replace("\"500ms\"", "\"30s\"");
    let mut long = Long::start_with("faulty-ignores-term", "", LONG_FIRST, patient);
    let (cell, server, client) = long.processes();
    let begun = Instant::now();
    signal(long.pid(), Signal::INT);
    signal(long.pid(), Signal::TERM);
    let (code, said) = long.end();
    assert_eq!(code, Some(130), "{said}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    assert!([cell, server, client].iter().all(|pid| !is_alive(*pid)));
    assert_no_server_left();
}

#[test]
fn what_was_finished_before_an_interruption_is_kept_and_the_rest_is_run() {
    let mut long = Long::start("relay", "", SHORT_FIRST);
    long.processes();
    let kept = long.bench.record_of(SHORT_CELL);
    signal(long.pid(), Signal::TERM);
    assert_eq!(long.end().0, Some(130));
    assert!(!long.bench.sandbox.path().join("out/latest/cells/w").exists());
    // Nobody wants to wait for half a minute.
    let manifest = long.bench.sandbox.path().join("cells.toml");
    let text = fs::read_to_string(&manifest).unwrap().replace("\"30s\"", "\"30ms\"");
    fs::write(&manifest, text).unwrap();
    let output = runner().args(long.bench.args()).arg("--resume").output().unwrap();
    let shown = long.bench.sandbox.shown(&output);
    assert!(shown.contains("1 of them finished before"), "{shown}");
    assert_well(&long.bench.record("relay"));
    assert_eq!(long.bench.record_of(SHORT_CELL), kept);
}

#[test]
fn a_killed_run_takes_its_processes_with_it() {
    let mut long = Long::start("relay", "", LONG_FIRST);
    let (cell, server, client) = long.processes();
    signal(long.pid(), Signal::KILL);
    assert_eq!(long.end().0, None);
    eventually("the end of all of the cell", || {
        [cell, server, client].iter().all(|pid| !is_alive(*pid)).then_some(())
    });
    let meta = fs::read_to_string(long.bench.sandbox.path().join("out/latest/run.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&meta).unwrap()["finished_at"].is_null());
    assert_no_server_left();
}

#[test]
fn a_second_run_in_the_same_folder_is_turned_away_and_the_first_goes_on() {
    let mut long = Long::start("relay", "", LONG_FIRST);
    long.processes();
    for more in [&[][..], &["--resume"]] {
        let output = runner().args(long.bench.args()).args(more).output().unwrap();
        let shown = long.bench.sandbox.shown(&output);
        assert_eq!(output.status.code(), Some(2), "{shown}");
        assert!(shown.contains(&format!("(process {})", long.pid())), "{shown}");
    }
    let runs = fs::read_dir(long.bench.sandbox.path().join("out/cells")).unwrap();
    let mut runs: Vec<_> = runs.map(|entry| entry.unwrap().file_name()).collect();
    runs.sort();
    assert_eq!(runs.len(), 3, "one run, its link and the lock: {runs:?}");
    assert!(long.goes_on(), "the first run has ended");
    signal(long.pid(), Signal::TERM);
    assert_eq!(long.end().0, Some(130));
}
