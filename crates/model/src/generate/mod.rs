//! A local model as a [`Generator`]: many replies at once, each under its grammar.
//!
//! `engine` reads the prompts of rows that enter and then advances all rows step by step: one forward pass over tokens
//! just chosen, tokens that the grammar forces (`row`), and drafts to be checked (`draft`). What prompts have in
//! common at their beginning is computed once (`prefix`).

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use candle_core::Device;
use mem_schema::generator::{ChatMessage, Generator, Reply, Request, Work};

use crate::adapter;
use crate::constraint::{Constraint, ConstraintFactory};
use crate::encode::ChatEncoder;
use crate::error::{Error, Result};
use crate::matrix::Compute;
use crate::qwen::Model;
use crate::template::ChatTemplate;
use crate::tokenizer::Tokenizer;
use crate::weights::Weights;

mod draft;
mod engine;
mod prefix;
mod row;
mod rows;

pub use rows::{default_rows, row_bytes};

/// What to load and where to.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// HF folder or `.gguf` file.
    pub model: PathBuf,
    /// PEFT adapter folder.
    pub adapter: Option<PathBuf>,
    /// Where to compute.
    pub device: DeviceKind,
    /// Type of the products.
    pub compute: Compute,
    /// Rows that are decoded together at most, at least 1; `None` for [`default_rows`]. Fewer enter while their tokens
    /// take more than 4096 for each of these rows.
    pub rows: Option<usize>,
}

/// Where to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// This machine's processor.
    Cpu,
    /// The first CUDA device.
    Cuda,
}

impl DeviceKind {
    pub(crate) fn open(self, compute: Compute) -> Result<Device> {
        match self {
            Self::Cpu if compute.is_available() => Ok(Device::Cpu),
            Self::Cpu if compute == Compute::Bf16 => Err(Error::NoBf16),
            Self::Cuda if !cfg!(feature = "cuda") => Err(Error::NoCuda),
            Self::Cuda if compute != Compute::Int8 => Ok(Device::new_cuda(0)?),
            _ => Err(Error::NoInt8),
        }
    }
}

/// Opens a model with its tokenizer and chat template.
///
/// # Errors
/// When a file is missing, damaged or asks for what is not supported.
pub fn load(path: &Path, device: DeviceKind, compute: Compute) -> Result<(Model, ChatEncoder)> {
    let device = device.open(compute)?;
    let (weights, config) = Weights::open(path, &device, compute)?;
    let encoder = encoder(path, &weights)?;
    Ok((Model::load(&weights, config)?, encoder))
}

/// Opens a model alone, as [`load`] does.
///
/// # Errors
/// As for [`load`].
pub fn load_model(path: &Path, device: DeviceKind, compute: Compute) -> Result<Model> {
    let device = device.open(compute)?;
    let (weights, config) = Weights::open(path, &device, compute)?;
    Model::load(&weights, config)
}

/// What the header of a model tells of its size.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Tokens that prompt and reply can have together.
    pub context_length: usize,
    /// Bytes that the weights will take in memory on a processor, about.
    pub weight_bytes: u64,
    /// Bytes that the cache of one row of a decode takes there at most, see [`row_bytes`].
    pub row_bytes: u64,
}

/// Reads the sizes of a model without loading it.
///
/// # Errors
/// As for [`load`].
pub fn sizes(path: &Path) -> Result<Sizes> {
    let (weights, config) = Weights::open(path, &Device::Cpu, Compute::F32)?;
    Ok(Sizes {
        context_length: config.context_length,
        weight_bytes: weights.expected_bytes(),
        row_bytes: row_bytes(&config),
    })
}

/// Opens the tokenizer and chat template of a model without loading its weights, to count tokens.
///
/// # Errors
/// As for [`load`].
pub fn load_encoder(path: &Path) -> Result<ChatEncoder> {
    let (weights, _) = Weights::open(path, &Device::Cpu, Compute::F32)?;
    encoder(path, &weights)
}

fn encoder(path: &Path, weights: &Weights) -> Result<ChatEncoder> {
    Ok(match weights.gguf_metadata() {
        Some(metadata) => ChatEncoder {
            tokenizer: Tokenizer::from_gguf(metadata)?,
            template: ChatTemplate::from_gguf(metadata)?,
        },
        None => ChatEncoder {
            tokenizer: Tokenizer::from_folder(path)?,
            template: ChatTemplate::from_folder(path)?,
        },
    })
}

/// A model in this process.
pub struct LocalGenerator {
    model: Model,
    encoder: ChatEncoder,
    rows: usize,
    constraints: OnceLock<ConstraintFactory>,
}

impl LocalGenerator {
    /// Loads a model and, where given, its adapter.
    ///
    /// # Errors
    /// As for [`load`]; when the adapter does not fit the model.
    pub fn load(options: &LoadOptions) -> Result<Self> {
        let (mut model, encoder) = load(&options.model, options.device, options.compute)?;
        if let Some(folder) = &options.adapter {
            let (config, tensors) = adapter::load(folder, model.device())?;
            adapter::attach(&mut model, &config, &tensors)?;
        }
        Ok(Self::new(model, encoder, options.rows))
    }

    /// A generator over a model that is loaded already; `rows` as in [`LoadOptions`].
    pub fn new(model: Model, encoder: ChatEncoder, rows: Option<usize>) -> Self {
        let rows = rows.unwrap_or_else(|| default_rows(&model));
        Self {
            model,
            encoder,
            rows: rows.max(1),
            constraints: OnceLock::new(),
        }
    }

    /// Tokens that prompt and reply can have together.
    pub fn context_length(&self) -> usize {
        self.model.config().context_length
    }

    /// Rows that are decoded together.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn constraint(&self, schema: &serde_json::Value) -> Result<Constraint> {
        let factory = match self.constraints.get() {
            Some(factory) => factory,
            None => {
                let factory = ConstraintFactory::new(
                    &self.encoder.tokenizer,
                    self.model.config().vocab_size,
                )?;
                self.constraints.get_or_init(|| factory)
            }
        };
        factory.constraint(schema)
    }
}

/// One request as [`Work`], for [`Generator::generate`].
struct Single<'a> {
    request: Option<Request<'a>>,
    reply: Option<Result<Reply>>,
}

impl<'a> Work<'a, Error> for Single<'a> {
    fn next(&mut self) -> Option<Request<'a>> {
        self.request.take()
    }

    fn reply(&mut self, _number: usize, reply: Result<Reply>) -> ControlFlow<()> {
        self.reply = Some(reply);
        ControlFlow::Continue(())
    }
}

impl Generator for LocalGenerator {
    type Error = Error;

    fn generate(&self, request: Request<'_>) -> Result<Reply> {
        let mut single = Single {
            request: Some(request),
            reply: None,
        };
        self.generate_all(&mut single);
        let Some(reply) = single.reply else {
            unreachable!("the engine answers every request that it takes")
        };
        reply
    }

    /// Decodes up to [`LocalGenerator::rows`] replies together. Rows do not influence each other: on the CPU a reply
    /// is the same, bit for bit, whatever runs beside it.
    fn generate_all<'a>(&self, work: &mut dyn Work<'a, Error>) {
        engine::run(self, work);
    }

    fn count_tokens(&self, messages: &[ChatMessage]) -> Result<usize> {
        Ok(self.encoder.encode_prompt(messages)?.len())
    }
}
