//! Embeds lines of text from standard input and says how fast and in how much memory: one JSON object on standard
//! error with sentences, tokens, tokens cut, seconds to load and to embed, sentences a second and the peak memory.
//!
//!     cargo run --release -p mem-cli --example embed_lines -- MODEL_FOLDER [OPTIONS] < lines.txt

use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use mem_cli::memory::peak_bytes;
use mem_model::embed::{Embedder, Embedding, Kind};
use mem_model::generate::DeviceKind;
use mem_model::matrix::Compute;
use serde_json::json;

#[derive(Parser)]
struct Arguments {
    /// The model's folder
    folder: PathBuf,
    /// Write each vector to standard output as one JSON array a line
    #[arg(long)]
    vectors: bool,
    /// The lines are queries, not passages
    #[arg(long)]
    query: bool,
    /// Embed everything so many times and state the seconds of each
    #[arg(long, default_value_t = 1)]
    repeat: usize,
    /// Tokens computed at once
    #[arg(long)]
    batch_tokens: Option<usize>,
    /// A call for each line, as for queries that arrive singly
    #[arg(long)]
    one_by_one: bool,
    /// Matrix products in bf16, where this build and CPU have them
    #[arg(long)]
    bf16: bool,
    /// Compute on the first CUDA device
    #[arg(long)]
    cuda: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let device = match arguments.cuda {
        true => DeviceKind::Cuda,
        false => DeviceKind::Cpu,
    };
    let compute = match arguments.bf16 {
        true => Compute::Bf16,
        false => Compute::F32,
    };
    let lines: Vec<String> = io::stdin().lock().lines().collect::<Result<_, _>>()?;
    let start = Instant::now();
    let mut embedder = Embedder::load(&arguments.folder, device, compute)?;
    let load_secs = start.elapsed().as_secs_f64();
    if let Some(tokens) = arguments.batch_tokens {
        embedder.set_batch_tokens(tokens);
    }
    let (mut embeddings, mut secs) = (Vec::new(), Vec::new());
    for _ in 0..arguments.repeat.max(1) {
        let start = Instant::now();
        embeddings = embed(&embedder, &lines, &arguments)?;
        secs.push(start.elapsed().as_secs_f64());
    }
    let best = secs.iter().copied().fold(f64::INFINITY, f64::min);
    let report = json!({
        "sentences": lines.len(),
        "tokens": embeddings.iter().map(|e| e.tokens).sum::<usize>(),
        "cut_tokens": embeddings.iter().map(|e| e.cut_tokens).sum::<usize>(),
        "dimension": embedder.dimension(),
        "load_secs": load_secs,
        "embed_secs": secs,
        "sentences_per_sec": lines.len() as f64 / best,
        "peak_memory_bytes": peak_bytes(),
    });
    eprintln!("{report}");
    if arguments.vectors {
        let mut out = BufWriter::new(io::stdout().lock());
        for embedding in &embeddings {
            serde_json::to_writer(&mut out, &embedding.vector)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
    }
    Ok(())
}

fn embed(
    embedder: &Embedder,
    lines: &[String],
    arguments: &Arguments,
) -> anyhow::Result<Vec<Embedding>> {
    let kind = match arguments.query {
        true => Kind::Query,
        false => Kind::Passage,
    };
    if !arguments.one_by_one {
        return Ok(embedder.embed(lines, kind)?);
    }
    let mut embeddings = Vec::with_capacity(lines.len());
    for line in lines {
        embeddings.extend(embedder.embed(&[line], kind)?);
    }
    Ok(embeddings)
}
