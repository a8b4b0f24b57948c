use std::os::unix::fs::PermissionsExt;

use toml::de::{DeTable, DeValue};

use super::problem::{Look, Place, Problem, Problems};
use super::{CoreChoice, Manifest};

/// Checks the cores that a manifest names against those that this machine has online.
pub fn check_cores(manifest: &Manifest, online: &[u32]) -> Result<(), Problems> {
    let mut list = Vec::new();
    for (side, choice) in [("server", &manifest.server_cores), ("client", &manifest.client_cores)] {
        let CoreChoice::These(cores) = choice else { continue };
        for (index, core) in cores.iter().enumerate() {
            if online.contains(core) {
                continue;
            }
            let message = format!("core {core} does not exist on this machine, or is offline");
            let problem = match locate(manifest, &["cores", side], Some(index)) {
                Some(place) => Problem::at(place, message, "not online"),
                None => Problem::new(message),
            };
            list.push(
                problem.hint(format!("online: {}; `{side} = \"auto\"` chooses at run time", ranges(online))),
            );
        }
    }
    into_result(manifest, list)
}

/// Descriptors that each side needs beside its connections: standard streams, event queue, library files.
const OTHER_DESCRIPTORS: u64 = 64;

/// Checks that both ends of every pair fit into the number of descriptors that a process may have open.
pub fn check_descriptors(manifest: &Manifest, limit: u64) -> Result<(), Problems> {
    let mut list = Vec::new();
    let mut seen = Vec::new();
    for workload in &manifest.workloads {
        let pairs = u64::from(workload.params.pairs);
        let needed = pairs * 2 + OTHER_DESCRIPTORS;
        if needed <= limit || seen.contains(&&workload.family) {
            continue;
        }
        seen.push(&workload.family);
        let message = format!(
            "{pairs} pairs of `{}` need {needed} open files in a process; {limit} are allowed",
            workload.name
        );
        let place = locate(manifest, &["workloads", &workload.family, "pairs"], None)
            .or_else(|| locate(manifest, &["defaults", "pairs"], None));
        let problem = match place {
            Some(place) => Problem::at(place, message, "too many for this limit"),
            None => Problem::new(message),
        };
        list.push(problem.hint(format!(
            "use at most `pairs = {}`, or raise the limit of open files (`ulimit -n`)",
            limit.saturating_sub(OTHER_DESCRIPTORS) / 2
        )));
    }
    into_result(manifest, list)
}

/// Checks that the executables that a manifest names for its runtimes are there.
pub fn check_runtimes(manifest: &Manifest) -> Result<(), Problems> {
    let mut list = Vec::new();
    for (runtime, path) in &manifest.runtimes {
        if path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0) {
            continue;
        }
        let message = format!("`{}` is not an executable file", path.display());
        let problem = match locate(manifest, &["runtimes", runtime, "path"], None) {
            Some(place) => Problem::at(place, message, "not there"),
            None => Problem::new(message),
        };
        list.push(problem.hint(format!("correct the path, or remove it to use the installed `{runtime}`")));
    }
    into_result(manifest, list)
}

fn into_result(manifest: &Manifest, list: Vec<Problem>) -> Result<(), Problems> {
    if list.is_empty() { Ok(()) } else { Err(Problems { files: manifest.sources.clone(), list }) }
}

/// Where a key stands, in the first file that has it; `element` picks one of its list.
fn locate(manifest: &Manifest, keys: &[&str], element: Option<usize>) -> Option<Place> {
    manifest.sources.iter().enumerate().find_map(|(file, (_, text))| {
        let root = DeTable::parse(text).ok()?;
        let (last, tables) = keys.split_last()?;
        let mut table = root.get_ref();
        for key in tables {
            table = table.get(*key)?.get_ref().as_table()?;
        }
        let value = table.get(*last)?;
        let span = match (value.get_ref(), element) {
            (DeValue::Array(list), Some(index)) => list.get(index)?.span(),
            _ => value.span(),
        };
        Some(Place::new(file, &span))
    })
}

/// Numbers as ranges: `0-3, 8`.
fn ranges(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut texts: Vec<String> = Vec::new();
    let mut rest = sorted.as_slice();
    while let Some(first) = rest.first() {
        let length = 1 + rest.windows(2).take_while(|pair| pair[1] - pair[0] == 1).count();
        let last = rest[length - 1];
        texts.push(if last == *first { first.to_string() } else { format!("{first}-{last}") });
        rest = &rest[length..];
    }
    texts.join(", ")
}

impl Problems {
    /// [`Problems::into_error`] without colour.
    pub fn plain(self) -> crate::exit::UserError {
        self.into_error(Look::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_shown_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8]), "0-3, 8");
        assert_eq!(ranges(&[5]), "5");
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[u32::MAX, u32::MAX - 1]), "4294967294-4294967295");
    }
}
