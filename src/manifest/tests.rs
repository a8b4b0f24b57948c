//! What whole manifests become.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::plan::{self, Selection, expand};
use crate::workload::{Extent, Kind, Mask, Opcode, Wait};

/// A catalogue that no file describes.
pub(crate) struct Fake;

const SERVERS: [&str; 6] = ["relay", "relay-spin", "ws@node-24", "ws@node-26", "bun-serve@bun", "small@bun"];

impl Names for Fake {
    fn server_names(&self) -> Vec<String> {
        SERVERS.map(str::to_owned).to_vec()
    }

    fn knows_server(&self, name: &str) -> bool {
        name == "faulty-echo" || SERVERS.contains(&name)
    }

    fn client_names(&self) -> Vec<String> {
        vec!["native".to_owned(), "tungstenite".to_owned()]
    }

    fn knows_client(&self, name: &str) -> bool {
        ["native", "tungstenite"].contains(&name)
    }

    fn max_payload(&self, server: &str) -> Option<u64> {
        (server == "small@bun").then_some(16_384)
    }
}

/// Loads the first of some files; the error is the text that the user sees.
fn load_files(files: &[(&str, &str)]) -> Result<Manifest, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    load(&folder.path().join(files[0].0), &Fake).map_err(|error| error.message)
}

pub(crate) fn load_text(text: &str) -> Result<Manifest, String> {
    load_files(&[("m.toml", text)])
}

fn cells(manifest: &Manifest) -> Vec<String> {
    expand(manifest, &Selection::default()).cells.iter().map(|planned| planned.id.to_string()).collect()
}

fn workload<'a>(manifest: &'a Manifest, name: &str) -> &'a NamedWorkload {
    manifest.workloads.iter().find(|workload| workload.name == name).unwrap()
}

const DESIGN: &str = r#"
title   = "WebSocket relay servers, native client"
passes  = 3
seed    = 20261010
control = "pingpong-16/relay/native"

[cores]
server = [8]
client = [10, 12, 14, 16]

[defaults]
warmup = 50_000
rounds = 100_000
trials = 5

[workloads.pingpong-16]
kind    = "pingpong"
payload = 16

[workloads.load]
kind    = "load"
pairs   = 64
threads = 4
payload = [16, 4096]

[[matrix]]
workloads = ["pingpong-16", "load"]
servers   = ["relay", "ws@node-{24,26}", "bun-serve@bun"]
clients   = ["native"]
exclude   = [{ server = "bun-serve@bun", workload = "load-*", reason = "for the example" }]

[limits]
cpus = 2.0
memory = "1GiB"

[[tolerance]]
cells  = "*/ws@*/*"
metric = "p99"
within = 0.50
reason = "the collector's pauses dominate the tail"
"#;

#[test]
fn the_example_of_the_design_is_read_whole() {
    let manifest = load_text(DESIGN).unwrap();
    assert_eq!(manifest.title, "WebSocket relay servers, native client");
    assert_eq!(manifest.name, "m");
    assert_eq!((manifest.passes, manifest.seed), (3, Some(20_261_010)));
    assert_eq!(manifest.control, Some("pingpong-16/relay/native".parse().unwrap()));
    assert_eq!(manifest.server_cores, CoreChoice::These(vec![8]));
    assert_eq!(manifest.client_cores, CoreChoice::These(vec![10, 12, 14, 16]));
    assert_eq!(manifest.limits, Some(plan::Limits { cpus: Some(2.0), memory_bytes: Some(1 << 30) }));
    assert_eq!(manifest.rules.tolerances[0].metric, Metric::P99);
    assert_eq!(manifest.rules.tolerances[0].within, 0.5);
    let names: Vec<&str> = manifest.workloads.iter().map(|workload| &*workload.name).collect();
    assert_eq!(names, ["pingpong-16", "load-16", "load-4096"]);
    let load = workload(&manifest, "load-4096");
    assert_eq!(load.family, "load");
    assert_eq!((load.params.pairs, load.params.threads, load.params.payload), (64, 4, 4096));
    assert_eq!((load.params.warmup, load.params.trial), (Extent::Rounds(50_000), Extent::Rounds(100_000)));
    assert_eq!(manifest.sources[0].1, DESIGN);

    let plan = expand(&manifest, &Selection::default());
    assert_eq!(plan.cells.len(), 3 * 4 - 2);
    assert_eq!(plan.control, Some(0));
    let excluded: Vec<String> =
        plan.excluded.iter().map(|cell| format!("{}: {}", cell.id, cell.reason)).collect();
    assert_eq!(
        excluded,
        ["load-16/bun-serve@bun/native: for the example", "load-4096/bun-serve@bun/native: for the example"]
    );
}

