use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use serde::Deserialize;

use super::Summary;
use super::digest::Digest;
use crate::exit::{Exit, UserError};
use crate::record::store::{RUN_SCHEMA, RunMeta};
use crate::record::{RECORD_SCHEMA, Record};
use crate::stats::Latency;

/// The name that stands for the newest run.
const LATEST: &str = "latest";

/// Finds the folder of a run: a path (from here, or from the folder of runs), or `latest`.
///
/// # Errors
/// When there is no such run, with what was looked for and what to do.
pub fn find_run(run: &Path, out: &Path) -> Result<PathBuf, UserError> {
    let beside = out.join(run);
    let named = match run.file_name() {
        // The file instead of its folder.
        Some(name) if name == "run.json" => run.parent().map(Path::to_path_buf).unwrap_or_default(),
        _ => run.to_path_buf(),
    };
    for folder in [&named, &beside] {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        if folder.join("run.json").is_file() {
            return Ok(folder.to_path_buf());
        }
    }
    if run == Path::new(LATEST) {
        return newest(out).ok_or_else(|| {
            UserError::new(Exit::Usage, format!("there is no run in `{}`", out.display()))
                .hint("`runner run MANIFEST` makes one; `--out DIR` says where to look")
        });
    }
    let wrong = if named.is_dir() || beside.is_dir() {
        format!("`{}` is not the folder of a run: it holds no run.json", run.display())
    } else if named.exists() {
        format!("`{}` is not the folder of a run", run.display())
    } else {
        format!("`{}` does not exist, neither here nor in `{}`", run.display(), out.display())
    };
    Err(UserError::new(Exit::Usage, wrong).hint("give the folder that a run printed at its end, or `latest`"))
}

/// The newest run in a folder of runs, by the time at which it began.
fn newest(out: &Path) -> Option<PathBuf> {
    let folders = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    folders(out)
        .iter()
        .flat_map(|manifest| folders(manifest))
        .filter(|run| run.file_name().is_some_and(|name| name != LATEST))
        .filter_map(|run| Some((read_meta(&run).ok()?.started_at, run)))
        .max()
        .map(|(_, run)| run)
}

/// Reads `run.json` of a run's folder.
///
/// # Errors
/// When it cannot be read, is empty or half-written, or is something else.
pub fn read_meta(run: &Path) -> Result<RunMeta, UserError> {
    let path = run.join("run.json");
    let shown = path.display();
    let bytes = fs::read(&path)
        .map_err(|error| UserError::new(Exit::Usage, format!("`{shown}` could not be read: {error}")))?;
    parse(&bytes, RUN_SCHEMA).map_err(|wrong| {
        UserError::new(Exit::Usage, format!("`{shown}` {wrong}"))
            .hint("the records under `cells/` may still be whole; `runner run --resume` writes it anew")
    })
}

/// Reads one record.
///
/// # Errors
/// What is wrong with the file, as the end of a sentence that begins with its path.
pub fn read_record(path: &Path) -> Result<Record, String> {
    let bytes = fs::read(path).map_err(|error| format!("could not be read: {error}"))?;
    parse(&bytes, RECORD_SCHEMA)
}

fn parse<T: for<'de> Deserialize<'de>>(bytes: &[u8], schema: &str) -> Result<T, String> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err("is empty".to_owned());
    }
    // Only a file that does not fit is read a second time, to say why.
    serde_json::from_slice(bytes).map_err(|error| match serde_json::from_slice::<Head>(bytes) {
        Ok(Head { schema: Some(other) }) if other != schema => {
            format!("is of schema `{other}`; this version reads `{schema}`")
        }
        Ok(Head { schema: None }) => {
            format!("is JSON of something else: it has no `schema`, expected `{schema}`")
        }
        _ if error.is_eof() => format!("ends half-way: {error}"),
        _ => format!("does not fit the schema `{schema}`: {error}"),
    })
}

