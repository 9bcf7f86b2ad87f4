//! The shape of a Qwen2, Qwen2.5 or Qwen3 model, from `config.json` or from GGUF metadata.

use std::collections::HashMap;
use std::path::Path;

use candle_core::quantized::gguf_file::Value;
use serde::Deserialize;

use crate::error::{Error, Result};

/// Architecture and sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelConfig {
    /// Which family.
    pub architecture: Architecture,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Rows of the embedding table, padding included: the width of the logits.
    pub vocab_size: usize,
    /// Longest sequence in tokens.
    pub context_length: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// Added to the mean square in norms.
    pub norm_eps: f64,
    /// Whether the output head is the embedding table.
    pub tied_head: bool,
}

/// Model family: what differs between them is decided here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Qwen2 and Qwen2.5: biases on q, k and v.
    Qwen2,
    /// Qwen3: no biases, norms on the heads of q and k.
    Qwen3,
}

impl Architecture {
    /// Biases on the q, k and v projections.
    pub fn has_qkv_bias(self) -> bool {
        self == Self::Qwen2
    }

    /// Norms on the heads of q and k.
    pub fn has_qk_norm(self) -> bool {
        self == Self::Qwen3
    }

    fn from_name(name: &str, origin: &Path) -> Result<Self> {
        match name {
            "qwen2" => Ok(Self::Qwen2),
            "qwen3" => Ok(Self::Qwen3),
            other => Err(Error::Architecture {
                path: origin.to_owned(),
                name: other.to_owned(),
                hint: match other.contains("bert") {
                    true => ", which turns texts into vectors",
                    false => "",
                },
            }),
        }
    }
}

/// What is read of `config.json` first: other types of model have other fields.
#[derive(Deserialize)]
struct ModelType {
    model_type: String,
}

#[derive(Deserialize)]
struct HfConfig {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    vocab_size: usize,
    max_position_embeddings: usize,
    rope_theta: Option<f64>,
    rope_parameters: Option<serde_json::Value>,
    rope_scaling: Option<serde_json::Value>,
    rms_norm_eps: f64,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    use_sliding_window: bool,
    attention_bias: Option<bool>,
    hidden_act: Option<String>,
}

/// No size of a real model comes near it, and a product of three still fits into 64 bits.
pub(crate) const LARGEST_SIZE: usize = 1 << 20;

fn unsupported(origin: &Path, feature: String) -> Error {
    Error::Unsupported {
        path: origin.to_owned(),
        feature,
    }
}

impl ModelConfig {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// When the file cannot be read, or asks for something that is not implemented.
    pub fn from_json(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let malformed = |source| Error::Json {
            path: path.to_owned(),
            source,
        };
        let kind: ModelType = serde_json::from_slice(&text).map_err(malformed)?;
        let architecture = Architecture::from_name(&kind.model_type, path)?;
        let hf: HfConfig = serde_json::from_slice(&text).map_err(malformed)?;
        if hf.use_sliding_window {
            return Err(unsupported(path, "sliding-window attention".to_owned()));
        }
        // Newer files put theta and the scaling type into `rope_parameters`.
        let rope = hf.rope_parameters.as_ref().or(hf.rope_scaling.as_ref());
        let field = |name: &str| rope.and_then(|r| r.get(name));
        let kind = field("rope_type")
            .or(field("type"))
            .and_then(|v| v.as_str());
        if let Some(kind) = kind.filter(|&k| k != "default") {
            return Err(unsupported(path, format!("rotary scaling `{kind}`")));
        }
        if let Some(other) = hf.hidden_act.filter(|name| name != "silu") {
            return Err(unsupported(path, format!("activation `{other}`")));
        }
        if architecture == Architecture::Qwen3 && hf.attention_bias == Some(true) {
            return Err(unsupported(path, "biases in Qwen3 attention".to_owned()));
        }
        let config = Self {
            architecture,
            hidden_size: hf.hidden_size,
            intermediate_size: hf.intermediate_size,
            layers: hf.num_hidden_layers,
            heads: hf.num_attention_heads,
            kv_heads: hf.num_key_value_heads.unwrap_or(hf.num_attention_heads),
            head_dim: hf
                .head_dim
                .unwrap_or(hf.hidden_size / hf.num_attention_heads.max(1)),
            vocab_size: hf.vocab_size,
            context_length: hf.max_position_embeddings,
            rope_theta: hf
                .rope_theta
                .or(field("rope_theta").and_then(|v| v.as_f64()))
                .unwrap_or(10_000.0),
            norm_eps: hf.rms_norm_eps,
            tied_head: hf.tie_word_embeddings,
        };
        config.check(path)
    }

