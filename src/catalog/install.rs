use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, FdFlags};
use sha2::{Digest, Sha256};

use super::types::{BUILD_FOLDER, Build, Catalog, Fetch, Module, Runtime, Server, Source};

/// How long one step may take.
const TIME_LIMIT: Duration = Duration::from_secs(300);
/// How often a step looks whether another process has let go of the folder.
const LOCK_POLL: Duration = Duration::from_millis(100);
/// How long a failure of one of several ways is remembered.
const MEMORY: Duration = Duration::from_secs(3_600);
/// Lines of a log that a reason quotes.
const QUOTED_LINES: usize = 4;
/// Folder beside what is installed for stamps, logs and the lock.
const STATE: &str = ".runner";

/// One thing that is installed: what several servers share is one step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    title: String,
    kind: Kind,
    /// Where the command runs.
    folder: PathBuf,
    argv: Vec<String>,
    /// Files that the result depends on.
    inputs: Vec<PathBuf>,
    /// What must be there afterwards.
    outputs: Vec<PathBuf>,
    /// What to do where the command does not exist.
    hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Npm,
    Build,
    Git,
}

impl Catalog {
    /// What must be installed for a server or client on a runtime, in order.
    pub(super) fn steps(&self, server: &Server, runtime: &Runtime) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Source::Npm { folder, version, executable: Some(executable) } = &runtime.source {
            steps.push(Step::npm(format!("{} {version}", runtime.name), folder, Some(executable)));
        }
        if let Some(npm) = &server.npm
            && npm.runtimes.as_ref().is_none_or(|globs| globs.is_match(&runtime.name))
        {
            steps.push(Step::npm(packages_of(&npm.folder), &npm.folder, None));
        }
        if let Some(build) = &server.build {
            steps.push(Step::build(server.name.clone(), &server.folder, build));
        }
        steps
    }
}

/// What a folder of packages is called: after its own folder, which several programs may share.
fn packages_of(folder: &Path) -> String {
    let name = folder.components().next_back().map(|part| part.as_os_str().to_string_lossy().into_owned());
    format!("packages of {}", name.unwrap_or_default())
}

impl Step {
    fn npm(title: String, folder: &Path, executable: Option<&Path>) -> Self {
        // npm writes this file when it has finished.
        let finished = folder.join("node_modules/.package-lock.json");
        Step {
            title,
            kind: Kind::Npm,
            folder: folder.to_path_buf(),
            argv: ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-progress"]
                .map(str::to_owned)
                .to_vec(),
            inputs: vec![folder.join("package.json"), folder.join("package-lock.json")],
            outputs: [finished].into_iter().chain(executable.map(Path::to_path_buf)).collect(),
            hint: Some("install Node.js with npm".to_owned()),
        }
    }

    /// What builds a program in its folder.
    pub(super) fn build(title: String, folder: &Path, build: &Build) -> Self {
        let into = folder.join(BUILD_FOLDER);
        let argv = build.argv.iter().map(|part| part.replace("{build}", &into.display().to_string()));
        Step {
            title,
            kind: Kind::Build,
            folder: folder.to_path_buf(),
            argv: argv.collect(),
            inputs: build.inputs.clone(),
            outputs: vec![into.join(&build.output)],
            hint: build.hint.clone(),
        }
    }

    /// What fetches the package of a native module.
    pub(super) fn fetch(module: &Module) -> Self {
        match &module.fetch {
            Fetch::Npm { folder } => Step::npm(module.name.clone(), folder, None),
            Fetch::Git { url, tag, folder } => Step {
                title: format!("{} {tag}", module.name),
                kind: Kind::Git,
                folder: folder.parent().unwrap_or(folder).to_path_buf(),
                argv: ["git", "clone", "--quiet", "--depth", "1", "--branch", tag, url]
                    .map(str::to_owned)
                    .into_iter()
                    .chain([folder.display().to_string()])
                    .collect(),
                inputs: Vec::new(),
                outputs: vec![folder.clone()],
                hint: Some("install git".to_owned()),
            },
        }
    }

