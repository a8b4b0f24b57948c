use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A machine, seen through its `/proc` and `/sys`. What these do not say is none, empty or `unknown`, never an error.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Host {
    /// This machine.
    pub fn here() -> Self {
        Host::at(Path::new("/"))
    }

    /// The machine whose file system is below `root`.
    pub fn at(root: &Path) -> Self {
        Host { root: root.to_owned() }
    }

    pub(super) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// A file's text without surrounding blanks; none when it is not there or empty.
    pub(super) fn text(&self, relative: &str) -> Option<String> {
        let text = fs::read_to_string(self.path(relative)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    }

    pub(super) fn number<N: FromStr>(&self, relative: &str) -> Option<N> {
        self.text(relative)?.parse().ok()
    }

    /// The value of the first `name: value` or `name value` line.
    pub(super) fn field(&self, relative: &str, name: &str) -> Option<String> {
        field(&self.text(relative)?, name)
    }
}

/// The value of the first line that begins with `name`, without the colon and blanks between.
pub(super) fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let value = rest.trim_start_matches([' ', '\t', ':']);
        (value.len() < rest.len()).then(|| value.trim().to_owned())
    })
}

/// Reads the kernel's notation of CPU numbers, e.g. `0-2,5`.
pub(super) fn cpu_list(list: &str) -> Vec<u32> {
    list.trim()
        .split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
        })
        .flatten()
        .take(65_536)
        .collect()
}

/// Writes numbers of CPUs as the kernel does, e.g. `0-2,5`.
pub(super) fn ranges(numbers: &[u32]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let runs = sorted.chunk_by(|one, next| next - one == 1);
    let texts: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first}-{last}"),
            _ => run.iter().map(u32::to_string).collect(),
        })
        .collect();
    texts.join(",")
}

#[cfg(test)]
pub(super) mod test_support {
    use super::*;

    /// A machine made of these files.
    pub(crate) fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let host = Host::at(root.path());
        (root, host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_with_and_without_a_colon() {
        assert_eq!(field("MemTotal:       12 kB\nx 1", "MemTotal").as_deref(), Some("12 kB"));
        assert_eq!(field("ctxt 77\n", "ctxt").as_deref(), Some("77"));
        assert_eq!(field("ctxtual 77\n", "ctxt"), None);
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(cpu_list("0-2,5\n"), [0, 1, 2, 5]);
        assert!(cpu_list("").is_empty());
        assert!(cpu_list("nonsense").is_empty());
        assert_eq!(ranges(&cpu_list("5,0-2")), "0-2,5");
        assert_eq!(ranges(&[]), "");
    }
}
