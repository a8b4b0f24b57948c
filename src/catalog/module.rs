//! Native modules: which of the packages has one that this runtime can load on this machine.

use std::fmt;
use std::path::PathBuf;

use super::glibc::{self, GlibcVersion};
use super::install::Step;
use super::resolve::{Parts, executable, fill_in};
use super::setup::SetupEvent;
use super::types::{Catalog, Glibc, Runtime, Server};

/// What the newer C library is called where it is installed.
const GLIBC: &str = "a newer glibc";

/// A native module that a runtime can load on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Loadable {
    pub(super) path: PathBuf,
    /// What starts the runtime in place of the kernel; empty where the host's C library will do.
    pub(super) launcher: Vec<String>,
    /// Version of the C library where it is not the host's.
    pub(super) glibc: Option<GlibcVersion>,
    /// Files of that library.
    pub(super) files: Vec<PathBuf>,
}

/// What is wrong with the packages of a module.
struct Unusable {
    /// Why none will do: a clause, and the packages of which it is true.
    reasons: Vec<(String, Vec<String>)>,
    /// The first thing that is not there.
    next: Option<Step>,
}

impl Unusable {
    fn add(&mut self, reason: String, name: &str) {
        match self.reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(name.to_owned()),
            None => self.reasons.push((reason, vec![name.to_owned()])),
        }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, names)) in self.reasons.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            write!(f, "{separator}{reason} ({})", names.join(", "))?;
        }
        Ok(())
    }
}

impl Catalog {
    /// The native module of a server on a runtime; none within for a server without one. The error says why there
    /// is none that could be loaded.
    pub(super) fn module(&self, server: &Server, runtime: &Runtime) -> Result<Option<Loadable>, String> {
        if server.modules.is_empty() {
            return Ok(None);
        }
        self.loadable(server, runtime)?.map(Some).map_err(|unusable| match unusable.next {
            Some(step) => format!("{} is not installed; run `runner setup`", step.title()),
            None => unusable.to_string(),
        })
    }

    /// Fetches packages of a server's native module, in their order, until one has what its runtime can load.
    pub(super) fn fetch_module(&self, name: &str, report: &mut dyn FnMut(SetupEvent)) -> Result<(), String> {
        let Some((server, runtime)) = self.described(name) else { return Ok(()) };
        if server.modules.is_empty() {
            return Ok(());
        }
        // Each turn fetches one thing or remembers that it cannot be had: the packages, and a C library.
        for _ in 0..server.modules.len() + 2 {
            match self.loadable(server, runtime)? {
                Ok(_) => return Ok(()),
                Err(Unusable { next: Some(step), .. }) => fetch(&step, report),
                Err(unusable) => return Err(unusable.to_string()),
            }
        }
        Err(format!("no package of {} could be fetched", server.name))
    }

    fn loadable(&self, server: &Server, runtime: &Runtime) -> Result<Result<Loadable, Unusable>, String> {
        let abi = self.abi(server, runtime)?;
        let host = self.host_glibc()?;
        let mut unusable = Unusable { reasons: Vec::new(), next: None };
        let mut not_fetched = Vec::new();
        let mut too_new: Option<(PathBuf, GlibcVersion)> = None;
        for module in &server.modules {
            let step = Step::fetch(module);
            if !step.is_done() {
                if step.failed_lately().is_some() {
                    not_fetched.push(step.title().to_owned());
                } else {
                    unusable.next.get_or_insert(step);
                }
                continue;
            }
            let path = module.folder().join(module.file.replace("{abi}", &abi));
            if !path.is_file() {
                let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                unusable.add(format!("has no binary `{file}`"), &module.name);
                continue;
            }
            match glibc::needed(&path)? {
                Some(needed) if needed > host => {
                    unusable.add(format!("needs glibc {needed}, this host has {host}"), &module.name);
                    too_new.get_or_insert((path, needed));
                }
                _ => return Ok(Ok(Loadable { path, ..Loadable::default() })),
            }
        }
        // What is wrong with those that are there tells more.
        for name in not_fetched {
            unusable.add("could not be fetched".to_owned(), &name);
        }
        if let (None, Some((path, needed)), Some(glibc)) = (&unusable.next, too_new, &self.glibc) {
            let step = Step::build(GLIBC.to_owned(), &glibc.folder, &glibc.build);
            if !step.is_done() {
                if step.failed_lately().is_some() {
                    unusable.add("could not be fetched".to_owned(), GLIBC);
                } else {
                    unusable.next = Some(step);
                }
            } else {
                let version = self.glibc_of(glibc)?;
                if needed <= version {
                    return Ok(Ok(under(glibc, version, path)));
                }
                unusable.add(format!("is {version}"), GLIBC);
            }
        }
        Ok(Err(unusable))
    }

    /// The version that a C library's loader says it has.
    fn glibc_of(&self, glibc: &Glibc) -> Result<GlibcVersion, String> {
        let answer = self.ask(&[glibc.loader.display().to_string(), "--version".to_owned()], None)?;
        answer
            .lines()
            .find_map(|line| GlibcVersion::parse(line.rsplit_once("version ")?.1.trim_end_matches('.')))
            .ok_or_else(|| format!("`{}` says no version", glibc.loader.display()))
    }

    /// What a module for a runtime is called.
    fn abi(&self, server: &Server, runtime: &Runtime) -> Result<String, String> {
        let command = server.abi.as_ref().expect("a server with modules has it");
        let parts = Parts { executable: executable(runtime)?, ..Parts::default() };
        let argv = fill_in(command, server, runtime, &parts);
        Ok(self.ask(&argv, Some(&server.folder))?.trim().to_owned())
    }