/// The files of a run's records, sorted, so that every reader meets them in the same order.
///
/// # Errors
/// When a folder cannot be listed.
pub fn record_files(run: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let cells = run.join("cells");
    // cells/<workload>/<server>/<client>/pass-<n>.json
    let mut folders = vec![(cells, 0)];
    while let Some((folder, depth)) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // A run that was killed before its first cell.
            Err(error) if depth == 0 && error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if depth < 3 && entry.file_type()?.is_dir() {
                folders.push((entry.path(), depth + 1));
            } else if depth == 3 && is_record_name(&name) {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// `pass-<n>.json`; an attempt that was replaced, `pass-<n>.attempt-<m>.json`, stays beside it and counts no more.
fn is_record_name(name: &str) -> bool {
    name.strip_prefix("pass-")
        .and_then(|rest| rest.strip_suffix(".json"))
        .is_some_and(|pass| !pass.is_empty() && pass.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The summary of a run's folder. A record that cannot be read is a note in it, not an error.
///
/// # Errors
/// When the folder is not one of a run.
pub fn summarize(run: &Path) -> Result<Summary, UserError> {
    let meta = read_meta(run)?;
    let files = record_files(run).map_err(|error| {
        UserError::new(
            Exit::Usage,
            format!("the records of `{}` could not be listed: {error}", run.display()),
        )
    })?;
    let mut unreadable = Vec::new();
    let mut digests = Vec::with_capacity(files.len());
    for read in read_digests(run, &files) {
        match read {
            Ok(digest) => digests.push(digest),
            Err(wrong) => unreadable.push(wrong),
        }
    }
    let mut summary = Summary::of_digests(&meta, digests);
    summary.note_all(unreadable);
    Ok(summary)
}

/// Reads records on all cores, each dropped for its digest before the next; in the order of the files.
fn read_digests(run: &Path, files: &[PathBuf]) -> Vec<Result<Digest, String>> {
    let read = |files: &[PathBuf]| {
        let mut latency = Latency::new();
        let digest = |path: &PathBuf| match read_record(path) {
            Ok(record) => Ok(Digest::of(record, &mut latency)),
            Err(wrong) => Err(format!("`{}` {wrong}", path.strip_prefix(run).unwrap_or(path).display())),
        };
        files.iter().map(digest).collect::<Vec<_>>()
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(16);
    let share = files.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let readers: Vec<_> = files.chunks(share).map(|files| scope.spawn(|| read(files))).collect();
        let done = readers.into_iter().flat_map(|reader| reader.join().expect("a reader does not panic"));
        done.collect()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::record::store::record_path;
    use crate::report::test_support::{Made, meta};

    fn run_in(out: &Path, id: &str) -> PathBuf {
        let made = Made::pingpong("relay");
        let run = out.join("quick").join(id);
        for record in made.passes(&[30e3, 31e3, 32e3]) {
            let path = record_path(&run, &record.cell.id, record.pass);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
        }
        fs::write(run.join("run.json"), serde_json::to_vec(&meta(3, &[made.id()])).unwrap()).unwrap();
        run
    }

    fn wrong(run: &str, out: &Path) -> String {
        let error = find_run(Path::new(run), out).and_then(|run| summarize(&run)).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.hint.is_some());
        error.message.replace(&out.display().to_string(), "OUT")
    }

    #[test]
    fn a_run_is_found_by_path_by_name_and_as_the_latest() {
        let out = tempfile::tempdir().unwrap();
        let run = run_in(out.path(), "20261010-1");
        let found = |name: &str| find_run(Path::new(name), out.path()).unwrap();
        assert_eq!(found("quick/20261010-1"), run);
        assert_eq!(found("latest"), run);
        assert_eq!(find_run(&run, out.path()).unwrap(), run);
        assert_eq!(find_run(&run.join("run.json"), out.path()).unwrap(), run);
        let summary = summarize(&run).unwrap();
        assert_eq!(summary.coverage.counts.ok, 3);
        assert!(summary.notes.is_empty());
    }

    #[test]
    fn what_is_not_a_run_says_so() {
        let out = tempfile::tempdir().unwrap();
        assert_eq!(wrong("latest", out.path()), "there is no run in `OUT`");
        assert_eq!(wrong("nowhere", out.path()), "`nowhere` does not exist, neither here nor in `OUT`");
        fs::create_dir(out.path().join("photos")).unwrap();
        assert_eq!(wrong("photos", out.path()), "`photos` is not the folder of a run: it holds no run.json");
    }

    #[test]
    fn a_half_written_or_foreign_run_file_says_what_it_is() {
        let out = tempfile::tempdir().unwrap();
        let run = run_in(out.path(), "1");
        let whole = fs::read_to_string(run.join("run.json")).unwrap();
        let with = |text: &str| {
            fs::write(run.join("run.json"), text).unwrap();
            wrong("quick/1", out.path())
        };
        assert!(with("").ends_with("run.json` is empty"));
        assert!(with(&whole[..whole.len() / 2]).contains("ends half-way"));
        assert!(with("{\"a\": 1}").contains("it has no `schema`, expected `runner.run/1`"));
        assert!(
            with("{\"schema\": \"runner.run/9\"}")
                .contains("is of schema `runner.run/9`; this version reads")
        );
        assert!(with("[1]").contains("does not fit the schema"));
    }

    #[test]
    fn a_bad_record_is_a_note_and_the_rest_is_reported() {
        let out = tempfile::tempdir().unwrap();
        let run = run_in(out.path(), "1");
        let second = record_path(&run, &Made::pingpong("relay").id(), 2);
        fs::write(second, "{\"schema\": \"runner.record/1\", \"outcome\"").unwrap();
        let summary = summarize(&run).unwrap();
        assert_eq!((summary.coverage.counts.ok, summary.coverage.missing), (2, 1));
        assert_eq!(summary.notes.len(), 1);
        assert!(summary.notes[0].starts_with("`cells/pingpong-16/relay/native/pass-2.json` ends half-way"));
    }

    #[test]
    fn a_run_without_records_is_reported_as_missing() {
        let out = tempfile::tempdir().unwrap();
        let run = run_in(out.path(), "1");
        fs::remove_dir_all(run.join("cells")).unwrap();
        assert_eq!(summarize(&run).unwrap().coverage.missing, 3);
    }
}
