use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{Glob, GlobSet, GlobSetBuilder};
use semver::VersionReq;
use serde::de::DeserializeOwned;

use super::types::{
    BUILD_FOLDER, Build, Catalog, Command, Fetch, Glibc, Module, NpmFolder, Rule, Runtime, Server, Setting,
    Source,
};
use super::wire::{BuildTable, ClientFile, CommandTable, GlibcFile, ModuleTable, RuntimeTable, ServerFile};
use crate::embedded;
use crate::exit::{Exit, UserError};
use crate::manifest::{nearest, parse_bytes};
use crate::workload::BUILT_IN_CLIENTS;

const RUNTIMES_FILE: &str = "runtimes.toml";
const SERVER_FILE: &str = "server.toml";
const CLIENT_FILE: &str = "client.toml";

impl Catalog {
    /// The folder above `near` (a manifest, say, or a folder) that has a `servers` folder with a `runtimes.toml`; none
    /// where only the built-in servers exist.
    pub fn find_root(near: &Path) -> Option<PathBuf> {
        let near = fs::canonicalize(near).ok()?;
        near.ancestors()
            .find(|folder| folder.join("servers").join(RUNTIMES_FILE).is_file())
            .map(Path::to_path_buf)
    }

    /// Reads the files below `root`. Without a root only the built-in servers exist.
    pub fn load(root: Option<&Path>) -> Result<Catalog, UserError> {
        match root {
            None => Ok(Catalog::default()),
            Some(root) => load(&root.join("servers"), &root.join("clients")),
        }
    }

    /// Uses the user's own executable for a runtime, in place of the pinned one.
    pub fn with_runtime(&mut self, name: &str, path: &Path) -> Result<(), UserError> {
        let known: Vec<String> = self.runtimes.keys().cloned().collect();
        let Some(runtime) = self.runtimes.get_mut(name) else {
            let near = nearest(name, &known).map(|near| format!("did you mean `{near}`? "));
            return Err(UserError::new(Exit::Usage, format!("unknown runtime `{name}`")).hint(format!(
                "{}runtimes: {}",
                near.unwrap_or_default(),
                known.join(", ")
            )));
        };
        if runtime.source == Source::Compiled {
            return Err(UserError::new(
                Exit::Usage,
                format!("runtime `{name}` has no executable that could be replaced"),
            ));
        }
        // Servers run in folders of their own: the path must not depend on where we are.
        let path = fs::canonicalize(path).ok().filter(|path| path.is_file()).ok_or_else(|| {
            UserError::new(
                Exit::Usage,
                format!("runtime `{name}`: `{}` is not an executable file", path.display()),
            )
            .hint("name the executable itself, not its folder")
        })?;
        runtime.source = Source::Own(path);
        Ok(())
    }
}

fn load(servers: &Path, clients: &Path) -> Result<Catalog, UserError> {
    let path = servers.join(RUNTIMES_FILE);
    let tables: BTreeMap<String, RuntimeTable> = read(&path)?;
    let runtimes = tables
        .into_iter()
        .map(|(name, table)| Ok((name.clone(), runtime(&path, servers, name, table)?)))
        .collect::<Result<BTreeMap<String, Runtime>, UserError>>()?;

    let glibc = glibc(&servers.join("glibc"))?;
    let clients = match clients.is_dir() {
        true => folders_with(clients, CLIENT_FILE)?,
        false => Vec::new(),
    };
    let clients = clients
        .iter()
        .map(|folder| {
            let path = folder.join(CLIENT_FILE);
            described_clients(&path, folder, read(&path)?, &runtimes)
        })
        .collect::<Result<Vec<Vec<Server>>, UserError>>()?
        .concat();
    let servers = folders_with(servers, SERVER_FILE)?
        .iter()
        .map(|folder| {
            let path = folder.join(SERVER_FILE);
            server(&path, folder, read(&path)?, &runtimes)
        })
        .collect::<Result<Vec<Server>, UserError>>()?;
    Ok(Catalog { runtimes, servers, clients, glibc, ..Catalog::default() })
}

