//! `runner run` from end to end, on an executor that runs nothing: what is printed, what is kept, how it ends, and what a
//! run that was cut off leaves to be resumed.

mod support;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use support::made_up::{ALL, Bench, MANIFEST, code, json, last_line};

#[test]
fn a_run_prints_lines_and_a_table_and_keeps_every_record() {
    let bench = Bench::new("");
    let output = bench.run(&[]);
    snapshot!(bench.shown(&output));
    assert_eq!(bench.record_names(), ALL);
    let meta = bench.meta();
    assert_eq!((&meta["seed"], &meta["passes"], &meta["interrupted"]), (&7.into(), &2.into(), &false.into()));
    assert_eq!(meta["counts"]["ok"], 6);
    assert!(!meta["finished_at"].is_null());
    // Both links lead to the run.
    let out = bench.sandbox.path().join("out");
    assert_eq!(out.join("latest").canonicalize().unwrap(), bench.latest().unwrap());
    assert!(fs::symlink_metadata(out.join("latest")).unwrap().is_symlink());
}

#[test]
fn the_event_stream_tells_everything_in_order() {
    let bench = Bench::new("");
    let output = bench.run(&["--format", "json"]);
    snapshot!(bench.shown(&output));
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert!(event["event"].is_string(), "{line}");
    }
}

#[test]
fn the_seed_decides_the_order_and_every_pass_holds_every_cell() {
    let order = |seed: &str| {
        let bench = Bench::new("");
        assert_eq!(code(&bench.run(&["--seed", seed, "--passes", "4"])), 0);
        let mut placed: Vec<(u64, u64, String)> = bench
            .records()
            .into_iter()
            .map(|(_, record)| {
                let id = record["cell"]["id"].as_str().unwrap().to_owned();
                (record["order"].as_u64().unwrap(), record["pass"].as_u64().unwrap(), id)
            })
            .collect();
        placed.sort();
        placed
    };
    let (one, again, other) = (order("1"), order("1"), order("2"));
    assert_eq!(one, again);
    assert_ne!(one, other);
    // Passes are outermost, and each holds each cell once, the control among them.
    for (pass, cells) in (1..).zip(one.chunks(3)) {
        assert!(cells.iter().all(|cell| cell.1 == pass), "{one:?}");
        assert_eq!(cells.iter().map(|cell| &cell.2).collect::<BTreeSet<_>>().len(), 3);
    }
}

#[test]
fn each_way_to_end_has_its_code_and_its_last_line() {
    let void = "[[answer]]\ncells = \"*/relay-spin/*\"\noutcome = { status = \"void\", reason = \"echoed\", detail = \"an echo\" }\n";
    let failed = "[[answer]]\ncells = \"*/relay-spin/*\"\noutcome = { status = \"failed\", stage = \"start\", message = \"it died\", log_tail = [] }\n";
    let skipped =
        "[[answer]]\ncells = \"*/relay-spin/*\"\noutcome = { status = \"skipped\", reason = \"no npm\" }\n";
    let hangs = "[[answer]]\ncells = \"*/relay-spin/*\"\nhangs = true\n";
    let cases: [(&str, &str, &[&str], i32); 8] = [
        ("done", "", &[], 0),
        ("void", void, &[], 3),
        ("failed", failed, &[], 3),
        ("hangs", hangs, &[], 3),
        ("skipped", skipped, &[], 3),
        ("allowed skips", skipped, &["--allow-skips"], 0),
        ("void though skips are allowed", void, &["--allow-skips"], 3),
        ("nothing selected", "", &["--cell", "nothing/of/this"], 5),
    ];
    let mut shown = String::new();
    for (name, answers, args, expected) in cases {
        let bench = Bench::new(answers);
        let output = bench.run(args);
        assert_eq!(code(&output), expected, "{name}: {}", bench.shown(&output));
        if let Some(line) = bench.shown(&output).lines().last() {
            shown.push_str(&format!("{name}: exit {expected}: {line}\n"));
        }
        if !name.starts_with("nothing") {
            // The others were measured all the same, and what happened is on record.
            assert_eq!(bench.record_names(), ALL, "{name}");
        }
    }
    snapshot!(shown);
}

#[test]
fn a_hanging_cell_ends_at_its_deadline_and_says_so() {
    let bench = Bench::new("[[answer]]\ncells = \"*/relay-spin/*\"\npasses = [1]\nhangs = true\n");
    bench.run(&[]);
    let records = bench.records();
    let outcome = &records[0].1["outcome"];
    assert_eq!((&outcome["status"], &outcome["stage"]), (&"failed".into(), &"measure".into()));
    assert!(outcome["message"].as_str().unwrap().contains("deadline"), "{outcome}");
    assert_eq!(records[1].1["outcome"]["status"], "ok");
}

