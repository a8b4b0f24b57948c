//! How long a plan of 100,000 cells takes to load, expand, order and print. The target is a second for all of it.

#![expect(clippy::unwrap_used, reason = "a bench ends where its made-up manifest cannot be written")]

use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use runner::manifest::{self, Names};
use runner::plan::{NoRates, Selection, estimate_pass, expand, order};

const SERVERS: usize = 250;
const CLIENTS: usize = 4;
const PAYLOADS: u64 = 100;

struct Many;

impl Names for Many {
    fn server_names(&self) -> Vec<String> {
        (0..SERVERS).map(|n| format!("server-{n}@node-24")).collect()
    }

    fn knows_server(&self, name: &str) -> bool {
        name == "relay" || name.starts_with("server-")
    }

    fn client_names(&self) -> Vec<String> {
        (0..CLIENTS).map(|n| format!("client-{n}")).collect()
    }

    fn knows_client(&self, name: &str) -> bool {
        name == "native" || name.starts_with("client-")
    }

    fn max_payload(&self, _server: &str) -> Option<u64> {
        Some(1 << 20)
    }
}

fn manifest_file() -> PathBuf {
    let mut text = String::from("passes = 3\nseed = 1\n[workloads.load]\nkind = \"load\"\npayload = [");
    for payload in 12..12 + PAYLOADS {
        write!(text, "{payload},").unwrap();
    }
    text.push_str(
        "]\n[[matrix]]\nworkloads = [\"*\"]\nservers = [\"*\"]\nclients = [\"*\"]\n\
         exclude = [{ server = \"server-1*\", client = \"client-3\", reason = \"r\" }]\n",
    );
    let path = std::env::temp_dir().join(format!("runner-bench-plan-{}.toml", std::process::id()));
    fs::write(&path, text).unwrap();
    path
}

fn plan(criterion: &mut Criterion) {
    let path = manifest_file();
    let mut group = criterion.benchmark_group("plan of 100,000 cells");
    group.sample_size(10);
    group.bench_function("load", |bencher| {
        bencher.iter(|| manifest::load(black_box(&path), &Many).unwrap());
    });
    let manifest = manifest::load(&path, &Many).unwrap();
    group.bench_function("expand", |bencher| {
        bencher.iter(|| expand(black_box(&manifest), &Selection::default()));
    });
    let selection =
        Selection { cell: vec!["load-*/server-{1,2}*/*".parse().unwrap()], ..Selection::default() };
    group.bench_function("expand a selection", |bencher| {
        bencher.iter(|| expand(black_box(&manifest), &selection));
    });
    let plan = expand(&manifest, &Selection::default());
    group.bench_function("estimate", |bencher| {
        bencher.iter(|| estimate_pass(black_box(&manifest), &plan, &NoRates));
    });
    group.bench_function("order of 3 passes", |bencher| {
        bencher.iter(|| order(black_box(plan.cells.len()), 3, 1));
    });
    group.finish();
    fs::remove_file(path).unwrap();
}

criterion_group!(benches, plan);
criterion_main!(benches);
