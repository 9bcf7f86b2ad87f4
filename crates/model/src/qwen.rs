//! Qwen2, Qwen2.5 and Qwen3, for training and inference alike.
//!
//! A batch is packed: the tokens of all rows stand one after another in one `[N, D]` tensor, without
//! padding. Norms and linear layers see them all at once; attention is causal inside each row's own
//! segment, which makes a row's result independent of its neighbours.

mod host;
mod loss;
mod tape;

use std::sync::OnceLock;

use candle_core::{DType, Device, Result, Tensor};

use crate::attention;
use crate::cache::KvCache;
use crate::config::ModelConfig;
use crate::error;
use crate::lanes;
use crate::linear::{Frozen, Linear, Pass};
use crate::matrix::Compute;
use crate::ops::{Rotation, rms_norm, rope, swiglu};
use crate::weights::Weights;

pub use tape::Tape;

/// The language model.
pub struct Model {
    config: ModelConfig,
    embedding: Frozen,
    blocks: Vec<Block>,
    norm: Tensor,
    head: Frozen,
    device: Device,
    dtype: DType,
    /// Whether Candle operations compute, as on devices, and not the loops for host memory.
    composed: bool,
    /// Whether keys and values in host memory are kept in bf16.
    short_cache: bool,
}

/// One decoder block.
pub struct Block {
    input_norm: Tensor,
    post_attention_norm: Tensor,
    q_norm: Option<Tensor>,
    k_norm: Option<Tensor>,
    linears: [Linear; 7],
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    norm_eps: f64,
}

/// The seven linear layers of a block, by their names in checkpoints and adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[expect(missing_docs, reason = "named as in the checkpoint")]
pub enum Projection {
    Q,
    K,
    V,
    O,
    Gate,
    Up,
    Down,
}

impl Projection {
    /// All of them, in the order of a block.
    pub const ALL: [Self; 7] = [
        Self::Q,
        Self::K,
        Self::V,
        Self::O,
        Self::Gate,
        Self::Up,
        Self::Down,
    ];

    /// Suffix in checkpoints: `q_proj`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q => "q_proj",
            Self::K => "k_proj",
            Self::V => "v_proj",
            Self::O => "o_proj",
            Self::Gate => "gate_proj",
            Self::Up => "up_proj",
            Self::Down => "down_proj",
        }
    }

    /// Module path in checkpoints: `model.layers.3.self_attn.q_proj`.
    pub fn path(self, layer: usize) -> String {
        let part = match self {
            Self::Q | Self::K | Self::V | Self::O => "self_attn",
            Self::Gate | Self::Up | Self::Down => "mlp",
        };
        format!("model.layers.{layer}.{part}.{}", self.name())
    }

    /// `(out, in)` in a model of this shape.
    pub fn dims(self, c: &ModelConfig) -> (usize, usize) {
        let (q, kv) = (c.heads * c.head_dim, c.kv_heads * c.head_dim);
        match self {
            Self::Q => (q, c.hidden_size),
            Self::K | Self::V => (kv, c.hidden_size),
            Self::O => (c.hidden_size, q),
            Self::Gate | Self::Up => (c.intermediate_size, c.hidden_size),
            Self::Down => (c.hidden_size, c.intermediate_size),
        }
    }
}

/// Lengths of the rows of a packed batch and the rotary angles of its tokens.
pub struct Packing {
    lens: Vec<usize>,
    starts: Vec<usize>,
    pass: Pass,
    rotation: Rotation,
    tables: OnceLock<Tables>,
}

/// What the composed operations of all blocks need of a packing: copied to the device once a pass.
struct Tables {
    /// `[N, 1, D/2]`
    rotation: (Tensor, Tensor),
    masks: Masks,
}

enum Masks {
    /// Of each row, none where it has one token.
    Causal(Vec<Option<Tensor>>),
    /// Of several rows that are decoded together.
    Together(attention::Layout),
}

