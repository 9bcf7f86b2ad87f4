//! A local model as a [`Generator`]: prefill, then decode token by token under a grammar.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use candle_core::{DType, Device, Tensor};
use mem_schema::generator::{ChatMessage, Finish, Generator, Reply, Request};

use crate::adapter;
use crate::cache::KvCache;
use crate::constraint::{Constraint, ConstraintFactory};
use crate::encode::ChatEncoder;
use crate::error::{Error, Result};
use crate::linear::Pass;
use crate::matrix::Compute;
use crate::qwen::Model;
use crate::sampling::Sampler;
use crate::template::ChatTemplate;
use crate::tokenizer::{TextStream, Tokenizer};
use crate::weights::Weights;

/// Prompt tokens computed at once: bounds the memory of activations.
const PREFILL_TOKENS: usize = 512;

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
    pub(crate) fn open(self, compute: Compute) -> Result<(Device, DType)> {
        let device = match self {
            Self::Cpu if compute.is_available() => Device::Cpu,
            Self::Cpu => return Err(Error::NoBf16),
            Self::Cuda if cfg!(feature = "cuda") => Device::new_cuda(0)?,
            Self::Cuda => return Err(Error::NoCuda),
        };
        let dtype = match compute {
            Compute::F32 => DType::F32,
            Compute::Bf16 => DType::BF16,
        };
        Ok((device, dtype))
    }
}

/// Opens a model with its tokenizer and chat template.
///
/// # Errors
/// When a file is missing, damaged or asks for what is not supported.
pub fn load(path: &Path, device: DeviceKind, compute: Compute) -> Result<(Model, ChatEncoder)> {
    let (device, dtype) = device.open(compute)?;
    let (weights, config) = Weights::open(path, &device, dtype)?;
    let encoder = encoder(path, &weights)?;
    Ok((Model::load(&weights, config)?, encoder))
}

/// Opens the tokenizer and chat template of a model without loading its weights, to count tokens.
///
/// # Errors
/// As for [`load`].
pub fn load_encoder(path: &Path) -> Result<ChatEncoder> {
    let (weights, _) = Weights::open(path, &Device::Cpu, DType::F32)?;
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
        Ok(Self::new(model, encoder))
    }

    /// A generator over a model that is loaded already.
    pub fn new(model: Model, encoder: ChatEncoder) -> Self {
        Self {
            model,
            encoder,
            constraints: OnceLock::new(),
        }
    }

    /// Tokens that prompt and reply can have together.
    pub fn context_length(&self) -> usize {
        self.model.config().context_length
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

    /// Feeds `ids` and returns the logits that follow the last of them.
    fn feed(&self, ids: &[u32], cache: &mut KvCache, pass: Pass) -> Result<Vec<f32>> {
        let mut last: Option<Tensor> = None;
        for part in ids.chunks(PREFILL_TOKENS) {
            let hidden = self
                .model
                .hidden(part, &[part.len()], Some(&mut [&mut *cache]), pass)?;
            last = Some(hidden.narrow(0, part.len() - 1, 1)?);
        }
        let Some(last) = last else {
            return Err(Error::EmptyPrompt);
        };
        Ok(self
            .model
            .logits(&last, Pass::Decode)?
            .to_dtype(DType::F32)?
            .flatten_all()?
            .to_vec1()?)
    }

    fn decode(&self, prompt: &[u32], request: &Request<'_>) -> Result<Reply> {
        let context = self.context_length();
        if prompt.len() >= context {
            return Err(Error::PromptTooLong {
                tokens: prompt.len(),
                context,
            });
        }
        let room = request.max_new_tokens.min(context - prompt.len());
        let mut constraint = request
            .schema
            .map(|schema| self.constraint(schema))
            .transpose()?;
        let mut sampler = Sampler::new(request.sampling)?;
        let mut cache = KvCache::new(self.model.config().layers);
        let mut text = TextStream::default();
        let mut pending = prompt.to_vec();
        let mut new_tokens = 0;
        let mut pass = Pass::Prefill;
        let finish = loop {
            if new_tokens >= room {
                break Finish::Length;
            }
            let logits = self.feed(&pending, &mut cache, pass)?;
            pass = Pass::Decode;
            pending = self.choose(logits, &mut sampler, constraint.as_mut())?;
            pending.truncate(room - new_tokens);
            new_tokens += pending.len();
            for &token in &pending {
                text.push(self.encoder.tokenizer.visible_bytes(token));
            }
            if pending.last().is_some_and(|&token| self.is_end(token)) {
                break Finish::End;
            }
            if request.stop.is_some_and(|stop| stop(text.text())) {
                break Finish::Stopped;
            }
            if constraint.as_ref().is_some_and(Constraint::is_finished) {
                break Finish::End;
            }
        };
        Ok(Reply {
            text: text.finish(),
            finish,
            prompt_tokens: prompt.len(),
            new_tokens,
        })
    }

    /// The next token, and behind it those that the grammar leaves no choice about: they are fed together.
    fn choose(
        &self,
        mut logits: Vec<f32>,
        sampler: &mut Sampler,
        constraint: Option<&mut Constraint>,
    ) -> Result<Vec<u32>> {
        let Some(constraint) = constraint else {
            return Ok(vec![sampler.sample(&logits)?]);
        };
        constraint.mask(&mut logits)?;
        let mut tokens = vec![sampler.sample(&logits)?];
        constraint.accept(tokens[0])?;
        if !self.is_end(tokens[0]) && !constraint.is_finished() {
            let forced = constraint.forced_tokens()?;
            let taken = constraint.try_accept(&forced)?;
            tokens.extend(&forced[..taken]);
        }
        Ok(tokens)
    }

    fn is_end(&self, token: u32) -> bool {
        self.encoder.tokenizer.end_tokens().contains(&token)
    }
}

impl Generator for LocalGenerator {
    type Error = Error;

    fn generate(&self, request: &Request<'_>) -> Result<Reply> {
        let prompt = self.encoder.encode_prompt(request.messages)?;
        self.model
            .device()
            .with_context(|| self.decode(&prompt, request))
    }

    fn count_tokens(&self, messages: &[ChatMessage]) -> Result<usize> {
        Ok(self.encoder.encode_prompt(messages)?.len())
    }
}
