//! Every error that a manifest can meet, as its author sees it: without colour, 100 columns wide.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use runner::manifest;
use support::names::FakeNames;

/// A folder that the process lives in, so that paths in messages are the same on every machine.
fn home() -> &'static Path {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(|| {
        let home = tempfile::tempdir().unwrap().keep();
        std::env::set_current_dir(&home).unwrap();
        home
    })
}

/// Writes files into a folder of their own and loads the first.
fn load(folder: &str, files: &[(&str, &str)]) -> Result<manifest::Manifest, String> {
    home();
    fs::create_dir_all(folder).unwrap();
    for (name, text) in files {
        fs::write(Path::new(folder).join(name), text).unwrap();
    }
    manifest::load(&Path::new(folder).join(files[0].0), &FakeNames).map_err(|error| {
        let hint = error.hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        format!("error: {}{hint}", error.message)
    })
}

/// A whole manifest around the lines that a case is about.
fn around(top: &str, workload: &str, row: &str) -> String {
    format!(
        "{top}\n[workloads.x]\n{workload}\n\n[[matrix]]\nworkloads = [\"x*\"]\nservers = [\"relay\"]\n{row}\n"
    )
}

/// Loads each case and renders the errors one after the other.
fn errors(group: &str, cases: &[(&str, String)]) -> String {
    let mut all = String::new();
    for (index, (title, text)) in cases.iter().enumerate() {
        let shown = match load(&format!("{group}-{index}"), &[("m.toml", text)]) {
            Ok(_) => "ACCEPTED".to_owned(),
            Err(error) => error.replace(&format!("{group}-{index}/"), ""),
        };
        assert!(shown.contains("hint: "), "{title}: an error without a hint:\n{shown}");
        writeln!(all, "──── {title}\n{shown}\n").unwrap();
    }
    all
}

