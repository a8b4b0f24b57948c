//! `runner report` as its users meet it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use chrono::{DateTime, Utc};
use runner::plan::{
    CellId, ClientSpec, Cores, Job, Program, ResolvedCell, Role, ServerSpec, Timeouts, Workload,
};
use runner::record::store::{PlannedCell, RUN_SCHEMA, RunMeta, record_path};
use runner::record::{Counts, Outcome, Record, Trial, VoidReason};
use runner::workload::protocol::Batch;
use runner::workload::{Extent, Kind, Mask, Opcode, Params, Wait};
use serde_json::Value;
use support::{Sandbox, runner};

fn at() -> DateTime<Utc> {
    DateTime::from_timestamp(1_791_633_600, 0).unwrap()
}

fn record(server: &str, pass: u32, rate: f64) -> Record {
    let params = Params {
        kind: Kind::Pingpong,
        payload: 16,
        opcode: Opcode::Binary,
        pairs: 1,
        in_flight: 1,
        rate_per_s: None,
        threads: 1,
        warmup: Extent::Rounds(1_000),
        trial: Extent::DurationNs(150_000_000),
        trials: 1,
        mask: Mask::Zero,
        wait: Wait::Spin,
    };
    let id = CellId::new("pingpong-16", server, "native");
    let cell = ResolvedCell {
        id: id.clone(),
        workload: Workload { name: id.workload.clone(), params },
        server: ServerSpec {
            name: server.to_owned(),
            runtime: None,
            role: Role::Relay,
            program: Program::default(),
            settings: Default::default(),
            max_payload: None,
        },
        client: ClientSpec { name: "native".to_owned(), runtime: None, program: Program::default() },
        cores: Cores { server: vec![0], client: vec![1] },
        limits: None,
        timeouts: Timeouts::default(),
        port: None,
    };
    let job = Job {
        run_id: "20261010-1".to_owned(),
        manifest: "quick".to_owned(),
        pass,
        order: 0,
        seed: 1,
        cell,
        log_dir: None,
        runner: None,
    };
    let mut record = Record::blank(&job, Outcome::Ok, at());
    let batch = Batch { rounds: (rate * 0.15) as u64, elapsed_ns: 150_000_000, ..Batch::default() };
    record.trials = vec![Trial { batch, window_ns: 150_000_000, ..Trial::default() }];
    record
}