#[test]
fn what_a_manifest_leaves_out_is_filled_in() {
    let manifest = load_text(
        "[workloads.ping]\nkind = \"pingpong\"\n[workloads.load]\nkind = \"load\"\n\
         [[matrix]]\nworkloads = [\"*\"]\nservers = [\"relay\"]\n",
    )
    .unwrap();
    let ping = &workload(&manifest, "ping").params;
    assert_eq!((ping.kind, ping.payload, ping.opcode), (Kind::Pingpong, 16, Opcode::Binary));
    assert_eq!((ping.pairs, ping.in_flight, ping.threads), (1, 1, 1));
    assert_eq!((ping.warmup, ping.trial, ping.trials), (Extent::Rounds(20_000), Extent::Rounds(50_000), 5));
    assert_eq!((ping.mask, ping.wait), (Mask::Zero, Wait::Spin));
    assert_eq!(workload(&manifest, "load").params.pairs, 64);
    assert_eq!((manifest.passes, manifest.seed, manifest.port, manifest.allow_skips), (1, None, None, false));
    assert_eq!((&manifest.server_cores, &manifest.client_cores), (&CoreChoice::Auto, &CoreChoice::Auto));
    assert_eq!(cells(&manifest), ["pingpong-16/relay/native", "ping/relay/native", "load/relay/native"]);
}

#[test]
fn the_built_in_control_follows_the_defaults() {
    let text = "[defaults]\nrounds = 7\nduration = \"1s\"\n";
    assert!(load_text(&format!("{text}[workloads.x]\nkind = \"load\"\n")).is_err());
    let manifest = load_text(
        "[defaults]\nduration = \"1s\"\nwarmup = \"10ms\"\npairs = 9\n[workloads.x]\nkind = \"load\"\n\
         [[matrix]]\nworkloads = [\"x\"]\nservers = [\"relay\"]\n",
    )
    .unwrap();
    let control = workload(&manifest, "pingpong-16");
    assert_eq!(control.params.trial, Extent::DurationNs(1_000_000_000));
    assert_eq!(control.params.warmup, Extent::DurationNs(10_000_000));
    assert_eq!(control.params.pairs, 1, "a default number of pairs is not for a ping-pong");
    assert_eq!(workload(&manifest, "x").params.pairs, 9);
}

#[test]
fn a_workload_of_the_controls_name_is_the_control() {
    let manifest = load_text(
        "[workloads.pingpong-16]\nkind = \"pingpong\"\nrounds = 11\n\
         [[matrix]]\nworkloads = [\"*\"]\nservers = [\"ws@node-24\"]\n",
    )
    .unwrap();
    assert_eq!(manifest.workloads.len(), 1);
    assert_eq!(cells(&manifest), ["pingpong-16/relay/native", "pingpong-16/ws@node-24/native"]);
}

#[test]
fn there_may_be_no_control() {
    let manifest = load_text(
        "control = \"none\"\n[workloads.x]\nkind = \"load\"\n[[matrix]]\nworkloads = [\"x\"]\nservers = [\"relay\"]\n",
    )
    .unwrap();
    assert_eq!(manifest.control, None);
    assert_eq!(cells(&manifest), ["x/relay/native"]);
}

#[test]
fn several_axes_stand_in_a_canonical_order() {
    let manifest = load_text(
        "[workloads.x]\nkind = \"load\"\nduration = [\"1s\", \"500 ms\"]\nopcode = [\"text\"]\nthreads = 2\n\
         pairs = [2, 4]\npayload = [16, 32]\n[[matrix]]\nworkloads = [\"x-16-*\"]\nservers = [\"relay\"]\n",
    )
    .unwrap();
    let names: Vec<&str> = manifest.matrix[0].workloads.iter().map(|name| &**name).collect();
    assert_eq!(names, ["x-16-2-text-1s", "x-16-2-text-500ms", "x-16-4-text-1s", "x-16-4-text-500ms"]);
    let last = workload(&manifest, "x-32-4-text-500ms");
    assert_eq!((last.params.payload, last.params.pairs, last.params.opcode), (32, 4, Opcode::Text));
    assert_eq!(last.params.trial, Extent::DurationNs(500_000_000));
}

