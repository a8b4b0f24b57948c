use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, UserError, say};
use crate::manifest::Manifest;
use crate::record::Outcome;
use crate::record::store::RunMeta;
use crate::report;
use crate::schedule::Planned;

/// A run that did not finish.
pub(super) struct Earlier {
    pub(super) folder: PathBuf,
    pub(super) meta: RunMeta,
    /// Outcomes that are kept, by content id and pass.
    kept: BTreeMap<(String, u32), Outcome>,
}

impl Earlier {
    pub(super) fn find(named: &Path, manifest: &Manifest, out: &Path) -> Result<Self, UserError> {
        let folder = if named == Path::new("latest") {
            report::find_run(named, &out.join(&manifest.name))
                .or_else(|_| report::find_run(&Path::new(&manifest.name).join("latest"), out))?
        } else {
            report::find_run(named, out)?
        };
        let folder = folder.canonicalize().unwrap_or(folder);
        let meta = report::read_meta(&folder)?;
        if meta.manifest != manifest.name {
            return Err(UserError::new(
                Exit::Usage,
                format!("`{}` is a run of `{}`, not of `{}`", folder.display(), meta.manifest, manifest.name),
            )
            .hint("name the manifest that it was made from"));
        }
        let files = report::record_files(&folder).map_err(|error| {
            UserError::new(Exit::Usage, format!("`{}` cannot be read: {error}", folder.display()))
        })?;
        let mut kept = BTreeMap::new();
        for path in files {
            match report::read_record(&path) {
                Ok(record) => {
                    if matches!(record.outcome, Outcome::Ok | Outcome::Void { .. }) {
                        kept.insert((record.content_id, record.pass), record.outcome);
                    }
                }
                // It is measured again; the broken file stays beside the new one.
                Err(why) => say(format_args!("warning: `{}` {why}; its cell is run again", path.display())),
            }
        }
        Ok(Earlier { folder, meta, kept })
    }

    pub(super) fn finished(&self, planned: &Planned, pass: u32) -> Option<Outcome> {
        self.kept.get(&(planned.job.cell.content_id(), pass)).cloned()
    }

    /// What differs between the plan of the earlier part and this one, in sentences.
    pub(super) fn changed(&self, cells: &[Planned]) -> Vec<String> {
        cells
            .iter()
            .filter_map(|planned| {
                let id = &planned.job.cell.id;
                match self.meta.cells.iter().find(|cell| cell.id == *id) {
                    None => Some(format!("{id} is new in this run")),
                    Some(cell) => {
                        let before = cell.content_id.as_ref()?;
                        (*before != planned.job.cell.content_id())
                            .then(|| format!("{id} has changed since; it is measured anew"))
                    }
                }
            })
            .collect()
    }
}
