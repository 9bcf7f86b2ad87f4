//! Text to vectors whose cosine says how alike two texts are, for retrieval.
//!
//! Two families: BERT and RoBERTa encoders (all-MiniLM, BGE, E5, multilingual E5) and Qwen3-Embedding. How
//! hidden states become a vector is read from the model folder; see [`Embedder::load`].

mod attention;
mod bert;
mod kernels;
mod settings;
mod text;
mod wide;

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use rayon::prelude::*;
use serde::Deserialize;

use bert::{Bert, BertConfig};
pub use settings::{Pooling, Prompts};
use settings::{Settings, read_json};
use text::{Encoded, TextEncoder};

use crate::error::{Error, Result};
use crate::generate::DeviceKind;
use crate::host;
use crate::linear::Pass;
use crate::matrix::Compute;
use crate::qwen::Model;
use crate::weights::Weights;

/// Tokens that an encoder computes at once, unless [`Embedder::set_batch_tokens`] says otherwise: few enough for the
/// activations to stay in the cache of a core, each of which takes a batch of its own.
const BERT_TOKENS: usize = 256;

/// The same for a decoder, whose batches take all cores: enough for its larger matrices to be worth expanding.
const QWEN_TOKENS: usize = 512;

/// A text of more than so many batches' tokens is computed by all threads together.
const LONG_BATCHES: usize = 4;

/// What a text is for; some models were trained to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Something that is looked for.
    Query,
    /// Something that may be found.
    Passage,
}

/// The vector of one text.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// As many values as [`Embedder::dimension`] says.
    pub vector: Vec<f32>,
    /// Tokens of which the vector was made, prompt and special tokens included.
    pub tokens: usize,
    /// Tokens at the end of the text that the model had no room for.
    pub cut_tokens: usize,
}

/// A model that turns texts into vectors.
pub struct Embedder {
    network: Network,
    text: TextEncoder,
    prompts: Prompts,
    pooling: Pooling,
    normalise: bool,
    dimension: usize,
    max_tokens: usize,
    batch_tokens: usize,
}

enum Network {
    Bert(Bert),
    Qwen(Model),
}

impl Embedder {
    /// Loads a HF folder: `config.json`, `tokenizer.json`, safetensors, and what sentence-transformers
    /// adds where it is there. On the CPU `compute` is the type of the matrix products alone.
    ///
    /// | | read from | otherwise |
    /// |---|---|---|
    /// | pooling | `modules.json` and the pooling module's `config.json` | mean; last token for Qwen3 |
    /// | L2 norm | `modules.json` | yes |
    /// | longest text | `sentence_bert_config.json`, else `tokenizer_config.json` | the network's positions |
    /// | prompts | `config_sentence_transformers.json` | E5's and BGE's own where the folder is named after them, Qwen3's web search instruction for queries, else none |
    ///
    /// # Errors
    /// When a file is missing or damaged, or asks for what is not supported.
    pub fn load(folder: &Path, device: DeviceKind, compute: Compute) -> Result<Self> {
        #[derive(Deserialize)]
        struct Family {
            model_type: String,
        }
        let device = device.open(compute)?;
        let settings = Settings::read(folder)?;
        let path = settings.transformer.join("config.json");
        let family: Family = read_json(&path)?;
        let is_bert = BertConfig::is_family(&family.model_type);
        let (network, dimension, longest) = if is_bert {
            let config = BertConfig::read(&path)?;
            let weights = Weights::open_tensors(&settings.transformer, &device, compute)?;
            let bert = Bert::load(&weights, &config)?;
            (
                Network::Bert(bert),
                config.hidden_size,
                config.longest_row(),
            )
        } else if matches!(family.model_type.as_str(), "qwen2" | "qwen3") {
            let (weights, config) = Weights::open(&settings.transformer, &device, compute)?;
            let (dimension, longest) = (config.hidden_size, config.context_length);
            let model = Model::load(&weights, config)?;
            (Network::Qwen(model), dimension, longest)
        } else {
            return Err(Error::Unsupported {
                path,
                feature: format!(
                    "an encoder of type `{}`; supported are `bert`, `roberta`, `xlm-roberta`, `camembert`, `qwen2` and \
                     `qwen3`",
                    family.model_type
                ),
            });
        };
        let max_tokens = settings.max_tokens.map_or(longest, |max| max.min(longest));
        let text = TextEncoder::load(&settings.transformer, max_tokens, settings.lower_case)?;
        Ok(Self {
            network,
            text,
            prompts: settings.prompts.unwrap_or_else(|| match is_bert {
                true => Prompts::known(folder),
                false => Prompts::qwen3(),
            }),
            pooling: settings.pooling.unwrap_or(match is_bert {
                true => Pooling::Mean,
                false => Pooling::LastToken,
            }),
            normalise: settings.normalise,
            dimension,
            max_tokens,
            batch_tokens: if is_bert { BERT_TOKENS } else { QWEN_TOKENS },
        })
    }

    /// Values of a vector.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Tokens of the longest text, prompt and special tokens included; longer ones are cut at the end.
    pub fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// How hidden states become a vector.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// What is put before the texts.
    pub fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    /// Tokens that a thread computes at once, at least one text; memory grows with them and with the threads.
    pub fn set_batch_tokens(&mut self, tokens: usize) {
        self.batch_tokens = tokens;
    }

