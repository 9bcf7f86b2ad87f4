//! Everything that the model computes, on a device and in its types, against f32 in host memory.
//!
//!     cargo run --release -p mem-train --features cuda --example device_check -- --device cuda
//!
//! One line a check: the error (norm of the difference over the norm of the expected values, of the worst tensor) and
//! its bound. The exit code is 1 if a check fails. `--device cpu` runs the operations of devices in host memory, in
//! f32, and the products in bf16 where the CPU has them.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor, Var};
use mem_model::adapter::{self, AdapterConfig};
use mem_model::cache::KvCache;
use mem_model::embed::{Embedder, Kind};
use mem_model::encode::Encoded;
use mem_model::generate::{DeviceKind, LocalGenerator, load_encoder};
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use mem_model::qwen::{Model, Projection};
use mem_model::weights::Weights;
use mem_schema::generator::{ChatMessage, Finish, Generator, Reply, Request, Sampling, Work};
use mem_schema::transcript::Role;
use mem_train::gradient::{Sums, accumulate, evaluate};
use mem_train::optimiser::{AdamW, AdamWSettings, clip};
use mem_train::sft::attach_trainable;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Tensors = BTreeMap<String, Tensor>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let kind = match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        [] | ["--device", "cpu"] => DeviceKind::Cpu,
        ["--device", "cuda"] => DeviceKind::Cuda,
        _ => {
            eprintln!("usage: device_check [--device cpu|cuda]");
            return ExitCode::from(2);
        }
    };
    match run(kind, &mut std::io::stdout()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Where and how the checked side computes.
struct Side {
    kind: DeviceKind,
    device: Device,
    compute: Compute,
}

impl Side {
    fn is_f32(&self) -> bool {
        self.compute == Compute::F32
    }

    fn name(&self) -> &'static str {
        match (self.kind, self.compute) {
            (DeviceKind::Cuda, Compute::F32) => "cuda f32",
            (DeviceKind::Cuda, _) => "cuda bf16",
            (DeviceKind::Cpu, Compute::F32) => "composed f32",
            (DeviceKind::Cpu, _) => "cpu bf16",
        }
    }

    fn load(&self, path: &Path) -> Result<Model> {
        let (weights, config) = Weights::open(path, &self.device, self.compute)?;
        let mut model = Model::load(&weights, config)?;
        if self.is_f32() {
            model.compose();
        }
        Ok(model)
    }
}

/// What everything is compared with.
fn reference(path: &Path) -> Result<Model> {
    let (weights, config) = Weights::open(path, &Device::Cpu, Compute::F32)?;
    Ok(Model::load(&weights, config)?)
}

/// Runs all checks and returns how many failed.
///
/// # Errors
/// When the device cannot be opened or the models cannot be made.
pub(crate) fn run(kind: DeviceKind, out: &mut dyn Write) -> Result<usize> {
    let device = match kind {
        DeviceKind::Cpu => Device::Cpu,
        DeviceKind::Cuda => Device::new_cuda(0)?,
    };
    let folder = tempfile::tempdir()?;
    let subjects = subjects(kind, folder.path())?;
    let mut report = Report { out, failed: 0 };
    for compute in [Compute::F32, Compute::Bf16] {
        if kind == DeviceKind::Cpu && !compute.is_available() {
            writeln!(report.out, "this CPU or build has no bf16: not checked")?;
            continue;
        }
        let side = Side {
            kind,
            device: device.clone(),
            compute,
        };
        for subject in &subjects {
            check_model(&side, subject, &mut report)?;
        }
        for name in ["tiny-qwen2", "tiny-qwen3"] {
            let checked = replies(&side, &fixture(name));
            report.line(&side, name, "constrained replies", checked, 0.0)?;
        }
        // The operations that devices run for embeddings cannot be chosen in host memory.
        if kind != DeviceKind::Cpu || !side.is_f32() {
            for name in ["tiny-bert", "tiny-xlm-roberta", "tiny-qwen3-embedding"] {
                let bound = if side.is_f32() { 1e-4 } else { 4e-2 };
                report.line(&side, name, "embeddings", embeddings(&side, name), bound)?;
            }
        }
    }
    writeln!(report.out, "{} checks failed", report.failed)?;
    Ok(report.failed)
}

struct Report<'a> {
    out: &'a mut dyn Write,
    failed: usize,
}