    fn host_glibc(&self) -> Result<GlibcVersion, String> {
        let answer = self.ask(&["getconf".to_owned(), "GNU_LIBC_VERSION".to_owned()], None)?;
        let version = answer.trim().strip_prefix("glibc ").and_then(GlibcVersion::parse);
        version.ok_or_else(|| format!("this host's C library is `{}` and not glibc", answer.trim()))
    }
}

fn fetch(step: &Step, report: &mut dyn FnMut(SetupEvent)) {
    let what = step.title().to_owned();
    report(SetupEvent::Started { what: what.clone() });
    let start = std::time::Instant::now();
    report(match step.try_run() {
        Ok(()) => SetupEvent::Installed { what, took: start.elapsed() },
        Err(reason) => SetupEvent::Failed { what, reason },
    });
}

/// A module in a runtime that a newer C library's own loader starts.
fn under(glibc: &Glibc, version: GlibcVersion, path: PathBuf) -> Loadable {
    let libraries = glibc.libraries.display().to_string();
    Loadable {
        path,
        launcher: vec![glibc.loader.display().to_string(), "--library-path".to_owned(), libraries],
        glibc: Some(version),
        files: vec![glibc.libraries.join("libc.so.6")],
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;
    use crate::plan::Role;

    /// A repository with a tag `v1` and one file.
    fn repository(folder: &Path, file: &str, content: &[u8]) {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join(file), content).unwrap();
        for args in [
            vec!["init", "--quiet"],
            vec!["add", "."],
            vec!["-c", "user.name=x", "-c", "user.email=x@localhost", "commit", "--quiet", "-m", "one"],
            vec!["tag", "v1"],
        ] {
            assert!(Command::new("git").args(args).current_dir(folder).status().unwrap().success());
        }
    }

    /// A small program of this host, and the same with a demand that no C library meets.
    fn modules() -> (Vec<u8>, Vec<u8>) {
        let path = Path::new("/bin/sh");
        let good = fs::read(path).unwrap();
        let newest = format!("GLIBC_{}\0", glibc::needed(path).unwrap().unwrap());
        assert_eq!(newest.len(), "GLIBC_2.99\0".len());
        let mut bad = good.clone();
        let at = bad.windows(newest.len()).position(|bytes| bytes == newest.as_bytes()).unwrap();
        bad[at..at + newest.len()].copy_from_slice(b"GLIBC_2.99\0");
        (good, bad)
    }

    fn catalog(root: &Path, packages: &[&str]) -> Catalog {
        let mut server = "title = \"x\"\nroles = [\"relay\"]\nruntimes = [\"native\"]\nabi = { argv = [\"echo\", \"x64_1\"] }\nstart = { argv = [\"true\", \"{module}\"] }\n".to_owned();
        for package in packages {
            server.push_str(&format!(
                "[[modules]]\nname = \"{package}\"\ngit = \"{}\"\ntag = \"v1\"\nfile = \"m_{{abi}}.node\"\n",
                root.join(package).display()
            ));
        }
        let folder = root.join("servers/mine");
        fs::create_dir_all(&folder).unwrap();
        fs::write(root.join("servers/runtimes.toml"), "[native]\n").unwrap();
        fs::write(folder.join("server.toml"), server).unwrap();
        Catalog::load(Some(root)).unwrap()
    }

    #[test]
    fn the_first_package_with_a_module_that_can_be_loaded_is_used() {
        let root = tempfile::tempdir().unwrap();
        let (good, bad) = modules();
        repository(&root.path().join("too-new"), "m_x64_1.node", &bad);
        repository(&root.path().join("other-abi"), "m_x64_2.node", &good);
        repository(&root.path().join("good"), "m_x64_1.node", &good);
        repository(&root.path().join("never-asked"), "m_x64_1.node", &good);
        let all = ["too-new", "nowhere", "other-abi", "good", "never-asked"];
        let catalog = catalog(root.path(), &all);

        let before = catalog.resolve_server("mine@native", Role::Relay).unwrap_err();
        assert_eq!(before, "too-new v1 is not installed; run `runner setup`");
        let mut events = Vec::new();
        catalog.fetch_module("mine@native", &mut |event| events.push(event)).unwrap();
        let failed = events.iter().filter(|event| matches!(event, SetupEvent::Failed { .. })).count();
        assert_eq!((events.len(), failed), (8, 1), "{events:?}");
        let spec = catalog.resolve_server("mine@native", Role::Relay).unwrap();
        let module = Path::new(&spec.program.argv[1]);
        assert_eq!(fs::read(module).unwrap(), good);
        assert!(module.ends_with("clone/good/repository/m_x64_1.node"));
        assert!(spec.program.files.contains(&module.to_path_buf()));
    }

    #[test]
    fn without_one_the_reason_says_of_each_package_what_is_wrong() {
        let root = tempfile::tempdir().unwrap();
        let (good, bad) = modules();
        repository(&root.path().join("too-new"), "m_x64_1.node", &bad);
        repository(&root.path().join("too-new-as-well"), "m_x64_1.node", &bad);
        repository(&root.path().join("other-abi"), "m_x64_2.node", &good);
        let catalog = catalog(root.path(), &["too-new", "nowhere", "other-abi", "too-new-as-well"]);
        let host = catalog.host_glibc().unwrap();
        let reason = catalog.fetch_module("mine@native", &mut |_| {}).unwrap_err();
        assert_eq!(
            reason,
            format!(
                "needs glibc 2.99, this host has {host} (too-new, too-new-as-well); \
                 has no binary `m_x64_1.node` (other-abi); could not be fetched (nowhere v1)"
            )
        );
        assert_eq!(catalog.resolve_server("mine@native", Role::Relay).unwrap_err(), reason);
    }
}
