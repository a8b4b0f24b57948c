//! Processes below this one, as the kernel lists them.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A process that is not a zombie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Living {
    pub(super) pid: Pid,
    /// Name of its executable, cut by the kernel to 15 bytes.
    pub(super) name: String,
}

/// Children of this process, those that it adopted among them, without zombies.
pub(super) fn children() -> Vec<Living> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            // The name is in parentheses and may hold anything.
            let (head, tail) = stat.rsplit_once(") ")?;
            let mut fields = tail.split(' ');
            let state = fields.next()?;
            let parent: i32 = fields.next()?.parse().ok()?;
            let name = head.split_once('(')?.1.to_owned();
            (parent == me && state != "Z").then(|| Some(Living { pid: Pid::from_raw(pid)?, name }))?
        })
        .collect()
}

/// Their ids.
pub(super) fn child_ids() -> BTreeSet<i32> {
    children().iter().map(|child| child.pid.as_raw_nonzero().get()).collect()
}

/// Ends a child for good.
pub(super) fn end(pid: Pid) {
    // It may be gone already, which is what we want.
    let _ = kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}