impl Report<'_> {
    fn line(
        &mut self,
        side: &Side,
        subject: &str,
        check: &str,
        error: Result<f64>,
        bound: f64,
    ) -> Result<()> {
        let (verdict, found) = match error {
            // Not a number is no pass.
            Ok(error) if error <= bound => ("PASS", format!("error {error:.1e}")),
            Ok(error) => ("FAIL", format!("error {error:.1e}")),
            Err(error) => ("FAIL", format!("{error}")),
        };
        self.failed += usize::from(verdict == "FAIL");
        writeln!(
            self.out,
            "{verdict}  {:<12}  {subject:<20}  {check:<34}  {found}, bound {bound:.0e}",
            side.name()
        )?;
        Ok(self.out.flush()?)
    }
}

/// A model with an adapter.
struct Subject {
    name: String,
    path: PathBuf,
    config: AdapterConfig,
    tensors: Tensors,
}

impl Subject {
    /// The model with the adapter as variables, on its device.
    fn trainable(&self, mut model: Model) -> Result<(Model, BTreeMap<String, Var>)> {
        let device = model.device().clone();
        let moved = self.tensors.iter();
        let moved = moved.map(|(name, t)| Ok((name.clone(), t.to_device(&device)?)));
        let vars = attach_trainable(&mut model, &self.config, &moved.collect::<Result<_>>()?)?;
        Ok((model, vars))
    }
}

fn check_model(side: &Side, subject: &Subject, report: &mut Report<'_>) -> Result<()> {
    let (expected, found) = match (reference(&subject.path), side.load(&subject.path)) {
        (Ok(expected), Ok(found)) => (expected, found),
        (Err(error), _) | (_, Err(error)) => {
            return report.line(side, &subject.name, "load", Err(error), 0.0);
        }
    };
    let (logits, loss_bound, gradients) = match side.is_f32() {
        true => (2e-4, 1e-5, 1e-3),
        false => (6e-2, 5e-3, 0.2),
    };
    let mut line =
        |check: &str, error, bound| report.line(side, &subject.name, check, error, bound);
    line("packed prompts", packed(&expected, &found), logits)?;
    line("prompt in parts", in_parts(&expected, &found), logits)?;
    line("decoding, cut back", cut_back(&expected, &found), logits)?;
    line("decoding, forked", forked(&expected, &found), logits)?;
    line("rows decoded together", together(&expected, &found), logits)?;
    let (expected, vars) = subject.trainable(expected)?;
    let (found, found_vars) = subject.trainable(found)?;
    line("packed prompts, adapted", packed(&expected, &found), logits)?;
    line(
        "rows decoded together, adapted",
        together(&expected, &found),
        logits,
    )?;
    let sides = [(&expected, &vars), (&found, &found_vars)];
    match losses(sides) {
        Ok([loss, evaluated, gradient]) => {
            line("loss", Ok(loss), loss_bound)?;
            line("loss without gradients", Ok(evaluated), loss_bound)?;
            line("gradients", Ok(gradient), gradients)?;
        }
        Err(error) => line("loss and gradients", Err(error), 0.0)?,
    }
    line("two steps of the optimiser", steps(sides), 1e-4)
}

/// Norm of the difference over the norm of what is expected.
fn error(found: &Tensor, expected: &Tensor) -> Result<f64> {
    let values = |tensor: &Tensor| -> Result<Vec<f32>> {
        let tensor = tensor.to_dtype(DType::F32)?.to_device(&Device::Cpu)?;
        Ok(tensor.flatten_all()?.to_vec1()?)
    };
    if found.dims() != expected.dims() {
        return Err(format!("shape {:?}, expected {:?}", found.dims(), expected.dims()).into());
    }
    let (found, expected) = (values(found)?, values(expected)?);
    let square = |v: f32| f64::from(v) * f64::from(v);
    let difference: f64 = found
        .iter()
        .zip(&expected)
        .map(|(a, b)| square(a - b))
        .sum();
    let norm: f64 = expected.iter().copied().map(square).sum();
    Ok((difference / norm.max(1e-30)).sqrt())
}

fn ids(n: usize, seed: usize) -> Vec<u32> {
    (0..n)
        .map(|i| ((i * i * 31 + i * 389 + seed * 97 + 5) % 600) as u32)
        .collect()
}

/// Logits of all of one row's tokens.
fn row_logits(model: &Model, ids: &[u32]) -> Result<Tensor> {
    let hidden = model.hidden(ids, &[ids.len()], None, Pass::Prefill)?;
    Ok(model.logits(&hidden, Pass::Prefill)?)
}

