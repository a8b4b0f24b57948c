//! `runner run` on real processes: each fault of a server becomes the right record, later cells run all the same, and
//! nothing is left behind.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Sandbox, runner, validate_record};

/// One test at a time: each of their cells needs the cores for itself.
static CORES: Mutex<()> = Mutex::new(());

fn cores() -> MutexGuard<'static, ()> {
    CORES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Several pairs with several messages in flight, where order can break.
const LOAD: &str = "kind = \"load\"\npairs = 4\nin_flight = 2";
/// One message at a time, in which no side limits the other.
const PINGPONG: &str = "kind = \"pingpong\"";

/// Why a healthy cell may be void on a machine that has other work.
const MACHINE: [&str; 3] = ["cpu-steal", "time-overrun", "throttled"];

/// Short trials, and timeouts that a fault meets soon.
fn manifest(workload: &str, servers: &[&str], more: &str) -> String {
    format!(
        r#"
control = "none"
{more}
[defaults]
warmup = "20ms"
duration = "30ms"
trials = 2
start_timeout = "3s"
stall = "400ms"
grace = "500ms"
[workloads.w]
{workload}
[[matrix]]
workloads = ["w"]
servers = {servers:?}
clients = ["native"]
"#
    )
}

struct Bench {
    sandbox: Sandbox,
    manifest: PathBuf,
    _cores: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(workload: &str, servers: &[&str], more: &str) -> Self {
        let sandbox = Sandbox::new();
        let manifest = sandbox.file("cells.toml", &manifest(workload, servers, more));
        Bench { sandbox, manifest, _cores: cores() }
    }

    fn args(&self) -> Vec<String> {
        ["run", self.manifest.to_str().unwrap(), "--out", self.sandbox.path().join("out").to_str().unwrap()]
            .map(str::to_owned)
            .to_vec()
    }

    fn run(&self) -> Output {
        runner().args(self.args()).args(["--seed", "1"]).output().unwrap()
    }

    /// Runs, and fails when anything but the machine was in the way.
    fn runs_well(&self) {
        let output = self.run();
        let text = self.sandbox.shown(&output);
        match output.status.code() {
            Some(0) => {}
            Some(3) => {
                let said: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
                let fine =
                    |line: &&str| line.contains("  ok  ") || MACHINE.iter().any(|why| line.contains(why));
                assert!(said.iter().all(|line| fine(line)), "{text}");
            }
            _ => panic!("{text}"),
        }
    }

    fn record(&self, server: &str) -> Value {
        let run = self.sandbox.path().join("out/latest");
        let path = run.join("cells/w").join(server).join("native/pass-1.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let record = serde_json::from_str(&text).unwrap();
        validate_record(&record);
        record
    }
}

/// Outcome of a record in two words: `void echoed`, `failed measure`, `ok`.
fn brief(record: &Value) -> String {
    let outcome = &record["outcome"];
    let detail = outcome["reason"].as_str().or(outcome["stage"].as_str()).unwrap_or_default();
    format!("{} {detail}", outcome["status"].as_str().unwrap()).trim().to_owned()
}

fn flags(record: &Value) -> Vec<&str> {
    record["flags"].as_array().unwrap().iter().map(|flag| flag["name"].as_str().unwrap()).collect()
}

/// Processes that have a word in their command line: id and command line.
fn processes_with(word: &str) -> Vec<(i32, String)> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(word).then_some((pid, line))
        })
        .collect()
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// All processes below one.
fn below(root: i32) -> Vec<i32> {
    let all: Vec<i32> = processes_with("").into_iter().map(|(pid, _)| pid).collect();
    let mut found = vec![root];
    loop {
        let more: Vec<i32> = all
            .iter()
            .copied()
            .filter(|pid| {
                !found.contains(pid) && parent_of(*pid).is_some_and(|parent| found.contains(&parent))
            })
            .collect();
        if more.is_empty() {
            return found;
        }
        found.extend(more);
    }
}

fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// Waits until something holds, for 20 s at most.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn each_fault_of_a_server_becomes_the_right_record() {
    let expected = BTreeMap::from([
        ("faulty-echoed", "void echoed"),
        ("faulty-echoed-late", "void echoed"),
        ("faulty-altered", "void altered"),
        ("faulty-reordered", "void order-broken"),
        ("faulty-missing", "void lost-messages"),
        ("faulty-doubled", "void unasked-message"),
        ("faulty-opcode-changed", "void altered"),
        ("faulty-partner-mixed-up", "void partner-mixed-up"),
        ("faulty-unasked", "void unasked-message"),
        ("faulty-never-listens", "failed ready"),
        ("faulty-dies-at-once", "failed ready"),
        ("faulty-dies-mid-trial", "failed measure"),
        ("faulty-hangs", "void lost-messages"),
        ("faulty-negotiates-compression", "failed verify"),
    ]);
    let bench = expect(LOAD, &expected);
    // The echo that posed as a relay costs less than a second and leaves no figure.
    let echo = bench.record("faulty-echoed");
    assert!(echo["timings"]["total_ns"].as_u64().unwrap() < 1_000_000_000, "{:#}", echo["timings"]);
    assert_eq!(echo["trials"].as_array().map(Vec::len), Some(0));
    // What a dead server said last is in its record.
    assert!(bench.record("faulty-dies-at-once")["outcome"]["message"].as_str().unwrap().contains("server"));
}