impl Packing {
    /// Tokens of all rows.
    fn tokens(&self) -> usize {
        self.lens.iter().sum()
    }

    /// The tables beside and of the type of `like`.
    fn tables(&self, like: &Tensor) -> Result<&Tables> {
        if let Some(tables) = self.tables.get() {
            return Ok(tables);
        }
        let device = like.device();
        let masks = match self.pass {
            Pass::Decode if self.lens.len() > 1 => {
                Masks::Together(attention::Layout::new(&self.lens, &self.starts, device)?)
            }
            _ => {
                let rows = self.lens.iter().zip(&self.starts);
                let masks = rows.map(|(&t, &start)| attention::causal_mask(t, start + t, device));
                Masks::Causal(masks.collect::<Result<_>>()?)
            }
        };
        let rotation = self.rotation.tables(like)?;
        Ok(self.tables.get_or_init(|| Tables { rotation, masks }))
    }
}

impl Model {
    /// Loads the weights of an opened model. Quantised and half-precision weights stay as they are; the
    /// embedding table is looked up where it lies.
    ///
    /// # Errors
    /// When a tensor is missing or has another shape.
    pub fn load(weights: &Weights, config: ModelConfig) -> error::Result<Self> {
        let c = &config;
        let embedding = weights.frozen("model.embed_tokens.weight", c.vocab_size, c.hidden_size)?;
        let head = match c.tied_head {
            true => embedding.clone(),
            false => weights.frozen("lm_head.weight", c.vocab_size, c.hidden_size)?,
        };
        let blocks = (0..c.layers)
            .map(|layer| Block::load(weights, c, layer))
            .collect::<error::Result<_>>()?;
        let norm = weights.vector("model.norm.weight", c.hidden_size)?;
        let (device, dtype) = weights.activations();
        let short_cache = weights.compute() != Compute::F32
            && lanes::has_pairs()
            && std::env::var_os("KV32").is_none();
        Ok(Self {
            composed: !device.is_cpu(),
            embedding,
            blocks,
            norm,
            head,
            device: device.clone(),
            dtype,
            short_cache,
            config,
        })
    }

    /// Shape of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where activations live.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether Candle operations compute: always on devices, in host memory after [`Self::compose`].
    pub fn is_composed(&self) -> bool {
        self.composed
    }

    /// Lets Candle operations compute in host memory too, in f32, so that what devices run can be checked without one.
    pub fn compose(&mut self) {
        self.composed = true;
    }

    /// The output head `[V, D]`.
    pub fn head(&self) -> &Frozen {
        &self.head
    }

    /// The decoder blocks in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The decoder blocks, to attach adapters.
    pub fn blocks_mut(&mut self) -> &mut [Block] {
        &mut self.blocks
    }

    /// Bytes of the weights, adapters not counted.
    pub fn weight_bytes(&self) -> usize {
        let head = if self.config.tied_head {
            0
        } else {
            self.head.bytes()
        };
        let linears = self.blocks.iter().flat_map(|b| &b.linears);
        self.embedding.bytes() + head + linears.map(Linear::weight_bytes).sum::<usize>()
    }

    /// Rows of `lens` tokens that start at `starts` (their cached lengths).
    pub fn packing(&self, lens: &[usize], starts: &[usize], pass: Pass) -> Packing {
        let positions: Vec<usize> = lens
            .iter()
            .zip(starts)
            .flat_map(|(&len, &start)| start..start + len)
            .collect();
        let rotation = Rotation::new(&positions, self.config.head_dim, self.config.rope_theta);
        Packing {
            lens: lens.to_vec(),
            starts: starts.to_vec(),
            pass,
            rotation,
            tables: OnceLock::new(),
        }
    }

    /// Token embeddings `[N, D]`.
    ///
    /// # Errors
    /// When an id lies outside the vocabulary.
    pub fn embed(&self, ids: &[u32]) -> Result<Tensor> {
        self.embedding.rows(ids, &self.norm)?.to_dtype(self.dtype)
    }

