//! `servers/*/server.toml`, `clients/*/client.toml` and `servers/runtimes.toml` as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::plan::Role;

/// `servers/<name>/server.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ServerFile {
    /// What it is, in a line.
    pub(super) title: String,
    /// Roles that the program plays.
    pub(super) roles: Vec<Role>,
    /// Globs over the runtimes that execute it; `native` for a compiled program.
    pub(super) runtimes: Vec<String>,
    /// Versions that a runtime must have, as semver requirements, by glob over runtimes.
    #[serde(default)]
    pub(super) rules: BTreeMap<String, String>,
    /// Largest message that it accepts, with its unit; without one there is no limit.
    pub(super) max_payload: Option<String>,
    /// What is fetched.
    pub(super) install: Option<InstallTable>,
    /// What is compiled.
    pub(super) build: Option<BuildTable>,
    /// How it is started.
    pub(super) start: CommandTable,
    /// A command that prints a line `name version` for each part worth recording.
    pub(super) versions: Option<CommandTable>,
    /// A command that prints what a native module for a runtime is called: the `{abi}` of `modules.file`.
    pub(super) abi: Option<CommandTable>,
    /// Where a native module may come from, in the order in which it is tried.
    #[serde(default)]
    pub(super) modules: Vec<ModuleTable>,
    /// Files that the record hashes beside those in `start.argv`, the build's and the lock file.
    #[serde(default)]
    pub(super) files: Vec<String>,
    /// What differs from the library's defaults.
    #[serde(default)]
    pub(super) settings: Vec<SettingTable>,
}

/// `clients/<folder>/client.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientFile {
    /// What it is, in a line.
    pub(super) title: String,
    /// The clients that the program is, each with globs over the runtimes that execute it.
    pub(super) clients: BTreeMap<String, Vec<String>>,
    /// What is fetched.
    pub(super) install: Option<InstallTable>,
    /// How it is started.
    pub(super) start: CommandTable,
    /// Files that the record hashes beside those in `start.argv` and the lock file.
    #[serde(default)]
    pub(super) files: Vec<String>,
}

/// `[install]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InstallTable {
    /// Folder with a `package.json` and its lock file, relative to the file.
    pub(super) npm: String,
    /// Globs over the runtimes that need it; all without.
    pub(super) runtimes: Option<Vec<String>>,
}

/// `[build]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BuildTable {
    /// Command, run in the server's folder; `{build}` stands for the folder of what is built.
    pub(super) argv: Vec<String>,
    /// Files whose change makes a new build necessary.
    pub(super) inputs: Vec<String>,
    /// What must be there afterwards, in the folder of what is built.
    pub(super) output: String,
    /// What to do where the command is missing.
    pub(super) hint: Option<String>,
}

/// `[[modules]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModuleTable {
    /// Name of the package.
    pub(super) name: String,
    /// Folder with a `package.json` and its lock file, relative to the file.
    pub(super) npm: Option<String>,
    /// Repository that is cloned where there is no package.
    pub(super) git: Option<String>,
    /// Tag that is checked out.
    pub(super) tag: Option<String>,
    /// The module in the folder of the package, or in the clone; `{abi}` stands for what `abi` printed.
    pub(super) file: String,
}

/// A command and what is set for it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandTable {
    /// Executable and arguments; `{runtime}` stands for the runtime with its own arguments, `{build}` for the folder
    /// of what is built, `{module}` for the native module.
    pub(super) argv: Vec<String>,
    /// Environment.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
}

/// `[[settings]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingTable {
    /// As the library names it.
    pub(super) name: String,
    /// Its value.
    pub(super) value: String,
    /// Why it is set.
    pub(super) reason: String,
    /// Globs over the runtimes on which it is set; all without.
    pub(super) runtimes: Option<Vec<String>>,
}

/// A table of `servers/runtimes.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuntimeTable {
    /// Folder with a `package.json` and its lock file, relative to the file; none for a runtime that needs no
    /// executable.
    pub(super) npm: Option<String>,
    /// The pinned version, as the runtime says it.
    pub(super) version: Option<String>,
    /// Executable in that folder, by architecture.
    #[serde(default)]
    pub(super) executable: BTreeMap<String, String>,
    /// Arguments between the executable and the program.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Arguments that make it say its version.
    #[serde(default = "ask_version")]
    pub(super) version_args: Vec<String>,
}

fn ask_version() -> Vec<String> {
    vec!["--version".to_owned()]
}

/// `servers/glibc/glibc.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GlibcFile {
    /// Its loader, in the folder of what is built.
    pub(super) loader: String,
    /// Its libraries, in the same folder.
    pub(super) libraries: String,
    /// How it is fetched.
    pub(super) build: BuildTable,
}
