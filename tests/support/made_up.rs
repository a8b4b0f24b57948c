//! A run on the executor that runs nothing: a manifest, a script of answers, a folder of runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use super::{Sandbox, runner, validate, validate_record};

/// A manifest of three cells.
pub const MANIFEST: &str = r#"
title = "Made up"
passes = 2
seed = 7
control = "pingpong/relay/native"
[workloads.pingpong]
kind = "pingpong"
trials = 2
rounds = 1000
[[matrix]]
workloads = ["pingpong"]
servers = ["relay", "relay-spin", "wsrelay@native"]
clients = ["native"]
"#;

/// A clock that begins in January, and a rate for each server.
const ANSWERS: &str = r#"
start = "2026-01-02T03:04:05Z"
[[answer]]
cells = "*"
rate = 20000.0
[[answer]]
cells = "*/relay-spin/*"
rate = 50000.0
"#;

/// A folder with a manifest, a script and runs.
pub struct Bench {
    /// The folder.
    pub sandbox: Sandbox,
    manifest: PathBuf,
}

impl Bench {
    /// A bench with these answers besides the usual ones.
    pub fn new(more_answers: &str) -> Self {
        let sandbox = Sandbox::new();
        let manifest = sandbox.file("made-up.toml", MANIFEST);
        sandbox.file("script.toml", &format!("{ANSWERS}{more_answers}"));
        Bench { sandbox, manifest }
    }

    /// Answers in place of those before.
    pub fn answer(&self, more_answers: &str) {
        self.sandbox.file("script.toml", &format!("{ANSWERS}{more_answers}"));
    }

    /// Arguments of a run.
    pub fn args(&self, more: &[&str]) -> Vec<String> {
        let path = |name: &str| self.sandbox.path().join(name).display().to_string();
        let mut args = vec!["run".to_owned(), self.manifest.display().to_string()];
        args.extend(["--fake".to_owned(), path("script.toml"), "--out".to_owned(), path("out")]);
        args.extend(more.iter().map(|arg| arg.replace("[dir]", &self.sandbox.path().display().to_string())));
        args
    }

    /// A run with these arguments besides the usual ones.
    pub fn run(&self, more: &[&str]) -> Output {
        runner().args(self.args(more)).output().unwrap()
    }

    /// What a run printed, with its random id made plain.
    pub fn shown(&self, output: &Output) -> String {
        let text = self.sandbox.shown(output);
        let Some(run) = self.latest() else { return text };
        let id = run.file_name().unwrap().to_str().unwrap().to_owned();
        text.replace(&id, "[run]")
    }

    /// The newest run's folder.
    pub fn latest(&self) -> Option<PathBuf> {
        self.sandbox.path().join("out/made-up/latest").canonicalize().ok()
    }

    /// Records by their path below the run, each checked against the schema.
    pub fn records(&self) -> Vec<(String, Value)> {
        let run = self.latest().unwrap();
        let mut found = Vec::new();
        let mut folders = vec![run.join("cells")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let record = json(&path);
                    validate_record(&record);
                    let name = path.strip_prefix(&run).unwrap().display().to_string();
                    found.push((name, record));
                }
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found
    }

    /// Names of the records.
    pub fn record_names(&self) -> Vec<String> {
        self.records().into_iter().map(|(name, _)| name).collect()
    }

    /// `run.json`, checked against its schema.
    pub fn meta(&self) -> Value {
        let meta = json(&self.latest().unwrap().join("run.json"));
        validate("run", &meta);
        meta
    }
}

/// A file of JSON.
pub fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The exit code.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

/// The last line of stderr.
pub fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
}

/// Names of the records of a whole run.
pub const ALL: [&str; 6] = [
    "cells/pingpong/relay-spin/native/pass-1.json",
    "cells/pingpong/relay-spin/native/pass-2.json",
    "cells/pingpong/relay/native/pass-1.json",
    "cells/pingpong/relay/native/pass-2.json",
    "cells/pingpong/wsrelay@native/native/pass-1.json",
    "cells/pingpong/wsrelay@native/native/pass-2.json",
];
