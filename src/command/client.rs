use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::exit::{Ending, Exit, UserError};
use crate::workload::protocol::{ClientEvent, ClientJob};
use crate::workload::{Stage, run_session};

/// Arguments of `runner client`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Speaks [`crate::workload::protocol`] on the standard streams. The end of stdin stops it quietly.
pub fn run(_args: Args) -> Result<Ending, UserError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(|error| bad_job(format!("stdin: {error}")))?;
    if line.trim().is_empty() {
        return Err(bad_job("stdin ended before the job".to_owned()));
    }
    let job: ClientJob =
        serde_json::from_str(&line).map_err(|error| bad_job(format!("the first line of stdin: {error}")))?;
    let halt = Arc::new(AtomicBool::new(false));
    let words = listen(halt.clone());
    let mut emit = |event: ClientEvent| {
        let mut line = serde_json::to_string(&event).expect("plain data always serialises");
        line.push('\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_ok()
    };
    let mut proceed = || words.recv().is_ok();
    run_session(&job, Stage { emit: &mut emit, proceed: &mut proceed, halt });
    Ok(Ending::done())
}

/// Passes on each further line of stdin; at its end, asks the session to stop. The thread sleeps in the kernel while
/// messages are exchanged.
fn listen(halt: Arc<AtomicBool>) -> mpsc::Receiver<()> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            if line.is_err() || sender.send(()).is_err() {
                break;
            }
        }
        halt.store(true, Ordering::Relaxed);
    });
    receiver
}

fn bad_job(what: String) -> UserError {
    UserError::new(Exit::Usage, format!("no job for the client: {what}"))
        .hint("this verb is for `runner cell`; it reads one job as a line of JSON")
}
