//! Embeds lines of text from stdin and says how fast and in how much memory.
//!
//!     cargo run --release -p mem-model --example embed_lines -- MODEL_FOLDER [OPTIONS] < lines.txt
//!
//! stderr gets one JSON object: sentences, tokens, tokens cut, seconds to load and to embed, sentences a
//! second, and on Linux the peak resident memory in bytes. Options:
//!
//! - `--vectors`: writes each vector to stdout as one JSON array a line
//! - `--query`: the lines are queries, not passages
//! - `--repeat N`: embeds everything N times and states the seconds of each
//! - `--batch-tokens N`: tokens computed at once
//! - `--one-by-one`: a call for each line, as for queries that arrive singly
//! - `--bf16`: matrix products in bf16, where this build and CPU have them
//! - `--cuda`: computes on the first CUDA device

use std::error::Error;
use std::io::{self, BufRead, BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use mem_model::embed::{Embedder, Embedding, Kind};
use mem_model::generate::DeviceKind;
use mem_model::matrix::Compute;

struct Options {
    folder: PathBuf,
    device: DeviceKind,
    compute: Compute,
    kind: Kind,
    vectors: bool,
    one_by_one: bool,
    repeat: usize,
    batch_tokens: Option<usize>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let lines: Vec<String> = io::stdin().lock().lines().collect::<Result<_, _>>()?;
    let start = Instant::now();
    let mut embedder = Embedder::load(&options.folder, options.device, options.compute)?;
    let load_secs = start.elapsed().as_secs_f64();
    if let Some(tokens) = options.batch_tokens {
        embedder.set_batch_tokens(tokens);
    }
    let (mut embeddings, mut secs) = (Vec::new(), Vec::new());
    for _ in 0..options.repeat {
        let start = Instant::now();
        embeddings = embed(&embedder, &lines, &options)?;
        secs.push(start.elapsed().as_secs_f64());
    }
    let best = secs.iter().copied().fold(f64::INFINITY, f64::min);
    let report = serde_json::json!({
        "sentences": lines.len(),
        "tokens": embeddings.iter().map(|e| e.tokens).sum::<usize>(),
        "cut_tokens": embeddings.iter().map(|e| e.cut_tokens).sum::<usize>(),
        "dimension": embedder.dimension(),
        "load_secs": load_secs,
        "embed_secs": secs,
        "sentences_per_sec": lines.len() as f64 / best,
        "peak_rss_bytes": peak_rss_bytes(),
    });
    eprintln!("{report}");
    if options.vectors {
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
    options: &Options,
) -> Result<Vec<Embedding>, Box<dyn Error>> {
    if !options.one_by_one {
        return Ok(embedder.embed(lines, options.kind)?);
    }
    let mut embeddings = Vec::with_capacity(lines.len());
    for line in lines {
        embeddings.extend(embedder.embed(&[line], options.kind)?);
    }
    Ok(embeddings)
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        folder: PathBuf::new(),
        device: DeviceKind::Cpu,
        compute: Compute::F32,
        kind: Kind::Passage,
        vectors: false,
        one_by_one: false,
        repeat: 1,
        batch_tokens: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || -> Result<usize, Box<dyn Error>> {
            let value = args
                .next()
                .ok_or_else(|| format!("`{arg}` needs a number"))?;
            Ok(value
                .parse()
                .map_err(|_| format!("`{arg}` needs a number, not `{value}`"))?)
        };
        match arg.as_str() {
            "--vectors" => options.vectors = true,
            "--query" => options.kind = Kind::Query,
            "--one-by-one" => options.one_by_one = true,
            "--bf16" => options.compute = Compute::Bf16,
            "--cuda" => options.device = DeviceKind::Cuda,
            "--repeat" => options.repeat = number()?.max(1),
            "--batch-tokens" => options.batch_tokens = Some(number()?),
            _ if arg.starts_with('-') => return Err(format!("unknown option `{arg}`").into()),
            _ => options.folder = arg.into(),
        }
    }
    if options.folder.as_os_str().is_empty() {
        return Err("give the model's folder".into());
    }
    Ok(options)
}

/// Where the system tells it: Linux.
fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