/// The folders in a folder that have a file, in the order of their names.
fn folders_with(parent: &Path, file: &str) -> Result<Vec<PathBuf>, UserError> {
    let entries = fs::read_dir(parent).map_err(|error| unreadable(parent, &error))?;
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|folder| folder.join(file).is_file())
        .collect();
    folders.sort();
    Ok(folders)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, UserError> {
    let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    toml::from_str(&text).map_err(|error| {
        // The library's own text holds line, column and a caret.
        UserError::new(Exit::Usage, format!("`{}`: {}", path.display(), error.to_string().trim_end()))
            .hint("docs/SERVERS.md describes every key")
    })
}

fn unreadable(path: &Path, error: &std::io::Error) -> UserError {
    UserError::new(Exit::Usage, format!("`{}` cannot be read: {error}", path.display()))
}

fn wrong(path: &Path, key: &str, what: impl AsRef<str>) -> UserError {
    UserError::new(Exit::Usage, format!("`{}`: `{key}` {}", path.display(), what.as_ref()))
        .hint("docs/SERVERS.md describes every key")
}

fn runtime(path: &Path, servers: &Path, name: String, table: RuntimeTable) -> Result<Runtime, UserError> {
    let key = |part: &str| format!("{name}.{part}");
    let source = match table.npm {
        None if table.executable.is_empty() => Source::Compiled,
        None => return Err(wrong(path, &key("executable"), "needs `npm`, the folder that it is in")),
        Some(npm) => {
            let Some(version) = table.version else {
                return Err(wrong(path, &key("version"), "is missing: a runtime is pinned"));
            };
            if table.executable.is_empty() {
                return Err(wrong(path, &key("executable"), "is missing"));
            }
            let folder = servers.join(npm);
            let executable =
                table.executable.get(std::env::consts::ARCH).map(|executable| folder.join(executable));
            Source::Npm { folder, version, executable }
        }
    };
    Ok(Runtime { name, source, args: table.args, version_args: table.version_args })
}

fn server(
    path: &Path,
    folder: &Path,
    file: ServerFile,
    runtimes: &BTreeMap<String, Runtime>,
) -> Result<Server, UserError> {
    let name = folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    if embedded::is_built_in(&name) || name.contains(['@', '/', '*', '?', '{', '}', '[', ']', ',']) {
        return Err(UserError::new(
            Exit::Usage,
            format!("`{}`: a server cannot be called `{name}`", path.display()),
        )
        .hint("rename the folder; built-in names, `@` and glob characters are taken"));
    }
    if file.title.trim().is_empty() {
        return Err(wrong(path, "title", "is empty"));
    }
    if file.roles.is_empty() {
        return Err(wrong(path, "roles", "is empty"));
    }
    let globs = |key: &str, patterns: &[String]| glob_set(path, key, patterns, runtimes);
    let wanted = globs("runtimes", &file.runtimes)?;
    let mut matching: Vec<String> =
        runtimes.keys().filter(|runtime| wanted.is_match(runtime)).cloned().collect();
    matching.sort_by(|one, other| natural(one, other));
    let rules = file
        .rules
        .iter()
        .map(|(pattern, versions)| {
            let key = format!("rules.{pattern}");
            let versions = VersionReq::parse(versions)
                .map_err(|error| wrong(path, &key, format!("is no version requirement: {error}")))?;
            Ok(Rule { runtimes: globs(&key, std::slice::from_ref(pattern))?, versions })
        })
        .collect::<Result<Vec<Rule>, UserError>>()?;
    let max_payload = file
        .max_payload
        .map(|text| {
            parse_bytes(&text).map_err(|error| wrong(path, "max_payload", format!("is no size: {error}")))
        })
        .transpose()?;
    let npm = file
        .install
        .map(|install| {
            let runtimes =
                install.runtimes.map(|patterns| globs("install.runtimes", &patterns)).transpose()?;
            Ok(NpmFolder { folder: folder.join(install.npm), runtimes })
        })
        .transpose()?;
    let build = file.build.map(|table| build(path, folder, table)).transpose()?;
    let settings = file
        .settings
        .into_iter()
        .map(|setting| {
            if setting.reason.trim().is_empty() {
                return Err(wrong(path, "settings.reason", format!("of `{}` is empty", setting.name)));
            }
            let runtimes =
                setting.runtimes.map(|patterns| globs("settings.runtimes", &patterns)).transpose()?;
            Ok(Setting { name: setting.name, value: setting.value, reason: setting.reason, runtimes })
        })
        .collect::<Result<Vec<Setting>, UserError>>()?;
    let command = |key: &str, table: CommandTable| {
        if table.argv.is_empty() {
            return Err(wrong(path, key, "is empty"));
        }
        Ok(Command { argv: table.argv, env: table.env })
    };
    let modules = file
        .modules
        .into_iter()
        .map(|table| module(path, folder, table))
        .collect::<Result<Vec<Module>, UserError>>()?;
    if modules.is_empty() == file.abi.is_some() {
        return Err(wrong(path, "abi", "belongs to `modules`: both are there or neither"));
    }
    Ok(Server {
        name,
        folder: folder.to_path_buf(),
        roles: file.roles,
        runtimes: matching,
        rules,
        max_payload,
        npm,
        build,
        start: command("start.argv", file.start)?,
        versions: file.versions.map(|table| command("versions.argv", table)).transpose()?,
        abi: file.abi.map(|table| command("abi.argv", table)).transpose()?,
        modules,
        files: file.files.iter().map(|file| folder.join(file)).collect(),
        settings,
    })
}

