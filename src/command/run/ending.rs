use std::path::Path;

use crate::exit::{Ending, Exit};
use crate::schedule::Ran;

/// What could not be written.
pub(super) struct Trouble {
    /// A record or `run.json`, which ended the run.
    pub(super) unkept: Option<String>,
    /// Events or the table, which the records make up for.
    pub(super) unprinted: Option<String>,
}

/// What makes the exit code, the first that applies. In a run that is `compared` with a baseline, a void pass counts for as
/// much as its cell has other passes, and that is for the comparison to say.
pub(super) fn ending(
    ran: &Ran,
    trouble: Trouble,
    allow_skips: bool,
    compared: bool,
    folder: &Path,
    manifest: &Path,
) -> Ending {
    let counts = &ran.counts;
    let go_on = format!("`runner run {} --resume {}` goes on", manifest.display(), folder.display());
    if ran.interrupted {
        let why = format!(
            "interrupted; {} of {} executions are kept; {go_on}",
            counts.planned - counts.missing(),
            counts.planned
        );
        return Ending::new(Exit::Interrupted, why);
    }
    if let Some(trouble) = trouble.unkept {
        return Ending::new(
            Exit::Unwritable,
            format!("{trouble}; stopped after the cell that met it; {go_on}"),
        );
    }
    if let Some(why) = trouble.unprinted {
        return Ending::new(Exit::Unwritable, format!("{why}; what was measured is in {}", folder.display()));
    }
    let void = if compared { 0 } else { counts.void };
    let mut missing = Vec::new();
    for (count, what) in [
        (counts.failed, "failed"),
        (void, "void"),
        (counts.skipped, "skipped"),
        (counts.missing(), "missing"),
    ] {
        if count > 0 {
            missing.push(format!("{count} {what}"));
        }
    }
    let only_skips = counts.failed + void + counts.missing() == 0;
    match missing.is_empty() {
        true => Ending::done(),
        false if only_skips && allow_skips => Ending::new(
            Exit::Done,
            format!(
                "done, but for {} of {} executions, which may be left out",
                missing.join(", "),
                counts.planned
            ),
        ),
        false => Ending::new(
            Exit::Incomplete,
            format!("incomplete: {} of {} executions", missing.join(", "), counts.planned),
        ),
    }
}
