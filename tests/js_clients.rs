//! The JavaScript clients: they measure an honest server, and give each fault the name that the native client gives it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it leaves out"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::net::getpeername;
use rustix::net::sockopt::tcp_nodelay;
use rustix::process::{Pid, Signal, kill_process};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde_json::Value;
use support::real::{below, cores, eventually, processes_with};
use support::{runner, validate_record};

const FAULTS: [(&str, &str); 9] = [
    ("relay", "ok"),
    ("faulty-echoed", "void echoed"),
    ("faulty-altered", "void altered"),
    ("faulty-reordered", "void order-broken"),
    ("faulty-missing", "void lost-messages"),
    ("faulty-doubled", "void unasked-message"),
    ("faulty-opcode-changed", "void altered"),
    ("faulty-partner-mixed-up", "void partner-mixed-up"),
    ("faulty-dies-mid-trial", "failed "),
];
const CLIENTS: [&str; 4] = ["ws@node-24", "builtin@node-24", "ws@bun", "builtin@bun"];

/// A manifest that is gone with the value. It lies in the project, whose catalogue it needs.
struct Manifest {
    path: PathBuf,
    out: tempfile::TempDir,
}

impl Manifest {
    fn new(name: &str, servers: &[&str], clients: &[&str], workload: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
        let path = folder.join(format!("js-clients-{name}-{}.toml", std::process::id()));
        let text = format!(
            "control = \"none\"\n[defaults]\nwarmup = 300\nrounds = 400\ntrials = 2\nstall = \"500ms\"\ngrace = \"1s\"\n\
             [workloads.w]\nkind = \"load\"\npairs = 4\nin_flight = 2\n{workload}\n\
             [[matrix]]\nworkloads = [\"*\"]\nservers = {servers:?}\nclients = {clients:?}\n"
        );
        fs::write(&path, text).unwrap();
        Manifest { path, out: tempfile::tempdir().unwrap() }
    }

