//! Attention of an encoder, in which each token sees all tokens of its row, for inference alone. On the CPU it is
//! computed in place, in f32 and on all threads; on other devices it is a composition of Candle operations.

use candle_core::{CpuStorage, D, DType, InplaceOp3, Layout, Result, Tensor};
use rayon::prelude::*;

use super::kernels::values_mut;
use super::wide::{LANES, widest};
use crate::{host, simd};

/// Attention without a mask inside each row of a packed batch: rows of `lens` tokens stand one after
/// another in `q`, `k` and `v` (`[N, H * D]`), to which `biases` (`[H * D]` each) are added first.
/// Scores are scaled by `1 / sqrt(D)`.
pub(super) fn attention(
    [q, k, v]: [Tensor; 3],
    biases: [&Tensor; 3],
    heads: usize,
    lens: &[usize],
) -> Result<Tensor> {
    let (n, width) = q.dims2()?;
    if lens.iter().sum::<usize>() != n
        || !width.is_multiple_of(heads)
        || k.dims() != q.dims()
        || v.dims() != q.dims()
    {
        candle_core::bail!(
            "{:?} do not fit {heads} heads and rows of {lens:?}",
            q.dims()
        );
    }
    if !q.device().is_cpu() {
        return composed_attention([&q, &k, &v], biases, heads, lens);
    }
    let (k, v) = (k.contiguous()?, v.contiguous()?);
    let [q_bias, k_bias, v_bias] = biases;
    host::with_values(q_bias, |q_bias| {
        host::with_values(k_bias, |k_bias| {
            host::with_values(v_bias, |v_bias| {
                let biases = [q_bias, k_bias, v_bias];
                q.inplace_op3(
                    &k,
                    &v,
                    &Attention {
                        biases,
                        heads,
                        lens,
                    },
                )
            })
        })
    })?;
    Ok(q)
}

fn composed_attention(
    [q, k, v]: [&Tensor; 3],
    biases: [&Tensor; 3],
    heads: usize,
    lens: &[usize],
) -> Result<Tensor> {
    let (_, width) = q.dims2()?;
    let d = width / heads;
    let scale = 1.0 / (d as f64).sqrt();
    let mut rows = Vec::with_capacity(lens.len());
    let mut start = 0;
    for &len in lens {
        // [T, H * D] to [H, T, D]
        let part = |x: &Tensor, bias: &Tensor| {
            let row = x.narrow(0, start, len)?.broadcast_add(bias)?;
            row.reshape((len, heads, d))?.transpose(0, 1)?.contiguous()
        };
        let (q, k, v) = (
            part(q, biases[0])?,
            part(k, biases[1])?,
            part(v, biases[2])?,
        );
        let scores = (q.matmul(&k.t()?)? * scale)?.to_dtype(DType::F32)?;
        let weights = candle_nn::ops::softmax(&scores, D::Minus1)?.to_dtype(v.dtype())?;
        let y = weights.matmul(&v)?.transpose(0, 1)?;
        rows.push(y.reshape((len, width))?);
        start += len;
    }
    Tensor::cat(&rows, 0)
}

/// Queries that one task takes; a multiple of [`QUERIES`].
const TASK_QUERIES: usize = 24;

/// Queries whose scores are held at once: with one register of sums each, enough of them run side by
/// side to hide how long an addition takes, and they still fit the sixteen registers of AVX2.
const QUERIES: usize = 6;

/// Works in place on the queries.
struct Attention<'a> {
    biases: [&'a [f32]; 3],
    heads: usize,
    lens: &'a [usize],
}

