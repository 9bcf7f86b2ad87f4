//! The blocks in host memory, outside any graph: buffers are made once a call, nothing is copied between operations.

use candle_core::{Result, Tensor};

use super::{Block, Model, Packing, Projection};
use crate::cache::{Heads, KvCache};
use crate::host;
use crate::linear::Pass;
use crate::matrix::Activations;
use crate::ops::{gate_rows, norm_rows};
use crate::paged::Attention;
use crate::panels;

/// Working memory of one call, `[m, width]` each, `m` the number of tokens and the padding of the products.
struct Buffers {
    normed: Vec<f32>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    attended: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

/// Final hidden states `[N, D]` of embeddings `x` (`[N, D]`).
pub(super) fn hidden(
    model: &Model,
    x: &Tensor,
    packing: &Packing,
    caches: &mut [&mut KvCache],
) -> Result<Tensor> {
    let c = &model.config;
    let n = x.dim(0)?;
    let m = match packing.pass {
        Pass::Prefill => panels::padded(n),
        Pass::Decode => n,
    };
    let heads = Heads {
        groups: c.kv_heads,
        d: c.head_dim,
    };
    let mut x = host::with_values(x, |x| Ok(x.to_vec()))?;
    x.resize(m * c.hidden_size, 0.0);
    let buffer = |width: usize| vec![0f32; m * width];
    let mut buffers = Buffers {
        normed: buffer(c.hidden_size),
        q: buffer(c.heads * c.head_dim),
        k: buffer(c.kv_heads * c.head_dim),
        v: buffer(c.kv_heads * c.head_dim),
        attended: buffer(c.heads * c.head_dim),
        gate: buffer(c.intermediate_size),
        up: buffer(c.intermediate_size),
    };
    for (cache, &len) in caches.iter_mut().zip(&packing.lens) {
        cache.reserve(len, heads, model.short_cache);
    }
    for (layer, block) in model.blocks.iter().enumerate() {
        block.forward_host(layer, heads, &mut x, packing, caches, &mut buffers)?;
    }
    for (cache, &len) in caches.iter_mut().zip(&packing.lens) {
        cache.advance(len);
    }
    let normed = &mut buffers.normed[..n * c.hidden_size];
    host::with_values(&model.norm, |w| {
        norm_rows(&x[..n * c.hidden_size], w, c.norm_eps as f32, normed);
        Ok(())
    })?;
    buffers.normed.truncate(n * c.hidden_size);
    Tensor::from_vec(buffers.normed, (n, c.hidden_size), &model.device)
}

impl Block {
    fn forward_host(
        &self,
        layer: usize,
        heads: Heads,
        x: &mut [f32],
        packing: &Packing,
        caches: &mut [&mut KvCache],
        b: &mut Buffers,
    ) -> Result<()> {
        let n = packing.tokens();
        let pass = packing.pass;
        self.norm_host(&self.input_norm, x, &mut b.normed)?;
        let input = Activations::new(&b.normed);
        for (projection, out) in [
            (Projection::Q, &mut b.q),
            (Projection::K, &mut b.k),
            (Projection::V, &mut b.v),
        ] {
            self.linear(projection).apply(&input, out, false, pass)?;
        }
        self.rotate_host(&mut b.q, self.heads, self.q_norm.as_ref(), packing)?;
        self.rotate_host(&mut b.k, self.kv_heads, self.k_norm.as_ref(), packing)?;
        let (wq, wk) = (self.heads * heads.d, heads.groups * heads.d);
        let mut start = 0;
        for (cache, &len) in caches.iter_mut().zip(&packing.lens) {
            let rows = start * wk..(start + len) * wk;
            cache.write(layer, heads, &b.k[rows.clone()], &b.v[rows]);
            start += len;
        }
        let attention = Attention {
            layer,
            query_heads: self.heads,
            heads,
            q: &b.q[..n * wq],
            lens: &packing.lens,
        };
        attention.run(caches, &mut b.attended[..n * wq]);
        let attended = Activations::new(&b.attended);
        self.linear(Projection::O).apply(&attended, x, true, pass)?;
        self.norm_host(&self.post_attention_norm, x, &mut b.normed)?;
        let input = Activations::new(&b.normed);
        self.linear(Projection::Gate)
            .apply(&input, &mut b.gate, false, pass)?;
        self.linear(Projection::Up)
            .apply(&input, &mut b.up, false, pass)?;
        gate_rows(&mut b.gate, &b.up);
        self.linear(Projection::Down)
            .apply(&Activations::new(&b.gate), x, true, pass)?;
        Ok(())
    }

    pub(super) fn norm_host(&self, weight: &Tensor, x: &[f32], out: &mut [f32]) -> Result<()> {
        host::with_values(weight, |weight| {
            norm_rows(x, weight, self.norm_eps as f32, out);
            Ok(())
        })
    }

    /// Norm of the heads where the model has one, then the rotary embedding, in place.
    fn rotate_host(
        &self,
        x: &mut [f32],
        heads: usize,
        norm: Option<&Tensor>,
        packing: &Packing,
    ) -> Result<()> {
        if let Some(norm) = norm {
            let before = x.to_vec();
            self.norm_host(norm, &before, x)?;
        }
        packing.rotation.rotate(x, heads);
        Ok(())
    }
}
