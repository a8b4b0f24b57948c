//! The servers that come with the project: what their files promise, and that setup does nothing twice.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runner::catalog::{Catalog, setup};
use runner::plan::Role;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn catalog() -> Catalog {
    Catalog::load(Some(root())).unwrap()
}

fn locks() -> Vec<PathBuf> {
    let folders = ["servers", "servers/runtimes"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let mut locks: Vec<PathBuf> = folders
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path().join("package-lock.json"))
        .filter(|lock| lock.is_file())
        .collect();
    locks.sort();
    assert!(locks.len() >= 8, "{locks:?}");
    locks
}

#[test]
fn lock_files_pin_each_package_by_its_hash_and_name_no_host() {
    for lock in locks() {
        let text = fs::read_to_string(&lock).unwrap();
        assert!(!text.contains("\"resolved\"") && !text.contains("://"), "{} names a host", lock.display());
        let lock: Value = serde_json::from_str(&text).unwrap();
        let packages = lock["packages"].as_object().unwrap();
        for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
            assert!(package["integrity"].as_str().unwrap().starts_with("sha512-"), "{name}");
        }
    }
}

#[test]
fn runtimes_are_pinned_to_what_their_lock_files_hold() {
    let text = fs::read_to_string(root().join("servers/runtimes.toml")).unwrap();
    let runtimes: toml::Table = toml::from_str(&text).unwrap();
    for (name, runtime) in runtimes.iter().filter(|(_, runtime)| runtime.get("npm").is_some()) {
        let folder = root().join("servers").join(runtime["npm"].as_str().unwrap());
        let lock: Value =
            serde_json::from_slice(&fs::read(folder.join("package-lock.json")).unwrap()).unwrap();
        for (_, package) in lock["packages"].as_object().unwrap().iter().filter(|(name, _)| !name.is_empty())
        {
            assert_eq!(package["version"], runtime["version"].as_str().unwrap(), "{name}");
        }
        for executable in runtime["executable"].as_table().unwrap().values() {
            let (package, _) = executable.as_str().unwrap().rsplit_once('/').unwrap();
            let package = package.trim_end_matches("/bin");
            assert!(lock["packages"].get(package).is_some(), "{name}: {package} is not in the lock file");
        }
    }
}

#[test]
fn every_setting_has_its_reason_and_every_server_a_role() {
    let catalog = catalog();
    for name in catalog.server_names() {
        assert_eq!(catalog.roles(&name), [Role::Relay], "{name}");
        for setting in catalog.settings(&name) {
            assert!(setting.reason.len() > 20, "{name}: {}", setting.name);
        }
    }
    assert!(catalog.settings("bun-serve@bun").iter().any(|setting| setting.name == "perMessageDeflate"));
}

#[test]
fn what_is_set_up_resolves_with_versions_and_hashes_and_takes_no_time_again() {
    let catalog = catalog();
    let server = "wsrelay@native".to_owned();
    let names = [server.clone(), "relay".to_owned()];
    let results = setup(&catalog, &names, &["native".to_owned()], &mut |_| {});
    assert_eq!((results.servers.len(), results.clients.len()), (2, 1));
    if let Err(reason) = &results.servers[&server] {
        assert!(std::env::var_os("CI").is_none(), "{server} cannot be tested here: {reason}");
        eprintln!("NOT TESTED: {server} cannot be built here: {reason}");
        return;
    }
    let start = Instant::now();
    let mut events = Vec::new();
    setup(&catalog, &names, &[], &mut |event| events.push(event));
    assert!(start.elapsed() < Duration::from_millis(200), "{:?}", start.elapsed());
    assert_eq!(events.len(), 1, "one step, which is up to date: {events:?}");

    let spec = catalog.resolve_server(&server, Role::Relay).unwrap();
    assert!(Path::new(&spec.program.argv[0]).is_absolute());
    assert_eq!(spec.program.versions["wsrelay"], "1");
    assert!(spec.program.versions["cc"].starts_with(|c: char| c.is_ascii_digit()));
    let names: Vec<_> = spec.program.files.iter().map(|file| file.file_name().unwrap()).collect();
    assert_eq!(names, ["wsrelay", "wsrelay.c"]);
}