impl InplaceOp3 for Attention<'_> {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        q: &mut CpuStorage,
        q_layout: &Layout,
        k: &CpuStorage,
        k_layout: &Layout,
        v: &CpuStorage,
        v_layout: &Layout,
    ) -> Result<()> {
        let (_, width) = q_layout.shape().dims2()?;
        if self.biases.iter().any(|bias| bias.len() != width) {
            candle_core::bail!("attention biases do not fit {:?}", q_layout.dims());
        }
        let d = width / self.heads;
        let (k, v) = (host::values(k, k_layout)?, host::values(v, v_layout)?);
        // First the keys and values of each head, in the order in which they are read.
        let [q_bias, k_bias, v_bias] = self.biases;
        let mut sources = Vec::with_capacity(self.lens.len());
        let mut start = 0;
        for &len in self.lens {
            let range = start * width..(start + len) * width;
            sources.push((Head { len, d, width }, &k[range.clone()], &v[range]));
            start += len;
        }
        let rows: Vec<Vec<f32>> = sources
            .par_iter()
            .map(|&(head, k, v)| {
                let mut packed = vec![0f32; self.heads * head.packed_len()];
                packed
                    .par_chunks_mut(head.packed_len().max(1))
                    .enumerate()
                    .with_min_len(4)
                    .for_each(|(h, packed)| {
                        let at = h * d;
                        let (k, v) = (k.get(at..).unwrap_or(&[]), v.get(at..).unwrap_or(&[]));
                        head.pack(k, &k_bias[at..at + d], v, &v_bias[at..at + d], packed);
                    });
                packed
            })
            .collect();
        // Then the queries, each task a few of one row.
        let mut tasks = Vec::new();
        let mut rest = values_mut(q, q_layout)?;
        for ((head, _, _), packed) in sources.iter().zip(&rows) {
            let (row, others) = rest.split_at_mut(head.len * width);
            rest = others;
            tasks.extend(
                row.chunks_mut(TASK_QUERIES * width)
                    .map(|q| (head, packed, q)),
            );
        }
        tasks.into_par_iter().for_each(|(head, packed, q)| {
            let mut scratch = head.scratch();
            for (h, packed) in packed.chunks_exact(head.packed_len()).enumerate() {
                let at = h * d;
                attend(q, at, &q_bias[at..at + d], packed, &mut scratch);
            }
        });
        Ok(())
    }
}

/// Sizes of one head of one row: `T` tokens, `D` values a head, `H * D` from token to token.
#[derive(Clone, Copy)]
struct Head {
    len: usize,
    d: usize,
    width: usize,
}

impl Head {
    /// Keys, rounded up to whole registers.
    fn keys(self) -> usize {
        self.len.next_multiple_of(LANES)
    }

    /// Values a head, rounded up to whole registers.
    fn wide(self) -> usize {
        self.d.next_multiple_of(LANES)
    }

    /// Keys transposed, `[D, keys]`, then values, `[keys, wide]`; zeros fill both up.
    fn packed_len(self) -> usize {
        self.keys() * (self.d + self.wide())
    }

    /// Adds the biases on the way. `k` and `v` begin at the head's first value of the first token.
    fn pack(self, k: &[f32], k_bias: &[f32], v: &[f32], v_bias: &[f32], packed: &mut [f32]) {
        let (keys, wide) = (self.keys(), self.wide());
        let (packed_k, packed_v) = packed.split_at_mut(self.d * keys);
        for (t, token) in k.chunks(self.width).enumerate().take(self.len) {
            for (i, (value, bias)) in token.iter().zip(k_bias).enumerate() {
                packed_k[i * keys + t] = value + bias;
            }
        }
        for (packed, token) in packed_v.chunks_exact_mut(wide).zip(v.chunks(self.width)) {
            for ((packed, value), bias) in packed.iter_mut().zip(token).zip(v_bias) {
                *packed = value + bias;
            }
        }
    }

    fn scratch(self) -> Scratch {
        Scratch {
            head: self,
            q: vec![0.0; QUERIES * self.d],
            p: vec![0.0; QUERIES * self.keys()],
            y: vec![0.0; QUERIES * self.wide()],
        }
    }
}

/// Queries, weights and results of [`QUERIES`] queries of a head.
struct Scratch {
    head: Head,
    q: Vec<f32>,
    p: Vec<f32>,
    y: Vec<f32>,
}