    /// The final norm, `[N, D]`.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn final_norm(&self, x: &Tensor) -> Result<Tensor> {
        rms_norm(x, &self.norm, self.config.norm_eps)
    }

    /// Final hidden states `[N, D]` of a packed batch, outside any graph: `ids` holds the tokens of all rows, `lens`
    /// their numbers. With caches (one a row) the tokens continue what is cached and are added to it.
    ///
    /// # Errors
    /// When the arguments do not fit together or the backend fails.
    pub fn hidden(
        &self,
        ids: &[u32],
        lens: &[usize],
        mut caches: Option<&mut [&mut KvCache]>,
        pass: Pass,
    ) -> Result<Tensor> {
        if lens.iter().sum::<usize>() != ids.len()
            || caches.as_ref().is_some_and(|c| c.len() != lens.len())
        {
            candle_core::bail!("{} tokens do not fit rows of {lens:?}", ids.len());
        }
        let starts: Vec<usize> = match &caches {
            Some(caches) => caches.iter().map(|c| c.len()).collect(),
            None => vec![0; lens.len()],
        };
        let packing = self.packing(lens, &starts, pass);
        let mut x = self.embed(ids)?;
        if !self.composed {
            // Inside the pool: handing every product over to it from outside costs more than a small product.
            return rayon::scope(|_| match caches {
                Some(caches) => host::hidden(self, &x, &packing, caches),
                None => {
                    let mut own: Vec<_> = lens.iter().map(|_| self.new_cache()).collect();
                    host::hidden(self, &x, &packing, &mut own.iter_mut().collect::<Vec<_>>())
                }
            });
        }
        for (layer, block) in self.blocks.iter().enumerate() {
            let caches = caches.as_mut().map(|c| (layer, &mut **c));
            // Detached: adapter tensors may be variables, whose graph would hold every activation.
            x = block.forward(&x, &packing, caches)?.detach();
        }
        if let Some(caches) = caches {
            caches
                .iter_mut()
                .zip(lens)
                .for_each(|(cache, &len)| cache.advance(len));
        }
        self.final_norm(&x)
    }

    /// Bytes of one value in a cache.
    pub(crate) fn cache_value_bytes(&self) -> usize {
        match self.short_cache {
            true => 2,
            false => self.dtype.size_in_bytes(),
        }
    }

    /// An empty cache for a row.
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(self.blocks.len())
    }

    /// Logits `[M, V]` of hidden states `[M, D]`: pass only the positions that are wanted.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn logits(&self, hidden: &Tensor, pass: Pass) -> Result<Tensor> {
        match pass {
            Pass::Decode if !self.composed => {
                rayon::scope(|_| self.head.decode(&hidden.contiguous()?))
            }
            _ => self.head.forward(hidden),
        }
    }
}

impl Block {
    fn load(weights: &Weights, c: &ModelConfig, layer: usize) -> error::Result<Self> {
        let mut linears = Vec::with_capacity(7);
        for projection in Projection::ALL {
            let (path, (rows, cols)) = (projection.path(layer), projection.dims(c));
            let weight = weights.frozen(&format!("{path}.weight"), rows, cols)?;
            let has_bias = c.architecture.has_qkv_bias()
                && matches!(projection, Projection::Q | Projection::K | Projection::V);
            let bias = has_bias
                .then(|| weights.vector(&format!("{path}.bias"), rows))
                .transpose()?;
            linears.push(Linear::new(weight, bias));
        }
        let norm =
            |name: &str, len| weights.vector(&format!("model.layers.{layer}.{name}.weight"), len);
        let head_norm = |name: &str| {
            c.architecture
                .has_qk_norm()
                .then(|| norm(name, c.head_dim))
                .transpose()
        };
        let Ok(linears) = <[Linear; 7]>::try_from(linears) else {
            unreachable!("one for each projection")
        };
        Ok(Self {
            input_norm: norm("input_layernorm", c.hidden_size)?,
            post_attention_norm: norm("post_attention_layernorm", c.hidden_size)?,
            q_norm: head_norm("self_attn.q_norm")?,
            k_norm: head_norm("self_attn.k_norm")?,
            linears,
            heads: c.heads,
            kv_heads: c.kv_heads,
            head_dim: c.head_dim,
            norm_eps: c.norm_eps,
        })
    }