#[test]
fn what_a_server_leaves_behind_is_found_and_ended() {
    let expected = BTreeMap::from([
        ("faulty-floods-log", "ok"),
        ("faulty-forks", "void process-leaked"),
        ("faulty-holds-port", "void port-leaked"),
        ("faulty-ignores-term", "ok"),
        ("relay", "ok"),
    ]);
    let bench = expect(PINGPONG, &expected);
    // A server that ignores the signal is ended and said so; one that floods its log keeps a bounded one.
    assert!(flags(&bench.record("faulty-ignores-term")).contains(&"killed"));
    let log = bench.sandbox.path().join("out/latest/log/w/faulty-floods-log/native/pass-1/server.log");
    let size = fs::metadata(&log).unwrap().len();
    assert!((1_000..=1_200_000).contains(&size), "{size}");
    let mine = below(std::process::id() as i32);
    for server in expected.keys() {
        let mut left = processes_with(&format!("serve {server} "));
        left.retain(|(pid, _)| mine.contains(pid) || parent_of(*pid) == Some(1));
        assert!(left.is_empty(), "{server}: {left:?}");
    }
}

/// Runs these servers and compares what became of each.
fn expect(workload: &str, expected: &BTreeMap<&str, &str>) -> Bench {
    let servers: Vec<&str> = expected.keys().copied().collect();
    let bench = Bench::new(workload, &servers, "");
    let output = bench.run();
    assert_eq!(output.status.code(), Some(3), "{}", bench.sandbox.shown(&output));
    for (server, expected) in expected {
        let record = bench.record(server);
        let said = brief(&record);
        let same = match *server {
            // After so many messages, be it in the warm-up or later.
            "faulty-dies-mid-trial" => said.starts_with("failed"),
            _ => said == *expected || MACHINE.iter().any(|why| *expected == "ok" && said.contains(why)),
        };
        assert!(same, "{server}: {said}, not {expected}: {:#}", record["outcome"]);
    }
    bench
}

#[test]
fn placement_is_asked_for_and_read_back() {
    let bench = Bench::new(PINGPONG, &["relay"], "");
    bench.runs_well();
    let record = bench.record("relay");
    for side in ["server", "client"] {
        assert_eq!(record[side]["cores_asked"], record[side]["cores_seen"], "{side}");
        assert_eq!(record[side]["cores_seen"].as_array().unwrap().len(), 1);
        assert!(record[side]["usage"]["cpu_ns"].as_u64().unwrap() > 0);
        assert_eq!(record[side]["exited"]["code"], 0, "{side}");
    }
    if thread::available_parallelism().unwrap().get() > 1 {
        assert_ne!(record["server"]["cores_seen"], record["client"]["cores_seen"]);
    }
    let counters = &record["counters"];
    assert_eq!(counters["sent"], counters["received"]);
}

#[test]
fn a_port_in_use_is_said_with_its_holder_and_later_cells_run() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let bench = Bench::new(PINGPONG, &["relay", "relay-spin"], &format!("port = {port}"));
    let output = bench.run();
    assert_eq!(output.status.code(), Some(3), "{}", bench.sandbox.shown(&output));
    for server in ["relay", "relay-spin"] {
        let record = bench.record(server);
        assert_eq!(brief(&record), "failed place");
        let message = record["outcome"]["message"].as_str().unwrap().to_owned();
        let me = format!("pid {}", std::process::id());
        assert!(message.contains(&port.to_string()) && message.contains(&me), "{message}");
    }
    drop(listener);
    bench.runs_well();
}

#[test]
fn a_cpu_limit_is_set_and_read_back_or_its_lack_is_said() {
    let bench = Bench::new(PINGPONG, &["relay"], "[limits]\ncpus = 0.5\nmemory = \"64MiB\"\n");
    let output = bench.run();
    let record = bench.record("relay");
    let limits = &record["server"]["limits_asked"];
    assert_eq!(limits["cpus"], 0.5, "{limits}");
    if brief(&record) == "failed place" {
        let message = record["outcome"]["message"].as_str().unwrap();
        assert!(message.contains("cgroup") || message.contains("control group"), "{message}");
        eprintln!("left out: control groups cannot be used here: {message}");
        assert!(std::env::var_os("CI").is_none(), "left out under CI");
        return;
    }
    assert_eq!(&record["server"]["limits_seen"], limits, "{}", bench.sandbox.shown(&output));
    let used = record["server"]["usage"]["cpu_ns"].as_f64().unwrap();
    let window: f64 =
        record["trials"].as_array().unwrap().iter().map(|t| t["window_ns"].as_f64().unwrap()).sum();
    assert!(used / window < 0.9, "{} of a core", used / window);
}