    /// What it installs, for people.
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Files that its result depends on, and the result where it is a program of our own.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        let built = if self.kind == Kind::Build { self.outputs.as_slice() } else { &self.outputs[1..] };
        self.inputs.iter().chain(built).cloned().collect()
    }

    /// Whether it was finished with these inputs, and its result is still there.
    pub(super) fn is_done(&self) -> bool {
        let stamp = fs::read_to_string(self.state("stamp"));
        self.outputs.iter().all(|output| output.exists())
            && stamp.is_ok_and(|stamp| self.digest().is_ok_and(|digest| digest == stamp.trim()))
    }

    /// Does it, unless it is done: in bounded time, and one process at a time. The error is a reason to skip what needs
    /// it.
    pub(super) fn run(&self) -> Result<(), String> {
        let (program, args) = self.argv.split_first().expect("commands are not empty");
        let digest = self.digest()?;
        let cannot = |what: &str, error: io::Error| format!("{}: cannot {what}: {error}", self.title);
        fs::create_dir_all(self.folder.join(STATE)).map_err(|error| cannot("make a folder", error))?;
        let _lock = self.lock()?;
        if self.is_done() {
            return Ok(());
        }
        // From here until the end there is no stamp: an interrupted step is not taken for a finished one.
        match fs::remove_file(self.state("stamp")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(cannot("remove an old stamp", error));
            }
            _ => {}
        }
        if self.kind == Kind::Build
            && let Some(parent) = self.outputs[0].parent()
        {
            fs::create_dir_all(parent).map_err(|error| cannot("make a folder", error))?;
        }
        if self.kind == Kind::Git && self.outputs[0].exists() {
            // What an interrupted clone left behind is in the way of the next.
            fs::remove_dir_all(&self.outputs[0]).map_err(|error| cannot("remove an old clone", error))?;
        }
        let log = self.state("log");
        let file = File::create(&log).map_err(|error| cannot("write a log", error))?;
        let handle = duct::cmd(program, args)
            .dir(&self.folder)
            // Nobody is there to answer.
            .env("GIT_TERMINAL_PROMPT", "0")
            .stdin_null()
            .stderr_to_stdout()
            .stdout_file(file)
            .unchecked()
            .start()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => {
                    let hint = self.hint.as_ref().map(|hint| format!(" ({hint})"));
                    format!("{program} is not installed{}", hint.unwrap_or_default())
                }
                _ => format!("`{program}` cannot be started: {error}"),
            })?;
        let output = match handle.wait_timeout(TIME_LIMIT).map_err(|error| cannot("wait", error))? {
            Some(output) => output,
            None => {
                let _ = handle.kill();
                let limit = TIME_LIMIT.as_secs() / 60;
                return Err(format!(
                    "{}: `{program}` took longer than {limit} min and was ended",
                    self.title
                ));
            }
        };
        if !output.status.success() {
            return Err(format!(
                "{}: `{}` ended with {}: {} (log: {})",
                self.title,
                self.argv.join(" "),
                output.status,
                telling_lines(&log),
                log.display()
            ));
        }
        if let Some(missing) = self.outputs.iter().find(|output| !output.exists()) {
            return Err(format!("{}: `{program}` left no `{}`", self.title, missing.display()));
        }
        self.write("stamp", &digest).map_err(|error| cannot("write a stamp", error))
    }

    /// Does what is one of several ways to the same end. A failure is remembered for a while, so that a way that leads
    /// nowhere does not cost its time again and again.
    pub(super) fn try_run(&self) -> Result<(), String> {
        if let Some(reason) = self.failed_lately() {
            return Err(reason);
        }
        let result = self.run();
        if let Err(reason) = &result {
            // Where it cannot be remembered it is tried again.
            let _ = self.digest().map(|digest| self.write("failed", &format!("{digest}\n{reason}")));
        }
        result
    }

    /// Why the same step failed a short while ago.
    pub(super) fn failed_lately(&self) -> Option<String> {
        let path = self.state("failed");
        let age = fs::metadata(&path).ok()?.modified().ok()?.elapsed().ok()?;
        let text = fs::read_to_string(&path).ok()?;
        let (digest, reason) = text.split_once('\n')?;
        (age < MEMORY && self.digest().ok()? == digest).then(|| reason.trim().to_owned())
    }

    fn state(&self, extension: &str) -> PathBuf {
        let name = match self.kind {
            Kind::Npm => "npm",
            Kind::Build => "build",
            Kind::Git => "git",
        };
        self.folder.join(STATE).join(name).with_extension(extension)
    }

    /// Identity of what the step would do: its command and the content of its inputs.
    fn digest(&self) -> Result<String, String> {
        let mut hash = Sha256::new();
        for part in &self.argv {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        for input in &self.inputs {
            let content = fs::read(input)
                .map_err(|error| format!("{}: `{}` cannot be read: {error}", self.title, input.display()))?;
            hash.update(content.len().to_le_bytes());
            hash.update(content);
        }
        Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Keeps other processes out of the folder until the file is closed by us and by what we start.
    fn lock(&self) -> Result<File, String> {
        let cannot = |error: io::Error| format!("{}: cannot lock its folder: {error}", self.title);
        let file = File::create(self.state("lock")).map_err(cannot)?;
        // The command inherits it: if we are killed before it, it still keeps others out until it has ended.
        rustix::io::fcntl_setfd(&file, FdFlags::empty()).map_err(|error| cannot(error.into()))?;
        let until = Instant::now() + TIME_LIMIT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => thread::sleep(LOCK_POLL),
                Err(Errno::WOULDBLOCK) => {
                    return Err(format!(
                        "{}: another process has been installing it for too long",
                        self.title
                    ));
                }
                Err(error) => return Err(cannot(error.into())),
            }
        }
    }

    fn write(&self, extension: &str, text: &str) -> io::Result<()> {
        let mut file = tempfile::NamedTempFile::new_in(self.folder.join(STATE))?;
        writeln!(file, "{text}")?;
        file.persist(self.state(extension))?;
        Ok(())
    }
}

