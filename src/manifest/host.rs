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

/// Cores of both sides after `--cores SIDE=LIST` flags, e.g. `server=0` and `client=1,3-5`; a side that no flag names
/// keeps what it has. The error says what is wrong with which flag.
pub fn cores_from_flags(
    flags: &[String],
    (server, client): (&CoreChoice, &CoreChoice),
) -> Result<(CoreChoice, CoreChoice), String> {
    let (mut server, mut client) = (server.clone(), client.clone());
    for flag in flags {
        let wrong = |why: &str| format!("`--cores {flag}` {why}");
        let (side, list) = flag.split_once('=').ok_or_else(|| wrong("is not of the form SIDE=CORES"))?;
        let choice = if list == "auto" {
            CoreChoice::Auto
        } else {
            let mut cores = Vec::new();
            for part in list.split(',') {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let number =
                    |text: &str| text.parse::<u32>().map_err(|_| wrong("holds what is no core number"));
                let (first, last) = (number(first)?, number(last)?);
                if last < first || last - first > 4096 {
                    return Err(wrong("holds a range that ends before it begins, or a very long one"));
                }
                for core in first..=last {
                    if cores.contains(&core) {
                        return Err(wrong("names a core twice"));
                    }
                    cores.push(core);
                }
            }
            CoreChoice::These(cores)
        };
        match side {
            "server" => server = choice,
            "client" => client = choice,
            _ => return Err(wrong("names a side other than `server` and `client`")),
        }
    }
    if let (CoreChoice::These(ours), CoreChoice::These(theirs)) = (&server, &client)
        && let Some(core) = ours.iter().find(|core| theirs.contains(core))
    {
        return Err(format!("core {core} is given to server and client; each needs cores of its own"));
    }
    Ok((server, client))
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

    #[test]
    fn flags_replace_the_cores_of_the_side_that_they_name() {
        let flags = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            cores_from_flags(&flags, (&CoreChoice::These(vec![7]), &CoreChoice::Auto))
        };
        let (server, client) = flags(&["client=1,3-4"]).unwrap();
        assert_eq!((server, client), (CoreChoice::These(vec![7]), CoreChoice::These(vec![1, 3, 4])));
        assert_eq!(flags(&["server=auto"]).unwrap().0, CoreChoice::Auto);
        for wrong in [
            "client",
            "client=",
            "client=x",
            "client=3-1",
            "client=1,1",
            "other=1",
            "client=6-8",
            "client=0-99999999",
        ] {
            assert!(flags(&[wrong]).is_err(), "{wrong}");
        }
    }
}
