use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use rustix::process::{
    Pid, Signal, getpid, kill_process, set_child_subreaper, set_parent_process_death_signal,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use super::{Cancel, Event, Executor};
use crate::cell::{Hashes, Progress};
use crate::host::{ServerCgroup, tree};
use crate::plan::Job;
use crate::record::{Outcome, Record, Stage};

/// On top of a cell's deadline and grace: to start its process, hash programs and read its record.
const MARGIN: Duration = Duration::from_secs(5);
/// How soon a wish to stop is noticed. A cell's own process is not woken by it.
const CANCEL_POLL: Duration = Duration::from_millis(100);
/// Lines of a cell's own process that go into a record when it fails.
const TAIL: usize = 12;
/// Longest output of a cell that is read, in bytes.
const LONGEST_RECORD: u64 = 256 * 1024 * 1024;
/// How often we look whether what a killed cell left behind has ended, and the pause between.
const LOOKS: u32 = 200;
const LOOK_PAUSE: Duration = Duration::from_millis(10);

/// Runs each cell on this host, in a process of its own: `runner cell`.
#[derive(Debug)]
pub struct Local {
    runtime: Runtime,
    runner: PathBuf,
    hashes: Hashes,
    started: Instant,
}

/// What a cell's process did.
struct Ran {
    pid: Option<Pid>,
    output: Vec<u8>,
    tail: Vec<String>,
    status: String,
    overdue: bool,
}

impl Local {
    /// An executor that runs this program's own cells.
    pub fn new() -> io::Result<Self> {
        // What a cell leaves behind when it is killed comes to us, where it is found.
        let _ = set_child_subreaper(Some(getpid()));
        Ok(Local {
            runtime: tokio::runtime::Builder::new_current_thread().enable_all().build()?,
            runner: std::env::current_exe()?,
            hashes: Hashes::default(),
            started: Instant::now(),
        })
    }

    async fn run(
        runner: PathBuf,
        job: &Job,
        events: &mut dyn FnMut(Event),
        cancel: &Cancel,
    ) -> io::Result<Ran> {
        let mut command = Command::new(runner);
        command
            .arg("cell")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A group of its own: Ctrl-C in a terminal reaches us, and we stop the cell.
            .process_group(0)
            .kill_on_drop(true);
        // SAFETY: the closure makes one system call, which is allowed between fork and exec, and allocates nothing.
        #[expect(unsafe_code, reason = "only the child itself can ask to be told of its parent's death")]
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let mut child = command.spawn()?;
        let pid = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            unreachable!("all three were asked for as pipes")
        };

        let text = serde_json::to_vec(job)?;
        let (tell, mut told) = mpsc::unbounded_channel();
        let feed = async move {
            // A cell that does not read its job says why in its own way.
            let _ = stdin.write_all(&text).await;
        };
        let read_output = async {
            let mut output = Vec::new();
            let _ = stdout.take(LONGEST_RECORD).read_to_end(&mut output).await;
            output
        };
        let read_progress = async move {
            let mut tail = Vec::new();
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                match serde_json::from_str::<Progress>(&line) {
                    Ok(progress) => {
                        let _ = tell.send(progress);
                    }
                    Err(_) => {
                        tail.push(line);
                        if tail.len() > TAIL {
                            tail.remove(0);
                        }
                    }
                }
            }
            tail
        };
        let timeouts = &job.cell.timeouts;
        let patience =
            Duration::from_nanos(timeouts.deadline_ns.saturating_add(2 * timeouts.grace_ns)) + MARGIN;
        let watch = async {
            let deadline = tokio::time::Instant::now() + patience;
            let mut told_to_stop = false;
            let mut overdue = false;
            loop {
                tokio::select! {
                    biased;
                    status = child.wait() => return (status, overdue),
                    Some(progress) = told.recv() => events(Event::from(progress)),
                    () = tokio::time::sleep_until(deadline), if !overdue => {
                        overdue = true;
                        signal(pid, Signal::KILL);
                    }
                    () = tokio::time::sleep(CANCEL_POLL) => {
                        if cancel.is_set() && !told_to_stop {
                            told_to_stop = true;
                            signal(pid, Signal::TERM);
                        }
                        if cancel.is_urgent() {
                            signal(pid, Signal::KILL);
                        }
                    }
                }
            }
        };
        let all = async { tokio::join!(feed, read_output, read_progress, watch) };
        let ((), output, tail, (status, overdue)) = all.await;
        while let Ok(progress) = told.try_recv() {
            events(Event::from(progress));
        }
        let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
        Ok(Ran { pid, output, tail, status, overdue })
    }
}

/// Ends and removes what a cell could not, because its process was killed: processes that its server had started, and
/// the server's control group.
fn clear_away(pid: Option<Pid>, job: &Job, before: &[i32]) {
    for _ in 0..LOOKS {
        let left = tree::below(tree::me(), before);
        if left.is_empty() {
            break;
        }
        for process in left {
            tree::end(process.pid);
        }
        std::thread::sleep(LOOK_PAUSE);
    }
    if let Some(pid) = pid
        && job.cell.limits.is_some()
    {
        ServerCgroup::remove(&ServerCgroup::name(pid.as_raw_nonzero().get().unsigned_abs(), job.order));
    }
}

fn signal(pid: Option<Pid>, signal: Signal) {
    if let Some(pid) = pid {
        // It may have ended already.
        let _ = kill_process(pid, signal);
    }
}

impl Executor for Local {
    fn execute(&mut self, job: &Job, events: &mut dyn FnMut(Event), cancel: &Cancel) -> Record {
        let mut job = job.clone();
        self.hashes.fill(&mut job.cell.server.program);
        self.hashes.fill(&mut job.cell.client.program);
        job.runner = Some(self.hashes.runner());
        let begun = Utc::now();
        let failed = |message: String, log_tail: Vec<String>| {
            let outcome = Outcome::Failed { stage: Stage::Cell, message, log_tail };
            let mut record = Record::blank(&job, outcome, begun);
            record.finished_at = Utc::now();
            record
        };
        let before: Vec<i32> = tree::below(tree::me(), &[]).into_iter().map(|process| process.pid).collect();
        let ran = self.runtime.block_on(Self::run(self.runner.clone(), &job, events, cancel));
        match ran {
            Err(error) => failed(format!("the process of the cell cannot be started: {error}"), Vec::new()),
            Ok(ran) if ran.overdue => {
                clear_away(ran.pid, &job, &before);
                failed(
                    "the process of the cell did not end by its deadline and was killed".to_owned(),
                    ran.tail,
                )
            }
            Ok(ran) => match serde_json::from_slice::<Record>(&ran.output) {
                Ok(record) => record,
                Err(error) => {
                    clear_away(ran.pid, &job, &before);
                    let message = format!("the process of the cell left no record ({}): {error}", ran.status);
                    failed(message, ran.tail)
                }
            },
        }
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
}
