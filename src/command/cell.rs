use std::io::{self, Read, Write};

use tokio::signal::unix::{SignalKind, signal};

use crate::cell::{self, Progress};
use crate::exit::{Ending, Exit, UserError};
use crate::plan::Job;

/// Arguments of `runner cell`: none, all is in the job.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Reads a job on stdin, runs its cell in this process and writes its record on stdout.
pub fn run(_args: Args) -> Result<Ending, UserError> {
    let mut text = String::new();
    io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| UserError::new(Exit::Usage, format!("stdin cannot be read: {error}")))?;
    let job: Job = serde_json::from_str(&text).map_err(|error| {
        UserError::new(Exit::Usage, format!("stdin holds no job: {error}")).hint(
            "`runner rerun RECORD.json` runs the cell of a record; `runner schema cell` describes a job",
        )
    })?;
    let fault = |error: io::Error| UserError::new(Exit::Internal, format!("the cell cannot be run: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(fault)?;
    let record = tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let cancelled = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        Ok(cell::live(job, cancelled, &mut tell).await)
    });
    let record = record.map_err(fault)?;
    let mut text = serde_json::to_string(&record).map_err(|error| fault(error.into()))?;
    text.push('\n');
    // An attempt at a handshake that hangs in a thread must not hold us up.
    runtime.shutdown_background();
    io::stdout().lock().write_all(text.as_bytes()).map_err(|error| {
        UserError::new(Exit::Unwritable, format!("the record could not be written: {error}"))
    })?;
    Ok(Ending::done())
}

fn tell(progress: Progress) {
    let Ok(mut line) = serde_json::to_string(&progress) else { return };
    line.push('\n');
    // Whoever no longer listens misses nothing that the record does not hold.
    let _ = io::stderr().write_all(line.as_bytes());
}
