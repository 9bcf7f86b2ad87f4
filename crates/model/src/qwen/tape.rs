//! Training in host memory: a forward pass that keeps what the gradients need, and the pass back.
//!
//! The same formulas as [`Block::forward`], whose graph the tests compare with, but without a graph: no operation but
//! the products allocates much, elementwise steps run in place, and an adapter's update is added to each panel of a
//! product while it lies in the cache.

use candle_core::{Result, Tensor};

use super::{Block, Model, Packing, Projection};
use crate::attention::Packed;
use crate::buffer::Buffer;
use crate::cache::Heads;
use crate::host;
use crate::linear::Pass;
use crate::matrix::Activations;
use crate::ops::{gate_rows, gate_rows_backward, norm_rows_backward};
use crate::panels;

/// What a forward pass keeps: the input of every block, and of as many blocks as memory allows the steps inside.
pub struct Tape {
    packing: Packing,
    /// Tokens with the padding of the products.
    m: usize,
    blocks: Vec<(Buffer<f32>, Option<Steps>)>,
}

/// Values inside a block, `[m, width]` each.
struct Steps {
    /// Queries and keys before their norm and rotation.
    q: Buffer<f32>,
    k: Buffer<f32>,
    v: Buffer<f32>,
    attended: Buffer<f32>,
    /// Between attention and feed-forward.
    middle: Buffer<f32>,
    gate: Buffer<f32>,
    up: Buffer<f32>,
    /// `x A^T` of each adapter.
    low: [Vec<f32>; 7],
}

impl Model {
    /// Runs the blocks over a packed batch (`ids` of all rows, `lens` tokens each) and returns their output before the
    /// final norm, `[N, D]`. Up to `memory` bytes are kept so that the pass back does not compute them again; the
    /// gradients do not depend on it.
    ///
    /// # Errors
    /// When an id lies outside the vocabulary, `lens` do not add up to the ids, or the model does not lie in host memory.
    pub fn record(&self, ids: &[u32], lens: &[usize], memory: usize) -> Result<(Tensor, Tape)> {
        let c = &self.config;
        let n = ids.len();
        if lens.iter().sum::<usize>() != n {
            candle_core::bail!("{n} tokens do not fit rows of {lens:?}");
        }
        let packing = self.packing(lens, &vec![0; lens.len()], Pass::Prefill);
        let m = panels::padded(n);
        let width = c.hidden_size;
        let mut x = host::with_values(&self.embed(ids)?, |x| Ok(Buffer::padded(x, m * width)))?;
        let heads = (2 * c.heads + 2 * c.kv_heads) * c.head_dim;
        let block_bytes = 4 * m * (heads + width + 2 * c.intermediate_size);
        let kept = memory / block_bytes.max(1);
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (layer, block) in self.blocks.iter().enumerate() {
            let (steps, y) = block.steps(&x, &packing, m)?;
            // The last blocks are the first that the pass back needs.
            let keep = self.blocks.len() - layer <= kept;
            blocks.push((std::mem::replace(&mut x, y), keep.then_some(steps)));
        }
        let tape = Tape { packing, m, blocks };
        let last = Tensor::from_slice(&x[..n * width], (n, width), &self.device)?;
        Ok((last, tape))
    }

    /// Pulls the gradient `dy` (`[N, D]`) of [`Self::record`]'s output back and calls `found` with the gradients of each
    /// adapter's `A` and `B`.
    ///
    /// # Errors
    /// When the shapes do not fit, or the tape is that of another model.
    pub fn pull(
        &self,
        tape: Tape,
        dy: &Tensor,
        found: &mut dyn FnMut(usize, Projection, [Tensor; 2]) -> Result<()>,
    ) -> Result<()> {
        let (tokens, width) = (tape.packing.tokens(), self.config.hidden_size);
        if dy.dims() != [tokens, width] || tape.blocks.len() != self.blocks.len() {
            candle_core::bail!("gradient {:?} does not fit [{tokens}, {width}]", dy.dims());
        }
        let len = tape.m * width;
        let mut dy = host::with_values(dy, |dy| Ok(Buffer::padded(dy, len)))?;
        for (layer, (x, steps)) in tape.blocks.into_iter().enumerate().rev() {
            let block = &self.blocks[layer];
            let steps = match steps {
                Some(steps) => steps,
                None => block.steps(&x, &tape.packing, tape.m)?.0,
            };
            dy = block.pull(&x, steps, dy, &tape.packing, &mut |projection, pair| {
                found(layer, projection, pair)
            })?;
        }
        Ok(())
    }
}

