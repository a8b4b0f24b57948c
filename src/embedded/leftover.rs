//! Processes that faulty servers leave behind.

use std::io::{self, Read};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use rustix::io::FdFlags;
use signal_hook::consts::SIGTERM;

/// Name of the built-in server that a leftover process is.
pub(super) const LEFTOVER: &str = "faulty-leftover";
/// How long a leftover stays, if nobody ends it.
const LIFE: Duration = Duration::from_secs(60);

/// Starts a process in a session of its own, which a signal to our group does not reach, and waits until it has
/// moved there.
pub(super) fn leave_behind() -> io::Result<()> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["serve", LEFTOVER])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut told = [0; 1];
    child.stdout.take().expect("it is piped").read_exact(&mut told)
}

/// Lets the leftover inherit the listening socket.
pub(super) fn let_inherit(listener: &TcpListener) -> io::Result<()> {
    rustix::io::fcntl_setfd(listener, FdFlags::empty())?;
    Ok(())
}

/// Is such a process.
pub(super) fn stay() -> io::Result<()> {
    signal_hook::flag::register(SIGTERM, Arc::new(AtomicBool::new(false)))?;
    rustix::process::setsid()?;
    {
        use io::Write;
        let mut stdout = io::stdout();
        stdout.write_all(b".")?;
        stdout.flush()?;
    }
    // A signal interrupts no sleep: the standard library goes on with what is left of it.
    thread::sleep(LIFE);
    Ok(())
}
