use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Counts;
use crate::plan::CellId;

/// The schema of `run.json`.
pub const RUN_SCHEMA: &str = "runner.run/1";

/// What is known of a run besides its records: `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunMeta {
    /// Always [`RUN_SCHEMA`].
    pub schema: String,
    /// Id of the run, which is also its folder's name.
    pub run_id: String,
    /// Name of the manifest.
    pub manifest: String,
    /// Heading of reports.
    pub title: String,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended; none while it runs, or when it was killed.
    pub finished_at: Option<DateTime<Utc>>,
    /// Whether the user interrupted it.
    pub interrupted: bool,
    /// The command line.
    pub argv: Vec<String>,
    /// Seed of the order.
    pub seed: u64,
    /// Passes.
    pub passes: u32,
    /// The control cell.
    pub control: Option<CellId>,
    /// Cells that were planned, in the order of the manifest.
    pub cells: Vec<PlannedCell>,
    /// Cells that the manifest excludes, with the reason.
    pub excluded: Vec<ExcludedCell>,
    /// Executions by how they ended.
    pub counts: Counts,
    /// Version of the program.
    pub runner_version: String,
    /// Each manifest file with its text.
    pub sources: Vec<SourceText>,
}

/// A cell that was planned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCell {
    /// Its id.
    pub id: CellId,
    /// Its content id; none when it was skipped before it could be resolved.
    pub content_id: Option<String>,
    /// Why it is skipped; none when it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// A cell that the manifest excludes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExcludedCell {
    /// Its id.
    pub id: CellId,
    /// Why, in the manifest's words.
    pub reason: String,
}

/// The text of a file that the run was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceText {
    /// The file's path as it was given.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// Where a record lies inside its run's folder.
pub fn record_path(run_dir: &Path, cell: &CellId, pass: u32) -> PathBuf {
    run_dir
        .join("cells")
        .join(&cell.workload)
        .join(&cell.server)
        .join(&cell.client)
        .join(format!("pass-{pass}.json"))
}

/// Writes a file so that a reader, or a machine that dies half-way, sees either the old content or the new one:
/// written under a temporary name in the same folder, synced, renamed.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".writing-").tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}
