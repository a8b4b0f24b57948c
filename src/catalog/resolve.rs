use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use semver::Version;

use super::ask::named_versions;
use super::install::Step;
use super::types::{Catalog, Command, Runtime, Server, Source};
use crate::embedded;
use crate::plan::{ClientSpec, Program, Role, ServerSpec};

/// Stands for the program itself in a command.
const RUNNER: &str = "{runner}";

impl Catalog {
    /// How a server is started in a role, from what is really there. The error says why it cannot be: a reason to
    /// skip it.
    pub fn resolve_server(&self, name: &str, role: Role) -> Result<ServerSpec, String> {
        if !self.knows_server(name) {
            return Err(format!("there is no server `{name}`"));
        }
        if !self.roles(name).contains(&role) {
            return Err(format!("{name} does not play the role `{role}`"));
        }
        match self.described(name) {
            None => Ok(ServerSpec {
                name: name.to_owned(),
                runtime: None,
                role,
                program: Program { env: inherited(name), ..built_in(&["serve", name]) },
                settings: BTreeMap::new(),
                max_payload: Some(embedded::max_payload()),
            }),
            Some((server, runtime)) => self.resolve_described(server, runtime, role),
        }
    }

    /// How a client is started. The error says why it cannot be.
    pub fn resolve_client(&self, name: &str) -> Result<ClientSpec, String> {
        if !self.knows_client(name) {
            return Err(format!("there is no client `{name}`"));
        }
        match self.described_client(name) {
            None => Ok(ClientSpec { name: name.to_owned(), runtime: None, program: built_in(&["client"]) }),
            Some((client, runtime)) => Ok(ClientSpec {
                name: client.name.clone(),
                runtime: Some(runtime.name.clone()),
                program: self.program(client, runtime)?,
            }),
        }
    }

    fn resolve_described(
        &self,
        server: &Server,
        runtime: &Runtime,
        role: Role,
    ) -> Result<ServerSpec, String> {
        Ok(ServerSpec {
            name: server.name.clone(),
            runtime: Some(runtime.name.clone()),
            role,
            program: self.program(server, runtime)?,
            settings: server
                .settings
                .iter()
                .filter(|setting| setting.applies_to(&runtime.name))
                .map(|setting| (setting.name.clone(), setting.value.clone()))
                .collect(),
            max_payload: server.max_payload,
        })
    }

    /// The program of a server or client, as it is there.
    fn program(&self, server: &Server, runtime: &Runtime) -> Result<Program, String> {
        let steps = self.steps(server, runtime);
        if let Some(step) = steps.iter().find(|step| !step.is_done()) {
            return Err(format!("{} is not installed; run `runner setup`", step.title()));
        }
        let executable = executable(runtime)?;
        let mut versions = BTreeMap::new();
        if let Some(executable) = executable {
            let version = self.version_of(runtime, executable)?;
            check_rules(server, runtime, &version)?;
            versions.insert(runtime.name.clone(), version);
        }
        let module = self.module(server, runtime)?;
        let parts = Parts {
            executable,
            module: module.as_ref().map(|module| module.path.as_path()),
            launcher: module.as_ref().map_or(&[], |module| module.launcher.as_slice()),
        };
        if let Some(version) = module.as_ref().and_then(|module| module.glibc) {
            versions.insert("glibc".to_owned(), version.to_string());
        }
        if let Some(command) = &server.versions {
            let argv = fill_in(command, server, runtime, &parts);
            versions.extend(named_versions(&self.ask(&argv, Some(&server.folder))?));
        }

        let argv = fill_in(&server.start, server, runtime, &parts);
        let mut files: Vec<PathBuf> = argv
            .iter()
            .map(|part| server.folder.join(part))
            .filter(|path| path.is_file())
            .chain(server.files.iter().cloned())
            .chain(steps.iter().flat_map(Step::inputs))
            .chain(module.iter().flat_map(|module| module.files.iter().cloned()))
            .collect();
        files.sort();
        files.dedup();
        Ok(Program {
            argv,
            env: server.start.env.clone(),
            cwd: Some(server.folder.clone()),
            versions,
            sha256: BTreeMap::new(),
            files,
        })
    }
}