/// Feeds tokens behind a cache and gives their logits.
fn feed(model: &Model, cache: &mut KvCache, ids: &[u32], pass: Pass) -> Result<Tensor> {
    let hidden = model.hidden(ids, &[ids.len()], Some(&mut [cache]), pass)?;
    Ok(model.logits(&hidden, pass)?)
}

fn packed(expected: &Model, found: &Model) -> Result<f64> {
    let rows = [ids(37, 1), ids(1, 2), ids(70, 3)];
    let hidden = found.hidden(&rows.concat(), &[37, 1, 70], None, Pass::Prefill)?;
    let logits = found.logits(&hidden, Pass::Prefill)?;
    let alone = rows.iter().map(|row| row_logits(expected, row));
    error(
        &logits,
        &Tensor::cat(&alone.collect::<Result<Vec<_>>>()?, 0)?,
    )
}

/// Longer than what a device's cache grows by at a time.
fn in_parts(expected: &Model, found: &Model) -> Result<f64> {
    let row = ids(300, 4);
    let mut cache = found.new_cache();
    let mut parts = Vec::new();
    for part in row.chunks(110) {
        parts.push(feed(found, &mut cache, part, Pass::Prefill)?);
    }
    error(&Tensor::cat(&parts, 0)?, &row_logits(expected, &row)?)
}

fn cut_back(expected: &Model, found: &Model) -> Result<f64> {
    let (row, other) = (ids(50, 5), ids(3, 6));
    let mut cache = found.new_cache();
    feed(found, &mut cache, &row[..40], Pass::Prefill)?;
    let mut worst: f64 = 0.0;
    let all = row_logits(expected, &row)?;
    for at in 40..50 {
        let logits = feed(found, &mut cache, &row[at..=at], Pass::Decode)?;
        worst = worst.max(error(&logits, &all.narrow(0, at, 1)?)?);
    }
    cache.truncate(45);
    let logits = feed(found, &mut cache, &other, Pass::Decode)?;
    let all = row_logits(expected, &[&row[..45], &other].concat())?;
    Ok(worst.max(error(&logits, &all.narrow(0, 45, 3)?)?))
}

fn forked(expected: &Model, found: &Model) -> Result<f64> {
    let prompt = ids(20, 7);
    let mut first = found.new_cache();
    feed(found, &mut first, &prompt, Pass::Prefill)?;
    let mut second = first.fork()?;
    let mut worst: f64 = 0.0;
    for (cache, reply) in [(&mut first, ids(4, 8)), (&mut second, ids(6, 9))] {
        let logits = feed(found, cache, &reply, Pass::Decode)?;
        let all = row_logits(expected, &[&prompt[..], &reply].concat())?;
        worst = worst.max(error(&logits, &all.narrow(0, 20, reply.len())?)?);
    }
    let logits = feed(found, &mut first, &ids(1, 1), Pass::Decode)?;
    let row = [prompt, ids(4, 8), ids(1, 1)].concat();
    let all = row_logits(expected, &row)?;
    Ok(worst.max(error(&logits, &all.narrow(0, 24, 1)?)?))
}

/// Rows of different lengths that take one token each, then different numbers of them.
fn together(expected: &Model, found: &Model) -> Result<f64> {
    let mut rows = [ids(9, 1), ids(64, 2), ids(1, 3), ids(30, 4)];
    let mut caches = [(); 4].map(|()| found.new_cache());
    for (row, cache) in rows.iter().zip(&mut caches) {
        feed(found, cache, row, Pass::Prefill)?;
    }
    let mut worst: f64 = 0.0;
    for lens in [[1, 1, 1, 1], [1, 1, 1, 1], [3, 1, 5, 2]] {
        let mut fed = Vec::new();
        for (row, len) in rows.iter_mut().zip(lens) {
            let next = ids(len, row.len());
            row.extend(&next);
            fed.extend(next);
        }
        let mut borrowed: Vec<&mut KvCache> = caches.iter_mut().collect();
        let hidden = found.hidden(&fed, &lens, Some(&mut borrowed), Pass::Decode)?;
        let logits = found.logits(&hidden, Pass::Decode)?;
        let mut start = 0;
        for (row, len) in rows.iter().zip(lens) {
            let all = row_logits(expected, row)?.narrow(0, row.len() - len, len)?;
            worst = worst.max(error(&logits.narrow(0, start, len)?, &all)?);
            start += len;
        }
    }
    Ok(worst)
}

type Trainable<'a> = (&'a Model, &'a BTreeMap<String, Var>);

