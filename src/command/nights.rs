use std::path::{Path, PathBuf};

use super::baselines;
use crate::exit::{Ending, Exit, UserError};
use crate::record::store::RunMeta;
use crate::report::{self, Summary};
use crate::verdict::{Baseline, Looks, Measured, Night, judge_night};

/// A run that is compared with its baseline.
pub(super) struct Compared {
    /// The run's folder.
    pub(super) folder: PathBuf,
    pub(super) meta: RunMeta,
    pub(super) summary: Summary,
    pub(super) measured: Measured,
    /// The baseline's file, whether it is there or not.
    pub(super) path: PathBuf,
    pub(super) baseline: Option<Baseline>,
}

impl Compared {
    /// Reads a run, and the baseline that was named, or that of its manifest and class of host.
    pub(super) fn read(run: &Path, out: &Path, named: Option<&Path>) -> Result<Self, UserError> {
        let folder = report::find_run(run, out)?;
        Self::of_folder(folder, named)
    }

    pub(super) fn of_folder(folder: PathBuf, named: Option<&Path>) -> Result<Self, UserError> {
        let meta = report::read_meta(&folder)?;
        let summary = report::summarize(&folder)?;
        let measured = summary.measured(meta.narrowed);
        let path = match named.filter(|named| *named != Path::new("auto")) {
            Some(named) => named.to_owned(),
            None => {
                let near =
                    meta.sources.first().map_or(PathBuf::from("."), |source| PathBuf::from(&source.path));
                baselines::file(&near, &meta.manifest, &baselines::class_of(&measured)?)
            }
        };
        let baseline = baselines::read(&path)?;
        if baseline.is_none() && named.is_some_and(|named| named != Path::new("auto")) {
            return Err(UserError::new(Exit::Usage, format!("`{}` does not exist", path.display()))
                .hint("`runner accept RUN --reason TEXT` writes a baseline"));
        }
        Ok(Compared { folder, meta, summary, measured, path, baseline })
    }

    /// What the run says beside its baseline.
    pub(super) fn night(&self) -> Result<Night, Ending> {
        let Some(baseline) = &self.baseline else { return Err(self.nothing_to_compare_with()) };
        let looks = self.meta.until_decided.map(|most| Looks::new(self.meta.passes, most));
        let day = self.meta.started_at.date_naive();
        Ok(judge_night(baseline, &self.measured, &self.meta.rules, looks.as_ref(), day))
    }

    /// How to end where there is no baseline.
    pub(super) fn nothing_to_compare_with(&self) -> Ending {
        Ending::new(
            Exit::Undecided,
            format!(
                "nothing to compare with: there is no `{}`; `runner accept {} --reason TEXT` begins it",
                self.path.display(),
                self.folder.display()
            ),
        )
    }
}

/// How a comparison ends.
pub(super) fn ending(night: &Night) -> Ending {
    Ending::new(night.verdict.exit(), format!("{}: {}", night.verdict, night.why))
}