#[test]
fn a_killed_run_loses_one_cell_and_goes_on() {
    let bench = Bench::new("[[answer]]\ncells = \"*/wsrelay@native/*\"\npasses = [2]\nkill = true\n");
    let killed = bench.run(&[]);
    assert_eq!(killed.status.code(), None, "{}", bench.shown(&killed));
    let before = bench.records();
    assert!(before.len() >= 3, "the first pass was finished: {:?}", bench.record_names());
    assert!(bench.meta()["finished_at"].is_null());

    bench.answer("");
    let resumed = bench.run(&["--resume"]);
    assert_eq!(code(&resumed), 0, "{}", bench.shown(&resumed));
    assert_eq!(bench.record_names(), ALL);
    // What was finished was not run again, and the order is that of the first part.
    let after = bench.records();
    for (name, record) in &before {
        assert_eq!(record, &after.iter().find(|(other, _)| other == name).unwrap().1);
    }
    let orders: BTreeSet<u64> = after.iter().map(|(_, record)| record["order"].as_u64().unwrap()).collect();
    assert_eq!(orders, (0..6).collect());
    assert!(!bench.meta()["finished_at"].is_null());
    assert_eq!(bench.meta()["counts"]["ok"], 6);
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let bench = Bench::new("[[answer]]\ncells = \"*/wsrelay@native/*\"\npasses = [1]\ncancel = true\n");
    let output = bench.run(&[]);
    assert_eq!(code(&output), 130);
    assert!(last_line(&output).contains("--resume"), "{}", last_line(&output));
    let meta = bench.meta();
    assert_eq!((&meta["interrupted"], meta["finished_at"].is_null()), (&true.into(), true));
    assert!(!bench.record_names().iter().any(|name| name.contains("wsrelay")), "{:?}", bench.record_names());
    bench.answer("");
    assert_eq!(code(&bench.run(&["--resume"])), 0);
    assert_eq!(bench.record_names(), ALL);
    assert_eq!(bench.meta()["interrupted"], false);
}

#[test]
fn what_failed_is_tried_again_and_both_attempts_are_kept() {
    let bench = Bench::new(
        "[[answer]]\ncells = \"*/relay-spin/*\"\npasses = [1]\noutcome = { status = \"failed\", stage = \"start\", message = \"it died\", log_tail = [\"boom\"] }\n",
    );
    assert_eq!(code(&bench.run(&[])), 3);
    bench.answer("");
    assert_eq!(code(&bench.run(&["--resume"])), 0);
    let mut expected: Vec<String> = ALL.map(str::to_owned).to_vec();
    expected.push("cells/pingpong/relay-spin/native/pass-1.attempt-1.json".to_owned());
    expected.sort();
    assert_eq!(bench.record_names(), expected);
    let records = bench.records();
    let first = &records.iter().find(|(name, _)| name.contains("attempt-1")).unwrap().1;
    assert_eq!(first["outcome"]["log_tail"][0], "boom");
    // A void record is a finding and stays.
    let void = Bench::new(
        "[[answer]]\ncells = \"*/relay-spin/*\"\noutcome = { status = \"void\", reason = \"echoed\", detail = \"an echo\" }\n",
    );
    assert_eq!(code(&void.run(&[])), 3);
    void.answer("");
    assert_eq!(code(&void.run(&["--resume"])), 3);
    assert_eq!(void.record_names(), ALL);
}

#[test]
fn a_changed_manifest_is_measured_anew_where_it_changed() {
    let bench = Bench::new("[[answer]]\ncells = \"*/wsrelay@native/*\"\npasses = [2]\ncancel = true\n");
    assert_eq!(code(&bench.run(&[])), 130);
    bench.answer("");
    bench.sandbox.file("made-up.toml", &MANIFEST.replace("rounds = 1000", "rounds = 2000"));
    let output = bench.run(&["--resume"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("pingpong/relay/native has changed since; it is measured anew"), "{stderr}");
    for (name, record) in bench.records().iter().filter(|(name, _)| !name.contains("attempt")) {
        assert_eq!(record["cell"]["workload"]["params"]["trial"]["rounds"], 2000, "{name}");
    }
}

#[test]
fn a_record_that_was_cut_off_is_measured_again() {
    let bench = Bench::new("");
    assert_eq!(code(&bench.run(&[])), 0);
    let broken = bench.latest().unwrap().join(ALL[3]);
    let whole = fs::read(&broken).unwrap();
    fs::write(&broken, &whole[..whole.len() / 2]).unwrap();
    let output = bench.run(&["--resume"]);
    assert_eq!(code(&output), 0, "{}", bench.shown(&output));
    assert_eq!(json(&broken)["outcome"]["status"], "ok");
}

/// A file system of its own, of some hundred kilobytes. Needs a user namespace or root; where neither is allowed the test
/// says so and fails under `CI`.

#[test]
fn a_budget_scales_counts_and_drops_no_cell() {
    let bench = Bench::new("");
    let output = bench.run(&["--budget", "1ms"]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("budget"), "{stderr}");
    assert_eq!(bench.record_names(), ALL);
}