/// More supervised tokens than logits are held of at once.
fn sums((model, vars): Trainable<'_>) -> Result<Sums> {
    let example = |n, seed, prompt_len| Encoded {
        ids: ids(n, seed),
        prompt_len,
    };
    let examples = [example(400, 1, 30), example(12, 2, 3)];
    let mut sums = Sums::default();
    accumulate(model, vars, &[&examples[0], &examples[1]], &mut sums)?;
    let mut evaluated = Sums::default();
    evaluate(model, &[&examples[0], &examples[1]], &mut evaluated)?;
    // Not a gradient, but compared the same way.
    let loss = Tensor::new(&[evaluated.loss as f32], &Device::Cpu)?;
    sums.gradients.insert("evaluated".to_owned(), loss);
    Ok(sums)
}

/// Errors of the loss, of the loss without gradients, and of the worst gradient.
fn losses([expected, found]: [Trainable<'_>; 2]) -> Result<[f64; 3]> {
    let (expected, found) = (sums(expected)?, sums(found)?);
    if expected.gradients.len() != found.gradients.len() {
        return Err("gradients are missing".into());
    }
    let (mut evaluated, mut worst): (f64, f64) = (0.0, 0.0);
    for (name, gradient) in &expected.gradients {
        let error = error(&found.gradients[name], gradient)?;
        match name.as_str() {
            "evaluated" => evaluated = error,
            _ => worst = worst.max(error),
        }
    }
    let loss = (found.loss - expected.loss).abs() / expected.loss;
    Ok([loss, evaluated, worst])
}

/// Clip and AdamW on given gradients: the worst movement of a variable.
fn steps([expected, found]: [Trainable<'_>; 2]) -> Result<f64> {
    let moved = |(model, vars): Trainable<'_>| -> Result<Vec<Tensor>> {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let before: Vec<Tensor> = vars
            .values()
            .map(|var| var.as_detached_tensor().copy())
            .collect::<candle_core::Result<_>>()?;
        let mut optimiser = AdamW::new(AdamWSettings::with_decay(0.1), vars)?;
        for _ in 0..2 {
            let mut gradients = Tensors::new();
            for (name, var) in vars {
                let gradient = random(&mut rng, var.dims(), 1.0)?;
                gradients.insert(name.clone(), gradient.to_device(model.device())?);
            }
            clip(&mut gradients, 1.0)?;
            optimiser.step(vars, &gradients, 1e-2)?;
        }
        let after = vars.values().zip(before);
        let moved = after.map(|(var, before)| Ok((var.as_detached_tensor() - before)?));
        moved.collect()
    };
    let mut worst: f64 = 0.0;
    for (found, expected) in moved(found)?.iter().zip(moved(expected)?) {
        worst = worst.max(error(found, &expected)?);
    }
    Ok(worst)
}

/// Requests from a list; replies by number.
struct List(
    std::vec::IntoIter<Request<'static>>,
    Vec<Option<mem_model::error::Result<Reply>>>,
);

impl Work<'static, mem_model::error::Error> for List {
    fn next(&mut self) -> Option<Request<'static>> {
        self.0.next()
    }

    fn reply(&mut self, number: usize, reply: mem_model::error::Result<Reply>) -> ControlFlow<()> {
        if let Some(place) = self.1.get_mut(number) {
            *place = Some(reply);
        }
        ControlFlow::Continue(())
    }
}

/// Greedy replies under a schema, several rows at a time. In f32 the share that differs from the reference's; in other
/// types, which may choose otherwise where two tokens are about equally likely, the share that is no whole JSON.
fn replies(side: &Side, path: &Path) -> Result<f64> {
    let text = json!({ "type": "string", "minLength": 1, "maxLength": 12 });
    let record = json!({
        "type": "object",
        "properties": { "content": text, "reason": text },
        "required": ["content", "reason"],
        "additionalProperties": false,
    });
    let request = |i: usize| Request {
        messages: vec![ChatMessage {
            role: Role::User,
            content: "Mina moved to Utrecht in March. ".repeat(i % 3 + 1 + i / 3),
        }],
        shared_bytes: 0,
        schema: Some(json!({ "type": "array", "items": record, "minItems": 2, "maxItems": 3 })),
        max_new_tokens: 300,
        sampling: Sampling::Greedy,
        stop: None,
    };
    let run = |model: Model| -> Result<Vec<Reply>> {
        let generator = LocalGenerator::new(model, load_encoder(path)?, Some(4));
        let requests: Vec<_> = (0..7).map(request).collect();
        let places = requests.iter().map(|_| None).collect();
        let mut list = List(requests.into_iter(), places);
        generator.generate_all(&mut list);
        let replies = list.1.into_iter();
        let replies = replies.map(|reply| Ok(reply.ok_or("a reply is missing")??));
        replies.collect()
    };
    let found = run(side.load(path)?)?;
    let bad = match side.is_f32() {
        true => {
            let expected = run(reference(path)?)?;
            found.iter().zip(&expected).filter(|(a, b)| a != b).count()
        }
        false => {
            let whole = |reply: &&Reply| {
                reply.finish == Finish::End
                    && serde_json::from_str::<Vec<serde_json::Value>>(&reply.text).is_ok()
            };
            found.len() - found.iter().filter(whole).count()
        }
    };
    Ok(bad as f64 / found.len() as f64)
}

