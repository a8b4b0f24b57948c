//! `runner run` where its output cannot go: streams that nobody reads, disks that are full, folders that are taken.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use support::made_up::{ALL, Bench, code, json, last_line};
use support::{runner, validate_record};

#[test]
fn records_that_cannot_be_written_end_the_run_and_are_not_lost() {
    let bench = Bench::new("");
    let out = bench.sandbox.path().join("nowhere");
    fs::write(&out, "a file where a folder should be").unwrap();
    let mut args = bench.args(&[]);
    let place = args.iter().position(|arg| arg == "--out").unwrap() + 1;
    args[place] = out.display().to_string();
    let output = runner().args(&args).output().unwrap();
    assert_eq!(code(&output), 6, "{}", bench.shown(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--out DIR"), "{}", bench.shown(&output));
}

#[test]
fn a_full_disk_loses_nothing_that_was_finished() {
    let bench = Bench::new("");
    let out = bench.sandbox.path().join("small");
    fs::create_dir(&out).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=32k none '{out}' && '{runner}' {args} ; code=$?; cp -r '{out}' '{kept}'; exit $code",
        out = out.display(),
        kept = bench.sandbox.path().join("kept").display(),
        runner = assert_cmd::cargo::cargo_bin!("runner").display(),
        args = bench
            .args(&["--passes", "40"])
            .iter()
            .map(|arg| match arg.ends_with("/out") {
                true => format!("'{}'", out.display()),
                false => format!("'{arg}'"),
            })
            .collect::<Vec<_>>()
            .join(" "),
    );
    let refuge = bench.sandbox.path().join("refuge");
    fs::create_dir(&refuge).unwrap();
    let unshared = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .env("TMPDIR", &refuge)
        .output();
    let output = match unshared {
        Ok(output) if output.status.code() == Some(6) => output,
        Ok(output) if !String::from_utf8_lossy(&output.stderr).contains("unshare") => {
            panic!("{}", bench.shown(&output))
        }
        refused => {
            eprintln!("left out: no file system of one's own can be mounted: {refused:?}");
            assert!(std::env::var_os("CI").is_none(), "left out under CI");
            return;
        }
    };
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(stderr.contains("No space left on device"), "{stderr}");
    // Every cell that was reported as done is on the disk or in the refuge, whole.
    let done = stderr.lines().filter(|line| line.starts_with('[') && line.contains("  ok  ")).count();
    let mut whole = 0;
    let mut folders = vec![bench.sandbox.path().join("kept"), refuge];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else if name.starts_with("pass-") || name.contains("pass-") && name.ends_with(".json") {
                validate_record(&json(&path));
                whole += 1;
            }
        }
    }
    assert!(done > 0 && whole >= done, "{done} done, {whole} kept: {stderr}");
}

#[test]
fn nobody_listening_costs_no_record() {
    let bench = Bench::new("");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
        .args(bench.args(&["--format", "json", "--passes", "50"]))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("run-started"), "{first}");
    // The reader is gone now.
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(bench.record_names().len(), 150);
}