/// What a built-in server is told by the environment of whoever starts it.
fn inherited(name: &str) -> BTreeMap<String, String> {
    embedded::variable_of(name)
        .and_then(|variable| Some((variable.to_owned(), std::env::var(variable).ok()?)))
        .into_iter()
        .collect()
}

fn built_in(args: &[&str]) -> Program {
    let argv = [RUNNER].iter().chain(args).map(|part| (*part).to_owned()).collect();
    let versions = BTreeMap::from([("runner".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    Program { argv, versions, ..Program::default() }
}

/// The executable of a runtime; none for what is compiled.
pub(super) fn executable(runtime: &Runtime) -> Result<Option<&Path>, String> {
    match &runtime.source {
        Source::Compiled => Ok(None),
        Source::Own(path) => Ok(Some(path)),
        Source::Npm { executable: Some(executable), .. } if executable.is_file() => Ok(Some(executable)),
        Source::Npm { executable: Some(executable), .. } => {
            Err(format!("{} is not installed: there is no `{}`", runtime.name, executable.display()))
        }
        Source::Npm { executable: None, .. } => {
            Err(format!("no package of {} exists for {}", runtime.name, std::env::consts::ARCH))
        }
    }
}

fn check_rules(server: &Server, runtime: &Runtime, version: &str) -> Result<(), String> {
    for rule in server.rules.iter().filter(|rule| rule.runtimes.is_match(&runtime.name)) {
        let parsed = Version::parse(version).map_err(|error| {
            format!("{} says it is `{version}`, which is no version: {error}", runtime.name)
        })?;
        if !rule.versions.matches(&parsed) {
            return Err(format!(
                "{} needs {} {}, and it is {version}",
                server.name, runtime.name, rule.versions
            ));
        }
    }
    Ok(())
}

/// What placeholders stand for.
#[derive(Clone, Copy, Default)]
pub(super) struct Parts<'a> {
    /// Executable of the runtime.
    pub(super) executable: Option<&'a Path>,
    /// The native module.
    pub(super) module: Option<&'a Path>,
    /// What starts the runtime in place of the kernel.
    pub(super) launcher: &'a [String],
}

/// A command with its placeholders filled in.
pub(super) fn fill_in(
    command: &Command,
    server: &Server,
    runtime: &Runtime,
    parts: &Parts<'_>,
) -> Vec<String> {
    let build = server.build_folder().display().to_string();
    let mut argv = Vec::new();
    for part in &command.argv {
        match (part.as_str(), parts.executable, parts.module) {
            ("{runtime}", Some(executable), _) => {
                argv.extend_from_slice(parts.launcher);
                argv.push(executable.display().to_string());
                argv.extend(runtime.args.iter().cloned());
            }
            ("{module}", _, Some(module)) => argv.push(module.display().to_string()),
            _ => argv.push(part.replace("{build}", &build)),
        }
    }
    // Where a relative executable is looked for would depend on who starts it.
    if let Some(program) = argv.first_mut()
        && program.contains('/')
    {
        *program = server.folder.join(&*program).display().to_string();
    }
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_servers_and_clients_are_this_program() {
        let catalog = Catalog::default();
        let server = catalog.resolve_server("relay-spin", Role::Relay).unwrap();
        assert_eq!(server.program.argv, ["{runner}", "serve", "relay-spin"]);
        assert_eq!(server.runtime, None);
        let client = catalog.resolve_client("tungstenite").unwrap();
        assert_eq!(
            (client.name.as_str(), client.program.argv.as_slice()),
            ("tungstenite", ["{runner}".to_owned(), "client".to_owned()].as_slice())
        );
        assert!(catalog.resolve_server("ws@node-24", Role::Relay).is_err());
        assert!(catalog.resolve_client("wrk").is_err());
    }
}
