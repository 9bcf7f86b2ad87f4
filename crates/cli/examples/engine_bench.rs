//! Speeds of the engine for `scripts/bench-peers.sh` and `scripts/gpu-check.sh`: one JSON line a run.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::{Parser, Subcommand};
use mem_cli::device::{Device, MachineArgs};
use mem_cli::memory::{give_back_when_freed, peak_bytes};
use mem_model::adapter::{self, AdapterConfig};
use mem_model::cache::KvCache;
use mem_model::encode::{ChatEncoder, Encoded};
use mem_model::generate::{LocalGenerator, load};
use mem_model::linear::Pass;
use mem_model::qwen::{Model, Projection};
use mem_schema::generator::{self, ChatMessage, Generator, Reply, Request, Sampling};
use mem_schema::transcript::Role;
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
    /// Replies of a given length to prompts of a given length, all rows at once, as programs ask for them
    Generate {
        #[arg(long, default_value_t = 1024)]
        prompt: usize,
        #[arg(long, default_value_t = 128)]
        tokens: usize,
        #[arg(long, default_value_t = 1)]
        rows: usize,
        #[arg(long, default_value_t = 3)]
        repeat: usize,
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
    let (model, encoder) = load(&arguments.model, machine.kind(), compute)?;
    let run = || match arguments.work {
        Work::Prefill { tokens, repeat } => prefill(&model, tokens, repeat),
        Work::Lora { tokens, steps } => lora(model, tokens, steps),
        Work::Decode {
            prompt,
            tokens,
            rows,
        } => decode(&model, prompt, tokens, rows),
        Work::Generate {
            prompt,
            tokens,
            rows,
            repeat,
        } => generate(model, encoder, [prompt, tokens, rows], repeat),
    };
    match machine.device {
        Device::Cpu => rayon::scope(|_| run()),
        // On this thread: each thread has its own queue of work on a device.
        Device::Cuda => run(),
    }
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
fn ids(model: &Model, n: usize, seed: usize) -> Vec<u32> {
    let vocabulary = model.config().vocab_size;
    (0..n)
        .map(|i| ((1000 + (i * 7919 + seed * 131) % 50_000) % vocabulary) as u32)
        .collect()
}

fn feed(model: &Model, ids: &[u32], cache: &mut KvCache) -> anyhow::Result<()> {
    for part in ids.chunks(512) {
        model.hidden(part, &[part.len()], Some(&mut [&mut *cache]), Pass::Prefill)?;
    }
    Ok(())
}

fn prefill(model: &Model, tokens: usize, repeat: usize) -> anyhow::Result<()> {
    let ids = ids(model, tokens, 0);
    let mut best = f64::INFINITY;
    for _ in 0..=repeat {
        let mut cache = KvCache::new(model.config().layers);
        let start = Instant::now();
        feed(model, &ids, &mut cache)?;
        model.device().synchronize()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    print(tokens, best);
    Ok(())
}

fn lora(mut model: Model, tokens: usize, steps: usize) -> anyhow::Result<()> {
    give_back_when_freed();
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
            model.device().synchronize()?;
            start = Instant::now();
        }
        let example = Encoded {
            ids: ids(&model, tokens, step),
            prompt_len: 0,
        };
        let mut sums = Sums::default();
        accumulate(&model, &vars, &[&example], &mut sums)?;
        optimiser.step(&vars, &sums.gradients, 1e-4)?;
    }
    model.device().synchronize()?;
    print(tokens * steps, start.elapsed().as_secs_f64());
    Ok(())
}

fn decode(model: &Model, prompt: usize, tokens: usize, rows: usize) -> anyhow::Result<()> {
    let mut caches = Vec::new();
    for row in 0..rows {
        let mut cache = KvCache::new(model.config().layers);
        feed(model, &ids(model, prompt, row), &mut cache)?;
        caches.push(cache);
    }
    model.device().synchronize()?;
    let start = Instant::now();
    for step in 0..tokens {
        let next = ids(model, rows, step);
        let mut borrowed: Vec<&mut KvCache> = caches.iter_mut().collect();
        let hidden = model.hidden(&next, &vec![1; rows], Some(&mut borrowed), Pass::Decode)?;
        model.logits(&hidden, Pass::Decode)?;
    }
    model.device().synchronize()?;
    print(tokens * rows, start.elapsed().as_secs_f64());
    Ok(())
}

/// Seconds of `rows` replies of `tokens` tokens, and the tokens that came.
fn reply(
    generator: &LocalGenerator,
    text: &str,
    tokens: usize,
    rows: usize,
) -> anyhow::Result<(f64, usize)> {
    let request = |seed| Request {
        messages: vec![message(text)],
        shared_bytes: 0,
        schema: None,
        max_new_tokens: tokens,
        // All tokens are about equally likely: a random model would else repeat itself, which is easy to draft.
        sampling: Sampling::Random {
            temperature: 100.0,
            top_p: 1.0,
            seed,
        },
        stop: None,
    };
    let mut list = List {
        requests: (0..rows as u64).map(request).collect(),
        tokens: 0,
        error: None,
    };
    let start = Instant::now();
    generator.generate_all(&mut list);
    let seconds = start.elapsed().as_secs_f64();
    match list.error {
        Some(error) => Err(error.into()),
        None => Ok((seconds, list.tokens)),
    }
}

struct List<'a> {
    requests: Vec<Request<'a>>,
    tokens: usize,
    error: Option<mem_model::error::Error>,
}

impl<'a> generator::Work<'a, mem_model::error::Error> for List<'a> {
    fn next(&mut self) -> Option<Request<'a>> {
        self.requests.pop()
    }

    fn reply(&mut self, _: usize, reply: mem_model::error::Result<Reply>) -> ControlFlow<()> {
        match reply {
            Ok(reply) => self.tokens += reply.new_tokens,
            Err(error) => self.error = Some(error),
        }
        ControlFlow::Continue(())
    }
}

fn message(text: &str) -> ChatMessage {
    ChatMessage {
        role: Role::User,
        content: text.to_owned(),
    }
}

/// Time for prompts alone (replies of one token) and for whole replies: their difference is decoding.
fn generate(
    model: Model,
    encoder: ChatEncoder,
    [prompt, tokens, rows]: [usize; 3],
    repeat: usize,
) -> anyhow::Result<()> {
    let generator = LocalGenerator::new(model, encoder, Some(rows));
    let mut text = String::new();
    let mut length = 0;
    while length < prompt {
        text.push_str(["Mina ", "moved. ", "x"][(prompt - length).min(3) - 1]);
        length = generator.count_tokens(&[message(&text)])?;
    }
    reply(&generator, &text, 4, rows)?;
    let (mut prompts, mut seconds, mut new) = (Vec::new(), Vec::new(), 0);
    for _ in 0..repeat {
        let (first, _) = reply(&generator, &text, 1, rows)?;
        let (whole, count) = reply(&generator, &text, tokens, rows)?;
        prompts.push(first);
        seconds.push(whole - first);
        new += count - rows;
    }
    let line = json!({
        "tokens": new,
        "seconds": seconds.iter().sum::<f64>(),
        "tokens_per_second": new as f64 / seconds.iter().sum::<f64>(),
        "repetitions": seconds,
        "prompt_seconds": prompts,
        "prompt_tokens": rows * length,
        "peak_memory_bytes": peak_bytes(),
    });
    println!("{line}");
    Ok(())
}