/// The clients of one program.
fn described_clients(
    path: &Path,
    folder: &Path,
    file: ClientFile,
    runtimes: &BTreeMap<String, Runtime>,
) -> Result<Vec<Server>, UserError> {
    if file.title.trim().is_empty() {
        return Err(wrong(path, "title", "is empty"));
    }
    if file.start.argv.is_empty() {
        return Err(wrong(path, "start.argv", "is empty"));
    }
    let npm = file
        .install
        .map(|install| {
            let key = "install.runtimes";
            let only =
                install.runtimes.map(|patterns| glob_set(path, key, &patterns, runtimes)).transpose()?;
            Ok(NpmFolder { folder: folder.join(install.npm), runtimes: only })
        })
        .transpose()?;
    let start = Command { argv: file.start.argv, env: file.start.env };
    file.clients
        .into_iter()
        .map(|(name, patterns)| {
            if BUILT_IN_CLIENTS.contains(&name.as_str())
                || name.contains(['@', '/', '*', '?', '{', '}', '[', ']', ','])
            {
                return Err(wrong(
                    path,
                    "clients",
                    format!("holds `{name}`, which cannot be a client's name"),
                ));
            }
            let wanted = glob_set(path, &format!("clients.{name}"), &patterns, runtimes)?;
            let mut matching: Vec<String> =
                runtimes.keys().filter(|runtime| wanted.is_match(runtime)).cloned().collect();
            matching.sort_by(|one, other| natural(one, other));
            Ok(Server {
                name,
                folder: folder.to_path_buf(),
                roles: Vec::new(),
                runtimes: matching,
                rules: Vec::new(),
                max_payload: None,
                npm: npm.clone(),
                build: None,
                start: start.clone(),
                versions: None,
                abi: None,
                modules: Vec::new(),
                files: file.files.iter().map(|file| folder.join(file)).collect(),
                settings: Vec::new(),
            })
        })
        .collect()
}

fn build(path: &Path, folder: &Path, table: BuildTable) -> Result<Build, UserError> {
    if table.argv.is_empty() {
        return Err(wrong(path, "build.argv", "is empty"));
    }
    let inputs = table.inputs.iter().map(|input| folder.join(input)).collect();
    Ok(Build { argv: table.argv, inputs, output: table.output, hint: table.hint })
}