impl Block {
    fn width(&self, heads: usize) -> usize {
        heads * self.head_dim
    }

    fn key_heads(&self) -> Heads {
        Heads {
            groups: self.kv_heads,
            d: self.head_dim,
        }
    }

    fn normed(&self, weight: &Tensor, x: &[f32]) -> Result<Buffer<f32>> {
        let mut out = Buffer::new(x.len());
        self.norm_host(weight, x, &mut out)?;
        Ok(out)
    }

    /// Norm of the heads where the model has one, then the rotary embedding.
    fn rotated(
        &self,
        x: &[f32],
        heads: usize,
        norm: Option<&Tensor>,
        packing: &Packing,
    ) -> Result<Buffer<f32>> {
        let mut x = match norm {
            Some(norm) => self.normed(norm, x)?,
            None => Buffer::padded(x, x.len()),
        };
        packing.rotation.rotate(&mut x, heads);
        Ok(x)
    }

    /// The pass back through [`Self::rotated`], in place.
    fn unrotate(
        &self,
        x: &[f32],
        dy: &mut [f32],
        heads: usize,
        norm: Option<&Tensor>,
        packing: &Packing,
    ) -> Result<()> {
        packing.rotation.inverse().rotate(dy, heads);
        if let Some(norm) = norm {
            let rotated = Buffer::padded(dy, dy.len());
            dy.fill(0.0);
            self.add_norm_gradient(norm, x, &rotated, dy)?;
        }
        Ok(())
    }

    fn add_norm_gradient(
        &self,
        weight: &Tensor,
        x: &[f32],
        dy: &[f32],
        dx: &mut [f32],
    ) -> Result<()> {
        host::with_values(weight, |weight| {
            norm_rows_backward(x, weight, self.norm_eps as f32, dy, dx);
            Ok(())
        })
    }

