//! A run on real processes: short cells of built-in servers, and a look at the processes of this machine.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::{Sandbox, runner, validate_record};

/// One test at a time, whatever process it is in: each of their cells needs the cores for itself.
pub fn cores() -> File {
    let lock = File::create(concat!(env!("CARGO_TARGET_TMPDIR"), "/cores.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Several pairs with several messages in flight, where order can break. By count: some faults come after so many
/// messages, which a short time need not hold on a busy machine.
pub const LOAD: &str = "kind = \"load\"\npairs = 4\nin_flight = 2\nrounds = 3000";
/// One message at a time, in which no side limits the other.
pub const PINGPONG: &str = "kind = \"pingpong\"";

/// Why a healthy cell may be void on a machine that has other work.
pub const MACHINE: [&str; 4] = ["cpu-steal", "time-overrun", "throttled", "too-few-samples"];

/// Short trials, and timeouts that a fault meets soon.
pub fn manifest(workload: &str, servers: &[&str], more: &str) -> String {
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
deadline = "10s"
[workloads.w]
{workload}
[[matrix]]
workloads = ["w"]
servers = {servers:?}
clients = ["native"]
"#
    )
}

pub struct Bench {
    pub sandbox: Sandbox,
    manifest: PathBuf,
    _cores: File,
}

impl Bench {
    pub fn new(workload: &str, servers: &[&str], more: &str) -> Self {
        let sandbox = Sandbox::new();
        let manifest = sandbox.file("cells.toml", &manifest(workload, servers, more));
        Bench { sandbox, manifest, _cores: cores() }
    }

    pub fn args(&self) -> Vec<String> {
        ["run", self.manifest.to_str().unwrap(), "--out", self.sandbox.path().join("out").to_str().unwrap()]
            .map(str::to_owned)
            .to_vec()
    }

    pub fn run(&self) -> Output {
        runner().args(self.args()).args(["--seed", "1"]).output().unwrap()
    }

    /// Runs, and fails when anything but the machine was in the way.
    pub fn runs_well(&self) {
        let output = self.run();
        let text = self.sandbox.shown(&output);
        match output.status.code() {
            Some(0) => {}
            Some(3) => {
                let said: Vec<&str> = text.lines().filter(|line| line.starts_with('[')).collect();
                let fine =
                    |line: &&str| line.contains("  ok  ") || MACHINE.iter().any(|why| line.contains(why));
                assert!(said.iter().all(fine), "{text}");
            }
            _ => panic!("{text}"),
        }
    }

    /// The record of a server in the workload `w`.
    pub fn record(&self, server: &str) -> Value {
        self.record_of(&format!("w/{server}/native"))
    }

    /// The record of a cell.
    pub fn record_of(&self, cell: &str) -> Value {
        let path = self.sandbox.path().join("out/latest/cells").join(cell).join("pass-1.json");
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let record = serde_json::from_str(&text).unwrap();
        validate_record(&record);
        record
    }
}

/// Fails when a record is not ok for another reason than the machine.
pub fn assert_well(record: &Value) {
    let said = brief(record);
    assert!(said == "ok" || MACHINE.iter().any(|why| said.contains(why)), "{said}: {:#}", record["outcome"]);
}

/// Outcome of a record in two words: `void echoed`, `failed measure`, `ok`.
pub fn brief(record: &Value) -> String {
    let outcome = &record["outcome"];
    let detail = outcome["reason"].as_str().or(outcome["stage"].as_str()).unwrap_or_default();
    format!("{} {detail}", outcome["status"].as_str().unwrap()).trim().to_owned()
}

pub fn flags(record: &Value) -> Vec<&str> {
    record["flags"].as_array().unwrap().iter().map(|flag| flag["name"].as_str().unwrap()).collect()
}

/// Processes that have a word in their command line: id and command line.
pub fn processes_with(word: &str) -> Vec<(i32, String)> {
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

pub fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// All processes below one.
pub fn below(root: i32) -> Vec<i32> {
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

/// Fails when a server of the program under test is still there. Only one test at a time has any.
pub fn assert_no_server_left() {
    let program = fs::canonicalize(assert_cmd::cargo::cargo_bin!("runner")).unwrap();
    let mut left = processes_with(" serve ");
    left.retain(|(pid, _)| {
        is_alive(*pid) && fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == program)
    });
    assert!(left.is_empty(), "{left:?}");
}

/// Control groups that the process of a cell made.
pub fn groups_of(cell: i32) -> Vec<PathBuf> {
    let name = format!("runner-{cell}-");
    let mut found = Vec::new();
    let mut folders = vec![(PathBuf::from("/sys/fs/cgroup"), 0)];
    while let Some((folder, depth)) = folders.pop() {
        // A group that goes away meanwhile is none.
        for path in fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
            if path.file_name().unwrap().to_string_lossy().starts_with(&name) {
                found.push(path);
            } else if path.is_dir() && depth < 4 {
                folders.push((path, depth + 1));
            }
        }
    }
    found
}

pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// Waits until something holds, for 20 s at most.
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A run whose cell `w` lasts half a minute if nothing ends it, and whose cell `short/relay-spin/native` does not.
pub struct Long {
    pub bench: Bench,
    run: Child,
    server: String,
}

impl Long {
    /// Starts it, with [`LONG_FIRST`] or [`SHORT_FIRST`] as its seed.
    pub fn start(server: &str, more: &str, seed: u32) -> Self {
        Self::start_with(server, more, seed, |text| text)
    }

    /// Starts it with another manifest.
    pub fn start_with(server: &str, more: &str, seed: u32, change: impl Fn(String) -> String) -> Self {
        let sandbox = Sandbox::new();
        let text = manifest(PINGPONG, &[server], more)
            .replace("trials = 2", "trials = 1")
            .replace("\"30ms\"", "\"30s\"")
            .replace("\"10s\"", "\"60s\"");
        let manifest = sandbox.file("cells.toml", &change(format!("{text}{SHORT}")));
        let bench = Bench { sandbox, manifest, _cores: cores() };
        let run = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
            .args(bench.args())
            .args(["--seed", &seed.to_string()])
            .stdout(Stdio::null())
            .stderr(File::create(bench.sandbox.path().join("stderr")).unwrap())
            .spawn()
            .unwrap();
        Long { bench, run, server: server.to_owned() }
    }

    /// Waits until the long cell is measured; the ids of the cell's own process, of its server and of its client.
    pub fn processes(&self) -> (i32, i32, i32) {
        let run = self.pid();
        let serve = format!(" serve {} ", self.server);
        let log = self.bench.sandbox.path();
        eventually(&format!("the long cell in {}", log.display()), || {
            let below = below(run);
            let server = processes_with(&serve).into_iter().find(|(pid, _)| below.contains(pid))?.0;
            let client = processes_with(" client ").into_iter().find(|(pid, _)| below.contains(pid))?.0;
            Some((parent_of(server)?, server, client))
        })
    }

    /// Id of the run's process.
    pub fn pid(&self) -> i32 {
        self.run.id() as i32
    }

    /// Whether the run goes on.
    pub fn goes_on(&mut self) -> bool {
        self.run.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the run: its exit code, and what it said on stderr.
    pub fn end(&mut self) -> (Option<i32>, String) {
        let status = self.run.wait().unwrap();
        (status.code(), fs::read_to_string(self.bench.sandbox.path().join("stderr")).unwrap())
    }
}

impl Drop for Long {
    /// A test that fails leaves no run to the next one.
    fn drop(&mut self) {
        if self.goes_on() {
            signal(self.pid(), Signal::TERM);
            self.end();
        }
    }
}

/// Sends a process a signal.
pub fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

/// A seed that puts the long cell first.
pub const LONG_FIRST: u32 = 2;
/// A seed that puts it last.
pub const SHORT_FIRST: u32 = 1;

/// A cell that is over soon.
pub const SHORT: &str = r#"
[workloads.short]
kind = "pingpong"
duration = "30ms"
deadline = "20s"
[[matrix]]
workloads = ["short"]
servers = ["relay-spin"]
"#;
