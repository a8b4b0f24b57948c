//! The example of docs/SERVERS.md, done as it says.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const DOCUMENT: &str = include_str!("../docs/SERVERS.md");

/// The code block after the line that names a file.
fn block(file: &str) -> String {
    let (_, after) = DOCUMENT.split_once(&format!("`{file}`:\n\n```")).expect("the document has this file");
    let (_, code) = after.split_once('\n').unwrap();
    code.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_keeps_the_contract() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let runner = env!("CARGO_BIN_EXE_runner");
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("servers/faye");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(project.join("servers/runtimes.toml"), root.path().join("servers/runtimes.toml")).unwrap();
    symlink(project.join("servers/runtimes"), root.path().join("servers/runtimes")).unwrap();
    let lines: usize = ["server.toml", "package.json", "server.mjs"]
        .iter()
        .map(|file| {
            let text = block(&format!("servers/faye/{file}"));
            fs::write(folder.join(file), &text).unwrap();
            text.lines().filter(|line| !line.trim().is_empty()).count()
        })
        .sum();
    assert!(lines <= 32, "the example has grown to {lines} lines");

    let locked = Command::new("npm")
        .args(["install", "--package-lock-only", "--ignore-scripts"])
        .current_dir(&folder)
        .output();
    if !locked.as_ref().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "npm does not work here: {locked:?}");
        eprintln!("NOT TESTED: npm does not work here: {locked:?}");
        return;
    }
    let output = Command::new(runner)
        .args(["smoke", "--server", "faye@node-24", "--color", "never"])
        .current_dir(root.path())
        .output()
        .unwrap();
    let (table, talk) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{table}{talk}");
    // The document shows the beginning of what is printed.
    let shown = DOCUMENT.split_once("$ runner smoke --server faye@node-24\n").unwrap().1;
    let shown = shown.split_once(" …").unwrap().0;
    assert!(table.starts_with(shown), "{table}");
}
