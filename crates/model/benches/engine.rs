//! Steps of the engine on a real model, in each type that the CPU has: `MEMLOOM_TEST_GGUF=FILE cargo bench -p mem-model`.
//! `scripts/bench-peers.sh` compares the whole with llama.cpp, PEFT and sentence-transformers.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{BatchSize, Criterion, Throughput};
use mem_model::constraint::ConstraintFactory;
use mem_model::generate::{DeviceKind, load};
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use serde_json::json;

/// Ids of no special meaning.
fn ids(n: usize) -> Vec<u32> {
    (0..n).map(|i| (1000 + i * 7919 % 50_000) as u32).collect()
}

fn model_steps(c: &mut Criterion, path: &Path) {
    for compute in [Compute::F32, Compute::Bf16, Compute::Int8] {
        if !compute.is_available() {
            println!("skipped: {compute:?} is not available here");
            continue;
        }
        let (model, _) = load(path, DeviceKind::Cpu, compute).expect("the model loads");
        let mut group = c.benchmark_group(format!("{compute:?}"));
        group.sample_size(10);
        let prompt = ids(512);
        group.throughput(Throughput::Elements(512));
        group.bench_function("prefill of 512 tokens", |b| {
            b.iter(|| model.hidden(black_box(&prompt), &[512], None, Pass::Prefill));
        });
        for rows in [1, 4, 16] {
            let mut cache = model.new_cache();
            model
                .hidden(&prompt, &[512], Some(&mut [&mut cache]), Pass::Prefill)
                .expect("the prompt is read");
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(format!("decode of {rows} rows after 512 tokens"), |b| {
                let forks = || {
                    (0..rows)
                        .map(|_| cache.fork().expect("forks are cheap"))
                        .collect()
                };
                b.iter_batched(
                    forks,
                    |mut forks: Vec<_>| {
                        let mut caches: Vec<_> = forks.iter_mut().collect();
                        let next = ids(rows);
                        let hidden = model
                            .hidden(&next, &vec![1; rows], Some(&mut caches), Pass::Decode)
                            .expect("rows are decoded");
                        model.logits(&hidden, Pass::Decode)
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

/// The mask of a token inside a text, which is what most masks are.
fn mask(c: &mut Criterion, path: &Path) {
    let (model, encoder) = load(path, DeviceKind::Cpu, Compute::F32).expect("the model loads");
    let width = model.config().vocab_size;
    let factory = ConstraintFactory::new(&encoder.tokenizer, width).expect("a grammar engine");
    let schema = json!({
        "type": "object",
        "properties": { "content": { "type": "string", "minLength": 1, "maxLength": 400 } },
        "required": ["content"],
        "additionalProperties": false,
    });
    let mut constraint = factory.constraint(&schema).expect("a grammar");
    let start = encoder
        .tokenizer
        .encode_text(r#"{"content":"Mina moved"#)
        .expect("ids");
    constraint.try_accept(&start).expect("the text is allowed");
    c.bench_function("mask inside a text", |b| b.iter(|| constraint.mask()));
}

fn main() {
    let Some(path) = std::env::var_os("MEMLOOM_TEST_GGUF").map(PathBuf::from) else {
        println!("skipped: set MEMLOOM_TEST_GGUF to the file that `memtrain models fetch` prints");
        return;
    };
    let mut c = Criterion::default().configure_from_args();
    model_steps(&mut c, &path);
    mask(&mut c, &path);
    c.final_summary();
}
