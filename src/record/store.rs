use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counts, Record};
use crate::manifest::Rules;
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
    /// What the run is judged by when it is compared with a baseline; the defaults where an older version wrote it.
    #[serde(default)]
    pub rules: Rules,
    /// Whether only some of the manifest's cells were selected.
    #[serde(default)]
    pub narrowed: bool,
    /// Passes of a cell at most, where the run went on until its cells were decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_decided: Option<u32>,
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

/// Why a run's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes there.
    #[error("another run writes to `{}` (process {pid})", .folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// Its process, as far as it said.
        pid: String,
    },
    /// The file system refused.
    #[error("`{}` cannot be written: {error}", .path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the kernel said.
        error: io::Error,
    },
}

/// The folder of a run that is being measured: `out/<manifest>/<run-id>/`. Only one process writes to the runs of a
/// manifest at a time.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    /// Held as long as the value lives; the kernel lets go of it when the process dies.
    _lock: fs::File,
    /// Records that could not be written yet.
    unwritten: Vec<Record>,
}

impl Store {
    /// Makes the folder of a new run, writes its `run.json` and points both `latest` links at it.
    pub fn create(out: &Path, meta: &RunMeta) -> Result<Self, StoreError> {
        let folder = out.join(&meta.manifest).join(&meta.run_id);
        let store = Self::lock(folder)?;
        store.write_meta(meta)?;
        let link =
            |at: PathBuf, to: PathBuf| point(&at, &to).map_err(|error| StoreError::Io { path: at, error });
        link(out.join(&meta.manifest).join("latest"), PathBuf::from(&meta.run_id))?;
        link(out.join("latest"), Path::new(&meta.manifest).join(&meta.run_id))?;
        Ok(store)
    }

    /// Opens the folder of a run that goes on.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::lock(folder.to_owned())
    }

    fn lock(folder: PathBuf) -> Result<Self, StoreError> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error: io::Error| StoreError::Io { path, error }
        };
        let runs = folder.parent().unwrap_or(&folder).to_owned();
        fs::create_dir_all(&runs).map_err(io(&runs))?;
        let path = runs.join(".lock");
        let mut lock = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(io(&path))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            let pid = fs::read_to_string(&path).unwrap_or_default().trim().to_owned();
            return Err(StoreError::InUse { folder: runs, pid });
        }
        lock.set_len(0).and_then(|()| write!(lock, "{}", std::process::id())).map_err(io(&path))?;
        // Only now: whoever is turned away leaves no folder.
        fs::create_dir_all(&folder).map_err(io(&folder))?;
        Ok(Store { folder, _lock: lock, unwritten: Vec::new() })
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes `run.json`.
    pub fn write_meta(&self, meta: &RunMeta) -> Result<(), StoreError> {
        let path = self.folder.join("run.json");
        write_atomically(&path, &pretty(meta)).map_err(|error| StoreError::Io { path, error })
    }

    /// Keeps a record. One that is replaced stays beside it, as `pass-1.attempt-1.json`. A record that cannot be
    /// written is kept in memory for [`Store::finish`].
    pub fn keep(&mut self, record: Record) -> Result<(), StoreError> {
        match write_record(&self.folder, &record) {
            Ok(()) => Ok(()),
            Err((path, error)) => {
                self.unwritten.push(record);
                Err(StoreError::Io { path, error })
            }
        }
    }

    /// Tries once more to write what could not be written, here or else below `refuge`. Says where what is left went,
    /// or what is lost.
    pub fn finish(&mut self, refuge: &Path) -> Vec<String> {
        let refuge = refuge.join(format!("runner-{}", std::process::id()));
        std::mem::take(&mut self.unwritten)
            .into_iter()
            .filter_map(|record| {
                write_record(&self.folder, &record).err()?;
                Some(match write_record(&refuge, &record) {
                    Ok(()) => format!(
                        "the record of pass {} of {} is in {}",
                        record.pass,
                        record.cell.id,
                        record_path(&refuge, &record.cell.id, record.pass).display()
                    ),
                    Err((path, error)) => format!(
                        "the record of pass {} of {} is lost: `{}` cannot be written either: {error}",
                        record.pass,
                        record.cell.id,
                        path.display()
                    ),
                })
            })
            .collect()
    }
}

fn write_record(folder: &Path, record: &Record) -> Result<(), (PathBuf, io::Error)> {
    let path = record_path(folder, &record.cell.id, record.pass);
    let write = || {
        if path.exists() {
            let free = (1..10_000)
                .map(|attempt| path.with_extension(format!("attempt-{attempt}.json")))
                .find(|path| !path.exists())
                .ok_or_else(|| io::Error::other("ten thousand attempts are kept already"))?;
            fs::rename(&path, free)?;
        }
        write_atomically(&path, &pretty(record))
    };
    write().map_err(|error| (path.clone(), error))
}

fn pretty(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(value).expect("plain data always serialises");
    text.push(b'\n');
    text
}

/// Points a symbolic link at something, in one step.
fn point(link: &Path, to: &Path) -> io::Result<()> {
    let temporary = link.with_extension(format!("writing-{}", std::process::id()));
    let _ = fs::remove_file(&temporary);
    std::os::unix::fs::symlink(to, &temporary)?;
    fs::rename(&temporary, link).inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// The id of a run that begins at a time: sortable, and different for two that begin in one second.
pub fn new_run_id(at: DateTime<Utc>, salt: u64) -> String {
    format!("{}-{:04x}", at.format("%Y%m%dT%H%M%S"), salt & 0xffff)
}
