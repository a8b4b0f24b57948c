use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::log::Log;
use crate::plan::Program;
use crate::record::Exited;

/// What a program finds in its environment besides what is set for it. Anything more, a stray `NODE_OPTIONS` say,
/// would make figures differ from one shell to the next.
const INHERITED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR"];

/// How long the last lines of a process that has ended may take to arrive.
const LOG_DRAIN: Duration = Duration::from_millis(50);

/// One side of a cell while it runs. It ends with the value.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) child: Child,
    pub(super) pid: i32,
    pub(super) log: Log,
    readers: Vec<JoinHandle<()>>,
}

/// What a program's `{runner}` stands for.
pub(super) fn argv(program: &Program, runner: &Path) -> Vec<String> {
    let mut argv = program.argv.clone();
    if let Some(first) = argv.first_mut()
        && first == "{runner}"
    {
        *first = runner.display().to_string();
    }
    argv
}

impl Side {
    /// Starts a program on cores of its own, in a process group of its own, so that it ends with this process.
    /// With `talks`, stdin and stdout are pipes for the caller; else stdin is empty and stdout is log.
    pub(super) fn start(
        program: &Program,
        runner: &Path,
        env: &BTreeMap<String, String>,
        cores: &[u32],
        talks: bool,
    ) -> io::Result<Side> {
        let argv = argv(program, runner);
        let (executable, arguments) =
            argv.split_first().ok_or_else(|| io::Error::other("nothing to execute was named"))?;
        let mut command = Command::new(executable);
        command.args(arguments).env_clear();
        for name in INHERITED {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command
            .envs(env)
            .stdin(if talks { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(folder) = &program.cwd {
            command.current_dir(folder);
        }
        let mut set = CpuSet::new();
        for core in cores {
            set.set(*core as usize);
        }
        let pinned = !cores.is_empty();
        // SAFETY: the closure makes two system calls, which are allowed between fork and exec, and allocates nothing.
        #[expect(unsafe_code, reason = "only the child itself can ask to end with its parent")]
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::KILL))?;
                if pinned {
                    sched_setaffinity(None, &set)?;
                }
                Ok(())
            });
        }
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let log = Log::default();
        let mut readers = Vec::new();
        if !talks && let Some(stdout) = child.stdout.take() {
            readers.push(tokio::task::spawn_local(log.clone().drain(stdout)));
        }
        if let Some(stderr) = child.stderr.take() {
            readers.push(tokio::task::spawn_local(log.clone().drain(stderr)));
        }
        Ok(Side { child, pid, log, readers })
    }

    /// The last lines that it printed, once they have had time to arrive.
    pub(super) async fn last_words(&mut self) -> Vec<String> {
        let until = tokio::time::Instant::now() + LOG_DRAIN;
        for reader in &mut self.readers {
            // A process that it left behind may hold the stream open for ever.
            let _ = tokio::time::timeout_at(until, reader).await;
        }
        self.readers.clear();
        self.log.tail()
    }

    /// TERM to its group, then KILL after `grace`. Says how it ended.
    pub(super) async fn stop(&mut self, grace: Duration) -> Exited {
        self.signal(Signal::TERM);
        let waited = tokio::time::timeout(grace, self.child.wait()).await;
        let killed = waited.is_err();
        // Others of its group may still be there when it has ended itself.
        self.signal(Signal::KILL);
        let status = match waited {
            Ok(status) => status,
            Err(_) => self.child.wait().await,
        };
        exited(status.ok(), killed)
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.pid) {
            // Where all of the group has ended there is nobody to tell.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// How a process ended, as a record holds it.
pub(super) fn exited(status: Option<ExitStatus>, killed: bool) -> Exited {
    use std::os::unix::process::ExitStatusExt;
    Exited {
        code: status.and_then(|status| status.code()),
        signal: status.and_then(|status| status.signal()),
        killed,
    }
}

/// How a process ended, in a clause.
pub(super) fn how_it_ended(status: ExitStatus, started: Instant) -> String {
    use std::os::unix::process::ExitStatusExt;
    let after = started.elapsed().as_millis();
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code} after {after} ms"),
        (None, Some(signal)) => format!("was ended by signal {signal} after {after} ms"),
        (None, None) => format!("ended after {after} ms"),
    }
}