#[test]
fn a_rate_is_an_axis_of_a_load() {
    let text = "[workloads.x]\nkind = \"load\"\nrate = [100, 2000]\nrounds = 3_000_000\n[[matrix]]\nworkloads = [\"x-*\"]\nservers = [\"relay\"]\n";
    let manifest = load_text(text).unwrap();
    let slow = workload(&manifest, "x-100");
    assert_eq!(slow.params.rate_per_s, Some(100));
    // Three million at 100 per second, in five trials.
    assert!(slow.timeouts.deadline_ns > 5 * 30_000 * 1_000_000_000);
    let refused = load_text(&text.replace("[100, 2000]", "0")).unwrap_err();
    assert!(refused.contains("`rate` is 0"), "{refused}");
    let refused = load_text(&text.replace("\"load\"", "\"pingpong\"")).unwrap_err();
    assert!(refused.contains("`rate` in a ping-pong"), "{refused}");
}

#[test]
fn patterns_range_over_visible_names_only() {
    let text = |servers: &str| {
        format!("[workloads.x]\nkind = \"load\"\n[[matrix]]\nworkloads = [\"x\"]\nservers = [{servers}]\n")
    };
    let servers = |list: &str| load_text(&text(list)).unwrap().matrix[0].servers.clone();
    assert_eq!(servers("\"*\""), SERVERS);
    assert_eq!(servers("\"faulty-echo\", \"relay\""), ["faulty-echo", "relay"]);
    assert_eq!(servers("\"{relay,faulty-echo}\""), ["relay", "faulty-echo"]);
    assert_eq!(
        servers("\"ws@*\", \"ws@node-26\", \"relay{,-spin}\""),
        ["ws@node-24", "ws@node-26", "relay", "relay-spin"]
    );
}

#[test]
fn includes_add_up_and_mean_what_they_mean_alone() {
    let inner = "passes = 2\nseed = 5\ntitle = \"inner\"\n[defaults]\nrounds = 11\n[workloads.inner]\nkind = \"load\"\n\
                 [[matrix]]\nworkloads = [\"*\"]\nservers = [\"relay\"]\n";
    let outer = "include = [\"sub/inner.toml\", \"sub/inner.toml\"]\nseed = 6\n[defaults]\nrounds = 22\n\
                 [workloads.outer]\nkind = \"load\"\n\
                 [[matrix]]\nworkloads = [\"*\"]\nservers = [\"ws@node-24\"]\n";
    let manifest = load_files(&[("outer.toml", outer), ("sub/inner.toml", inner)]).unwrap();
    assert_eq!((manifest.passes, manifest.seed), (2, Some(6)), "the including file's settings come first");
    assert_eq!(manifest.title, "outer", "a title is not inherited");
    assert_eq!(workload(&manifest, "inner").params.trial, Extent::Rounds(11));
    assert_eq!(workload(&manifest, "outer").params.trial, Extent::Rounds(22));
    assert_eq!(
        cells(&manifest),
        [
            "pingpong-16/relay/native",
            "inner/relay/native",
            "inner/ws@node-24/native",
            "outer/ws@node-24/native"
        ],
        "the inner row does not see the outer workload"
    );
    assert_eq!(manifest.sources.len(), 2);
}

#[test]
fn an_exclusion_may_name_a_workload_without_its_axes() {
    let manifest = load_text(
        "control = \"none\"\n[workloads.x]\nkind = \"load\"\npayload = [16, 32]\n[workloads.y]\nkind = \"load\"\n\
         [[matrix]]\nworkloads = [\"*\"]\nservers = [\"relay\"]\nexclude = [{ workload = \"x\", reason = \"r\" }]\n",
    )
    .unwrap();
    assert_eq!(cells(&manifest), ["y/relay/native"]);
    assert_eq!(expand(&manifest, &Selection::default()).excluded.len(), 2);
}

