//! Baselines and drift over the whole command line, with made-up measurements: which nights are red, green, or neither, what is
//! accepted, and what each output says.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use support::made_up::{code, last_line};
use support::{Sandbox, runner, validate};

const MANIFEST: &str = r#"
title   = "Nights"
passes  = 3
control = "pingpong-16/relay/native"
[workloads.pingpong-16]
kind    = "pingpong"
payload = 16
[[matrix]]
workloads = ["pingpong-16"]
servers   = ["relay", "relay-spin", "relay-delayed"]
[judge]
metrics    = ["rate"]
max_passes = 40
"#;

/// A folder with a manifest, in which nights go by.
struct Nights {
    sandbox: Sandbox,
}

impl Nights {
    fn new() -> Self {
        Self::with(MANIFEST)
    }

    fn with(manifest: &str) -> Self {
        let sandbox = Sandbox::new();
        sandbox.file("nightly.toml", manifest);
        Nights { sandbox }
    }

    /// What comes of a command in that folder.
    fn say(&self, args: &[&str]) -> Output {
        runner().current_dir(self.sandbox.path()).args(args).output().unwrap()
    }

    /// A night with this noise and these answers besides; its day is that of its seed.
    fn night(&self, seed: u32, noise: f64, answers: &str, more: &[&str]) -> Output {
        let usual = format!(
            "start = \"2026-01-{:02}T01:00:00Z\"\n[[answer]]\ncells = \"*\"\nrate = 20000.0\nnoise = {noise}\n\
             [[answer]]\ncells = \"*/relay-spin/*\"\nrate = 50000.0\nnoise = {noise}\n",
            1 + seed % 28
        );
        self.sandbox.file("script.toml", &format!("{usual}{answers}"));
        let seed = seed.to_string();
        let mut args = vec!["run", "nightly.toml", "--fake", "script.toml", "--seed", &seed];
        args.extend(more);
        self.say(&args)
    }

