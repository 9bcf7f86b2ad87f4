//! Speeds of the engine for `scripts/bench-peers.sh`: one JSON line a run.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand};
use mem_cli::device::MachineArgs;
use mem_cli::memory::peak_bytes;
use mem_model::adapter::{self, AdapterConfig};
use mem_model::cache::KvCache;
use mem_model::encode::Encoded;
use mem_model::generate::load;
use mem_model::linear::Pass;
use mem_model::qwen::{Model, Projection};
use mem_train::gradient::{Sums, accumulate};
use mem_train::optimiser::{AdamW, AdamWSettings};
use mem_train::sft::attach_trainable;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde_json::json;

#[derive(Parser)]
struct Arguments {
    /// HF folder or GGUF file
    #[arg(long)]
    model: PathBuf,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(subcommand)]
    work: Work,
}

#[derive(Subcommand)]
enum Work {
    /// One prompt, in chunks as the engine computes them
    Prefill {
        #[arg(long, default_value_t = 512)]
        tokens: usize,
        #[arg(long, default_value_t = 3)]
        repeat: usize,
    },
    /// Steps of LoRA training at rank 16 on all seven projections, every token supervised
    Lora {
        #[arg(long, default_value_t = 512)]
        tokens: usize,
        #[arg(long, default_value_t = 4)]
        steps: usize,
    },
    /// Rows of tokens one after another
    Decode {
        #[arg(long, default_value_t = 32)]
        prompt: usize,
        #[arg(long, default_value_t = 128)]
        tokens: usize,
        #[arg(long, default_value_t = 1)]
        rows: usize,
    },
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // SAFETY: nothing else runs yet.
    unsafe { arguments.machine.limit_threads() };
    let machine = arguments.machine;
    let compute = match arguments.work {
        Work::Lora { .. } => machine.compute_to_train(),
        _ => machine.compute(),
    };
    let (model, _) = load(&arguments.model, machine.kind(), compute)?;
    rayon::scope(|_| match arguments.work {
        Work::Prefill { tokens, repeat } => prefill(&model, tokens, repeat),
        Work::Lora { tokens, steps } => lora(model, tokens, steps),
        Work::Decode {
            prompt,
            tokens,
            rows,
        } => decode(&model, prompt, tokens, rows),
    })
}

fn print(tokens: usize, seconds: f64) {
    let line = json!({
        "tokens": tokens,
        "seconds": seconds,
        "tokens_per_second": tokens as f64 / seconds,
        "peak_memory_bytes": peak_bytes(),
    });
    println!("{line}");
}

/// Ids of no special meaning.
fn ids(n: usize, seed: usize) -> Vec<u32> {
    (0..n)
        .map(|i| (1000 + (i * 7919 + seed * 131) % 50_000) as u32)
        .collect()
}

fn feed(model: &Model, ids: &[u32], cache: &mut KvCache) -> anyhow::Result<()> {
    for part in ids.chunks(512) {
        model.hidden(part, &[part.len()], Some(&mut [&mut *cache]), Pass::Prefill)?;
    }
    Ok(())
}

fn prefill(model: &Model, tokens: usize, repeat: usize) -> anyhow::Result<()> {
    let ids = ids(tokens, 0);
    let mut best = f64::INFINITY;
    for _ in 0..=repeat {
        let mut cache = KvCache::new(model.config().layers);
        let start = Instant::now();
        feed(model, &ids, &mut cache)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    print(tokens, best);
    Ok(())
}

fn lora(mut model: Model, tokens: usize, steps: usize) -> anyhow::Result<()> {
    let config = AdapterConfig {
        r: 16,
        alpha: 32.0,
        rslora: false,
        targets: Projection::ALL.to_vec(),
        base_model: String::new(),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let tensors = adapter::initial(&config, &model, &mut rng)?;
    let vars = attach_trainable(&mut model, &config, &tensors)?;
    let mut optimiser = AdamW::new(AdamWSettings::with_decay(0.0), &vars)?;
    let mut start = Instant::now();
    for step in 0..=steps {
        if step == 1 {
            start = Instant::now();
        }
        let example = Encoded {
            ids: ids(tokens, step),
            prompt_len: 0,
        };
        let mut sums = Sums::default();
        accumulate(&model, &vars, &[&example], &mut sums)?;
        optimiser.step(&vars, &sums.gradients, 1e-4)?;
    }
    print(tokens * steps, start.elapsed().as_secs_f64());
    Ok(())
}

fn decode(model: &Model, prompt: usize, tokens: usize, rows: usize) -> anyhow::Result<()> {
    let mut caches = Vec::new();
    for row in 0..rows {
        let mut cache = KvCache::new(model.config().layers);
        feed(model, &ids(prompt, row), &mut cache)?;
        caches.push(cache);
    }
    let start = Instant::now();
    for step in 0..tokens {
        let next = ids(rows, step);
        let mut borrowed: Vec<&mut KvCache> = caches.iter_mut().collect();
        let hidden = model.hidden(&next, &vec![1; rows], Some(&mut borrowed), Pass::Decode)?;
        model.logits(&hidden, Pass::Decode)?;
    }
    print(tokens * rows, start.elapsed().as_secs_f64());
    Ok(())
}