#[test]
fn one_run_at_a_time_in_a_folder() {
    let bench = Bench::new("[[answer]]\ncells = \"*/wsrelay@native/*\"\ncancel = true\n");
    assert_eq!(code(&bench.run(&[])), 130);
    let run = bench.latest().unwrap();
    let lock =
        fs::File::options().create(true).append(true).open(run.parent().unwrap().join(".lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = bench.run(&["--resume"]);
    assert_eq!(code(&output), 2, "{}", bench.shown(&output));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("another run writes to"),
        "{}",
        bench.shown(&output)
    );
    drop(lock);
    bench.answer("");
    assert_eq!(code(&bench.run(&["--resume"])), 0);
}

#[test]
fn talk_that_nobody_hears_costs_no_record_and_no_exit_code() {
    let void = "[[answer]]\ncells = \"*/relay-spin/*\"\noutcome = { status = \"void\", reason = \"echoed\", detail = \"an echo\" }\n";
    // A run and one that goes on from it, which warns that a record is broken.
    for (answers, expected) in [("", 0), (void, 3)] {
        for full in [false, true] {
            let bench = Bench::new(answers);
            for more in [&[][..], &["--resume"]] {
                let stderr: Stdio = match full {
                    true => fs::File::options().write(true).open("/dev/full").unwrap().into(),
                    // Its reader is gone at once.
                    false => std::io::pipe().unwrap().1.into(),
                };
                let mut child = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
                    .args(bench.args(more))
                    .stdout(Stdio::null())
                    .stderr(stderr)
                    .spawn()
                    .unwrap();
                assert_eq!(child.wait().unwrap().code(), Some(expected), "{more:?}, full: {full}");
                let broken = bench.latest().unwrap().join(ALL[5]);
                match more.is_empty() {
                    true => {
                        assert_eq!(bench.record_names(), ALL);
                        fs::write(broken, "{").unwrap();
                    }
                    false => assert_eq!(json(&broken)["outcome"]["status"], "ok"),
                }
            }
        }
    }
}

#[test]
fn errors_that_nobody_hears_keep_their_exit_code() {
    for args in [&["run", "nowhere.toml"][..], &["run", "--no-such-flag"], &["report", "nowhere"]] {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
            .args(args)
            .stdout(Stdio::null())
            .stderr(std::io::pipe().unwrap().1)
            .spawn()
            .unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2), "{args:?}");
    }
}

#[test]
fn results_that_cannot_be_written_are_said_once_and_the_records_are_kept() {
    let cancel = "[[answer]]\ncells = \"*/relay/*\"\npasses = [2]\ncancel = true\n";
    let failed = "[[answer]]\ncells = \"*/relay/*\"\noutcome = { status = \"failed\", stage = \"start\", message = \"it died\", log_tail = [] }\n";
    let mut shown = String::new();
    for format in ["human", "json"] {
        // What comes first in the order of exit codes is returned.
        for (name, answers, expected) in [("done", "", 6), ("failed", failed, 6), ("cancelled", cancel, 130)]
        {
            let bench = Bench::new(answers);
            let output = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
                .args(bench.args(&["--format", format]))
                .stdout(fs::File::options().write(true).open("/dev/full").unwrap())
                .output()
                .unwrap();
            let said = bench.shown(&output);
            assert_eq!(code(&output), expected, "{format}, {name}: {said}");
            // As a warning, and as the reason where it is one.
            let times = 1 + usize::from(expected == 6);
            assert_eq!(said.matches("No space left").count(), times, "{said}");
            shown.push_str(&format!("{format}, {name}: {}\n", said.lines().last().unwrap()));
            if expected == 6 {
                assert_eq!(bench.record_names(), ALL);
                assert!(!bench.meta()["finished_at"].is_null());
            }
        }
    }
    snapshot!(shown);
}

#[test]
fn a_table_that_nobody_reads_changes_no_exit_code() {
    let bench = Bench::new("");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
        .args(bench.args(&[]))
        .stdout(std::io::pipe().unwrap().1)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(bench.record_names(), ALL);
}

#[test]
fn a_record_that_finds_no_place_is_brought_elsewhere_and_the_run_stops() {
    let bench = Bench::new("[[answer]]\ncells = \"*\"\ncancel = true\n");
    assert_eq!(code(&bench.run(&[])), 130);
    let cells = bench.latest().unwrap().join("cells");
    fs::create_dir_all(cells.join("pingpong")).unwrap();
    fs::write(cells.join("pingpong/relay"), "a file where a folder should be").unwrap();
    bench.answer("");
    let refuge = bench.sandbox.path().join("refuge");
    fs::create_dir(&refuge).unwrap();
    let output = runner().args(bench.args(&["--resume"])).env("TMPDIR", &refuge).output().unwrap();
    assert_eq!(code(&output), 6, "{}", bench.shown(&output));
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let at = stderr
        .lines()
        .find_map(|line| line.strip_prefix("warning: the record of pass 1 of pingpong/relay/native is in "));
    let record = json(std::path::Path::new(at.unwrap_or_else(|| panic!("{stderr}"))));
    validate_record(&record);
    assert_eq!(record["outcome"]["status"], "ok");
    assert!(last_line(&output).contains("--resume"), "{stderr}");
    assert!(bench.meta()["finished_at"].is_null());
    // Once there is a place the run goes on.
    fs::remove_file(cells.join("pingpong/relay")).unwrap();
    assert_eq!(code(&bench.run(&["--resume"])), 0);
    assert_eq!(bench.record_names(), ALL);
}

