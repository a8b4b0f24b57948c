use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// A process that is not a zombie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// Name of its executable, cut by the kernel to 15 bytes.
    pub(crate) name: String,
}

/// Every living process. Zombies have ended and only wait to be counted.
fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name is in parentheses and may hold anything.
    let (head, tail) = stat.rsplit_once(") ")?;
    let mut fields = tail.split(' ');
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    (state != "Z" && state != "X")
        .then(|| Some(Process { pid, parent, name: head.split_once('(')?.1.to_owned() }))?
}

/// The processes below `root`, without it and without the trees below those in `but`. As this process adopts
/// orphans, whatever a server left behind is found below this one.
pub(crate) fn below(root: i32, but: &[i32]) -> Vec<Process> {
    let mut children: BTreeMap<i32, Vec<Process>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([root]);
    let mut next = vec![root];
    while let Some(parent) = next.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if !but.contains(&child.pid) && seen.insert(child.pid) {
                next.push(child.pid);
                found.push(child);
            }
        }
    }
    found
}

/// This process.
pub(crate) fn me() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Ends a process below this one for good, by its id.
pub(crate) fn end(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone already, which is what we want.
        let _ = kill_process(pid, Signal::KILL);
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_and_blanks() {
        let process = parse(7, "7 (a (b) c) S 3 7 7 0 -1").unwrap();
        assert_eq!(process, Process { pid: 7, parent: 3, name: "a (b) c".to_owned() });
    }

    #[test]
    fn a_zombie_has_ended() {
        assert_eq!(parse(7, "7 (gone) Z 3 7 7 0 -1"), None);
    }

    #[test]
    fn a_child_is_found_below_us_and_can_be_left_out() {
        let mut child = std::process::Command::new("sleep").arg("30").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        assert!(below(me(), &[]).iter().any(|process| process.pid == pid));
        assert!(!below(me(), &[pid]).iter().any(|process| process.pid == pid));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
