//! `doctor` on the machine at hand, whatever that is worth.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::Value;
use support::{Sandbox, runner};

/// Runs it, holds exit code and verdict against the findings, and returns what it printed.
fn doctor(args: &[&str], path: Option<&str>) -> Value {
    let mut command = runner();
    command.args(["doctor", "--format", "json"]).args(args);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let output = command.output().unwrap();
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let severities: Vec<&str> =
        findings(&said).map(|finding| finding["severity"].as_str().unwrap()).collect();
    let worst = ["unfit", "caution", "fit"].into_iter().find(|one| severities.contains(one)).unwrap();
    assert_eq!(said["verdict"], worst);
    assert_eq!(output.status.code(), Some(if worst == "unfit" { 3 } else { 0 }), "{said:#}");
    said
}

fn findings(said: &Value) -> impl Iterator<Item = &Value> {
    said["findings"].as_array().unwrap().iter()
}

fn severity<'a>(said: &'a Value, check: &str) -> &'a str {
    findings(said).find(|finding| finding["check"] == check).unwrap()["severity"].as_str().unwrap()
}

#[test]
fn every_finding_says_what_was_seen_and_each_fault_how_to_mend_it() {
    let said = doctor(&[], None);
    assert_eq!(said["schema"], "runner.doctor/1");
    for finding in findings(&said) {
        assert!(!finding["seen"].as_str().unwrap().is_empty(), "{finding}");
        if finding["severity"] != "fit" {
            assert!(!finding["mend"].as_str().unwrap().is_empty(), "{finding}");
        }
    }
}

#[test]
fn tools_that_are_not_there_are_missed() {
    let nothing = Sandbox::new();
    let said = doctor(&[], Some(nothing.path().to_str().unwrap()));
    assert_ne!(severity(&said, "tools"), "fit");
}

#[test]
fn more_connections_than_descriptors_make_it_unfit() {
    let sandbox = Sandbox::new();
    let manifest = sandbox.file(
        "many.toml",
        "[workloads.many]\nkind = \"load\"\npairs = 4000000\n[[matrix]]\nworkloads = [\"*\"]\nservers = [\"relay\"]\nclients = [\"native\"]\n",
    );
    let said = doctor(&[manifest.to_str().unwrap()], None);
    assert_eq!(severity(&said, "open files"), "unfit");
}
