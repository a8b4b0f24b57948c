//! What the native client does with a message besides the system calls: stamp the frame to be sent, stamp and compare
//! the frame that arrives, record the latency. A round trip has two of the first, two of the second, one of the third.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use runner::wire::Opcode;
use runner::workload::payload::{End, Tag};
use runner::workload::{Latency, Template};

fn hot_path(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("client hot path");
    group
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(30);
    let tag = Tag::new(End::A, 7);
    for payload in [16, 4096] {
        let mut template = Template::new(End::A, Opcode::Binary, payload);
        let mut sequence = 0u32;
        group.bench_function(format!("stamp/{payload}"), |bencher| {
            bencher.iter(|| {
                sequence = sequence.wrapping_add(1);
                template.stamp(tag, sequence);
                black_box(template.outgoing());
            });
        });
        template.stamp(tag, 42);
        let arrived = template.arriving();
        group.bench_function(format!("stamp and compare/{payload}"), |bencher| {
            bencher.iter(|| {
                template.stamp(black_box(tag), black_box(42));
                assert!(template.is_whole(black_box(&arrived)));
            });
        });
    }
    let mut latency = Latency::new(20);
    let mut latency_ns = 15_000;
    group.bench_function("record a latency", |bencher| {
        bencher.iter(|| {
            latency_ns = 14_000 + (latency_ns * 7 + 13) % 9_000;
            latency.record(latency_ns);
        });
    });
    group.finish();
}

criterion_group!(benches, hot_path);
criterion_main!(benches);