/// The lines of a log that say most about a failure, joined: the first of npm, which explains at length afterwards, and
/// the last of others.
fn telling_lines(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let npm: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("npm error"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .take(QUOTED_LINES)
        .collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match (npm.as_slice(), &lines[lines.len().saturating_sub(QUOTED_LINES)..]) {
        ([], []) => "it said nothing".to_owned(),
        ([], last) => last.join(" | "),
        (first, _) => first.join(" | "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step whose command is a shell script.
    fn step(folder: &Path, script: &str) -> Step {
        fs::write(folder.join("input"), "1").unwrap();
        Step {
            title: "mine".to_owned(),
            kind: Kind::Build,
            folder: folder.to_path_buf(),
            argv: ["sh", "-c", script].map(str::to_owned).to_vec(),
            inputs: vec![folder.join("input")],
            outputs: vec![folder.join("build/out")],
            hint: Some("install a shell".to_owned()),
        }
    }

    const COUNT: &str = "echo x >> count; touch build/out";

    fn runs(folder: &Path) -> usize {
        fs::read_to_string(folder.join("count")).unwrap_or_default().lines().count()
    }

    #[test]
    fn a_step_is_done_once_and_again_only_when_something_changed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let step = step(folder, COUNT);
        assert!(!step.is_done());
        step.run().unwrap();
        step.run().unwrap();
        assert_eq!(runs(folder), 1);
        assert!(step.is_done());

        fs::write(folder.join("input"), "2").unwrap();
        assert!(!step.is_done());
        step.run().unwrap();
        assert_eq!(runs(folder), 2);

        fs::remove_file(folder.join("build/out")).unwrap();
        assert!(!step.is_done());
        step.run().unwrap();
        assert_eq!(runs(folder), 3);
    }

    #[test]
    fn an_interrupted_step_is_not_taken_for_a_finished_one() {
        let folder = tempfile::tempdir().unwrap();
        let done = step(folder.path(), COUNT);
        done.run().unwrap();
        fs::write(folder.path().join("input"), "2").unwrap();
        // The result lies there, yet the command did not end well.
        let mut interrupted = done.clone();
        interrupted.argv[2] = "touch build/out; kill -KILL $$".to_owned();
        assert!(interrupted.run().unwrap_err().contains("signal: 9"));
        assert!(!interrupted.is_done());
        fs::write(folder.path().join("input"), "1").unwrap();
        assert!(!done.is_done(), "the old stamp is gone");
    }

    #[test]
    fn two_processes_at_once_do_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let step = step(folder.path(), &format!("sleep 0.2; {COUNT}"));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| step.run().unwrap());
            }
        });
        assert_eq!(runs(folder.path()), 1);
    }

    #[test]
    fn a_failure_is_quoted_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let failing = step(folder.path(), "seq 100; echo it broke >&2; exit 7");
        let reason = failing.run().unwrap_err();
        assert!(reason.contains("exit status: 7: 98 | 99 | 100 | it broke (log: "), "{reason}");
        assert!(fs::read_to_string(folder.path().join(".runner/build.log")).unwrap().starts_with("1\n2\n"));
        assert!(!failing.is_done());
        assert!(step(folder.path(), "true").run().unwrap_err().contains("left no"));

        let script = "echo npm error code E404; echo npm error; echo npm error 404 not found; seq 9; exit 1";
        let reason = step(folder.path(), script).run().unwrap_err();
        assert!(reason.contains("exit status: 1: code E404 | 404 not found (log: "), "{reason}");
    }

    #[test]
    fn a_way_that_failed_is_not_tried_again_at_once_unless_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let failing = step(folder.path(), "echo x >> count; exit 1");
        let reason = failing.try_run().unwrap_err();
        assert_eq!(failing.try_run().unwrap_err(), reason);
        assert_eq!(runs(folder.path()), 1);
        failing.run().unwrap_err();
        assert_eq!(runs(folder.path()), 2, "a step that is the only way is always tried");
        step(folder.path(), COUNT).try_run().unwrap();
    }

    #[test]
    fn a_missing_command_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let mut step = step(folder.path(), COUNT);
        step.argv[0] = "no-such-compiler".to_owned();
        assert_eq!(step.run().unwrap_err(), "no-such-compiler is not installed (install a shell)");
    }
}
