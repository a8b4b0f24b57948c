use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use globset::GlobSet;
use semver::VersionReq;

use crate::plan::Role;

/// Folder beside a `server.toml` that holds what is built.
pub(super) const BUILD_FOLDER: &str = "build";

/// What exists: the built-in servers and clients, and what the files of the folders `servers` and
/// `clients` describe.
#[derive(Debug, Default)]
pub struct Catalog {
    pub(super) runtimes: BTreeMap<String, Runtime>,
    /// In the order of their names.
    pub(super) servers: Vec<Server>,
    /// Clients that a `client.toml` describes, which play no role.
    pub(super) clients: Vec<Server>,
    /// A newer C library than the host's, for native modules that demand one.
    pub(super) glibc: Option<Glibc>,
    /// What executables said about their versions; asking takes tens of milliseconds.
    pub(super) asked: Mutex<BTreeMap<Vec<String>, Result<String, String>>>,
}

/// What executes a server's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runtime {
    /// Its name, e.g. `node-26`.
    pub(super) name: String,
    /// How it is come by.
    pub(super) source: Source,
    /// Arguments between the executable and the program.
    pub(super) args: Vec<String>,
    /// Arguments that make it say its version.
    pub(super) version_args: Vec<String>,
}

/// Where the executable of a runtime comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// There is none: programs are compiled.
    Compiled,
    /// The user's own.
    Own(PathBuf),
    /// A package of npm.
    Npm {
        /// Folder with the lock file.
        folder: PathBuf,
        /// The pinned version.
        version: String,
        /// The executable; none where no package exists for this architecture.
        executable: Option<PathBuf>,
    },
}

/// A server that a `server.toml` describes, or a client that a `client.toml` does.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) name: String,
    /// Folder of its file.
    pub(super) folder: PathBuf,
    pub(super) roles: Vec<Role>,
    /// Names of the runtimes that execute it, in their natural order.
    pub(super) runtimes: Vec<String>,
    pub(super) rules: Vec<Rule>,
    pub(super) max_payload: Option<u64>,
    pub(super) npm: Option<NpmFolder>,
    pub(super) build: Option<Build>,
    pub(super) start: Command,
    pub(super) versions: Option<Command>,
    pub(super) abi: Option<Command>,
    /// In the order in which they are tried.
    pub(super) modules: Vec<Module>,
    pub(super) files: Vec<PathBuf>,
    pub(super) settings: Vec<Setting>,
}

impl Server {
    /// Folder of what is built.
    pub(super) fn build_folder(&self) -> PathBuf {
        self.folder.join(BUILD_FOLDER)
    }
}

/// A version that a runtime must have.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) runtimes: GlobSet,
    pub(super) versions: VersionReq,
}

/// A folder that npm fills.
#[derive(Clone, Debug)]
pub(super) struct NpmFolder {
    pub(super) folder: PathBuf,
    /// Runtimes that need it; none for all.
    pub(super) runtimes: Option<GlobSet>,
}

/// How a program is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Build {
    pub(super) argv: Vec<String>,
    pub(super) inputs: Vec<PathBuf>,
    /// Relative to the folder of what is built.
    pub(super) output: String,
    pub(super) hint: Option<String>,
}

/// Where a native module may come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Module {
    /// Name of the package.
    pub(super) name: String,
    pub(super) fetch: Fetch,
    /// The module, relative to the folder of [`Module::folder`].
    pub(super) file: String,
}

impl Module {
    /// Where it lies once it is fetched.
    pub(super) fn folder(&self) -> &Path {
        match &self.fetch {
            Fetch::Npm { folder } | Fetch::Git { folder, .. } => folder,
        }
    }
}

/// How a package is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fetch {
    /// By npm, in a folder with a lock file.
    Npm { folder: PathBuf },
    /// By git, into a folder.
    Git { url: String, tag: String, folder: PathBuf },
}

/// A C library in a folder of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Glibc {
    pub(super) folder: PathBuf,
    pub(super) build: Build,
    pub(super) loader: PathBuf,
    pub(super) libraries: PathBuf,
}

/// A command before its placeholders are filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) argv: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
}

/// A setting that differs from the library's default.
#[derive(Clone, Debug)]
pub struct Setting {
    /// As the library names it.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Why it is set.
    pub reason: String,
    /// Runtimes on which it is set; none for all.
    pub(super) runtimes: Option<GlobSet>,
}

impl Setting {
    /// Whether it is set on a runtime.
    pub fn applies_to(&self, runtime: &str) -> bool {
        self.runtimes.as_ref().is_none_or(|globs| globs.is_match(runtime))
    }
}