fn glibc(folder: &Path) -> Result<Option<Glibc>, UserError> {
    let path = folder.join("glibc.toml");
    if !path.is_file() {
        return Ok(None);
    }
    let file: GlibcFile = read(&path)?;
    let built = folder.join(BUILD_FOLDER);
    Ok(Some(Glibc {
        folder: folder.to_path_buf(),
        build: build(&path, folder, file.build)?,
        loader: built.join(file.loader),
        libraries: built.join(file.libraries),
    }))
}

fn module(path: &Path, folder: &Path, table: ModuleTable) -> Result<Module, UserError> {
    let fetch = match (table.npm, table.git, table.tag) {
        (Some(npm), None, None) => Fetch::Npm { folder: folder.join(npm) },
        (None, Some(url), Some(tag)) => {
            let name = table.name.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
            Fetch::Git { url, tag, folder: folder.join("clone").join(name).join("repository") }
        }
        _ => return Err(wrong(path, "modules", "have either `npm`, or `git` and `tag`")),
    };
    Ok(Module { name: table.name, fetch, file: table.file })
}

/// Globs over runtimes; each must match one.
fn glob_set(
    path: &Path,
    key: &str,
    patterns: &[String],
    runtimes: &BTreeMap<String, Runtime>,
) -> Result<GlobSet, UserError> {
    if patterns.is_empty() {
        return Err(wrong(path, key, "is empty"));
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let glob = Glob::new(pattern)
            .map_err(|error| wrong(path, key, format!("holds `{pattern}`, which is no glob: {error}")))?;
        let matcher = glob.compile_matcher();
        if !runtimes.keys().any(|runtime| matcher.is_match(runtime)) {
            let known: Vec<&String> = runtimes.keys().collect();
            let near = nearest(pattern, &known).map(|near| format!("; did you mean `{near}`?"));
            return Err(wrong(
                path,
                key,
                format!("holds `{pattern}`, which matches no runtime{}", near.unwrap_or_default()),
            ));
        }
        set.add(glob);
    }
    set.build().map_err(|error| wrong(path, key, format!("is no set of globs: {error}")))
}

