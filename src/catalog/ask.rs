use std::path::Path;
use std::time::Duration;

use super::types::{Catalog, Runtime, Source};

/// How long a program may take to say its version.
const PATIENCE: Duration = Duration::from_secs(10);

impl Catalog {
    /// What a command prints, asked once only. The error is a clause.
    pub(super) fn ask(&self, argv: &[String], folder: Option<&Path>) -> Result<String, String> {
        let known = |asked: &std::sync::Mutex<_>| -> Option<Result<String, String>> {
            let asked: std::sync::MutexGuard<'_, std::collections::BTreeMap<Vec<String>, _>> =
                asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            asked.get(argv).cloned()
        };
        if let Some(answer) = known(&self.asked) {
            return answer;
        }
        let answer = run(argv, folder);
        let mut asked = self.asked.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        asked.insert(argv.to_vec(), answer.clone());
        answer
    }

    /// The version that a runtime says it is; none for what is compiled.
    pub(super) fn version_of(&self, runtime: &Runtime, executable: &Path) -> Result<String, String> {
        let mut argv = vec![executable.display().to_string()];
        argv.extend(runtime.version_args.iter().cloned());
        let answer = self.ask(&argv, None)?;
        let version = version_in(&answer)
            .ok_or_else(|| format!("`{}` says no version but `{}`", argv.join(" "), answer.trim()))?;
        match &runtime.source {
            Source::Npm { version: pinned, .. } if *pinned != version => Err(format!(
                "{} is pinned to {pinned}, but its executable says {version}; run `runner setup`",
                runtime.name
            )),
            _ => Ok(version),
        }
    }
}

fn run(argv: &[String], folder: Option<&Path>) -> Result<String, String> {
    let command = argv.join(" ");
    let (program, args) = argv.split_first().expect("commands are not empty");
    let mut expression = duct::cmd(program, args).stdin_null().stdout_capture().stderr_capture().unchecked();
    if let Some(folder) = folder {
        expression = expression.dir(folder);
    }
    let handle = expression.start().map_err(|error| format!("`{command}` cannot be started: {error}"))?;
    let output = match handle.wait_timeout(PATIENCE) {
        Ok(Some(output)) => output,
        Ok(None) => {
            let _ = handle.kill();
            return Err(format!("`{command}` gave no answer within {} s", PATIENCE.as_secs()));
        }
        Err(error) => return Err(format!("`{command}` failed: {error}")),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        return Err(format!("`{command}` ended with {} and said: {}", output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first word that looks like a version, without a leading `v`.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
}

/// Lines `name version` as pairs.
pub(super) fn named_versions(text: &str) -> impl Iterator<Item = (String, String)> {
    text.lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(name, version)| (name.to_owned(), version.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_runtimes_print() {
        assert_eq!(version_in("v24.21.0\n").as_deref(), Some("24.21.0"));
        assert_eq!(version_in("1.4.5\n").as_deref(), Some("1.4.5"));
        assert_eq!(
            version_in("deno 2.9.6 (stable, release, x86_64-unknown-linux-gnu)\nv8 14.9.2\n").as_deref(),
            Some("2.9.6")
        );
        assert_eq!(version_in("go version go1.26"), None);
    }

    #[test]
    fn a_command_is_asked_once_and_its_fault_is_a_clause() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::default();
        let argv = ["sh", "-c", "echo x >> count; wc -l < count"].map(str::to_owned);
        assert_eq!(catalog.ask(&argv, Some(folder.path())).unwrap().trim(), "1");
        assert_eq!(catalog.ask(&argv, Some(folder.path())).unwrap().trim(), "1");
        let fails = ["sh", "-c", "echo what is wrong >&2; exit 4"].map(str::to_owned);
        let message = catalog.ask(&fails, None).unwrap_err();
        assert!(message.ends_with("ended with exit status: 4 and said: what is wrong"), "{message}");
        let missing = ["no-such-program".to_owned()];
        assert!(catalog.ask(&missing, None).unwrap_err().contains("cannot be started"));
    }

    #[test]
    fn lines_are_names_and_versions() {
        let pairs: Vec<_> = named_versions("ws 8.23.0\nlonely\ncc gcc 12.2.0 (Debian)\n").collect();
        assert_eq!(
            pairs,
            [("ws".to_owned(), "8.23.0".to_owned()), ("cc".to_owned(), "gcc 12.2.0 (Debian)".to_owned())]
        );
    }
}