/// A run that has begun its only cell, which lasts half a minute.
struct Long {
    bench: Bench,
    run: Child,
}

impl Long {
    fn start() -> Self {
        let sandbox = Sandbox::new();
        let text = manifest(PINGPONG, &["relay"], "")
            .replace("trials = 2", "trials = 1")
            .replace("\"30ms\"", "\"30s\"");
        let manifest = sandbox.file("cells.toml", &format!("{text}\n[workloads.short]\nkind = \"pingpong\"\nduration = \"30ms\"\n[[matrix]]\nworkloads = [\"short\"]\nservers = [\"relay-spin\"]\n"));
        let bench = Bench { sandbox, manifest, _cores: cores() };
        let run = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
            .args(bench.args())
            .args(["--seed", "1", "--cell", "w/*/*", "--cell", "short/*/*"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Long { bench, run }
    }

    /// Waits for the long cell's server; the ids of the cell's own process and of the server.
    fn cell_and_server(&self) -> (i32, i32) {
        let run = self.run.id() as i32;
        eventually("the server of the long cell", || {
            let below = below(run);
            let server = processes_with("serve relay ").into_iter().find(|(pid, _)| below.contains(pid))?.0;
            // Its client too, so that it is being measured.
            processes_with(" client ").into_iter().find(|(pid, _)| below.contains(pid))?;
            Some((parent_of(server)?, server))
        })
    }
}

#[test]
fn a_cell_that_is_killed_fails_alone() {
    let mut long = Long::start();
    let (cell, server) = long.cell_and_server();
    kill_process(Pid::from_raw(cell).unwrap(), Signal::KILL).unwrap();
    let status = long.run.wait().unwrap();
    assert_eq!(status.code(), Some(3));
    assert!(!is_alive(server));
    let record = long.bench.record("relay");
    assert_eq!(brief(&record), "failed cell", "{:#}", record["outcome"]);
    assert!(record["outcome"]["message"].as_str().unwrap().contains("signal"), "{:#}", record["outcome"]);
    let other = long.bench.sandbox.path().join("out/latest/cells/short/relay-spin/native/pass-1.json");
    assert!(fs::read_to_string(other).unwrap().contains("\"ok\""));
}

#[test]
fn an_interrupted_run_ends_soon_with_nothing_left() {
    for signal in [Signal::INT, Signal::TERM] {
        let long = Long::start();
        let (cell, server) = long.cell_and_server();
        let begun = Instant::now();
        kill_process(Pid::from_raw(long.run.id() as i32).unwrap(), signal).unwrap();
        let output = long.run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", long.bench.sandbox.shown(&output));
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(!is_alive(cell) && !is_alive(server));
        assert!(String::from_utf8_lossy(&output.stderr).contains("--resume"));
    }
}

#[test]
fn a_killed_run_takes_its_processes_with_it() {
    let mut long = Long::start();
    let (cell, server) = long.cell_and_server();
    long.run.kill().unwrap();
    long.run.wait().unwrap();
    eventually("the end of the cell and its server", || (!is_alive(cell) && !is_alive(server)).then_some(()));
    let meta = fs::read_to_string(long.bench.sandbox.path().join("out/latest/run.json")).unwrap();
    assert!(serde_json::from_str::<Value>(&meta).unwrap()["finished_at"].is_null());
}

/// Start-up, warm-up and trials apart, a cell costs little. The bound is generous: other tests run beside this one.
#[test]
fn a_cell_costs_little_beside_its_trials() {
    let bench = Bench::new(PINGPONG, &["relay"], "passes = 9");
    bench.runs_well();
    let folder = bench.sandbox.path().join("out/latest/cells/w/relay/native");
    let mut overheads: Vec<u64> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let record: Value =
                serde_json::from_str(&fs::read_to_string(entry.unwrap().path()).unwrap()).unwrap();
            record["timings"]["overhead_ns"].as_u64().unwrap()
        })
        .collect();
    overheads.sort_unstable();
    assert_eq!(overheads.len(), 9);
    assert!(overheads[4] < 400_000_000, "{overheads:?}");
}

#[test]
fn a_core_that_is_not_there_is_refused_before_anything_runs() {
    let sandbox = Sandbox::new();
    let path = sandbox.file("cells.toml", &manifest(PINGPONG, &["relay"], "[cores]\nserver = [4000]\n"));
    let output = runner()
        .args(["run", path.to_str().unwrap(), "--out"])
        .arg(sandbox.path().join("out"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", sandbox.shown(&output));
    assert!(String::from_utf8_lossy(&output.stderr).contains("4000"));
    assert!(!Path::new(&sandbox.path().join("out/cells")).exists());
}
