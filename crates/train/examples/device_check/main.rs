//! Everything that the model computes, on a device and in its types, against f32 in host memory.
//!
//!     cargo run --release -p mem-train --features cuda --example device_check -- --device cuda
//!
//! One line a check: the error (norm of the difference over the norm of the expected values, of the worst tensor) and
//! its bound. The exit code is 1 if a check fails. `--device cpu` runs the operations of devices in host memory, in
//! f32, and the products in bf16 where the CPU has them.

mod forward;
mod models;
mod programs;
mod training;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use candle_core::{DType, Device, Tensor, Var};
use mem_model::adapter::AdapterConfig;
use mem_model::generate::DeviceKind;
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_model::weights::Weights;
use mem_train::sft::attach_trainable;

use forward::{cut_back, forked, in_parts, packed, together};
use models::{fixture, subjects};
use programs::{embeddings, replies};
use training::{losses, steps};

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

/// Ids of a row, others for each seed.
fn ids(n: usize, seed: usize) -> Vec<u32> {
    (0..n)
        .map(|i| ((i * i * 31 + i * 389 + seed * 97 + 5) % 600) as u32)
        .collect()
}
