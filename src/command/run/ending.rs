use std::path::Path;

use crate::exit::{Ending, Exit};
use crate::schedule::Ran;

/// What makes the exit code, the first that applies.
pub(super) fn ending(
    ran: &Ran,
    trouble: Option<String>,
    allow_skips: bool,
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
    if let Some(trouble) = trouble {
        return Ending::new(
            Exit::Unwritable,
            format!("{trouble}; stopped after the cell that met it; {go_on}"),
        );
    }
    let mut missing = Vec::new();
    for (count, what) in [
        (counts.failed, "failed"),
        (counts.void, "void"),
        (counts.skipped, "skipped"),
        (counts.missing(), "missing"),
    ] {
        if count > 0 {
            missing.push(format!("{count} {what}"));
        }
    }
    let only_skips = counts.failed + counts.void + counts.missing() == 0;
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
