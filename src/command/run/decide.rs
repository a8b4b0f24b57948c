use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::command::nights::Compared;
use crate::exit::UserError;
use crate::plan::{CellId, Step, order};
use crate::schedule::Planned;
use crate::verdict::{Looks, Night};

/// What a run does beyond its passes when it is compared with a baseline: which cells are measured again, and until which pass.
pub(super) struct Decision {
    pub(super) night: Night,
    /// Steps of the next passes; none when everything is decided, or when there are passes enough.
    pub(super) steps: Vec<Step>,
    pub(super) from: u32,
    pub(super) to: u32,
}

/// Judges what a run has so far, its last pass being `passes`.
pub(super) fn decide(
    folder: &Path,
    against: &Path,
    cells: &[Planned],
    looks: &Looks,
    passes: u32,
    seed: u64,
) -> Result<Option<Decision>, UserError> {
    let compared = Compared::of_folder(folder.to_owned(), Some(against))?;
    let Ok(night) = compared.night() else { return Ok(None) };
    let mut decision = Decision { steps: Vec::new(), from: passes + 1, to: passes, night };
    let Some(to) = looks.next(passes) else { return Ok(Some(decision)) };
    let is_first = passes == looks.passes()[0];
    // The machine moved: more passes of the cells would say nothing of them.
    if decision.night.control.as_ref().is_some_and(|control| control.moved) && !is_first {
        return Ok(Some(decision));
    }
    let open = decision.night.undecided(is_first);
    if open.is_empty() {
        return Ok(Some(decision));
    }
    let control = compared.meta.control.as_ref();
    let again: BTreeSet<&CellId> = open.iter().chain(control).collect();
    decision.to = to;
    // Passes go on in the order that they would have had.
    decision.steps = order(cells.len(), to, seed)
        .into_iter()
        .filter(|step| step.pass > passes)
        .filter(|step| cells[step.cell].skipped.is_none() && again.contains(&cells[step.cell].job.cell.id))
        .collect();
    Ok(Some(decision))
}

impl Decision {
    /// The cells that are measured again.
    pub(super) fn cells(&self, cells: &[Planned]) -> Vec<CellId> {
        let ids: BTreeSet<&CellId> = self.steps.iter().map(|step| &cells[step.cell].job.cell.id).collect();
        ids.into_iter().cloned().collect()
    }

    /// How long that takes.
    pub(super) fn estimate(&self, cells: &[Planned]) -> Duration {
        self.steps.iter().map(|step| cells[step.cell].estimate).fold(Duration::ZERO, Duration::saturating_add)
    }
}
