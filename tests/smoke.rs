//! `runner smoke` on real processes: honest servers keep the contract, and each fault is found as what it is.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn smoke(args: &[&str]) -> Output {
    Command::cargo_bin("runner")
        .unwrap()
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .arg("smoke")
        .args(args)
        .args(["--format", "json", "--start-timeout", "5s"])
        .output()
        .unwrap()
}

/// What is broken, by server.
fn broken(output: &Output) -> BTreeMap<String, Vec<String>> {
    let document: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(document["schema"], "runner.smoke/1");
    let names = |checks: &Value| {
        let checks = checks.as_array().unwrap().iter();
        checks
            .filter(|check| check["result"] == "broken")
            .map(|check| check["check"].as_str().unwrap().to_owned())
            .collect()
    };
    let servers = document["servers"].as_array().unwrap().iter();
    servers.map(|server| (server["server"].as_str().unwrap().to_owned(), names(&server["checks"]))).collect()
}

/// A faulty server breaks these checks and no other.
#[track_caller]
fn breaks(server: &str, expected: &[&str]) {
    let output = smoke(&["--server", server]);
    assert_eq!(broken(&output)[server], expected, "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(3));
}

macro_rules! faults {
    ($($name:ident: $server:literal breaks $expected:expr;)*) => {
        $(#[test] fn $name() { breaks($server, &$expected); })*
    };
}

faults! {
    an_echo_is_no_relay: "faulty-echoed" breaks ["relays"];
    an_echo_after_a_while_is_found: "faulty-echoed-late" breaks ["none-missing", "none-echoed"];
    an_altered_payload_is_found: "faulty-altered" breaks ["unaltered"];
    a_broken_order_is_found: "faulty-reordered" breaks ["in-order"];
    a_lost_message_is_found: "faulty-missing" breaks ["none-missing"];
    a_doubled_message_is_found: "faulty-doubled" breaks ["none-doubled"];
    a_changed_opcode_is_found: "faulty-opcode-changed" breaks ["opcode"];
    a_mixed_up_partner_is_found: "faulty-partner-mixed-up" breaks ["partner-only"];
    an_unasked_message_is_found: "faulty-unasked" breaks ["none-unasked"];
    compression_is_found: "faulty-negotiates-compression" breaks ["no-extension"];
    a_server_that_never_listens_is_found: "faulty-never-listens" breaks ["starts"];
    a_server_that_dies_at_once_is_found: "faulty-dies-at-once" breaks ["starts"];
    a_server_that_dies_under_load_is_found: "faulty-dies-mid-trial" breaks ["none-missing"];
    a_server_that_hangs_under_load_is_found: "faulty-hangs" breaks ["none-missing"];
    a_server_that_ignores_the_signal_is_found: "faulty-ignores-term" breaks ["term"];
    a_process_left_behind_is_found: "faulty-forks" breaks ["leaves-nothing"];
    a_port_held_by_a_child_is_found: "faulty-holds-port" breaks ["leaves-nothing"];
}

#[test]
fn a_fault_is_explained_in_a_sentence() {
    let output = Command::cargo_bin("runner")
        .unwrap()
        .args(["smoke", "--server", "faulty-dies-at-once", "--color", "never"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.trim_end() == " starts                   ✗"), "{text}");
    assert!(text.ends_with(
        "✗ faulty-dies-at-once / starts: a server completes a handshake soon after its start, but: the server ended \
         with exit status: 3 and said last: faulty server: dies at once, as it was asked to.\n"
    ));
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.ends_with("runner: the contract is broken by faulty-dies-at-once\n"), "{talk}");
}

#[test]
fn the_built_in_servers_keep_the_contract() {
    let servers = ["relay", "relay-spin", "relay-delayed", "relay-stalls", "faulty-floods-log"];
    let args: Vec<&str> = servers.iter().flat_map(|server| ["--server", server]).collect();
    let output = smoke(&args);
    let found = broken(&output);
    assert_eq!(found.len(), servers.len());
    assert!(found.values().all(Vec::is_empty), "{found:?}");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_servers_of_the_quick_manifest_keep_the_contract() {
    for server in ["wsrelay@native", "ws@node-24", "bun-serve@bun"] {
        let setup = Command::cargo_bin("runner")
            .unwrap()
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["setup", "--server", server])
            .output()
            .unwrap();
        if !setup.status.success() {
            let reason = String::from_utf8_lossy(&setup.stdout).into_owned();
            assert!(std::env::var_os("CI").is_none(), "{server} cannot be tested here: {reason}");
            eprintln!("NOT TESTED: {server} cannot be installed here: {reason}");
            continue;
        }
        let output = smoke(&["--server", server, "--no-setup"]);
        assert_eq!(broken(&output)[server], [""; 0], "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(output.status.code(), Some(0));
    }
}

#[test]
fn every_server_that_is_installed_keeps_the_contract() {
    let output = smoke(&["--server", "*", "--no-setup", "--allow-skips"]);
    let found = broken(&output);
    assert!(found.len() >= 6, "{found:?}");
    assert!(found.values().all(Vec::is_empty), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn an_unknown_server_is_named_with_the_nearest() {
    let output = smoke(&["--server", "rellay"]);
    assert_eq!(output.status.code(), Some(2));
    let talk = String::from_utf8(output.stderr).unwrap();
    assert!(talk.contains("unknown server `rellay`"), "{talk}");
    assert!(talk.contains("did you mean `relay`?"), "{talk}");
}