    /// A baseline of some quiet nights.
    fn baseline(&self, nights: u32, noise: f64) {
        let mut accept = vec!["accept".to_owned()];
        for seed in 1..=nights {
            assert_eq!(code(&self.night(seed, noise, "", &["--passes", "6"])), 0);
            accept.push(self.latest().display().to_string());
        }
        accept.extend(["--reason".to_owned(), "first nights".to_owned()]);
        let output = self.say(&accept.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(code(&output), 0, "{output:?}");
    }

    fn latest(&self) -> PathBuf {
        self.sandbox.path().join("out/latest").canonicalize().unwrap()
    }

    fn file(&self) -> PathBuf {
        let mut files = fs::read_dir(self.sandbox.path().join("baselines")).unwrap();
        files.next().unwrap().unwrap().path()
    }

    fn json(&self) -> Value {
        let output = self.say(&["diff", "latest", "--format", "json"]);
        let night = serde_json::from_slice(&output.stdout).unwrap();
        validate("night", &night);
        night
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn slower(by: f64) -> String {
    format!("[[answer]]\ncells = \"*/relay-delayed/*\"\nrate = {}\nnoise = 0.03\n", 20000.0 / (1.0 + by))
}

fn verdict_of(night: &Value, server: &str) -> String {
    let findings = night["findings"].as_array().unwrap();
    let cell = format!("pingpong-16/{server}/native");
    findings.iter().find(|finding| finding["cell"] == cell.as_str()).unwrap()["verdict"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn a_slower_server_makes_the_night_red_and_an_unchanged_one_green() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    let red = nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    assert_eq!(code(&red), 1, "{}", text(&red));
    assert!(
        last_line(&red).contains("red: 1 regressed, rate of pingpong-16/relay-delayed/native first"),
        "{}",
        text(&red)
    );
    let night = nights.json();
    assert_eq!(verdict_of(&night, "relay-delayed"), "regressed");
    assert_eq!(verdict_of(&night, "relay-spin"), "same");
    // The suspected cell alone was measured again, with the control beside it.
    let passes = |server: &str| {
        fs::read_dir(nights.latest().join(format!("cells/pingpong-16/{server}/native"))).unwrap().count()
    };
    assert!(
        passes("relay-delayed") > 3 && passes("relay") == passes("relay-delayed").max(passes("relay-spin"))
    );

    let green = nights.night(21, 0.03, "", &["--against", "auto"]);
    assert_eq!(code(&green), 0, "{}", text(&green));
    assert!(last_line(&green).contains("green: 2 same"), "{}", text(&green));
    // A faster one is no regression.
    let faster = nights.night(22, 0.03, &slower(-0.15), &["--against", "auto"]);
    assert_eq!(code(&faster), 0, "{}", text(&faster));
    assert_eq!(verdict_of(&nights.json(), "relay-delayed"), "improved");
}

#[test]
fn noise_beyond_the_tolerance_is_neither_red_nor_green() {
    let nights = Nights::new();
    nights.baseline(6, 0.15);
    let output = nights.night(20, 0.15, "", &["--against", "auto"]);
    assert_eq!(code(&output), 4, "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("could not tell"), "{said}");
    let night = nights.json();
    let verdicts = ["relay-delayed", "relay-spin"].map(|server| verdict_of(&night, server));
    assert!(verdicts.iter().any(|verdict| verdict == "noisy" || verdict == "inconclusive"), "{verdicts:?}");
    assert!(!verdicts.contains(&"regressed".to_owned()), "{verdicts:?}");
}

#[test]
fn a_control_that_moved_is_said_first_and_nothing_else_counts() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    let halved = "[[answer]]\ncells = \"*\"\nrate = 9000.0\nnoise = 0.03\n";
    let output = nights.night(20, 0.03, halved, &["--against", "auto"]);
    assert_eq!(code(&output), 4, "{}", text(&output));
    assert!(
        last_line(&output).contains("host-drift: the control pingpong-16/relay/native"),
        "{}",
        text(&output)
    );
    assert_eq!(nights.json()["verdict"], "host-drift");
}

#[test]
fn a_pass_that_another_program_disturbed_counts_for_nothing() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    let crowded = |passes: &str| {
        format!(
            "{}[[answer]]\ncells = \"*/relay/*\"\n{passes}rate = 20000.0\nnoise = 0.03\n\
             flags = [{{ name = \"contended\", detail = \"the server waited\" }}]\n",
            slower(0.5)
        )
    };
    // Slow as a server seems: there is no pass to say so.
    let all = nights.night(20, 0.03, &crowded(""), &["--against", "auto"]);
    assert_eq!(code(&all), 4, "{}", text(&all));
    assert_eq!(verdict_of(&nights.json(), "relay-delayed"), "too-few");
    assert!(text(&all).contains("something else ran on the control's cores"), "{}", text(&all));
    // What was not measured at all is missing still, whatever else disturbed the night.
    let skipped = "[[answer]]\ncells = \"*/relay/*\"\npasses = [2]\nrate = 20000.0\nnoise = 0.03\n\
                   flags = [{ name = \"contended\", detail = \"the server waited\" }]\n\
                   [[answer]]\ncells = \"*/relay-delayed/*\"\n\
                   outcome = { status = \"skipped\", reason = \"not here\" }\n";
    let without = nights.night(22, 0.03, skipped, &["--against", "auto"]);
    assert_eq!(code(&without), 3, "{}", text(&without));
    assert_eq!(verdict_of(&nights.json(), "relay-delayed"), "missing");
    // In one pass of some it takes nothing from the others.
    let one = nights.night(21, 0.03, &crowded("passes = [2]\n"), &["--against", "auto"]);
    assert_eq!(code(&one), 1, "{}", text(&one));
}

#[test]
fn a_void_pass_among_sound_ones_leaves_the_verdict_alone() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    let void = "[[answer]]\ncells = \"*/relay-spin/*\"\npasses = [2]\n\
                outcome = { status = \"void\", reason = \"cpu-steal\", detail = \"the hypervisor took 12 %\" }\n";
    let output = nights.night(20, 0.03, void, &["--against", "auto"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    assert!(
        text(&output)
            .contains("passes that may not be used were left out: pingpong-16/relay-spin/native (1)"),
        "{}",
        text(&output)
    );
    // A run by itself is incomplete, as ever.
    assert_eq!(code(&nights.night(20, 0.03, void, &[])), 3);
}

#[test]
fn what_is_void_missing_or_new_never_passes() {
    let nights = Nights::new();
    nights.baseline(4, 0.03);
    let void = "[[answer]]\ncells = \"*/relay-spin/*\"\noutcome = { status = \"void\", reason = \"echoed\", detail = \"it came back\" }\n";
    assert_eq!(code(&nights.night(20, 0.03, void, &[])), 3);
    let output = nights.say(&["diff", "latest"]);
    assert_eq!(code(&output), 3, "{}", text(&output));
    assert_eq!(verdict_of(&nights.json(), "relay-spin"), "void");
    // And is not accepted.
    let accepted = nights.say(&["accept", "latest", "--reason", "why not"]);
    assert_eq!(code(&accepted), 3);
    assert!(text(&accepted).contains("pingpong-16/relay-spin/native (void: echoed)"), "{}", text(&accepted));

    // A server goes and another comes.
    nights.sandbox.file("nightly.toml", &MANIFEST.replace("relay-delayed", "relay-stalls"));
    assert_eq!(code(&nights.night(21, 0.03, "", &[])), 0);
    let night = nights.json();
    assert_eq!(
        (verdict_of(&night, "relay-delayed"), verdict_of(&night, "relay-stalls")),
        ("missing".to_owned(), "new".to_owned())
    );
    assert_eq!(code(&nights.say(&["diff", "latest"])), 3);
    // One that was not selected is not missing.
    assert_eq!(code(&nights.night(22, 0.03, "", &["--cell", "relay-spin"])), 0);
    assert!(!text(&nights.say(&["diff", "latest"])).contains("missing"));

    // Other parameters are another cell.
    nights.sandbox.file("nightly.toml", &MANIFEST.replace("payload = 16", "payload = 16\nopcode = \"text\""));
    nights.night(23, 0.03, "", &[]);
    assert_eq!(verdict_of(&nights.json(), "relay-spin"), "not-comparable");
}

#[test]
fn nothing_to_compare_with_says_how_to_begin() {
    let nights = Nights::new();
    let output = nights.night(1, 0.03, "", &["--against", "auto"]);
    assert_eq!(code(&output), 4);
    assert!(
        last_line(&output).contains("nothing to compare with")
            && last_line(&output).contains("runner accept")
    );
    assert_eq!(code(&nights.say(&["diff", "latest", "--baseline", "nowhere.toml"])), 2);
    // A dry run leaves no trace.
    let dry = nights.say(&["accept", "latest", "--reason", "first", "--dry-run"]);
    assert!(code(&dry) == 0 && text(&dry).contains("schema = \"runner.baseline/1\""), "{}", text(&dry));
    assert!(!nights.sandbox.path().join("baselines").exists());
    assert_eq!(code(&nights.say(&["accept", "latest", "--reason", " "])), 2);
    // Few passes on both sides say nothing.
    assert_eq!(code(&nights.say(&["accept", "latest", "--reason", "first"])), 0);
    let output = nights.say(&["diff", "latest"]);
    assert_eq!(code(&output), 4, "{}", text(&output));
}

#[test]
fn runs_that_disagree_are_not_accepted_together() {
    let nights = Nights::new();
    nights.night(1, 0.01, "", &[]);
    let first = nights.latest().display().to_string();
    nights.night(2, 0.01, &slower(0.5), &[]);
    let second = nights.latest().display().to_string();
    let output = nights.say(&["accept", &first, &second, "--reason", "both"]);
    assert_eq!(code(&output), 4);
    let said = text(&output);
    assert!(said.contains("disagree") && said.contains("pingpong-16/relay-delayed/native:"), "{said}");
    assert!(!nights.sandbox.path().join("baselines").exists());
}

#[test]
fn a_baseline_is_readable_and_keeps_to_its_schema() {
    let nights = Nights::new();
    nights.baseline(2, 0.02);
    let before = fs::read_to_string(nights.file()).unwrap();
    let value: Value = serde_json::to_value(toml::from_str::<toml::Value>(&before).unwrap()).unwrap();
    validate("baseline", &value);
    // One cell to a line, and a further run adds lines; what is learned of the noise has one line of its own.
    let lines = |text: &str| -> Vec<String> {
        let of_cell = |line: &&str| line.starts_with("\"pingpong-16/relay-spin/native\" = {");
        text.lines().filter(of_cell).map(str::to_owned).collect()
    };
    assert!(lines(&before)[0].contains("rate = { within = "), "{before}");
    assert_eq!(lines(&before).len(), 3);
    nights.night(3, 0.02, "", &["--passes", "6"]);
    assert_eq!(code(&nights.say(&["accept", "latest", "--reason", "third"])), 0);
    let after = fs::read_to_string(nights.file()).unwrap();
    assert_eq!(lines(&after).len(), 4);
    assert_eq!(lines(&after)[1..3], lines(&before)[1..]);
    assert!(lines(&after)[0].contains("runs = 3") && after.contains("% on the run before"), "{after}");
    // A torn file is an error that says so, not a baseline of less.
    fs::write(nights.file(), &after[..after.len() / 2]).unwrap();
    let torn = nights.say(&["diff", "latest"]);
    assert_eq!(code(&torn), 2, "{}", text(&torn));
    assert!(
        text(&torn).contains("a part of it is lost") || text(&torn).contains("does not fit"),
        "{}",
        text(&torn)
    );
}

#[test]
fn a_verdict_explains_itself() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    let output = nights.say(&["explain", "latest", "relay-delayed"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said = text(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "control pingpong-16/relay/native",
        "shift = exp(median of all differences now - before) - 1 = -",
        "may move 5.0 % either way: the default",
        "learned from 8 runs",
        "regressed: beyond 5 % and surely off zero",
        "pass-1.json",
        "runner rerun",
        "runner run nightly.toml --cell 'pingpong-16/relay-delayed/native' --against auto",
    ] {
        assert!(said.contains(part), "no `{part}` in: {said}");
    }
    let unknown = nights.say(&["explain", "latest", "relay-delayde"]);
    assert_eq!(code(&unknown), 5);
    assert!(text(&unknown).contains("matches no cell of run"), "{}", text(&unknown));
}

#[test]
fn machines_read_the_same_facts() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    let junit = text(&nights.say(&["diff", "latest", "--format", "junit"]));
    assert!(junit.contains("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\""), "{junit}");
    assert!(junit.contains("<failure message=\"regressed: beyond 5 %"), "{junit}");
    let summary = nights.sandbox.path().join("summary.md");
    let github = runner()
        .current_dir(nights.sandbox.path())
        .args(["diff", "latest", "--format", "github"])
        .env("GITHUB_STEP_SUMMARY", &summary)
        .output()
        .unwrap();
    assert!(
        text(&github).contains("::error title=pingpong-16/relay-delayed/native rate krt/s regressed::"),
        "{}",
        text(&github)
    );
    assert!(fs::read_to_string(&summary).unwrap().contains("| pingpong-16/relay-delayed/native |"));
    assert_eq!(nights.json()["counts"]["regressed"], 1);
    let across = nights.say(&["diff", "latest", "--across-hosts"]);
    assert_eq!(code(&across), 0);
    assert!(text(&across).contains("Kendall's tau-b"), "{}", text(&across));
}

#[test]
fn a_tolerance_widens_floors_and_expires() {
    let tolerance = |more: &str| {
        format!(
            "{MANIFEST}[[tolerance]]\ncells = \"*/relay-delayed/*\"\nmetric = \"rate\"\nwithin = 0.40\nreason = \"a known slowdown\"\n{more}"
        )
    };
    let nights = Nights::with(&tolerance(""));
    nights.baseline(8, 0.03);
    let wide = nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    assert_eq!(code(&wide), 0, "{}", text(&wide));
    assert!(text(&wide).contains("a known slowdown"));
    nights.sandbox.file("nightly.toml", &tolerance("expires = \"2026-01-10\"\n"));
    let expired = nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    assert_eq!(code(&expired), 1, "{}", text(&expired));
    assert!(text(&expired).contains("expired"));

    // 20,000 round trips a second are 50 µs each: 10 % are 5 µs, below the floor of 8 and above that of 2.
    let floored = |floor: &str| {
        format!(
            "{}[[tolerance]]\ncells = \"*\"\nmetric = \"p50\"\nwithin = 0.05\nfloor = \"{floor}\"\nreason = \"a clock of 1 µs\"\n",
            MANIFEST.replace("[\"rate\"]", "[\"p50\"]")
        )
    };
    let nights = Nights::with(&floored("8us"));
    nights.baseline(8, 0.03);
    let below = nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    assert_eq!(code(&below), 0, "{}", text(&below));
    nights.sandbox.file("nightly.toml", &floored("2us"));
    let above = nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    assert_eq!(code(&above), 1, "{}", text(&above));
}

#[test]
fn an_interrupted_comparison_goes_on() {
    let nights = Nights::new();
    nights.baseline(8, 0.03);
    let dies =
        format!("{}[[answer]]\ncells = \"*/relay-delayed/*\"\npasses = [5]\ncancel = true\n", slower(0.10));
    let output = nights.night(20, 0.03, &dies, &["--against", "auto"]);
    assert_eq!(code(&output), 130, "{}", text(&output));
    let kept = nights.latest();
    let resumed = nights.night(20, 0.03, &slower(0.10), &["--against", "auto", "--resume"]);
    assert_eq!(code(&resumed), 1, "{}", text(&resumed));
    assert_eq!(nights.latest(), kept);
    // And ends like one that was never interrupted.
    let through = nights.json();
    nights.night(20, 0.03, &slower(0.10), &["--against", "auto"]);
    assert_eq!(nights.json()["findings"], through["findings"]);
}

#[test]
fn history_finds_a_step_and_outlives_the_runs() {
    let nights = Nights::new();
    for seed in 1..=16 {
        let answers = if seed > 8 { slower(0.10) } else { String::new() };
        nights.night(seed, 0.01, &answers, &[]);
    }
    let shown = text(&nights.say(&["history", "nightly.toml", "--cell", "relay-delayed"]));
    assert!(shown.contains("16 runs") && shown.contains("changed by -8.8 %"), "{shown}");
    assert!(shown.contains("at 2026-01-10"), "{shown}");
    let steady = text(&nights.say(&["history", "nightly.toml", "--cell", "relay-spin"]));
    assert!(!steady.contains("changed by"), "{steady}");
    // Without the runs' folders the same is known.
    for entry in fs::read_dir(nights.sandbox.path().join("out/nightly")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        }
    }
    let csv = nights.sandbox.path().join("otava.csv");
    let again = nights.say(&[
        "history",
        "nightly.toml",
        "--cell",
        "relay-delayed",
        "--export",
        csv.to_str().unwrap(),
    ]);
    assert_eq!(text(&again), shown);
    let csv = fs::read_to_string(csv).unwrap();
    assert!(
        csv.starts_with("time,run,pingpong-16/relay/native,pingpong-16/relay-delayed/native\n")
            && csv.lines().count() == 17,
        "{csv}"
    );
}

#[test]
fn history_finds_a_gradual_drift() {
    let nights = Nights::new();
    for seed in 1..=20 {
        let by = f64::from(seed.clamp(10, 20) - 10) * 0.01;
        nights.night(seed, 0.02, &slower(by), &[]);
    }
    let shown = text(&nights.say(&["history", "nightly.toml", "--cell", "relay-delayed"]));
    assert!(shown.contains("changed by -"), "{shown}");
}

#[test]
fn calibration_learns_the_noise_and_says_what_can_be_found() {
    let nights = Nights::new();
    nights.night(1, 0.05, "", &[]);
    let output = nights.say(&["calibrate", "nightly.toml", "--nights", "12", "--fake", "script.toml"]);
    assert_eq!(code(&output), 0, "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("12 nights of unchanged servers, 3 passes each"), "{said}");
    let file = fs::read_to_string(nights.file()).unwrap();
    let baseline: toml::Value = toml::from_str(&file).unwrap();
    assert_eq!(baseline["calibration"]["red"].as_integer(), Some(0), "{file}");
    assert_eq!(baseline["run"].as_array().unwrap().len(), 12);
    let noise = &baseline["noise"]["pingpong-16/relay-spin/native"]["rate"];
    assert!(noise["runs"].as_integer() == Some(12) && noise["within"].as_float().unwrap() < 0.06, "{file}");
    // Nights that are there are not measured again.
    let again = nights.say(&["calibrate", "nightly.toml", "--nights", "12", "--fake", "nowhere.toml"]);
    assert_eq!(code(&again), 0, "{}", text(&again));

    let simulated = nights.say(&[
        "calibrate",
        "nightly.toml",
        "--simulate",
        "40",
        "--cells",
        "5",
        "--format",
        "json",
        "--baseline",
        nights.file().to_str().unwrap(),
    ]);
    assert_eq!(code(&simulated), 0, "{}", text(&simulated));
    let rows: Vec<Value> = serde_json::from_slice(&simulated.stdout).unwrap();
    assert_eq!(rows.len(), 3);
    let recorded = rows.iter().find(|row| row["shape"] == "recorded").unwrap();
    let share = |pointer: &str| recorded.pointer(pointer).unwrap().as_f64().unwrap();
    assert!(share("/result/red_without_cause") <= 0.05, "{rows:#?}");
    assert_eq!(share("/result/slower/1/by"), 0.10);
    assert!(share("/result/slower/1/found") >= 0.95, "{rows:#?}");
}