#[test]
fn a_deadline_leaves_room_for_what_is_asked() {
    let deadline = |lines: &str| {
        let manifest = load_text(&format!(
            "[workloads.x]\nkind = \"load\"\n{lines}\n[[matrix]]\nworkloads = [\"x\"]\nservers = [\"relay\"]\n"
        ))
        .unwrap();
        workload(&manifest, "x").timeouts.deadline_ns / 1_000_000_000
    };
    assert_eq!(deadline("duration = \"1s\"\nwarmup = 0\ntrials = 1"), 60);
    assert_eq!(deadline("duration = \"60s\"\nwarmup = \"10s\"\ntrials = 5"), 2 * 310 + 12);
    assert_eq!(deadline("deadline = \"7s\""), 7);
    assert!(deadline("rounds = 9223372036854775807\ntrials = 10000") > 1_000_000_000);
}

#[test]
fn runtimes_lie_relative_to_their_file() {
    let manifest = load_files(&[(
        "m.toml",
        "[workloads.x]\nkind = \"load\"\n[[matrix]]\nworkloads = [\"x\"]\nservers = [\"relay\"]\n\
         [runtimes.bun]\npath = \"bin/bun\"\n[runtimes.node-24]\npath = \"/opt/node\"\n",
    )])
    .unwrap();
    assert!(manifest.runtimes["bun"].ends_with("bin/bun"));
    assert_eq!(manifest.runtimes["node-24"], Path::new("/opt/node"));
}

#[test]
fn names_other_than_utf8_line_ends_and_marks_are_no_obstacle() {
    assert!(load_text(&DESIGN.replace('\n', "\r\n")).is_ok());
    assert!(load_text(&format!("\u{feff}{DESIGN}")).is_ok());
}

fn load_never_panics(text: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text).unwrap();
    if let Err(problems) = load_problems(file.path(), &Fake) {
        assert!(problems.count() > 0, "an error that says nothing");
        let error = problems.into_error(Look::default());
        assert!(!error.message.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_mangled_manifest_panics(
        start in 0usize..DESIGN.len(),
        length in 0usize..40,
        middle in "[\\[\\]{}=\"'a-z0-9.,#\n*/@é-]{0,12}",
    ) {
        let mut bytes = DESIGN.as_bytes().to_vec();
        let end = (start + length).min(bytes.len());
        bytes.splice(start..end, middle.bytes());
        load_never_panics(&bytes);
    }

    #[test]
    fn no_value_panics(
        key in prop::sample::select(vec![
            "payload", "pairs", "in_flight", "threads", "opcode", "mask", "wait", "rounds", "duration", "warmup",
            "trials", "deadline", "stall", "start_timeout", "grace", "opt_in", "kind",
        ]),
        value in prop::sample::select(vec![
            "0", "1", "-1", "4294967296", "9223372036854775807", "-9223372036854775808", "18446744073709551616",
            "1e30", "nan", "inf", "-0.0", "\"\"", "\"0s\"", "\"1e9h\"", "[]", "[[]]", "[1, 2]", "[\"text\", 1]",
            "{}", "{ a = 1 }", "true", "1979-05-27", "\"binary\"", "\"\\u0000\"", "\"5 parsecs\"",
        ]),
        kind in prop::sample::select(vec!["pingpong", "load"]),
    ) {
        let kind = if key == "kind" { String::new() } else { format!("kind = \"{kind}\"\n") };
        load_never_panics(
            format!("[workloads.x]\n{kind}{key} = {value}\n[[matrix]]\nworkloads = [\"x*\"]\nservers = [\"*\"]\n")
                .as_bytes(),
        );
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        load_never_panics(&bytes);
    }

    #[test]
    fn no_pattern_panics(pattern in "[a-c@{},*?\\[\\]!-]{0,16}") {
        load_never_panics(
            format!(
                "[workloads.abc]\nkind = \"load\"\n[[matrix]]\nworkloads = ['{pattern}', 'abc']\nservers = ['*', '{pattern}']\n\
                 exclude = [{{ server = '{pattern}', reason = 'r' }}]\n[[tolerance]]\ncells = '{pattern}/*/*'\n\
                 metric = 'p99'\nwithin = 0.1\nreason = 'r'\n"
            )
            .as_bytes(),
        );
    }
}