widest! {
    /// Puts the results of one head in place of its queries: those of `q` (`[n, H * D]`) from column `at`.
    fn attend(
        q: &mut [f32],
        at: usize,
        bias: &[f32],
        packed: &[f32],
        scratch: &mut Scratch,
    ) {
        let head = scratch.head;
        let (keys, wide) = (head.keys(), head.wide());
        let (k, v) = packed.split_at(head.d * keys);
        let scale = 1.0 / (head.d as f32).sqrt();
        for q in q.chunks_mut(QUERIES * head.width) {
            // With fewer queries than QUERIES the last places keep what they held: finite, unused.
            for (to, token) in scratch.q.chunks_exact_mut(head.d).zip(q.chunks_exact(head.width)) {
                for ((to, value), bias) in to.iter_mut().zip(&token[at..]).zip(bias) {
                    *to = (value + bias) * scale;
                }
            }
            product(&scratch.q, k, keys, &mut scratch.p);
            for p in scratch.p.chunks_exact_mut(keys) {
                softmax(p, head.len);
            }
            product(&scratch.p, v, wide, &mut scratch.y);
            for (y, token) in scratch.y.chunks_exact(wide).zip(q.chunks_exact_mut(head.width)) {
                token[at..at + head.d].copy_from_slice(&y[..head.d]);
            }
        }
    }
}

/// `c = a b`: `a` is `[QUERIES, K]`, `b` `[K, width]`, `c` `[QUERIES, width]`, `width` a multiple of
/// [`LANES`].
#[inline(always)]
fn product(a: &[f32], b: &[f32], width: usize, c: &mut [f32]) {
    let depth = a.len() / QUERIES;
    // Zipped, the rows need no check at each step that it lies inside of them.
    let row = |r: usize| a[r * depth..(r + 1) * depth].iter();
    for at in (0..width).step_by(LANES) {
        let mut sums = [[0f32; LANES]; QUERIES];
        let columns = row(0)
            .zip(row(1))
            .zip(row(2))
            .zip(row(3))
            .zip(row(4))
            .zip(row(5));
        for (b, (((((a0, a1), a2), a3), a4), a5)) in b.chunks_exact(width).zip(columns) {
            let b = &b[at..at + LANES];
            for (sums, a) in sums.iter_mut().zip([a0, a1, a2, a3, a4, a5]) {
                for (sum, b) in sums.iter_mut().zip(b) {
                    *sum = a.mul_add(*b, *sum);
                }
            }
        }
        for (c, sums) in c.chunks_exact_mut(width).zip(&sums) {
            c[at..at + LANES].copy_from_slice(sums);
        }
    }
}

/// Softmax of the first `len` scores; those behind them, of keys that only fill up, get no weight.
#[inline(always)]
fn softmax(scores: &mut [f32], len: usize) {
    let (seen, rest) = scores.split_at_mut(len);
    let inverse = 1.0 / simd::exp_and_sum(seen, simd::max(seen));
    for weight in seen {
        *weight *= inverse;
    }
    rest.fill(0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embed::kernels::tests::{assert_close, values};

    /// Rows around the sizes of a register and of a task; heads of odd width.
    #[test]
    fn attention_equals_its_composition() {
        for (heads, d) in [(3, 5), (2, 16), (4, 32), (1, 40)] {
            let lens = [1, 17, 16, 30, 6, 100];
            let dims = [lens.iter().sum(), heads * d];
            let qkv = [0.1, 0.5, 0.9].map(|seed| values(&dims, seed, 2.0));
            let biases = [0.2, 0.6, 1.0].map(|seed| values(&[heads * d], seed, 1.0));
            let [q, k, v] = &qkv;
            let composed = composed_attention([q, k, v], biases.each_ref(), heads, &lens).unwrap();
            assert_close(
                &attention(qkv, biases.each_ref(), heads, &lens).unwrap(),
                &composed,
                5e-6,
            );
        }
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let x = values(&[2, 4], 0.1, 1.0);
        let biases = [0, 1, 2].map(|_| values(&[4], 0.1, 1.0));
        let qkv = || [0, 1, 2].map(|_| x.copy().unwrap());
        assert!(attention(qkv(), biases.each_ref(), 3, &[2]).is_err());
        assert!(attention(qkv(), biases.each_ref(), 2, &[3]).is_err());
        assert!(attention(qkv(), biases.each_ref(), 2, &[2]).is_ok());
    }
}
