//! BERT (Devlin et al. 2019) and RoBERTa (Liu et al. 2019), XLM-RoBERTa included: encoders in which each token
//! sees all tokens of its row. A batch is packed as in [`crate::qwen`], without padding.

use std::path::Path;

use candle_core::{Device, Result, Tensor};
use serde::Deserialize;

use super::attention::attention;
use super::kernels::{LayerNorm, add_norm, bias_gelu};
use super::settings::read_json;
use crate::config::LARGEST_SIZE;
use crate::error;
use crate::linear::{Frozen, Linear};
use crate::weights::Weights;

/// `config.json` of an encoder.
#[derive(Deserialize)]
pub(super) struct BertConfig {
    model_type: String,
    pub(super) hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    hidden_act: String,
    pad_token_id: Option<usize>,
    position_embedding_type: Option<String>,
}

impl BertConfig {
    /// Whether `model_type` names an encoder of this module.
    pub(super) fn is_family(model_type: &str) -> bool {
        matches!(model_type, "bert" | "roberta" | "xlm-roberta" | "camembert")
    }

    /// Reads `config.json`.
    pub(super) fn read(path: &Path) -> error::Result<Self> {
        let config: Self = read_json(path)?;
        let unsupported = |feature| error::Error::Unsupported {
            path: path.to_owned(),
            feature,
        };
        if config.hidden_act != "gelu" {
            return Err(unsupported(format!("activation `{}`", config.hidden_act)));
        }
        if let Some(other) = config
            .position_embedding_type
            .as_ref()
            .filter(|k| *k != "absolute")
        {
            return Err(unsupported(format!(
                "position embeddings of type `{other}`"
            )));
        }
        let sizes = [
            config.hidden_size,
            config.intermediate_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.vocab_size,
            config.max_position_embeddings,
            config.type_vocab_size,
        ];
        let eps = config.layer_norm_eps;
        let fits = sizes.iter().all(|size| (1..=LARGEST_SIZE).contains(size))
            && config
                .hidden_size
                .is_multiple_of(config.num_attention_heads)
            && config.first_position() < config.max_position_embeddings
            && eps.is_finite()
            && eps > 0.0;
        if !fits {
            return Err(unsupported("sizes that do not fit together".to_owned()));
        }
        Ok(config)
    }

    /// Row of the position table that the first token takes: RoBERTa counts from behind the padding id.
    fn first_position(&self) -> usize {
        match self.model_type.as_str() {
            "bert" => 0,
            _ => self.pad_token_id.unwrap_or(1).saturating_add(1),
        }
    }

    /// Tokens for which there are positions.
    pub(super) fn longest_row(&self) -> usize {
        self.max_position_embeddings - self.first_position()
    }
}

/// The encoder.
pub(super) struct Bert {
    words: Frozen,
    positions: Frozen,
    first_position: usize,
    /// The type of a first (here: the only) segment, `[D]`.
    segment: Tensor,
    norm: LayerNorm,
    layers: Vec<Layer>,
}

struct Layer {
    query: Affine,
    key: Affine,
    value: Affine,
    heads: usize,
    attention_output: Affine,
    attention_norm: LayerNorm,
    intermediate: Affine,
    output: Affine,
    output_norm: LayerNorm,
}

/// A linear layer whose bias the operation behind it adds.
struct Affine {
    linear: Linear,
    bias: Tensor,
}

impl Bert {
    pub(super) fn load(weights: &Weights, config: &BertConfig) -> error::Result<Self> {
        // Checkpoints with a head carry the encoder's name before each tensor.
        let is_root =
            |root: &&str| weights.holds(&format!("{root}embeddings.word_embeddings.weight"));
        let root = ["", "bert.", "roberta."]
            .into_iter()
            .find(is_root)
            .unwrap_or_default();
        let source = Source {
            weights,
            config,
            root,
        };
        let d = config.hidden_size;
        let table = |name: &str, rows| {
            weights.frozen(
                &format!("{root}embeddings.{name}_embeddings.weight"),
                rows,
                d,
            )
        };
        let norm = source.norm("embeddings.LayerNorm")?;
        let segments = table("token_type", config.type_vocab_size)?;
        Ok(Self {
            words: table("word", config.vocab_size)?,
            positions: table("position", config.max_position_embeddings)?,
            first_position: config.first_position(),
            segment: segments.rows(&[0], &norm.weight)?.squeeze(0)?,
            norm,
            layers: (0..config.num_hidden_layers)
                .map(|layer| source.layer(layer))
                .collect::<error::Result<_>>()?,
        })
    }