    /// One of the block's linear layers.
    pub fn linear(&self, projection: Projection) -> &Linear {
        &self.linears[projection as usize]
    }

    /// One of the block's linear layers, to attach an adapter or exchange the weight.
    pub fn linear_mut(&mut self, projection: Projection) -> &mut Linear {
        &mut self.linears[projection as usize]
    }

    /// `[N, D]` to `[N, D]`. `caches` holds the block's index and one cache a row.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn forward(
        &self,
        x: &Tensor,
        packing: &Packing,
        caches: Option<(usize, &mut [&mut KvCache])>,
    ) -> Result<Tensor> {
        let normed = rms_norm(x, &self.input_norm, self.norm_eps)?;
        let x = (x + self.attend(&normed, packing, caches)?)?;
        let normed = rms_norm(&x, &self.post_attention_norm, self.norm_eps)?;
        let gate = self.linear(Projection::Gate).forward(&normed)?;
        let up = self.linear(Projection::Up).forward(&normed)?;
        x + self
            .linear(Projection::Down)
            .forward(&swiglu(&gate, &up)?)?
    }

    fn attend(
        &self,
        x: &Tensor,
        packing: &Packing,
        mut caches: Option<(usize, &mut [&mut KvCache])>,
    ) -> Result<Tensor> {
        let n = x.dim(0)?;
        let heads = |projection, heads| {
            self.linear(projection)
                .forward(x)?
                .reshape((n, heads, self.head_dim))
        };
        let Tables { rotation, masks } = packing.tables(x)?;
        let q = self.rotate(
            heads(Projection::Q, self.heads)?,
            self.q_norm.as_ref(),
            rotation,
        )?;
        let k = self.rotate(
            heads(Projection::K, self.kv_heads)?,
            self.k_norm.as_ref(),
            rotation,
        )?;
        let v = heads(Projection::V, self.kv_heads)?;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (row, &len) in packing.lens.iter().enumerate() {
            let (mut k, mut v) = (k.narrow(0, start, len)?, v.narrow(0, start, len)?);
            if let Some((layer, caches)) = &mut caches {
                (k, v) = caches[row].append(*layer, &k, &v)?;
            }
            keys.push(k);
            values.push(v);
            start += len;
        }
        let y = match masks {
            Masks::Together(layout) => attention::of_rows(&q, &keys, &values, layout)?,
            Masks::Causal(masks) => {
                let mut rows = Vec::with_capacity(masks.len());
                let mut start = 0;
                for (row, mask) in masks.iter().enumerate() {
                    let q = q.narrow(0, start, packing.lens[row])?;
                    let (k, v) = (&keys[row], &values[row]);
                    rows.push(attention::composed(&q, k, v, mask.as_ref())?);
                    start += packing.lens[row];
                }
                match rows.len() {
                    1 => rows.swap_remove(0),
                    _ => Tensor::cat(&rows, 0)?,
                }
            }
        };
        self.linear(Projection::O)
            .forward(&y.reshape((n, self.heads * self.head_dim))?)
    }

    /// Norm of the heads where the model has one, then the rotary embedding; `[N, H, D]`.
    fn rotate(
        &self,
        x: Tensor,
        norm: Option<&Tensor>,
        rotation: &(Tensor, Tensor),
    ) -> Result<Tensor> {
        let x = match norm {
            Some(weight) => rms_norm(&x, weight, self.norm_eps)?,
            None => x,
        };
        rope(&x, rotation)
    }
}