    /// Reads GGUF metadata; `vocab_size` and `tied_head` come from the tensors.
    ///
    /// # Errors
    /// When a field is missing, or asks for something that is not implemented.
    pub fn from_gguf(
        metadata: &HashMap<String, Value>,
        vocab_size: usize,
        tied_head: bool,
        path: &Path,
    ) -> Result<Self> {
        let missing = |key: &str| Error::GgufField {
            key: key.to_owned(),
            problem: "is missing".to_owned(),
        };
        let name = metadata
            .get("general.architecture")
            .and_then(|v| v.to_string().ok())
            .ok_or_else(|| missing("general.architecture"))?;
        let architecture = Architecture::from_name(name, path)?;
        let get = |key: &str| metadata.get(&format!("{name}.{key}"));
        let size = |key: &str| {
            let value = get(key).and_then(|v| v.to_u32().ok());
            value
                .map(|v| v as usize)
                .ok_or_else(|| missing(&format!("{name}.{key}")))
        };
        let float = |key: &str| get(key).and_then(|v| v.to_f32().ok()).map(f64::from);
        if let Some(kind) = get("rope.scaling.type")
            .and_then(|v| v.to_string().ok())
            .filter(|k| *k != "none")
        {
            return Err(unsupported(path, format!("rotary scaling `{kind}`")));
        }
        let (hidden_size, heads) = (size("embedding_length")?, size("attention.head_count")?);
        let config = Self {
            architecture,
            hidden_size,
            intermediate_size: size("feed_forward_length")?,
            layers: size("block_count")?,
            heads,
            kv_heads: size("attention.head_count_kv").unwrap_or(heads),
            head_dim: size("attention.key_length").unwrap_or(hidden_size / heads.max(1)),
            vocab_size,
            context_length: size("context_length")?,
            rope_theta: float("rope.freq_base").unwrap_or(10_000.0),
            norm_eps: float("attention.layer_norm_rms_epsilon")
                .ok_or_else(|| missing(&format!("{name}.attention.layer_norm_rms_epsilon")))?,
            tied_head,
        };
        config.check(path)
    }

    /// The first size that cannot be, or pair of sizes that do not fit together, in words.
    fn misfit(&self) -> Option<String> {
        let sizes = [
            ("hidden size", self.hidden_size),
            ("feed-forward size", self.intermediate_size),
            ("number of layers", self.layers),
            ("number of attention heads", self.heads),
            ("number of key and value heads", self.kv_heads),
            ("size of a head", self.head_dim),
            ("size of the vocabulary", self.vocab_size),
        ];
        let outside = |(_, size): &&(&str, usize)| !(1..=LARGEST_SIZE).contains(size);
        if let Some((name, size)) = sizes.iter().find(outside) {
            return Some(format!(
                "its {name} is {size}, it must be between 1 and {LARGEST_SIZE}"
            ));
        }
        let (heads, kv_heads) = (self.heads, self.kv_heads);
        if self.context_length == 0 {
            Some("its longest sequence is 0 tokens".to_owned())
        } else if !heads.is_multiple_of(kv_heads) {
            Some(format!(
                "{heads} attention heads cannot share {kv_heads} key and value heads evenly"
            ))
        } else if !self.head_dim.is_multiple_of(2) {
            Some(format!(
                "the size of a head is {}, rotary positions need an even one",
                self.head_dim
            ))
        } else {
            None
        }
    }

    fn check(self, path: &Path) -> Result<Self> {
        if let Some(problem) = self.misfit() {
            return Err(Error::Sizes {
                path: path.to_owned(),
                problem,
            });
        }
        let usable = |value: f64| value.is_finite() && value > 0.0;
        if !usable(self.rope_theta) || !usable(self.norm_eps) {
            return Err(unsupported(
                path,
                format!(
                    "a rotary base of {} and a norm epsilon of {}",
                    self.rope_theta, self.norm_eps
                ),
            ));
        }
        Ok(self)
    }
}
