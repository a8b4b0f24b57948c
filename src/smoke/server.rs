use std::collections::VecDeque;
use std::io::{self, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};

use super::end::End;
use crate::host::tree::{self, Process};
use crate::plan::ServerSpec;

/// How often something that takes its time is looked at.
const POLL: Duration = Duration::from_millis(2);
/// How much of a server's log is kept, in bytes.
const TAIL: usize = 4 * 1024;

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmokeLimits {
    /// From a server's start to its first complete handshake.
    pub start: Duration,
    /// From a message sent to its arrival.
    pub stall: Duration,
    /// How long an end must stay silent before we believe that nothing comes.
    pub quiet: Duration,
    /// From SIGTERM to the end of the server.
    pub grace: Duration,
}

impl Default for SmokeLimits {
    fn default() -> Self {
        SmokeLimits {
            start: Duration::from_secs(10),
            stall: Duration::from_secs(2),
            quiet: Duration::from_millis(60),
            grace: Duration::from_secs(2),
        }
    }
}

/// A server that runs. It ends with the value.
pub(super) struct Server {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) limits: SmokeLimits,
    log: Arc<Mutex<VecDeque<u8>>>,
    /// Processes below us before it was started.
    others: Vec<i32>,
}

/// How a server ended.
pub(super) struct Stopped {
    /// How long that took; none when it had to be killed.
    pub(super) took: Option<Duration>,
    /// What it left running.
    pub(super) leftovers: Vec<Process>,
    /// Why its port cannot be used again; none when it can.
    pub(super) port: Option<io::Error>,
}

impl Server {
    /// Starts a server and waits for its first handshake. The error is a clause.
    pub(super) fn start(spec: &ServerSpec, runner: &Path, limits: SmokeLimits) -> Result<Self, String> {
        let others = below_us(&[]).into_iter().map(|process| process.pid).collect();
        let address = free_address().map_err(|error| format!("no port is free: {error}"))?;
        let mut child = command(spec, runner, address)
            .spawn()
            .map_err(|error| format!("`{}` cannot be started: {error}", spec.program.argv.join(" ")))?;
        let log = Arc::new(Mutex::new(VecDeque::new()));
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
            child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        ];
        for stream in streams.into_iter().flatten() {
            let log = Arc::clone(&log);
            // Ends with the last process that holds the stream. Nobody waits for it: that may be one that outlives us.
            thread::spawn(move || drain(stream, &log));
        }
        let mut server = Server { child, address, limits, log, others };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), String> {
        let until = Instant::now() + self.limits.start;
        let mut last = String::from("nothing listens");
        while Instant::now() < until {
            self.is_alive()?;
            // Two, so that neither is left waiting for a partner.
            match self.connect().and_then(|one| Ok((one, self.connect()?))) {
                Ok((one, other)) => {
                    one.leave();
                    other.leave();
                    return Ok(());
                }
                Err(error) => last = error,
            }
            thread::sleep(POLL);
        }
        Err(format!("no complete handshake within {} ms: {last}", self.limits.start.as_millis()))
    }

    /// A new connection. The error is a clause.
    pub(super) fn connect(&self) -> Result<End, String> {
        End::connect(self.address, &self.limits)
    }

    /// A new plain TCP connection.
    pub(super) fn stream(&self) -> Result<TcpStream, String> {
        End::stream(self.address, &self.limits)
    }

    /// Two connections, which a relay pairs.
    pub(super) fn pair(&self) -> Result<(End, End), String> {
        Ok((self.connect()?, self.connect()?))
    }

    /// Its process.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Says with its last words when it has ended.
    pub(super) fn is_alive(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(status)),
            Err(error) => Err(format!("the server cannot be watched: {error}")),
        }
    }

    fn ended(&self, status: ExitStatus) -> String {
        // The thread that reads the log may be a moment behind.
        thread::sleep(POLL * 5);
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let text: Vec<u8> = log.iter().copied().collect();
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        let said = line.map_or_else(
            || "and said nothing".to_owned(),
            |line| {
                let cut: String = line.trim().chars().take(200).collect();
                format!("and said last: {cut}")
            },
        );
        format!("the server ended with {status} {said}")
    }

    /// TERM, grace, KILL, on the whole group; then looks at what is left.
    pub(super) fn stop(mut self) -> Stopped {
        let start = Instant::now();
        // Where it has ended already there is no group.
        let _ = kill_process_group(self.pid(), Signal::TERM);
        let mut took = None;
        while took.is_none() && start.elapsed() < self.limits.grace {
            if self.is_alive().is_err() {
                took = Some(start.elapsed());
            } else {
                thread::sleep(POLL);
            }
        }
        self.kill();
        let leftovers: Vec<Process> = below_us(&self.others);
        // The standard library sets SO_REUSEADDR: only a socket that still listens is in the way.
        let port = TcpListener::bind(self.address).err();
        for leftover in &leftovers {
            tree::end(leftover.pid);
        }
        Stopped { took, leftovers, port }
    }

    fn kill(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        for process in below_us(&self.others) {
            tree::end(process.pid);
        }
    }
}

/// Processes below this one, those that it adopted among them, without those that were there before.
fn below_us(others: &[i32]) -> Vec<Process> {
    tree::below(tree::me(), others)
}

fn command(spec: &ServerSpec, runner: &Path, address: SocketAddr) -> Command {
    let argv = &spec.program.argv;
    let program = if argv[0] == "{runner}" { runner } else { Path::new(&argv[0]) };
    let mut command = Command::new(program);
    command
        .args(&argv[1..])
        .envs(&spec.program.env)
        .env("ROLE", spec.role.to_string())
        .env("HOST", address.ip().to_string())
        .env("PORT", address.port().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    if let Some(folder) = &spec.program.cwd {
        command.current_dir(folder);
    }
    // SAFETY: the closure makes one system call, which is allowed between fork and exec, and allocates nothing.
    #[expect(unsafe_code, reason = "only the child itself can ask to end with its parent")]
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    command
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn drain(mut stream: impl Read, log: &Mutex<VecDeque<u8>>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read) = stream.read(&mut buffer) {
        if read == 0 {
            return;
        }
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend(&buffer[..read]);
        let surplus = log.len().saturating_sub(TAIL);
        log.drain(..surplus);
    }
}