    /// Vectors of `texts`, in their order. A text's vector does not depend on the others beyond the
    /// rounding of the matrix products, and in builds with oneDNN on CPUs with AVX-512 not at all. The empty text has one too, that of the special tokens; only if
    /// the tokenizer adds none it is the zero vector.
    ///
    /// # Errors
    /// When a text cannot be tokenised, the weights are no numbers or the backend fails.
    pub fn embed<T: AsRef<str> + Sync>(&self, texts: &[T], kind: Kind) -> Result<Vec<Embedding>> {
        let prompt = self.prompts.of(kind);
        let encoded = texts
            .par_iter()
            .map(|text| self.text.encode(&[prompt, text.as_ref()].concat()))
            .collect::<Result<Vec<Encoded>>>()?;
        let mut embeddings: Vec<Embedding> = encoded
            .iter()
            .map(|text| Embedding {
                vector: vec![0.0; self.dimension],
                tokens: text.ids.len(),
                cut_tokens: text.cut_tokens,
            })
            .collect();
        // The longest first, so that what needs most memory comes at the beginning.
        let mut order: Vec<usize> = (0..texts.len())
            .filter(|&i| embeddings[i].tokens > 0)
            .collect();
        order.sort_by_key(|&i| std::cmp::Reverse(embeddings[i].tokens));
        let mut batches = Vec::new();
        let mut rest = &order[..];
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(self.batch_len(rest, &embeddings));
            batches.push(batch);
            rest = others;
        }
        let vectors = |&batch: &&[usize]| self.vectors(batch.iter().map(|&i| &encoded[i].ids[..]));
        let vectors = match &self.network {
            // Inside the pool: from outside, each small step would have to be handed over to it.
            Network::Bert(bert) if bert.device().is_cpu() => rayon::scope(|_| {
                // A batch a thread, so that its activations stay in the caches of one core; but long texts, which take
                // much memory, one after another.
                let is_long = |batch: &&[usize]| {
                    let most = LONG_BATCHES * self.batch_tokens;
                    batch.iter().any(|&i| embeddings[i].tokens > most)
                };
                let (long, short) = batches.split_at(batches.partition_point(is_long));
                let long = long.iter().map(vectors).collect::<Result<Vec<_>>>()?;
                let short = short.par_iter().map(vectors).collect::<Result<Vec<_>>>()?;
                Ok::<_, Error>([long, short].concat())
            }),
            // On this thread: each thread has its own queue of work on a device.
            _ => batches.iter().map(vectors).collect(),
        }?;
        for (i, vector) in order.into_iter().zip(vectors.into_iter().flatten()) {
            embeddings[i].vector = vector;
        }
        let damaged = |one: &&Embedding| one.vector.iter().any(|value| !value.is_finite());
        match embeddings.iter().find(damaged) {
            Some(Embedding { tokens, .. }) => Err(Error::Vector { tokens: *tokens }),
            None => Ok(embeddings),
        }
    }

    /// How many of the texts in `order` are computed together: at least one.
    fn batch_len(&self, order: &[usize], embeddings: &[Embedding]) -> usize {
        let mut tokens = 0;
        let fits = order.iter().take_while(|&&i| {
            tokens += embeddings[i].tokens;
            tokens <= self.batch_tokens
        });
        fits.count().max(1)
    }

    /// Vectors of the texts of a batch.
    fn vectors<'a>(&self, texts: impl Iterator<Item = &'a [u32]>) -> Result<Vec<Vec<f32>>> {
        let (mut ids, mut lens) = (Vec::new(), Vec::new());
        for text in texts {
            ids.extend_from_slice(text);
            lens.push(text.len());
        }
        let hidden = self
            .hidden(&ids, &lens)?
            .to_dtype(DType::F32)?
            .to_device(&Device::Cpu)?;
        Ok(host::with_values(&hidden, |hidden| {
            let mut rows = hidden;
            let vector = |len| {
                let (row, others) = rows.split_at(len * self.dimension);
                rows = others;
                self.pool(row)
            };
            Ok(lens.into_iter().map(vector).collect())
        })?)
    }

    /// Last hidden states `[N, D]` of a packed batch.
    fn hidden(&self, ids: &[u32], lens: &[usize]) -> Result<Tensor> {
        match &self.network {
            Network::Bert(bert) => Ok(bert.hidden(ids, lens)?),
            Network::Qwen(model) if ids.len() <= self.batch_tokens => {
                Ok(model.hidden(ids, lens, None, Pass::Prefill)?)
            }
            // One long text, part by part: no token needs what comes after it.
            Network::Qwen(model) => {
                let mut cache = model.new_cache();
                let parts = ids
                    .chunks(self.batch_tokens.max(1))
                    .map(|part| {
                        model.hidden(part, &[part.len()], Some(&mut [&mut cache]), Pass::Prefill)
                    })
                    .collect::<candle_core::Result<Vec<_>>>()?;
                Ok(Tensor::cat(&parts, 0)?)
            }
        }
    }

    /// The vector of a row of hidden states, `[T, D]` to `[D]`.
    fn pool(&self, row: &[f32]) -> Vec<f32> {
        let mut vector = vec![0f32; self.dimension];
        let mut tokens = row.chunks_exact(self.dimension);
        match self.pooling {
            Pooling::Mean => {
                let count = tokens.len() as f32;
                for token in tokens {
                    vector
                        .iter_mut()
                        .zip(token)
                        .for_each(|(sum, value)| *sum += value);
                }
                vector.iter_mut().for_each(|sum| *sum /= count);
            }
            Pooling::Cls => tokens
                .next()
                .into_iter()
                .for_each(|token| vector.copy_from_slice(token)),
            Pooling::LastToken => {
                tokens
                    .last()
                    .into_iter()
                    .for_each(|token| vector.copy_from_slice(token));
            }
        }
        if self.normalise {
            let square: f64 = vector.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
            let length = square.sqrt().max(1e-12) as f32;
            vector.iter_mut().for_each(|value| *value /= length);
        }
        vector
    }
}
