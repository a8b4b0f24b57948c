//! The examples of docs/MANIFEST.md are what the program accepts and says.
//!
//! A block marked `toml` is a whole manifest, `toml part` is added to one, and `toml wrong` is refused with the
//! `text` that follows.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use runner::manifest;
use serde_json::Value;
use support::names::FakeNames;
use support::{Sandbox, committed_schema};

/// Stands around a part: the workloads and the row that parts refer to.
const AROUND: &str = r#"
[workloads.load]
kind = "load"
payload = [16, 4096]

[[matrix]]
workloads = ["*"]
servers = ["*"]
"#;

fn page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/MANIFEST.md"))
        .expect("the page is there")
}

/// Blocks of code by their mark, in order.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(mark) = line.strip_prefix("```") {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            blocks.push((mark.to_owned(), text.join("\n") + "\n"));
        }
    }
    blocks
}

fn load(text: &str) -> Result<manifest::Manifest, String> {
    let sandbox = Sandbox::new();
    sandbox.file("other.toml", "[workloads.other]\nkind = \"load\"\n");
    let path = sandbox.file("m.toml", text);
    manifest::load(&path, &FakeNames)
        .map_err(|error| format!("error: {error}\n").replace(&format!("{}/", sandbox.path().display()), ""))
}

#[test]
fn every_example_is_as_the_page_says() {
    let page = page();
    let mut refused = None;
    let mut seen = BTreeSet::new();
    for (mark, text) in blocks(&page) {
        seen.insert(mark.clone());
        match mark.as_str() {
            "toml" => drop(load(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))),
            "toml part" => {
                let whole = format!("{text}{AROUND}");
                drop(load(&whole).unwrap_or_else(|error| panic!("{whole}\n{error}")));
            }
            "toml wrong" => refused = Some(load(&text).expect_err("a wrong example is refused")),
            "text" => assert_eq!(Some(text), refused.take(), "what the page shows of the error above"),
            other => panic!("a block is marked `{other}`"),
        }
    }
    assert_eq!(refused, None, "a wrong example without the error that it meets");
    assert_eq!(seen.len(), 4, "one of the four kinds of blocks is missing");
}

#[test]
fn every_key_is_on_the_page() {
    let page = page();
    let schema = committed_schema("manifest");
    let tables = schema["$defs"].as_object().expect("tables").values().chain([&schema]);
    let mut keys: Vec<&String> = tables
        .filter_map(|table: &Value| table["properties"].as_object())
        .flat_map(|keys| keys.keys())
        .collect();
    keys.sort();
    assert!(keys.len() > 40, "{keys:?}");
    let in_a_table = |key: &str| page.lines().any(|line| line.starts_with(&format!("| `{key}` |")));
    let by_a_heading =
        ["cores", "defaults", "workloads", "matrix", "limits", "tolerance", "judge", "runtimes"];
    let parts_of_an_exclusion = ["workload", "server", "client", "reason"];
    for key in keys {
        assert!(
            in_a_table(key)
                || by_a_heading.contains(&key.as_str()) && page.contains(&format!("[{key}"))
                || parts_of_an_exclusion.contains(&key.as_str()),
            "`{key}` is not documented"
        );
    }
}
