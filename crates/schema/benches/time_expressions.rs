//! Sentences a second that time expressions are read in: `cargo bench -p mem-schema`.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mem_schema::{
    moment::Moment,
    time::resolve::{Language, Options, resolve},
};
use serde_json::Value;

/// The sentences of the English test data, with their times.
fn sentences() -> Vec<(String, Moment)> {
    let lines = include_str!("../tests/dates/en.jsonl").lines();
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        let at = value["reference"].as_str()?.parse().ok()?;
        Some((value["input"].as_str()?.to_owned(), at))
    };
    lines.filter_map(read).collect()
}

fn bench(criterion: &mut Criterion) {
    let sentences = sentences();
    for (name, language) in [
        ("language given", Some(Language::English)),
        ("language found out", None),
    ] {
        let options = Options {
            language,
            ..Options::default()
        };
        let mut group = criterion.benchmark_group("time expressions");
        group.throughput(Throughput::Elements(sentences.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for (text, at) in &sentences {
                    black_box(resolve(black_box(text), Some(at), &options));
                }
            });
        });
        group.finish();
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
