//! `plan`, `check`, `schema` and `completions` as their users see them.

mod support;

use support::{Sandbox, runner};

const QUICK: &str = r#"
title = "Two relays"
passes = 2

[defaults]
duration = "500ms"
warmup = "100ms"
trials = 3

[workloads.pingpong-16]
kind = "pingpong"

[workloads.load]
kind = "load"
payload = [16, 4096]

[workloads.flood]
kind = "load"
pairs = 500
opt_in = true

[[matrix]]
workloads = ["*"]
servers = ["relay*"]
clients = ["native", "tungstenite"]
exclude = [{ client = "tungstenite", workload = "load", reason = "ping-pong tells enough" }]
"#;

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("two.toml", QUICK);
    sandbox
}

#[test]
fn help() {
    let sandbox = Sandbox::new();
    for verb in ["plan", "check", "schema", "completions"] {
        snapshot!(format!("help_{verb}"), sandbox.run(&[verb, "--help"]));
    }
}

#[test]
fn plan_as_a_table() {
    snapshot!(sandbox().run(&["plan", "[dir]/two.toml"]));
}

#[test]
fn plan_with_its_order() {
    let args =
        ["plan", "[dir]/two.toml", "--seed", "7", "--order", "--cell", "load-*/*/*", "--not", "relay-spin"];
    snapshot!(sandbox().run(&args));
}

#[test]
fn plan_as_json() {
    let args =
        ["plan", "[dir]/two.toml", "--format", "json", "--seed", "7", "--cell", "load-16", "--passes", "3"];
    snapshot!(sandbox().run(&args));
}

#[test]
fn plan_with_an_opt_in_named() {
    snapshot!(sandbox().run(&["plan", "[dir]/two.toml", "--cell", "flood"]));
}

#[test]
fn a_budget_scales_and_says_so() {
    let sandbox = sandbox();
    let mut all = String::new();
    for budget in ["10m", "8s", "2s", "800ms", "soon", "0s"] {
        let args = ["plan", "[dir]/two.toml", "--budget", budget, "--not", "relay-spin"];
        all.push_str(&format!("════ {budget}\n{}\n", sandbox.run(&args)));
    }
    snapshot!(all);
}

#[test]
fn nothing_selected_ends_with_5_and_names_the_patterns() {
    snapshot!(sandbox().run(&["plan", "[dir]/two.toml", "--cell", "pinpong-16", "--not", "*/rely/*"]));
    snapshot!(
        "nothing_but_opt_in",
        sandbox().run(&["plan", "[dir]/two.toml", "--cell", "*", "--not", "{ping,load}*"])
    );
}

#[test]
fn flags_that_are_wrong() {
    let sandbox = sandbox();
    let mut all = String::new();
    for flags in [
        &["--cell", "a/b"][..],
        &["--not", "ws@{a"],
        &["--cell", ""],
        &["--passes", "0"],
        &["--seed", "-1"],
        &["--runtime", "node-24"],
        &["--runtime", "nod-24=/bin/sh"],
        &["--format", "xml"],
        &["--budget", "5"],
    ] {
        let args = [&["plan", "[dir]/two.toml"], flags].concat();
        all.push_str(&format!("════ {}\n{}\n", flags.join(" "), sandbox.run(&args)));
    }
    snapshot!(all);
}

#[test]
fn check_in_one_line() {
    snapshot!(sandbox().run(&["check", "[dir]/two.toml"]));
}

#[test]
fn check_of_what_this_machine_lacks() {
    let sandbox = sandbox();
    let with = |lines: &str| format!("{lines}{QUICK}");
    sandbox.file("runtimes.toml", &format!("{QUICK}\n[runtimes.node-24]\npath = \"none/node\"\n"));
    sandbox.file("cores.toml", &format!("{QUICK}\n[cores]\nserver = [0]\nclient = [99_999]\n"));
    // How many cores there are differs.
    let cores = sandbox.run(&["check", "[dir]/cores.toml"]);
    let cores: String = cores
        .lines()
        .map(|line| {
            if line.contains("hint: online") {
                "  hint: online […]\n".to_owned()
            } else {
                format!("{line}\n")
            }
        })
        .collect();
    snapshot!("check_cores", cores);
    snapshot!("check_runtimes", sandbox.run(&["check", "[dir]/runtimes.toml"]));
    sandbox.file("pairs.toml", &with("").replace("pairs = 500", "pairs = 4_000_000_000"));
    let pairs = sandbox.run(&["check", "[dir]/pairs.toml"]);
    assert!(pairs.starts_with("exit 2\n"), "{pairs}");
    assert!(pairs.contains("4000000000 pairs of `flood` need 8000000064 open files in a process"), "{pairs}");
}

#[test]
fn a_reader_that_goes_away_changes_nothing() {
    use std::process::Stdio;
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("runner"))
        .args(["schema", "record"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}

#[test]
fn completions_are_scripts_of_each_shell() {
    for (shell, sign) in
        [("bash", "complete -F _runner"), ("zsh", "#compdef runner"), ("fish", "complete -c runner")]
    {
        let output = runner().args(["completions", shell]).output().expect("the program ends");
        let text = String::from_utf8(output.stdout).expect("a script is text");
        assert!(output.status.success() && text.contains(sign), "{shell}: {text}");
    }
}