#[test]
fn whoever_is_turned_away_leaves_nothing() {
    let bench = Bench::new("");
    let runs = bench.sandbox.path().join("out/made-up");
    fs::create_dir_all(&runs).unwrap();
    let lock = fs::File::create(runs.join(".lock")).unwrap();
    lock.lock().unwrap();
    fs::write(runs.join(".lock"), "4711").unwrap();
    snapshot!(bench.shown(&bench.run(&[])));
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 1);
    drop(lock);
    // A folder in the place of the link is nobody's to remove.
    fs::create_dir_all(runs.join("latest/mine")).unwrap();
    let output = bench.run(&[]);
    assert_eq!(code(&output), 6, "{}", bench.shown(&output));
    assert!(runs.join("latest/mine").is_dir());
    for entry in fs::read_dir(&runs).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().contains("writing"), "{name:?}");
    }
}

#[test]
fn a_file_that_was_being_written_when_the_run_was_killed_is_no_record() {
    let bench = Bench::new("[[answer]]\ncells = \"*/wsrelay@native/*\"\npasses = [2]\nkill = true\n");
    assert_eq!(bench.run(&[]).status.code(), None);
    let run = bench.latest().unwrap();
    let half = run.join("cells/pingpong/relay/native/.writing-a1b2c3");
    fs::write(&half, "{\"schema\": \"runner.rec").unwrap();
    bench.answer("");
    let output = bench.run(&["--resume"]);
    assert_eq!(code(&output), 0, "{}", bench.shown(&output));
    let report = runner().args(["report", run.to_str().unwrap()]).output().unwrap();
    assert_eq!(code(&report), 0, "{}", bench.shown(&report));
    fs::remove_file(half).unwrap();
    assert_eq!(bench.record_names(), ALL);
}

#[test]
fn wrong_use_is_said_before_anything_is_written() {
    let other = |bench: &Bench| bench.sandbox.file("other.toml", support::made_up::MANIFEST);
    let mut shown = String::new();
    for args in [
        &["--cores", "server=0", "--cores", "client=0"][..],
        &["--cores", "server=0,0"],
        &["--cores", "neither=0"],
        &["--cores", "server=one"],
        &["--passes", "0"],
        &["--budget", "5"],
        &["--resume"],
        &["--resume", "nowhere"],
        &["--resume", "[dir]"],
        &["--format", "table"],
    ] {
        let bench = Bench::new("");
        let output = bench.run(args);
        assert_eq!(code(&output), 2, "{args:?}: {}", bench.shown(&output));
        assert!(output.stdout.is_empty());
        assert!(!bench.sandbox.path().join("out").exists(), "{args:?}");
        shown.push_str(&format!("──── {}\n{}\n", args.join(" "), bench.shown(&output)));
    }
    // A run of another manifest, and scripts that are none.
    let bench = Bench::new("");
    assert_eq!(code(&bench.run(&[])), 0);
    let run = bench.latest().unwrap();
    let mut args = bench.args(&["--resume", run.to_str().unwrap()]);
    args[1] = other(&bench).display().to_string();
    let output = runner().args(&args).output().unwrap();
    assert_eq!(code(&output), 2);
    shown.push_str(&format!("──── of another manifest\n{}\n", bench.shown(&output)));
    bench.answer("[[answer]]\ncells = \"*/[/x\"\n");
    let output = bench.run(&[]);
    assert_eq!(code(&output), 2);
    shown.push_str(&format!("──── a script with a fault\n{}", bench.shown(&output)));
    snapshot!(shown);
}