    /// Runs it; each record by server and client. None when what it needs cannot be installed.
    fn run(&self) -> Option<BTreeMap<(String, String), Value>> {
        let output = runner()
            .args(["run", self.path.to_str().unwrap(), "--out"])
            .arg(self.out.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let mut records = BTreeMap::new();
        for server in
            fs::read_dir(self.out.path().join("latest/cells/w")).unwrap_or_else(|_| panic!("{text}"))
        {
            let server = server.unwrap();
            for client in fs::read_dir(server.path()).unwrap() {
                let client = client.unwrap();
                let record = fs::read_to_string(client.path().join("pass-1.json")).unwrap();
                let record: Value = serde_json::from_str(&record).unwrap();
                validate_record(&record);
                if record["outcome"]["status"] == "skipped" {
                    eprintln!("left out: {}", record["outcome"]["reason"]);
                    assert!(
                        std::env::var_os("CI").is_none(),
                        "left out under CI: {}",
                        record["outcome"]["reason"]
                    );
                    return None;
                }
                let names =
                    [server.file_name(), client.file_name()].map(|name| name.to_str().unwrap().to_owned());
                records.insert(names.into(), record);
            }
        }
        Some(records)
    }
}

impl Drop for Manifest {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn brief(record: &Value) -> String {
    let outcome = &record["outcome"];
    let detail = outcome["reason"].as_str().or(outcome["stage"].as_str()).unwrap_or_default();
    format!("{} {detail}", outcome["status"].as_str().unwrap())
}

#[test]
fn each_fault_has_the_name_that_the_native_client_gives_it() {
    let _cores = cores();
    let servers: Vec<&str> = FAULTS.iter().map(|(server, _)| *server).collect();
    let Some(records) = Manifest::new("faults", &servers, &CLIENTS, "").run() else { return };
    assert_eq!(records.len(), servers.len() * CLIENTS.len());
    for (server, expected) in FAULTS {
        for client in CLIENTS {
            let record = &records[&(server.to_owned(), client.to_owned())];
            let said = brief(record);
            // A client in JavaScript may be slower than the control, and other work may slow both.
            let limits = ["void client-limited", "void cpu-steal"];
            let fine = said.starts_with(expected) || expected == "ok" && limits.contains(&said.as_str());
            assert!(fine, "{client} on {server}: {said}, not {expected}: {:#}", record["outcome"]);
        }
    }
}

#[test]
fn figures_versions_and_the_clock_are_on_record() {
    let _cores = cores();
    for (name, workload) in [
        ("text", "opcode = \"text\"\npayload = 200"),
        ("large", "payload = 70000\nrounds = 100\nwarmup = 20"),
    ] {
        let Some(records) = Manifest::new(name, &["relay"], &CLIENTS, workload).run() else { return };
        for ((_, client), record) in records {
            let trials = record["trials"].as_array().unwrap();
            assert_eq!(trials.len(), 2, "{client}: {:#}", record["outcome"]);
            for trial in trials {
                let rounds = trial["rounds"].as_u64().unwrap();
                let latency = trial["latency"].as_str().unwrap();
                assert_eq!(runner::stats::decode_histogram(latency).unwrap().len(), rounds, "{client}");
            }
            let counters = &record["counters"];
            assert_eq!(counters["sent"], counters["received"], "{client}");
            let versions = record["client"]["versions"].as_object().unwrap();
            assert!(versions.len() >= 2, "{client}: {versions:?}");
            assert!(record["clock"]["cost_ns"].as_f64().unwrap() > 0.0);
            assert!(
                record["client"]["sha256"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .any(|file| file.ends_with("client.mjs"))
            );
        }
    }
}

#[test]
fn what_they_cannot_do_is_refused_in_words() {
    let _cores = cores();
    for (workload, reason) in [("threads = 2", "one thread"), ("rate = 100", "no open loop")] {
        let name = workload.split(' ').next().unwrap();
        let Some(records) = Manifest::new(name, &["relay"], &["ws@node-24"], workload).run() else { return };
        for record in records.values() {
            assert!(brief(record).starts_with("failed"), "{:#}", record["outcome"]);
            assert!(
                record["outcome"]["message"].as_str().unwrap().contains(reason),
                "{:#}",
                record["outcome"]
            );
        }
    }
}

/// Whether each connection of a process has TCP_NODELAY, read from its very sockets; none while it has fewer than two.
fn no_delay(pid: i32) -> Option<bool> {
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let Some(fd) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(socket) = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()) else { continue };
        let peer = getpeername(&socket).ok().flatten().and_then(|peer| SocketAddr::try_from(peer).ok());
        if peer.is_some() {
            all.push(tcp_nodelay(&socket).unwrap());
        }
    }
    (all.len() >= 2).then(|| all.into_iter().all(|set| set))
}

#[test]
fn every_client_turns_nagles_algorithm_off() {
    let _cores = cores();
    for client in ["native", "tungstenite"].iter().chain(&CLIENTS) {
        let name = client.replace('@', "-");
        let manifest = Manifest::new(&name, &["relay"], &[client], "duration = \"20s\"");
        let text = fs::read_to_string(&manifest.path).unwrap().replace("rounds = 400\n", "");
        fs::write(&manifest.path, text).unwrap();
        let mut run = Command::new(assert_cmd::cargo::cargo_bin!("runner"))
            .args(["run", manifest.path.to_str().unwrap(), "--out"])
            .arg(manifest.out.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let id = run.id() as i32;
        // A library may set it only when the handshake is over.
        let seen = eventually(&format!("TCP_NODELAY on every connection of {client}"), || {
            if run.try_wait().unwrap().is_some() {
                return Some(None);
            }
            let below = below(id);
            let is_client = |line: &str| line.contains("client.mjs") || line.trim_end().ends_with(" client");
            processes_with("client")
                .into_iter()
                .filter(|(pid, line)| below.contains(pid) && is_client(line))
                .find_map(|(pid, _)| no_delay(pid).filter(|set| *set))
                .map(Some)
        });
        let _ = kill_process(Pid::from_raw(id).unwrap(), Signal::TERM);
        run.wait().unwrap();
        if seen.is_none() {
            eprintln!("left out: {client} was not measured");
            assert!(std::env::var_os("CI").is_none(), "left out under CI: {client}");
        }
    }
}