/// A run of two servers and one that was void, under `[dir]/out/quick/20261010-1`.
fn sandbox_with_run() -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::new();
    let run = sandbox.path().join("out/quick/20261010-1");
    let mut ids = Vec::new();
    for (server, rate) in [("relay", 30e3), ("relay-spin", 60e3), ("echo", 90e3)] {
        for pass in 1..=3 {
            let mut record = record(server, pass, rate + f64::from(pass) * 500.0);
            if server == "echo" {
                let detail = "message 1 came back to its sender".to_owned();
                record.outcome = Outcome::Void { reason: VoidReason::Echoed, detail };
            }
            let path = record_path(&run, &record.cell.id, pass);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
        }
        ids.push(CellId::new("pingpong-16", server, "native"));
    }
    let meta = RunMeta {
        schema: RUN_SCHEMA.to_owned(),
        run_id: "20261010-1".to_owned(),
        manifest: "quick".to_owned(),
        title: "Two relays".to_owned(),
        started_at: at(),
        finished_at: Some(at() + chrono::TimeDelta::seconds(9)),
        interrupted: false,
        argv: ["/usr/local/bin/runner", "run", "manifests/quick.toml", "--cell", "pingpong-*"]
            .map(str::to_owned)
            .to_vec(),
        seed: 7,
        passes: 3,
        control: Some(ids[0].clone()),
        rules: Default::default(),
        narrowed: false,
        until_decided: None,
        cells: ids.into_iter().map(|id| PlannedCell { id, content_id: None, skipped: None }).collect(),
        excluded: Vec::new(),
        counts: Counts::default(),
        runner_version: "0.1.0".to_owned(),
        sources: Vec::new(),
    };
    fs::write(run.join("run.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
    (sandbox, run)
}

#[test]
fn the_latest_run_is_printed_in_each_format() {
    let (sandbox, _) = sandbox_with_run();
    snapshot!("help_report", sandbox.run(&["report", "--help"]));
    snapshot!("report_table", sandbox.run(&["report", "latest", "--out", "[dir]/out"]));
    snapshot!(
        "report_markdown",
        sandbox.run(&["report", "latest", "--out", "[dir]/out", "--format", "markdown"])
    );
    snapshot!("report_csv", sandbox.run(&["report", "latest", "--out", "[dir]/out", "--format", "csv"]));
}

#[test]
fn a_run_is_named_by_its_folder_its_file_or_its_place_among_the_runs() {
    let (sandbox, _) = sandbox_with_run();
    let latest = sandbox.run(&["report", "latest", "--out", "[dir]/out"]);
    for run in ["[dir]/out/quick/20261010-1", "[dir]/out/quick/20261010-1/run.json", "quick/20261010-1"] {
        assert_eq!(sandbox.run(&["report", run, "--out", "[dir]/out"]), latest, "{run}");
    }
}

#[test]
fn what_is_no_run_is_wrong_use_with_a_hint() {
    let (sandbox, run) = sandbox_with_run();
    snapshot!("no_such_run", sandbox.run(&["report", "nowhere", "--out", "[dir]/out"]));
    snapshot!("no_runs", sandbox.run(&["report", "latest", "--out", "[dir]/empty"]));
    snapshot!("not_a_run", sandbox.run(&["report", "[dir]/out/quick", "--out", "[dir]/out"]));
    let whole = fs::read_to_string(run.join("run.json")).unwrap();
    fs::write(run.join("run.json"), &whole[..100]).unwrap();
    snapshot!("half_a_run", sandbox.run(&["report", "[dir]/out/quick/20261010-1"]));
    fs::write(run.join("run.json"), "").unwrap();
    snapshot!("empty_run", sandbox.run(&["report", "[dir]/out/quick/20261010-1"]));
}

#[test]
fn unknown_formats_and_comparisons_name_the_known_ones() {
    let (sandbox, _) = sandbox_with_run();
    snapshot!("unknown_format", sandbox.run(&["report", "latest", "--format", "pdf"]));
    snapshot!("unknown_published", sandbox.run(&["report", "latest", "--compare-published", "lemire-2023"]));
}

#[test]
fn json_holds_the_figures_of_each_pass() {
    let (sandbox, _) = sandbox_with_run();
    let out = sandbox.path().join("out");
    let output = runner().args(["report", "latest", "--format", "json", "--out"]).arg(out).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["schema"], "runner.report/1");
    let fastest = &report["groups"][0]["cells"][0];
    assert_eq!(fastest["id"], "pingpong-16/relay-spin/native");
    assert_eq!(fastest["passes"].as_array().unwrap().len(), 3);
    assert_eq!(report["coverage"]["counts"]["void"], 3);
}

#[test]
fn a_file_is_written_whole_and_without_colour() {
    let (sandbox, _) = sandbox_with_run();
    let file = sandbox.path().join("tables/report.md");
    let shown = sandbox.run(&[
        "--color",
        "always",
        "report",
        "latest",
        "--out",
        "[dir]/out",
        "--output",
        "[dir]/tables/report.md",
    ]);
    assert_eq!(shown, "exit 0\n");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.starts_with("Two relays\n") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_file_that_cannot_be_written_is_said() {
    let (sandbox, _) = sandbox_with_run();
    sandbox.file("taken", "a file where a folder is needed");
    let shown = sandbox.run(&["report", "latest", "--out", "[dir]/out", "--output", "[dir]/taken/report.md"]);
    assert!(shown.starts_with("exit 6\n"), "{shown}");
    assert!(shown.contains("error: `[dir]/taken/report.md` could not be written"), "{shown}");
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let (sandbox, _) = sandbox_with_run();
    let shown = sandbox.run(&["report", "latest", "--out", "[dir]/out", "--output", "/dev/null"]);
    assert_eq!(shown, "exit 0\n");
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn colour_is_there_when_asked_for_and_not_otherwise() {
    let (sandbox, _) = sandbox_with_run();
    let plain = sandbox.run(&["report", "latest", "--out", "[dir]/out"]);
    assert!(!plain.contains('\u{1b}'));
    let colored = sandbox.run(&["--color", "always", "report", "latest", "--out", "[dir]/out"]);
    assert!(colored.contains('\u{1b}'));
}

#[test]
fn a_reader_that_goes_away_ends_the_printing_quietly() {
    let (sandbox, _) = sandbox_with_run();
    let mut child = Command::new(env!("CARGO_BIN_EXE_runner"))
        .args(["report", "latest", "--format", "json", "--out"])
        .arg(sandbox.path().join("out"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert_eq!(said, "");
}
