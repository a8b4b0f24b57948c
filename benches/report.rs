//! How long a report of 10,000 records takes: about what a month of nights leaves behind. The target is a second.

#![expect(clippy::unwrap_used, reason = "a bench ends where its made-up run cannot be written")]

use std::fs;
use std::path::Path;

use chrono::{DateTime, Utc};
use criterion::{Criterion, criterion_group, criterion_main};
use hdrhistogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use runner::plan::{
    CellId, ClientSpec, Cores, Job, Program, ResolvedCell, Role, ServerSpec, Timeouts, Workload,
};
use runner::record::store::{PlannedCell, RUN_SCHEMA, RunMeta, record_path};
use runner::record::{Counts, Outcome, Record, Trial};
use runner::report::{Format, Style, render, summarize};
use runner::stats::encode_histogram;
use runner::workload::protocol::Batch;
use runner::workload::{Extent, Kind, Mask, Opcode, Params, Wait};

const CELLS: u32 = 500;
const PASSES: u32 = 20;
const TRIALS: u32 = 5;
const ROUNDS: u64 = 40_000;

/// Latencies about 30 us with a long tail, as a relay's are.
fn latencies(generator: &mut ChaCha8Rng) -> String {
    let mut histogram = Histogram::<u64>::new(3).unwrap();
    for _ in 0..ROUNDS {
        let sum: f64 = (0..6).map(|_| generator.random_range(-0.25..0.25f64)).sum();
        let tail = if generator.random_range(0..500) == 0 { 4.0 } else { 1.0 };
        histogram.record((30_000.0 * sum.exp() * tail) as u64).unwrap();
    }
    encode_histogram(&histogram)
}

fn job(id: &CellId, pass: u32) -> Job {
    let params = Params {
        kind: Kind::Pingpong,
        payload: 16,
        opcode: Opcode::Binary,
        pairs: 1,
        in_flight: 1,
        rate_per_s: None,
        threads: 1,
        warmup: Extent::Rounds(20_000),
        trial: Extent::Rounds(ROUNDS),
        trials: TRIALS,
        mask: Mask::Zero,
        wait: Wait::Spin,
    };
    let cell = ResolvedCell {
        id: id.clone(),
        workload: Workload { name: id.workload.clone(), params },
        server: ServerSpec {
            name: "relay".to_owned(),
            runtime: None,
            role: Role::Relay,
            program: Program::default(),
            settings: Default::default(),
            max_payload: None,
        },
        client: ClientSpec { name: "native".to_owned(), runtime: None, program: Program::default() },
        cores: Cores { server: vec![0], client: vec![1] },
        limits: None,
        timeouts: Timeouts::default(),
        port: None,
    };
    Job {
        run_id: "bench".to_owned(),
        manifest: "bench".to_owned(),
        pass,
        order: 0,
        seed: 1,
        cell,
        log_dir: None,
        runner: None,
    }
}

fn write_run(run: &Path) {
    let at: DateTime<Utc> = DateTime::from_timestamp(1_791_633_600, 0).unwrap();
    let mut generator = ChaCha8Rng::seed_from_u64(1);
    let histograms: Vec<String> = (0..20).map(|_| latencies(&mut generator)).collect();
    let ids: Vec<CellId> =
        (0..CELLS).map(|n| CellId::new(format!("w-{}", n / 10), format!("s-{}", n % 10), "native")).collect();
    for id in &ids {
        for pass in 1..=PASSES {
            let mut record = Record::blank(&job(id, pass), Outcome::Ok, at);
            record.trials = (0..TRIALS)
                .map(|trial| Trial {
                    batch: Batch {
                        rounds: ROUNDS,
                        elapsed_ns: 1_300_000_000 + u64::from(generator.random_range(0..100_000_000u32)),
                        latency: Some(
                            histograms[(pass * TRIALS + trial) as usize % histograms.len()].clone(),
                        ),
                        empty_polls: Some(1),
                        busy: Some(0.5),
                        ..Batch::default()
                    },
                    window_ns: 1_300_000_000,
                    ..Trial::default()
                })
                .collect();
            let path = record_path(run, id, pass);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, serde_json::to_vec(&record).unwrap()).unwrap();
        }
    }
    let cells = ids.into_iter().map(|id| PlannedCell { id, content_id: None, skipped: None }).collect();
    let meta = RunMeta {
        schema: RUN_SCHEMA.to_owned(),
        run_id: "bench".to_owned(),
        manifest: "bench".to_owned(),
        title: "bench".to_owned(),
        started_at: at,
        finished_at: None,
        interrupted: false,
        argv: Vec::new(),
        seed: 1,
        passes: PASSES,
        control: Some(CellId::new("w-0", "s-0", "native")),
        rules: Default::default(),
        narrowed: false,
        until_decided: None,
        cells,
        excluded: Vec::new(),
        counts: Counts::default(),
        runner_version: "0.1.0".to_owned(),
        sources: Vec::new(),
    };
    fs::write(run.join("run.json"), serde_json::to_vec(&meta).unwrap()).unwrap();
}

fn report(bencher: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    write_run(folder.path());
    let mut group = bencher.benchmark_group("report");
    group.sample_size(10);
    group.bench_function("10,000 records as a table", |bencher| {
        bencher.iter(|| {
            let summary = summarize(folder.path()).unwrap();
            assert_eq!(summary.coverage.counts.ok, CELLS * PASSES);
            render(&summary, Format::Table, &Style::default()).len()
        });
    });
    group.finish();
}

criterion_group!(benches, report);
criterion_main!(benches);