    /// Where activations live.
    pub(super) fn device(&self) -> &Device {
        self.segment.device()
    }

    /// Last hidden states `[N, D]` of a packed batch: `ids` holds the tokens of all rows, `lens` their
    /// numbers, none of them above [`BertConfig::longest_row`].
    pub(super) fn hidden(&self, ids: &[u32], lens: &[usize]) -> Result<Tensor> {
        let first = self.first_position as u32;
        let positions: Vec<u32> = lens
            .iter()
            .flat_map(|&len| first..first + len as u32)
            .collect();
        let words = self.words.rows(ids, &self.segment)?;
        let positions = self.positions.rows(&positions, &self.segment)?;
        let mut x = add_norm(words, &self.segment, &positions, &self.norm)?;
        for layer in &self.layers {
            x = layer.forward(&x, lens)?;
        }
        Ok(x)
    }
}

impl Layer {
    /// `[N, D]` to `[N, D]`.
    fn forward(&self, x: &Tensor, lens: &[usize]) -> Result<Tensor> {
        let [q, k, v] = [&self.query, &self.key, &self.value];
        let products = [
            q.linear.forward(x)?,
            k.linear.forward(x)?,
            v.linear.forward(x)?,
        ];
        let biases = [&q.bias, &k.bias, &v.bias];
        let y = attention(products, biases, self.heads, lens)?;
        let Affine { linear, bias } = &self.attention_output;
        let x = add_norm(linear.forward(&y)?, bias, x, &self.attention_norm)?;
        let Affine { linear, bias } = &self.intermediate;
        let y = bias_gelu(linear.forward(&x)?, bias)?;
        let Affine { linear, bias } = &self.output;
        add_norm(linear.forward(&y)?, bias, &x, &self.output_norm)
    }
}

/// Where the tensors come from.
struct Source<'a> {
    weights: &'a Weights,
    config: &'a BertConfig,
    root: &'static str,
}

impl Source<'_> {
    fn vector(&self, name: &str, len: usize) -> error::Result<Tensor> {
        self.weights.vector(&format!("{}{name}", self.root), len)
    }

    fn norm(&self, name: &str) -> error::Result<LayerNorm> {
        let d = self.config.hidden_size;
        Ok(LayerNorm {
            weight: self.vector(&format!("{name}.weight"), d)?,
            bias: self.vector(&format!("{name}.bias"), d)?,
            eps: self.config.layer_norm_eps,
        })
    }

    fn affine(&self, name: &str, rows: usize, cols: usize) -> error::Result<Affine> {
        let weight = self
            .weights
            .frozen(&format!("{}{name}.weight", self.root), rows, cols)?;
        Ok(Affine {
            linear: Linear::new(weight, None),
            bias: self.vector(&format!("{name}.bias"), rows)?,
        })
    }

    fn layer(&self, layer: usize) -> error::Result<Layer> {
        let (d, wide) = (self.config.hidden_size, self.config.intermediate_size);
        let name = |part: &str| format!("encoder.layer.{layer}.{part}");
        let square = |part: &str| self.affine(&name(part), d, d);
        Ok(Layer {
            query: square("attention.self.query")?,
            key: square("attention.self.key")?,
            value: square("attention.self.value")?,
            heads: self.config.num_attention_heads,
            attention_output: square("attention.output.dense")?,
            attention_norm: self.norm(&name("attention.output.LayerNorm"))?,
            intermediate: self.affine(&name("intermediate.dense"), wide, d)?,
            output: self.affine(&name("output.dense"), d, wide)?,
            output_norm: self.norm(&name("output.LayerNorm"))?,
        })
    }
}
