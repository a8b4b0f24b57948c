//! The workflow in docs/NIGHTLY.md does what it says: its shell steps are executed, with made-up measurements in place of real ones.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use support::Sandbox;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/NIGHTLY.md")).unwrap()
}

/// The scripts of the workflow's `run: |` steps, in order.
fn steps() -> Vec<String> {
    let page = page();
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let mut steps = Vec::new();
    let mut lines = yaml.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim() != "run: |" {
            continue;
        }
        let indent = line.len() - line.trim_start().len() + 2;
        let mut script = String::new();
        while let Some(line) = lines.next_if(|line| line.len() - line.trim_start().len() >= indent) {
            script.push_str(&line[indent..]);
            script.push('\n');
        }
        steps.push(script);
    }
    steps
}

/// A checkout whose `cargo` builds nothing and whose `runner` is the one under test, with made-up measurements.
fn checkout() -> Sandbox {
    let sandbox = Sandbox::new();
    let runner = assert_cmd::cargo::cargo_bin!("runner").display().to_string();
    let script = sandbox.path().join("script.toml").display().to_string();
    let program = |name: &str, text: &str| {
        let path = sandbox.file(name, text);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    program("bin/cargo", "#!/bin/sh\n[ \"$*\" = 'build --release --locked' ]\n");
    program(
        "target/release/runner",
        &format!(
            "#!/bin/sh\n[ \"$1\" = run ] && exec {runner} \"$@\" --fake {script}\nexec {runner} \"$@\"\n"
        ),
    );
    let manifest =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/nightly.toml")).unwrap();
    // Only what is built in exists in a bare folder.
    let manifest =
        manifest.replace("\"wsrelay@native\", \"ws@node-24\", \"bun-serve@bun\"", "\"relay-spin\"");
    sandbox.file("manifests/nightly.toml", &manifest);
    sandbox
}

fn answers(sandbox: &Sandbox, day: u32, spin: f64) {
    sandbox.file(
        "script.toml",
        &format!(
            "start = \"2026-01-{day:02}T02:17:00Z\"\n[[answer]]\ncells = \"*\"\nrate = 20000.0\nnoise = 0.02\n\
             [[answer]]\ncells = \"*/relay-spin/*\"\nrate = {spin}\nnoise = 0.02\n"
        ),
    );
}

fn bash(sandbox: &Sandbox, script: &str) -> (i32, String) {
    let path = format!("{}:{}", sandbox.path().join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-e", "-c", script])
        .current_dir(sandbox.path())
        .env("PATH", path)
        .env("OUT", sandbox.path().join("nights"))
        .env("GITHUB_STEP_SUMMARY", sandbox.path().join("summary.md"))
        .output()
        .unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), text)
}

#[test]
fn the_workflow_is_green_red_or_a_warning() {
    let steps = steps();
    assert_eq!(steps.len(), 2, "{steps:?}");
    let sandbox = checkout();
    answers(&sandbox, 1, 50e3);
    assert_eq!(bash(&sandbox, &steps[0]).0, 0);

    // Before there is a baseline nothing can be told, which is no failure.
    let (code, text) = bash(&sandbox, &steps[1]);
    assert!(code == 0 && text.contains("nothing to compare with"), "{code} {text}");
    let accept = "for n in 1 2 3 4 5 6; do target/release/runner run manifests/nightly.toml --passes 6 --out \"$OUT\" --seed $n > /dev/null; \
                  target/release/runner accept latest --out \"$OUT\" --reason \"night $n\"; done";
    let (code, text) = bash(&sandbox, accept);
    assert_eq!(code, 0, "{text}");

    answers(&sandbox, 10, 50e3);
    let (code, text) = bash(&sandbox, &steps[1]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("::notice title=nightly%3A green::"), "{text}");
    assert!(fs::read_to_string(sandbox.path().join("night.xml")).unwrap().contains("failures=\"0\""));

    answers(&sandbox, 11, 42e3);
    let (code, text) = bash(&sandbox, &steps[1]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("::error title=nightly%3A red::"), "{text}");
    assert!(!fs::read_to_string(sandbox.path().join("night.xml")).unwrap().contains("failures=\"0\""));
    assert!(fs::read_to_string(sandbox.path().join("summary.md")).unwrap().contains("### red"));
}

#[test]
fn every_command_of_the_page_exists() {
    let page = page();
    let commands = page
        .lines()
        .filter_map(|line| {
            line.trim().split_once("runner ").filter(|(before, _)| before.is_empty() || before.ends_with('/'))
        })
        .filter_map(|(_, rest)| rest.split_whitespace().next())
        .filter(|verb| verb.chars().all(char::is_alphabetic));
    let mut seen = 0;
    for verb in commands {
        seen += 1;
        let output = support::runner().args([verb, "--help"]).output().unwrap();
        assert!(output.status.success(), "`runner {verb}` is not a command");
    }
    assert!(seen >= 8, "{seen}");
}
