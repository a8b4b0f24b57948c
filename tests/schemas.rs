//! The committed JSON Schemas are those of the program, and what the project writes keeps to them.
//!
//! To regenerate: `for name in manifest record run cell baseline night; do cargo run -q -- schema $name > schemas/$name.json; done`

mod support;

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use support::{committed_schema, runner, validate};

const NAMES: [&str; 6] = ["manifest", "record", "run", "cell", "baseline", "night"];

#[test]
fn the_committed_schemas_are_those_of_the_program() {
    for name in NAMES {
        let output = runner().args(["schema", name]).output().expect("the program ends");
        let printed: Value = serde_json::from_slice(&output.stdout).expect("a schema is JSON");
        assert!(
            printed == committed_schema(name),
            "schemas/{name}.json is not what `runner schema {name}` prints; regenerate it: \
             `cargo run -q -- schema {name} > schemas/{name}.json`"
        );
    }
}

#[test]
fn every_schema_is_a_schema() {
    for name in NAMES {
        jsonschema::meta::validate(&committed_schema(name)).unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}

#[test]
fn every_manifest_keeps_to_its_schema() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests");
    let mut seen = 0;
    for entry in fs::read_dir(folder).expect("there are manifests") {
        let path = entry.expect("a folder can be listed").path();
        let text = fs::read_to_string(&path).expect("a manifest can be read");
        let value: toml::Table = text.parse().unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        validate("manifest", &serde_json::to_value(value).expect("TOML maps to JSON"));
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn the_schema_of_a_manifest_refuses_what_the_program_refuses() {
    let validator = jsonschema::validator_for(&committed_schema("manifest")).expect("the schema is one");
    for wrong in [
        json!({ "titel": "x" }),
        json!({ "passes": "three" }),
        json!({ "passes": -1 }),
        json!({ "workloads": { "x": { "kind": "pinpong" } } }),
        json!({ "workloads": { "x": { "payload": [] } } }),
        json!({ "workloads": { "x": { "payload": [16, "x"] } } }),
        json!({ "cores": { "server": "all" } }),
        json!({ "matrix": [{ "server": ["relay"] }] }),
        json!({ "tolerance": [{ "metric": "p98" }] }),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong} passes");
    }
}
