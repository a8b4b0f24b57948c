//! Native modules: which of the packages has one that this runtime can load on this machine.

use std::fmt;
use std::path::{Path, PathBuf};

use super::glibc::{self, GlibcVersion};
use super::install::Step;
use super::resolve::{executable, fill_in};
use super::setup::SetupEvent;
use super::types::{Catalog, Runtime, Server};

/// What is wrong with the packages of a module.
struct Unusable {
    /// Why none will do: a clause, and the packages of which it is true.
    reasons: Vec<(String, Vec<String>)>,
    /// The first that is not there.
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
    pub(super) fn module(&self, server: &Server, runtime: &Runtime) -> Result<Option<PathBuf>, String> {
        if server.modules.is_empty() {
            return Ok(None);
        }
        self.usable_module(server, runtime)?.map(Some).map_err(|unusable| match unusable.next {
            Some(step) if unusable.reasons.is_empty() => {
                format!("{} is not installed; run `runner setup`", step.title())
            }
            _ => unusable.to_string(),
        })
    }

    /// Fetches packages of a server's native module, in their order, until one has what its runtime can load.
    pub(super) fn fetch_module(&self, name: &str, report: &mut dyn FnMut(SetupEvent)) -> Result<(), String> {
        let Some((server, runtime)) = self.described(name) else { return Ok(()) };
        if server.modules.is_empty() {
            return Ok(());
        }
        // Each turn fetches one package or remembers that it cannot be had.
        for _ in 0..=server.modules.len() {
            match self.usable_module(server, runtime)? {
                Ok(_) => return Ok(()),
                Err(Unusable { next: Some(step), .. }) => fetch(&step, report),
                Err(unusable) => return Err(unusable.to_string()),
            }
        }
        Err(format!("no package of {} could be fetched", server.name))
    }

    fn usable_module(&self, server: &Server, runtime: &Runtime) -> Result<Result<PathBuf, Unusable>, String> {
        let abi = self.abi(server, runtime)?;
        let host = self.host_glibc()?;
        let mut unusable = Unusable { reasons: Vec::new(), next: None };
        let mut not_fetched = Vec::new();
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
            match check(&path, host) {
                Ok(()) => return Ok(Ok(path)),
                Err(reason) => unusable.add(reason, &module.name),
            }
        }
        // What is wrong with those that are there tells more.
        for name in not_fetched {
            unusable.add("could not be fetched".to_owned(), &name);
        }
        Ok(Err(unusable))
    }

    /// What a module for a runtime is called.
    fn abi(&self, server: &Server, runtime: &Runtime) -> Result<String, String> {
        let command = server.abi.as_ref().expect("a server with modules has it");
        let argv = fill_in(command, server, runtime, executable(runtime)?, None);
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

/// Whether a module is there and can be loaded; the error is a clause about the package.
fn check(path: &Path, host: GlibcVersion) -> Result<(), String> {
    if !path.is_file() {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Err(format!("has no binary `{file}`"));
    }
    match glibc::needed(path)? {
        Some(needed) if needed > host => Err(format!("needs glibc {needed}, this host has {host}")),
        _ => Ok(()),
    }
}