fn embeddings(side: &Side, name: &str) -> Result<f64> {
    let texts = [
        "Mina moved to Utrecht.",
        "a",
        "The dog is called Bori, and he does not like the rain at all.",
    ];
    let vectors = |kind, compute| -> Result<Vec<Vec<f32>>> {
        let embedder = Embedder::load(&fixture(name), kind, compute)?;
        let found = embedder.embed(&texts, Kind::Passage)?;
        Ok(found.into_iter().map(|found| found.vector).collect())
    };
    let found = vectors(side.kind, side.compute)?;
    let expected = vectors(DeviceKind::Cpu, Compute::F32)?;
    let mut worst: f64 = 0.0;
    for (found, expected) in found.iter().zip(&expected) {
        let tensor = |values: &[f32]| Tensor::new(values, &Device::Cpu);
        worst = worst.max(error(&tensor(found)?, &tensor(expected)?)?);
    }
    Ok(worst)
}

fn fixture(name: &str) -> PathBuf {
    // Cargo says where the crate is; a program that was built elsewhere runs in the repository's root.
    let krate = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or("crates/train".into());
    Path::new(&krate).join("../model/tests/fixtures").join(name)
}

/// The tiny models of the tests with their adapters, and larger random ones, also quantised, written to `folder`.
fn subjects(kind: DeviceKind, folder: &Path) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for name in ["tiny-qwen2", "tiny-qwen3"] {
        let path = fixture(name);
        let (config, tensors) = adapter::load(&path.join("adapter"), &Device::Cpu)?;
        subjects.push(Subject {
            name: name.to_owned(),
            path,
            config,
            tensors,
        });
    }
    for (name, quantised) in [
        (
            "qwen2",
            &[GgmlDType::Q4_0, GgmlDType::Q5_0, GgmlDType::Q4K][..],
        ),
        ("qwen3", &[GgmlDType::Q8_0, GgmlDType::Q5K, GgmlDType::Q6K]),
    ] {
        let path = folder.join(name);
        std::fs::create_dir(&path)?;
        let tensors = write_folder(&path, name)?;
        let mut paths = vec![(format!("small-{name}"), path)];
        // In host memory one type stands for all: each is unpacked by the same code for every operation.
        let types = match kind {
            DeviceKind::Cpu => 1,
            DeviceKind::Cuda => quantised.len(),
        };
        for &dtype in &quantised[..types] {
            let path = folder.join(format!("{name}-{dtype:?}.gguf"));
            write_gguf(&path, name, &tensors, dtype)?;
            paths.push((format!("small-{name} {dtype:?}"), path));
        }
        for (name, path) in paths {
            let model = reference(&path)?;
            let config = AdapterConfig {
                r: 8,
                alpha: 16.0,
                rslora: false,
                targets: Projection::ALL.to_vec(),
                base_model: String::new(),
            };
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let mut tensors = adapter::initial(&config, &model, &mut rng)?;
            // An adapter as after some training: zeros in B would hide A.
            for tensor in tensors.values_mut() {
                *tensor = (&*tensor + random(&mut rng, tensor.dims(), 0.05)?)?;
            }
            subjects.push(Subject {
                name,
                path,
                config,
                tensors,
            });
        }
    }
    Ok(subjects)
}

const HIDDEN: usize = 256;
const INNER: usize = 512;
const LAYERS: usize = 3;
const VOCABULARY: usize = 1000;
const GROUPS: usize = 2;

/// Query heads and their width: as wide together as the residual stream in Qwen2, wider in Qwen3.
fn heads(family: &str) -> (usize, usize) {
    match family {
        "qwen2" => (8, 32),
        _ => (8, 64),
    }
}