fn cases<const N: usize>(cases: [(&'static str, String); N]) -> Vec<(&'static str, String)> {
    cases.to_vec()
}

#[test]
fn structure() {
    let kind = "kind = \"pingpong\"";
    snapshot!(errors(
        "structure",
        &cases([
            ("not TOML", "title = \"x\n[workloads.x]\nkind = pingpong\n".to_owned()),
            ("a key twice", around("", &format!("{kind}\n{kind}"), "")),
            ("unknown key", around("", &format!("{kind}\npayloda = 16"), "")),
            ("unknown key at the top", around("titel = \"x\"", kind, "")),
            ("unknown key in a row", around("", kind, "server = [\"relay\"]")),
            ("wrong type", around("passes = \"three\"", kind, "")),
            ("a fraction for a count", around("passes = 1.5", kind, "")),
            ("a negative number", around("passes = -3", kind, "")),
            ("a number beyond all bounds", around("", &format!("{kind}\nrounds = 1e30"), "")),
            ("an integer beyond 128 bits", around("", &format!("{kind}\nrounds = {}", "9".repeat(50)), "")),
            ("a table for a value", around("passes = { a = 1 }", kind, "")),
            ("a value for a table", "workloads = 3\nmatrix = 4\n".to_owned()),
            ("unknown kind", around("", "kind = \"ping-pong\"", "")),
            (
                "several at once",
                around("titel = 1\nseed = -1", "kind = \"lod\"\nrounds = 1e30", "client = 1")
            ),
            ("a list of the wrong type", around("", &format!("{kind}\npayload = [16, \"x\"]"), "")),
            ("empty", String::new()),
            ("only blanks", " \n\t\n".to_owned()),
            ("no row", format!("[workloads.x]\n{kind}\n")),
        ])
    ));
}

#[test]
fn workloads() {
    let one = |lines: &str| around("", lines, "");
    let load = |lines: &str| around("", &format!("kind = \"load\"\n{lines}"), "");
    let ping = |lines: &str| around("", &format!("kind = \"pingpong\"\n{lines}"), "");
    snapshot!(errors(
        "workloads",
        &cases([
            ("no kind", one("payload = 16")),
            ("rounds 0", ping("rounds = 0")),
            ("trials 0", ping("trials = 0")),
            ("trials without end", ping("trials = 1_000_000")),
            ("payload too small", ping("payload = 11")),
            ("payload too large", ping("payload = 67108865")),
            ("pairs 0", load("pairs = 0")),
            ("pairs beyond all bounds", load("pairs = 4294967296")),
            ("pairs in a ping-pong", ping("pairs = 2")),
            ("in flight in a ping-pong", ping("in_flight = 2")),
            ("threads in a ping-pong", ping("threads = [1, 2]")),
            ("more threads than pairs", load("pairs = 2\nthreads = 4")),
            ("rounds and duration", ping("rounds = 10\nduration = \"5s\"")),
            ("5 parsecs", ping("duration = \"5 parsecs\"")),
            ("no unit", ping("warmup = \"5\"")),
            ("no time at all", ping("duration = \"0s\"")),
            ("a negative time", ping("deadline = \"-5s\"")),
            ("an endless time", ping("stall = \"99999999999999h\"")),
            ("an empty axis", ping("payload = []")),
            ("an axis with one value twice", ping("payload = [16, 32, 16]")),
            ("a list in the defaults", around("[defaults]\npayload = [16, 32]", "kind = \"load\"", "")),
            ("a name that is none", "[workloads.\"a/b\"]\nkind = \"load\"\n".to_owned()),
            (
                "two of one name",
                "[workloads.x]\nkind = \"load\"\npayload = [16, 32]\n[workloads.x-32]\nkind = \"load\"\n"
                    .to_owned()
            ),
            (
                "an axis product without end",
                load(&format!(
                    "payload = {0:?}\nrounds = {1:?}",
                    (12..200).collect::<Vec<u32>>(),
                    (1..200).collect::<Vec<u32>>()
                ))
            ),
        ])
    ));
}

#[test]
fn rows() {
    let row = |row: &str| {
        format!(
            "[workloads.pingpong-16]\nkind = \"pingpong\"\n\n[workloads.load]\nkind = \"load\"\npayload = [16, 65_536]\n\n[[matrix]]\n{row}\n"
        )
    };
    let rest = "servers = [\"relay\"]";
    snapshot!(errors(
        "rows",
        &cases([
            ("unknown server", row("workloads = [\"load\"]\nservers = [\"relay\", \"ws@node24\"]")),
            (
                "unknown runtime of a known server",
                row("workloads = [\"load\"]\nservers = [\"ws@node-{24,25}\"]")
            ),
            ("unknown client", row(&format!("workloads = [\"load\"]\n{rest}\nclients = [\"nativ\"]"))),
            ("unknown workload", row(&format!("workloads = [\"pingpong\"]\n{rest}"))),
            ("a pattern that matches nothing", row("workloads = [\"load\"]\nservers = [\"deno*\"]")),
            ("a hidden server by pattern", row("workloads = [\"load\"]\nservers = [\"faulty-*\"]")),
            ("a brace that is not closed", row("workloads = [\"load\"]\nservers = [\"ws@{a\"]")),
            ("a class that is not closed", row("workloads = [\"load\"]\nservers = [\"ws@[a\"]")),
            ("no workloads", row(rest)),
            ("empty servers", row("workloads = [\"load\"]\nservers = []")),
            (
                "payload beyond a server's limit",
                row("workloads = [\"load\"]\nservers = [\"relay\", \"*@bun\"]")
            ),
            (
                "exclusion without a reason",
                row(&format!("workloads = [\"*\"]\n{rest}\nexclude = [{{ workload = \"load-16\" }}]"))
            ),
            (
                "exclusion with a blank reason",
                row(&format!(
                    "workloads = [\"*\"]\n{rest}\nexclude = [{{ workload = \"load\", reason = \" \" }}]"
                ))
            ),
            (
                "exclusion of nothing",
                row(&format!(
                    "workloads = [\"*\"]\n{rest}\nexclude = [{{ server = \"rely\", reason = \"slow\" }}]"
                ))
            ),
            (
                "more cells than anyone can measure",
                format!(
                    "[workloads.a]\nkind = \"load\"\npayload = {0:?}\nrounds = {1:?}\n{2}",
                    (12..112).collect::<Vec<u32>>(),
                    (1..101).collect::<Vec<u32>>(),
                    "[[matrix]]\nworkloads = [\"*\"]\nservers = [\"relay*\"]\nclients = [\"*\"]\n".repeat(26)
                )
            ),
            (
                "everything excluded",
                row(&format!(
                    "workloads = [\"*\"]\n{rest}\nexclude = [{{ server = \"*\", reason = \"none\" }}]"
                ))
            ),
        ])
    ));
}

#[test]
fn settings() {
    let top = |lines: &str| around(lines, "kind = \"pingpong\"", "");
    let tolerance = |lines: &str| top(&format!("[[tolerance]]\n{lines}"));
    snapshot!(errors(
        "settings",
        &cases([
            ("passes 0", top("passes = 0")),
            ("passes without end", top("passes = 1_000_000")),
            ("port 0", top("port = 0")),
            ("port too large", top("port = 65_536")),
            ("cores overlap", top("[cores]\nserver = [0, 1]\nclient = [1, 2]")),
            ("a core twice", top("[cores]\nserver = [0, 0]")),
            ("no core", top("[cores]\nserver = []")),
            ("cores that are no numbers", top("[cores]\nserver = \"all\"\nclient = [-1]")),
            ("control that is no cell id", top("control = \"relay\"")),
            ("control with unknown names", top("control = \"y/realy/natives\"")),
            ("limits", top("[limits]\ncpus = nan\nmemory = \"1 gigabyte\"")),
            ("limits of nothing", top("[limits]\ncpus = 0.0\nmemory = \"0GiB\"")),
            ("unknown runtime", top("[runtimes.node-42]\npath = \"/usr/bin/node\"")),
            ("runtime without a path", top("[runtimes.node-24]")),
            ("tolerance without anything", tolerance("")),
            ("tolerance without a reason", tolerance("cells = \"x/*/*\"\nmetric = \"p99\"\nwithin = 0.5")),
            (
                "tolerance of NaN",
                tolerance("cells = \"x/*/*\"\nmetric = \"p99\"\nwithin = nan\nreason = \"why not\"")
            ),
            (
                "tolerance of an unknown metric",
                tolerance("cells = \"x/*/*\"\nmetric = \"p98\"\nwithin = 0.1\nreason = \"why not\"")
            ),
            (
                "tolerance with a floor of a rate, and no date",
                tolerance(
                    "cells = \"x/*/*\"\nmetric = \"rate\"\nwithin = 0.1\nfloor = \"2us\"\nreason = \"why not\"\nexpires = \"soon\""
                )
            ),
            (
                "tolerance with a floor that is no time",
                tolerance(
                    "cells = \"x/*/*\"\nmetric = \"p50\"\nwithin = 0.1\nfloor = \"2 apples\"\nreason = \"why not\""
                )
            ),
            ("judge", top("[judge]\nmetrics = []\nerror_rate = 0.0\nmax_passes = 0\ncontrol_within = -1.0")),
            ("judge of an unknown metric", top("[judge]\nmetrics = [\"p98\"]")),
            (
                "tolerance for no cell",
                tolerance("cells = \"y/*/*\"\nmetric = \"p99\"\nwithin = 0.1\nreason = \"why not\"")
            ),
            (
                "tolerance for no pattern",
                tolerance("cells = \"x/*\"\nmetric = \"p99\"\nwithin = 0.1\nreason = \"why not\"")
            ),
        ])
    ));
}

#[test]
fn files() {
    home();
    let mut all = String::new();
    let mut show = |title: &str, result: Result<manifest::Manifest, String>| {
        let shown = result.map_or_else(|error| error, |_| "ACCEPTED".to_owned());
        writeln!(all, "──── {title}\n{shown}\n").unwrap();
    };
    let whole = around("", "kind = \"load\"", "");
    show(
        "missing",
        manifest::load(Path::new("files/none.toml"), &FakeNames)
            .map_err(|error| format!("error: {error}\nhint: {}", error.hint.as_deref().unwrap_or("NONE"))),
    );
    fs::create_dir_all("files/folder.toml").unwrap();
    show(
        "a directory",
        manifest::load(Path::new("files/folder.toml"), &FakeNames)
            .map_err(|error| format!("error: {error}\nhint: {}", error.hint.as_deref().unwrap_or("NONE"))),
    );
    fs::write("files/latin.toml", b"title = \"caf\xe9\"\n").unwrap();
    show(
        "not UTF-8",
        manifest::load(Path::new("files/latin.toml"), &FakeNames)
            .map_err(|error| format!("error: {error}\nhint: {}", error.hint.as_deref().unwrap_or("NONE"))),
    );
    show(
        "without end",
        manifest::load(Path::new("/dev/zero"), &FakeNames)
            .map_err(|error| format!("error: {error}\nhint: {}", error.hint.as_deref().unwrap_or("NONE"))),
    );
    show("include missing", load("files", &[("a.toml", &format!("include = [\"gone.toml\"]\n{whole}"))]));
    show("include of itself", load("files", &[("b.toml", &format!("include = [\"b.toml\"]\n{whole}"))]));
    show(
        "include in a circle",
        load(
            "files",
            &[
                ("c.toml", &format!("include = [\"d.toml\"]\n{whole}")),
                ("d.toml", "include = [\"e.toml\"]\n"),
                ("e.toml", "include = [\"../files/c.toml\"]\n"),
            ],
        ),
    );
    show(
        "one workload in two files",
        load(
            "files",
            &[("f.toml", &format!("include = [\"g.toml\"]\n{whole}")), ("g.toml", &format!("\n\n{whole}"))],
        ),
    );
    show(
        "a fault in an included file",
        load("files", &[("h.toml", "include = [\"i.toml\"]\n"), ("i.toml", "passes = 0\nseeds = 1\n")]),
    );
    snapshot!(all);
}

#[test]
fn machine() {
    let text =
        around("[cores]\nserver = [0, 7]\nclient = [8]", "kind = \"load\"\npairs = [64, 10_000, 20_000]", "");
    let manifest = load("machine", &[("m.toml", &text)]).unwrap();
    assert!(manifest::check_cores(&manifest, &[0, 7, 8]).is_ok());
    assert!(manifest::check_descriptors(&manifest, 100_000).is_ok());
    let cores = manifest::check_cores(&manifest, &[0, 1, 2, 3]).unwrap_err().plain();
    let descriptors = manifest::check_descriptors(&manifest, 20_000).unwrap_err().plain();
    snapshot!(format!("error: {cores}\n\nerror: {descriptors}"));
}
