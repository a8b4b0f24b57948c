//! The manifests that come along are valid, against the catalogue that comes along.

mod support;

use std::fs;
use std::path::Path;

use serde_json::Value;
use support::runner;

#[test]
fn every_manifest_passes_its_check() {
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests")).expect("a folder") {
        let path = entry.expect("a folder can be listed").path();
        let output = runner().arg("check").arg(&path).output().expect("the program ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}:\n{said}", path.display());
        seen += 1;
    }
    assert!(seen > 0);
}

#[test]
fn the_quick_one_takes_less_than_a_minute() {
    let output = runner()
        .args(["plan", "manifests/quick.toml", "--format", "json", "--out", "no-such-folder"])
        .output()
        .expect("the program ends");
    let plan: Value = serde_json::from_slice(&output.stdout).expect("a plan is JSON");
    let total_s = plan["total_s"].as_f64().expect("a plan has a total");
    assert!((20.0..50.0).contains(&total_s), "{total_s} s");
    assert_eq!(plan["control"], "pingpong-16/relay/native");
    let servers: std::collections::BTreeSet<&str> = plan["cells"]
        .as_array()
        .expect("cells")
        .iter()
        .filter_map(|cell| cell["id"].as_str()?.split('/').nth(1))
        .collect();
    let expected = ["bun-serve@bun", "relay", "relay-spin", "ws@node-24", "wsrelay@native"];
    assert_eq!(servers.into_iter().collect::<Vec<_>>(), expected);
}