fn random(rng: &mut ChaCha8Rng, dims: &[usize], bound: f32) -> Result<Tensor> {
    let count = dims.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|_| rng.random_range(-bound..bound))
        .collect();
    Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
}

/// Writes a random model as a HF folder and returns its tensors. Values fit bf16, so that no type changes the weights.
fn write_folder(folder: &Path, family: &str) -> Result<Tensors> {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (heads, width) = heads(family);
    let (q, kv) = (heads * width, GROUPS * width);
    let mut tensors = Tensors::new();
    let mut add = |name: String, dims: &[usize], centre: f64, bound: f32| -> Result<()> {
        let tensor = (random(&mut rng, dims, bound)? + centre)?;
        let tensor = tensor.to_dtype(DType::BF16)?.to_dtype(DType::F32)?;
        tensors.insert(name, tensor);
        Ok(())
    };
    add(
        "model.embed_tokens.weight".to_owned(),
        &[VOCABULARY, HIDDEN],
        0.0,
        0.2,
    )?;
    add("model.norm.weight".to_owned(), &[HIDDEN], 1.0, 0.3)?;
    if family == "qwen3" {
        add("lm_head.weight".to_owned(), &[VOCABULARY, HIDDEN], 0.0, 0.2)?;
    }
    for layer in 0..LAYERS {
        for projection in Projection::ALL {
            let (rows, cols) = match projection {
                Projection::Q => (q, HIDDEN),
                Projection::K | Projection::V => (kv, HIDDEN),
                Projection::O => (HIDDEN, q),
                Projection::Gate | Projection::Up => (INNER, HIDDEN),
                Projection::Down => (HIDDEN, INNER),
            };
            let path = projection.path(layer);
            let bound = 1.7 / (cols as f32).sqrt();
            add(format!("{path}.weight"), &[rows, cols], 0.0, bound)?;
            let has_bias = matches!(projection, Projection::Q | Projection::K | Projection::V);
            if family == "qwen2" && has_bias {
                add(format!("{path}.bias"), &[rows], 0.0, 0.3)?;
            }
        }
        let norm = |name: &str| format!("model.layers.{layer}.{name}.weight");
        add(norm("input_layernorm"), &[HIDDEN], 1.0, 0.3)?;
        add(norm("post_attention_layernorm"), &[HIDDEN], 1.0, 0.3)?;
        if family == "qwen3" {
            add(norm("self_attn.q_norm"), &[width], 1.0, 0.3)?;
            add(norm("self_attn.k_norm"), &[width], 1.0, 0.3)?;
        }
    }
    let config = json!({
        "model_type": family,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": GROUPS,
        "head_dim": width,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 1024,
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": family == "qwen2",
    });
    std::fs::write(folder.join("config.json"), config.to_string())?;
    adapter::save_tensors(&folder.join("model.safetensors"), &tensors)?;
    Ok(tensors)
}

/// Writes the same model as a GGUF whose matrices have type `dtype`.
fn write_gguf(path: &Path, family: &str, tensors: &Tensors, dtype: GgmlDType) -> Result<()> {
    const PARTS: [(&str, &str); 12] = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("model.layers.", "blk."),
        ("_proj", ""),
    ];
    let (heads, width) = heads(family);
    let number = |name, value: usize| (format!("{family}.{name}"), Value::U32(value as u32));
    let float = |name, value| (format!("{family}.{name}"), Value::F32(value));
    let metadata = [
        (
            "general.architecture".to_owned(),
            Value::String(family.to_owned()),
        ),
        number("embedding_length", HIDDEN),
        number("feed_forward_length", INNER),
        number("block_count", LAYERS),
        number("attention.head_count", heads),
        number("attention.head_count_kv", GROUPS),
        number("attention.key_length", width),
        number("context_length", 1024),
        float("rope.freq_base", 1e6),
        float("attention.layer_norm_rms_epsilon", 1e-6),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut quantised = Vec::new();
    for (name, tensor) in tensors {
        let dtype = match tensor.rank() {
            1 => GgmlDType::F32,
            _ => dtype,
        };
        let name = PARTS
            .iter()
            .fold(name.clone(), |name, (hf, gguf)| name.replacen(hf, gguf, 1));
        quantised.push((name, QTensor::quantize(tensor, dtype)?));
    }
    let quantised: Vec<_> = quantised.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let mut file = std::fs::File::create(path)?;
    Ok(gguf_file::write(&mut file, &metadata, &quantised)?)
}
