use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::catalog::Catalog;
use crate::exit::{Exit, UserError};
use crate::record::store::write_atomically;
use crate::verdict::{Baseline, Measured};

/// Stands for a class of host where records do not say one.
const NO_CLASS: &str = "unknown-host";

/// Where the baselines of a project lie: beside its servers, else in the current folder.
pub(super) fn folder(near: &Path) -> PathBuf {
    let root = Catalog::find_root(near).or_else(|| Catalog::find_root(Path::new(".")));
    match root {
        // As one would type it, where that is possible.
        Some(root) if fs::canonicalize(".").is_ok_and(|here| here == root) => PathBuf::from("baselines"),
        Some(root) => root.join("baselines"),
        None => PathBuf::from("baselines"),
    }
}

/// The file of a manifest on a class of host.
pub(super) fn file(near: &Path, manifest: &str, class: &str) -> PathBuf {
    folder(near).join(format!("{manifest}.{class}.toml"))
}

/// The class of the hosts that a run was measured on.
///
/// # Errors
/// When there are several.
pub(super) fn class_of(measured: &Measured) -> Result<String, UserError> {
    let mut classes = measured.host_classes.iter();
    let first = classes.next().map_or(NO_CLASS, String::as_str);
    match classes.next() {
        None => Ok(first.to_owned()),
        Some(other) => Err(UserError::new(
            Exit::Undecided,
            format!("run {} was measured on hosts of several classes: `{first}`, `{other}`", measured.run_id),
        )
        .hint("a baseline is of one class; measure again on one host")),
    }
}

/// Reads a baseline; none where there is no such file.
///
/// # Errors
/// When it is there and cannot be used.
pub(super) fn read(path: &Path) -> Result<Option<Baseline>, UserError> {
    let wrong = |why: String| {
        UserError::new(Exit::Usage, format!("`{}` {why}", path.display()))
            .hint("restore it from version control, or remove it and accept runs anew")
    };
    match fs::read_to_string(path) {
        Ok(text) => Baseline::parse(&text).map(Some).map_err(|error| wrong(error.to_string())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(wrong(format!("cannot be read: {error}"))),
    }
}

/// Writes a baseline: whole or not at all.
///
/// # Errors
/// When the file system refuses.
pub(super) fn write(path: &Path, baseline: &Baseline) -> Result<(), UserError> {
    write_atomically(path, baseline.render().as_bytes()).map_err(|error| {
        UserError::new(Exit::Unwritable, format!("`{}` could not be written: {error}", path.display()))
            .hint("what was there before is untouched")
    })
}