/// The order in which people list names that end in numbers: `node-9` before `node-10`.
fn natural(one: &str, other: &str) -> Ordering {
    let split = |name: &str| {
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (stem.to_owned(), name[stem.len()..].parse::<u64>().unwrap_or(0))
    };
    // Deno and Bun after Node, whose names end in a number, is what published tables do.
    let (one_stem, one_number) = split(one);
    let (other_stem, other_number) = split(other);
    (one_number == 0, one_stem, one_number).cmp(&(other_number == 0, other_stem, other_number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNTIMES: &str = "[native]\n[node-9]\nnpm = \"runtimes/node-9\"\nversion = \"9.1.0\"\nexecutable = { x86_64 = \"bin/node\", aarch64 = \"bin/node\" }\n[node-10]\nnpm = \"runtimes/node-10\"\nversion = \"10.1.0\"\nexecutable = { x86_64 = \"bin/node\", aarch64 = \"bin/node\" }\n[bun]\nnpm = \"runtimes/bun\"\nversion = \"1.0.0\"\nexecutable = { x86_64 = \"bun\", aarch64 = \"bun\" }\n";
    const SERVER: &str = "title = \"a server\"\nroles = [\"relay\"]\nruntimes = [\"node-*\", \"bun\"]\nmax_payload = \"1 MiB\"\n[start]\nargv = [\"{runtime}\", \"server.mjs\"]\n";

    fn tree(runtimes: &str, server: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("servers/mine")).unwrap();
        fs::create_dir_all(root.path().join("manifests/deep")).unwrap();
        fs::write(root.path().join("servers/runtimes.toml"), runtimes).unwrap();
        fs::write(root.path().join("servers/mine/server.toml"), server).unwrap();
        root
    }

    fn fault(runtimes: &str, server: &str) -> String {
        let root = tree(runtimes, server);
        let error = Catalog::load(Some(root.path())).expect_err("it is refused");
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.hint.is_some(), "{error}");
        error.message.replace(&root.path().display().to_string(), "ROOT")
    }

    #[test]
    fn servers_are_named_with_their_runtimes_in_natural_order() {
        let root = tree(RUNTIMES, SERVER);
        let catalog = Catalog::load(Some(root.path())).unwrap();
        assert_eq!(
            catalog.server_names(),
            ["relay", "relay-spin", "mine@node-9", "mine@node-10", "mine@bun"]
        );
        assert_eq!(catalog.max_payload("mine@bun"), Some(1 << 20));
        assert!(!catalog.knows_server("mine@native"));
        assert!(!catalog.knows_server("mine"));
        assert!(catalog.knows_server("faulty-echoed"));
        assert!(!catalog.server_names().contains(&"faulty-echoed".to_owned()));
    }

    #[test]
    fn the_root_is_found_from_below_and_is_none_elsewhere() {
        let root = tree(RUNTIMES, SERVER);
        let real = fs::canonicalize(root.path()).unwrap();
        assert_eq!(Catalog::find_root(&root.path().join("manifests/deep")), Some(real));
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(Catalog::find_root(elsewhere.path()), None);
        assert_eq!(Catalog::load(None).unwrap().server_names(), ["relay", "relay-spin"]);
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let message = fault(RUNTIMES, &SERVER.replace("max_payload", "max_paylod"));
        assert!(
            message.starts_with("`ROOT/servers/mine/server.toml`: TOML parse error at line 4"),
            "{message}"
        );
        assert!(message.contains("unknown field `max_paylod`"), "{message}");
        let message = fault(&RUNTIMES.replacen("version =", "verson =", 1), SERVER);
        assert!(message.contains("runtimes.toml`: TOML parse error at line 4"), "{message}");
    }

    #[test]
    fn what_means_nothing_is_refused_with_its_key() {
        for (from, to, expected) in [
            ("\"bun\"]", "\"bum\"]", "`runtimes` holds `bum`, which matches no runtime; did you mean `bun`?"),
            ("\"1 MiB\"", "\"1 Mb\"", "`max_payload` is no size"),
            ("[\"relay\"]", "[]", "`roles` is empty"),
            ("[\"relay\"]", "[\"rely\"]", "unknown variant `rely`"),
            ("[start]", "[rules]\n\"node-*\" = \"new\"\n[start]", "`rules.node-*` is no version requirement"),
            ("[\"{runtime}\", \"server.mjs\"]", "[]", "`start.argv` is empty"),
            (
                "[start]",
                "[[settings]]\nname = \"x\"\nvalue = \"1\"\nreason = \" \"\n[start]",
                "`settings.reason` of `x` is empty",
            ),
        ] {
            let message = fault(RUNTIMES, &SERVER.replace(from, to));
            assert!(message.contains(expected), "{message}");
        }
        let message = fault(&RUNTIMES.replace("version = \"1.0.0\"\n", ""), SERVER);
        assert!(message.contains("`bun.version` is missing"), "{message}");
    }

    #[test]
    fn a_users_own_runtime_must_be_known_and_be_a_file() {
        let root = tree(RUNTIMES, SERVER);
        let mut catalog = Catalog::load(Some(root.path())).unwrap();
        let own = root.path().join("own");
        fs::write(&own, "").unwrap();
        catalog.with_runtime("node-9", &own).unwrap();
        assert!(matches!(&catalog.runtimes["node-9"].source, Source::Own(path) if path.ends_with("own")));
        let error = catalog.with_runtime("node-8", &own).unwrap_err();
        assert!(error.hint.unwrap().starts_with("did you mean `node-9`?"));
        assert!(catalog.with_runtime("bun", root.path()).is_err());
        assert!(catalog.with_runtime("native", &own).is_err());
    }
}
