//! What the faster types of products change: next-token distributions at every position of labelled replies against
//! those in f32. Windows, prompts and passes are those of `memextract` without an adapter.
//!
//!     cargo run --release -p mem-cli --features onednn --example dtype_quality -- datasets/scenarios --windows 12

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use mem_cli::extract::args::DEFAULT_MODEL;
use mem_cli::models::resolve_model;
use mem_model::cache::KvCache;
use mem_model::encode::Encoded;
use mem_model::generate::{DeviceKind, load};
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_schema::prompt::PROMPT_VERSION;
use mem_schema::tuning::{Instruction, Tuning};
use mem_train::examples::Examples;
use rayon::prelude::*;

#[derive(Parser)]
struct Arguments {
    /// Scenario files or folders of them; their dev scenarios are measured
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// A name of the catalogue, a folder or a `.gguf` file
    #[arg(long, default_value = DEFAULT_MODEL)]
    model: String,
    /// Windows, spread evenly over those of the data
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..))]
    windows: u16,
}

/// Tokens of a reply whose logits are held at once.
const PART: usize = 64;

/// What one type gives at one position of a reply.
struct Position {
    /// Kullback-Leibler divergence from f32, nats.
    divergence: f64,
    /// Whether the likeliest token is that of f32.
    same: bool,
    /// Negative log-likelihood of the reply's token, nats.
    loss: f64,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let path = resolve_model(&arguments.model)?;
    let (reference, encoder) = load(&path, DeviceKind::Cpu, Compute::F32)?;
    let tuning = Tuning {
        prompt_version: PROMPT_VERSION,
        instruction: Instruction::Long,
        window: 10,
        overlap: 2,
        captions: true,
    };
    let limit = reference.config().context_length;
    let examples = Examples::read(&arguments.data, &tuning, &encoder, limit)?.dev;
    let mut found = vec![(Compute::F32, reference, Vec::new())];
    for compute in [Compute::Bf16, Compute::Int8] {
        if compute.is_available() {
            let (model, _) = load(&path, DeviceKind::Cpu, compute)?;
            found.push((compute, model, Vec::new()));
        }
    }
    let windows = usize::from(arguments.windows).min(examples.len());
    for index in 0..windows {
        let example = &examples[index * examples.len() / windows];
        let Encoded { ids, prompt_len } = &example.encoded;
        eprintln!("{}: {} positions", example.id, ids.len() - prompt_len);
        let (prompt, reply) = ids.split_at(prompt_len - 1);
        let mut caches = found
            .iter()
            .map(|(_, model, _)| read(model, prompt))
            .collect::<Result<Vec<_>>>()?;
        for (part, targets) in reply.chunks(PART).zip(reply[1..].chunks(PART)) {
            let part = &part[..targets.len()];
            let mut exact = Vec::new();
            for ((_, model, positions), cache) in found.iter_mut().zip(&mut caches) {
                let logits = decode(model, part, cache)?;
                if exact.is_empty() {
                    exact.clone_from(&logits);
                }
                positions.extend(compare(&exact, &logits, targets));
            }
        }
    }
    println!("| {windows} windows | positions | mean KL | 99 % below | same token | loss |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (compute, _, mut positions) in found {
        positions.sort_by(|a, b| a.divergence.total_cmp(&b.divergence));
        let count = positions.len();
        let mean = |f: fn(&Position) -> f64| positions.iter().map(f).sum::<f64>() / count as f64;
        println!(
            "| {compute:?} | {count} | {:.1e} | {:.1e} | {:.2} % | {:.4} |",
            mean(|p| p.divergence),
            positions[(count * 99).div_ceil(100) - 1].divergence,
            100.0 * mean(|p| f64::from(u8::from(p.same))),
            mean(|p| p.loss)
        );
    }
    Ok(())
}

/// Reads a prompt in the engine's parts.
fn read(model: &Model, prompt: &[u32]) -> Result<KvCache> {
    let mut cache = model.new_cache();
    for part in prompt.chunks(512) {
        model.hidden(part, &[part.len()], Some(&mut [&mut cache]), Pass::Prefill)?;
    }
    Ok(cache)
}

/// Logits `[M, V]` after each of `M` tokens of a reply.
fn decode(model: &Model, part: &[u32], cache: &mut KvCache) -> Result<Vec<f32>> {
    let hidden = model.hidden(part, &[part.len()], Some(&mut [cache]), Pass::Decode)?;
    let logits = model.logits(&hidden, Pass::Decode)?;
    Ok(logits.flatten_all()?.to_vec1::<f32>()?)
}

/// `logits` and those in f32, `[M, V]` each, after which `M` tokens come.
fn compare(exact: &[f32], logits: &[f32], targets: &[u32]) -> Vec<Position> {
    let width = exact.len() / targets.len();
    let rows = exact.par_chunks(width).zip(logits.par_chunks(width));
    let likeliest = |row: &[f32]| (0..width).max_by(|&a, &b| row[a].total_cmp(&row[b]));
    let positions = rows.zip(targets).map(|((exact, row), &target)| {
        let (p_sum, q_sum) = (log_sum(exact), log_sum(row));
        let terms = exact.iter().zip(row).map(|(p, q)| {
            let (p, q) = (f64::from(*p) - p_sum, f64::from(*q) - q_sum);
            p.exp() * (p - q)
        });
        Position {
            divergence: terms.sum(),
            same: likeliest(exact) == likeliest(row),
            loss: q_sum - f64::from(row[target as usize]),
        }
    });
    positions.collect()
}

/// `ln(sum(exp(x)))`
fn log_sum(logits: &[f32]) -> f64 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|x| f64::from(x - max).exp()).sum();
    sum.ln() + f64::from(max)
}