    /// All steps of the block and its output, `[m, D]`.
    fn steps(&self, x: &[f32], packing: &Packing, m: usize) -> Result<(Steps, Buffer<f32>)> {
        let mut low: [Vec<f32>; 7] = Default::default();
        let mut apply = |projection: Projection, x: &Activations<'_>, out: &mut [f32], add| {
            low[projection as usize] = self.linear(projection).apply(x, out, add, Pass::Prefill)?;
            Ok::<_, candle_core::Error>(())
        };
        let room = |width: usize| Buffer::new(m * width);
        let normed = self.normed(&self.input_norm, x)?;
        let input = Activations::new(&normed);
        let (wq, wk) = (self.width(self.heads), self.width(self.kv_heads));
        let (mut q, mut k, mut v) = (room(wq), room(wk), room(wk));
        apply(Projection::Q, &input, &mut q, false)?;
        apply(Projection::K, &input, &mut k, false)?;
        apply(Projection::V, &input, &mut v, false)?;
        let mut attended = room(wq);
        let (tokens, padding) = attended.split_at_mut(packing.tokens() * wq);
        self.with_attention(&q, &k, &v, packing, |a| a.forward(tokens))?;
        padding.fill(0.0);
        let mut middle = Buffer::padded(x, x.len());
        apply(
            Projection::O,
            &Activations::new(&attended),
            &mut middle,
            true,
        )?;
        let normed = self.normed(&self.post_attention_norm, &middle)?;
        let input = Activations::new(&normed);
        let inner = self.linear(Projection::Up).dims()?.0;
        let (mut gate, mut up) = (room(inner), room(inner));
        apply(Projection::Gate, &input, &mut gate, false)?;
        apply(Projection::Up, &input, &mut up, false)?;
        let mut active = gate.clone();
        gate_rows(&mut active, &up);
        let mut y = middle.clone();
        apply(Projection::Down, &Activations::new(&active), &mut y, true)?;
        let steps = Steps {
            q,
            k,
            v,
            attended,
            middle,
            gate,
            up,
            low,
        };
        Ok((steps, y))
    }

    fn with_attention<R>(
        &self,
        q: &[f32],
        k: &[f32],
        v: &[f32],
        packing: &Packing,
        f: impl FnOnce(Packed<'_>) -> R,
    ) -> Result<R> {
        let n = packing.tokens();
        let (wq, wk) = (self.width(self.heads), self.width(self.kv_heads));
        let q = self.rotated(&q[..n * wq], self.heads, self.q_norm.as_ref(), packing)?;
        let k = self.rotated(&k[..n * wk], self.kv_heads, self.k_norm.as_ref(), packing)?;
        Ok(f(Packed {
            query_heads: self.heads,
            heads: self.key_heads(),
            lens: &packing.lens,
            q: &q,
            k: &k,
            v: &v[..n * wk],
        }))
    }

    /// The gradient of the block's input from that of its output.
    fn pull(
        &self,
        x: &[f32],
        s: Steps,
        dy: Buffer<f32>,
        packing: &Packing,
        found: &mut dyn FnMut(Projection, [Tensor; 2]) -> Result<()>,
    ) -> Result<Buffer<f32>> {
        let low = s.low;
        let mut pull =
            |projection: Projection, x: &Activations<'_>, dy: &[f32], dx: &mut [f32], add| {
                let low = &low[projection as usize];
                let linear = self.linear(projection);
                match linear.pull(x, low, &Activations::new(dy), dx, add)? {
                    Some(pair) => found(projection, pair),
                    None => Ok(()),
                }
            };
        let (mut gate, mut up) = (s.gate, s.up);
        let mut active = gate.clone();
        gate_rows(&mut active, &up);
        let mut dactive = Buffer::new(active.len());
        pull(
            Projection::Down,
            &Activations::new(&active),
            &dy,
            &mut dactive,
            false,
        )?;
        drop(active);
        gate_rows_backward(&mut gate, &mut up, &dactive);
        let normed = self.normed(&self.post_attention_norm, &s.middle)?;
        let input = Activations::new(&normed);
        let mut dnormed = Buffer::new(x.len());
        pull(Projection::Gate, &input, &gate, &mut dnormed, false)?;
        pull(Projection::Up, &input, &up, &mut dnormed, true)?;
        let mut dx = dy;
        self.add_norm_gradient(&self.post_attention_norm, &s.middle, &dnormed, &mut dx)?;

        let mut dattended = Buffer::new(s.attended.len());
        let attended = Activations::new(&s.attended);
        pull(Projection::O, &attended, &dx, &mut dattended, false)?;
        let n = packing.tokens();
        let (wq, wk) = (self.width(self.heads), self.width(self.kv_heads));
        let like = |x: &Buffer<f32>| Buffer::new(x.len());
        let (mut dq, mut dk, mut dv) = (like(&s.q), like(&s.k), like(&s.v));
        let (q, q_padding) = dq.split_at_mut(n * wq);
        let (k, k_padding) = dk.split_at_mut(n * wk);
        let (v, v_padding) = dv.split_at_mut(n * wk);
        for padding in [q_padding, k_padding, v_padding] {
            padding.fill(0.0);
        }
        self.with_attention(&s.q, &s.k, &s.v, packing, |attention| {
            let (y, dy) = (&s.attended[..n * wq], &dattended[..n * wq]);
            attention.backward(y, dy, [&mut *q, &mut *k, v]);
        })?;
        let (q_norm, k_norm) = (self.q_norm.as_ref(), self.k_norm.as_ref());
        self.unrotate(&s.q[..n * wq], q, self.heads, q_norm, packing)?;
        self.unrotate(&s.k[..n * wk], k, self.kv_heads, k_norm, packing)?;
        let normed = self.normed(&self.input_norm, x)?;
        let input = Activations::new(&normed);
        pull(Projection::Q, &input, &dq, &mut dnormed, false)?;
        pull(Projection::K, &input, &dk, &mut dnormed, true)?;
        pull(Projection::V, &input, &dv, &mut dnormed, true)?;
        self.add_norm_gradient(&self.input_norm, x, &dnormed, &mut dx)?;
        Ok(dx)
    }
}
