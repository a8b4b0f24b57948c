//! Shared by the tests of the whole command line: a clean environment, a folder of one's own, texts that are the
//! same on every machine, and the schemas that output must keep to.

#![allow(
    dead_code,
    unreachable_pub,
    unused_macros,
    reason = "each test file compiles this module and uses a part of it"
)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub mod made_up;
pub mod names;
pub mod real;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// The program, in the project's folder, with nothing of the caller's environment that changes what it prints.
pub fn runner() -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("runner"));
    command
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_remove("NO_COLOR")
        .env_remove("RUST_BACKTRACE")
        .env("COLUMNS", "100")
        .env("TERM", "dumb")
        .timeout(std::time::Duration::from_secs(120));
    command
}

/// A folder of one's own, gone when dropped.
pub struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// An empty folder.
    pub fn new() -> Self {
        Sandbox { folder: tempfile::tempdir().unwrap() }
    }

    /// Writes a file, its folders made, and returns its path.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Runs the program with some arguments and returns what came of it as one text: exit code, stdout, stderr.
    pub fn run<S: AsRef<str>>(&self, args: &[S]) -> String {
        let mut command = runner();
        for arg in args {
            command.arg(arg.as_ref().replace("[dir]", &self.folder.path().display().to_string()));
        }
        self.shown(&command.output().unwrap())
    }

    /// What came of a process, as one text in which the folder is called `[dir]`.
    pub fn shown(&self, output: &Output) -> String {
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&self.folder.path().display().to_string(), "[dir]")
        };
        let code = output.status.code().map_or_else(|| output.status.to_string(), |code| code.to_string());
        let mut shown = format!("exit {code}\n");
        for (name, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
            if !bytes.is_empty() {
                shown.push_str(&format!("──── {name}\n{}", text(bytes)));
            }
        }
        shown
    }
}

/// A snapshot without its expression, which would only repeat the test.
#[macro_export]
macro_rules! snapshot {
    ($name:expr, $text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($name, $text) })
    };
    ($text:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($text) })
    };
}

/// The schema that is committed under `schemas/`.
pub fn committed_schema(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas").join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Fails with every violation when a value does not keep to a committed schema.
pub fn validate(name: &str, value: &Value) {
    let validator = jsonschema::validator_for(&committed_schema(name)).unwrap();
    let faults: Vec<String> =
        validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "not a {name}:\n{}", faults.join("\n"));
}

/// Fails when a value is no record.
pub fn validate_record(record: &Value) {
    validate("record", record);
}
