//! What an encoder computes between its matrix products, for inference alone.
//!
//! On the CPU each function works in place, in f32 and on all threads; on other devices it is a
//! composition of Candle operations. A function that takes its first tensor by value expects to be
//! given its only handle, as a matrix product returns it.

use candle_core::{
    CpuStorage, D, DType, InplaceOp1, InplaceOp2, InplaceOp3, Layout, Result, Tensor,
};
use rayon::prelude::*;

use super::wide::{LANES, erf, sum, widest};
use crate::{host, simd};

/// Values per task of an elementwise loop: enough to outweigh handing it over.
const GRAIN: usize = 1 << 14;

/// Weights of a layer norm (Ba et al. 2016), `[D]` each.
pub(super) struct LayerNorm {
    pub(super) weight: Tensor,
    pub(super) bias: Tensor,
    pub(super) eps: f64,
}

/// `gelu(x + bias)` with the exact GELU `x/2 (1 + erf(x / sqrt 2))` (Hendrycks and Gimpel 2016); `x` is
/// `[N, D]`, `bias` `[D]`.
pub(super) fn bias_gelu(x: Tensor, bias: &Tensor) -> Result<Tensor> {
    if !x.device().is_cpu() {
        return x.broadcast_add(bias)?.gelu_erf();
    }
    host::with_values(bias, |bias| x.inplace_op1(&BiasGelu { bias }))?;
    Ok(x)
}

/// `norm(x + bias + residual)`; `x` and `residual` are `[N, D]`, `bias` `[D]`.
pub(super) fn add_norm(
    x: Tensor,
    bias: &Tensor,
    residual: &Tensor,
    norm: &LayerNorm,
) -> Result<Tensor> {
    if x.dims() != residual.dims() {
        candle_core::bail!(
            "{:?} and its residual {:?} differ",
            x.dims(),
            residual.dims()
        );
    }
    if !x.device().is_cpu() {
        return composed_add_norm(&x, bias, residual, norm);
    }
    let residual = residual.contiguous()?;
    host::with_values(bias, |bias| {
        host::with_values(&norm.weight, |weight| {
            host::with_values(&norm.bias, |shift| {
                let eps = norm.eps as f32;
                x.inplace_op2(
                    &residual,
                    &AddNorm {
                        bias,
                        weight,
                        shift,
                        eps,
                    },
                )
            })
        })
    })?;
    Ok(x)
}

fn composed_add_norm(
    x: &Tensor,
    bias: &Tensor,
    residual: &Tensor,
    norm: &LayerNorm,
) -> Result<Tensor> {
    let sum = (x.broadcast_add(bias)? + residual)?.to_dtype(DType::F32)?;
    let centred = sum.broadcast_sub(&sum.mean_keepdim(D::Minus1)?)?;
    let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
    let normed = centred.broadcast_div(&(variance + norm.eps)?.sqrt()?)?;
    let normed = normed.to_dtype(x.dtype())?;
    normed
        .broadcast_mul(&norm.weight)?
        .broadcast_add(&norm.bias)
}

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

/// The values behind a CPU storage, to be written.
fn values_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        candle_core::bail!("expected a contiguous tensor, got {layout:?}");
    };
    match storage {
        CpuStorage::F32(values) => Ok(&mut values[start..end]),
        _ => candle_core::bail!("expected f32 values in host memory"),
    }
}

/// Rows of `width` values that one task takes.
fn rows_per_task(width: usize) -> usize {
    GRAIN / width + 1
}

struct BiasGelu<'a> {
    bias: &'a [f32],
}

impl InplaceOp1 for BiasGelu<'_> {
    fn name(&self) -> &'static str {
        "bias-gelu"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (_, width) = layout.shape().dims2()?;
        if width != self.bias.len() {
            candle_core::bail!(
                "a bias of {} does not fit {:?}",
                self.bias.len(),
                layout.dims()
            );
        }
        values_mut(storage, layout)?
            .par_chunks_mut(rows_per_task(width) * width)
            .for_each(|x| bias_gelu_rows(x, self.bias));
        Ok(())
    }
}

widest! {
    fn bias_gelu_rows(x: &mut [f32], bias: &[f32]) {
        for row in x.chunks_exact_mut(bias.len()) {
            for (x, bias) in row.iter_mut().zip(bias) {
                let v = *x + bias;
                *x = 0.5 * v * (1.0 + erf(v * std::f32::consts::FRAC_1_SQRT_2));
            }
        }
    }
}

struct AddNorm<'a> {
    bias: &'a [f32],
    weight: &'a [f32],
    shift: &'a [f32],
    eps: f32,
}

impl InplaceOp2 for AddNorm<'_> {
    fn name(&self) -> &'static str {
        "add-norm"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<()> {
        let (_, width) = layout.shape().dims2()?;
        if [self.bias, self.weight, self.shift]
            .iter()
            .any(|v| v.len() != width)
        {
            candle_core::bail!(
                "norm weights of {} do not fit {:?}",
                self.weight.len(),
                layout.dims()
            );
        }
        let residual = host::values(residual, residual_layout)?;
        let task = rows_per_task(width) * width;
        values_mut(x, layout)?
            .par_chunks_mut(task)
            .zip(residual.par_chunks(task))
            .for_each(|(x, residual)| add_norm_rows(x, residual, self));
        Ok(())
    }
}

widest! {
    fn add_norm_rows(x: &mut [f32], residual: &[f32], op: &AddNorm<'_>) {
        let AddNorm { bias, weight, shift, eps } = *op;
        let width = bias.len();
        for (x, residual) in x.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
            for ((x, residual), bias) in x.iter_mut().zip(residual).zip(bias) {
                *x += bias + residual;
            }
            let mean = sum(x, |v| v) / width as f32;
            let variance = sum(x, |v| (v - mean) * (v - mean)) / width as f32;
            let inverse = 1.0 / (variance + eps).sqrt();
            for ((x, weight), shift) in x.iter_mut().zip(weight).zip(shift) {
                *x = (*x - mean) * inverse * weight + shift;
            }
        }
    }
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
    use candle_core::Device;

    use super::*;

    /// Smooth, irregular values of both signs.
    fn values(dims: &[usize], seed: f32, spread: f32) -> Tensor {
        let count = dims.iter().product::<usize>();
        let values = (0..count).map(|i| (seed + 1.7 * i as f32).sin() * spread);
        Tensor::from_vec(values.collect::<Vec<f32>>(), dims, &Device::Cpu).unwrap()
    }

    fn assert_close(a: &Tensor, b: &Tensor, tolerance: f32) {
        assert_eq!(a.dims(), b.dims());
        let largest = (a - b)
            .unwrap()
            .abs()
            .unwrap()
            .flatten_all()
            .unwrap()
            .max(0)
            .unwrap();
        let largest: f32 = largest.to_scalar().unwrap();
        assert!(largest < tolerance, "largest difference {largest}");
    }

    #[test]
    fn bias_and_gelu_equal_their_composition() {
        let (x, bias) = (values(&[7, 37], 0.1, 6.0), values(&[37], 0.7, 1.0));
        let composed = x.broadcast_add(&bias).unwrap().gelu_erf().unwrap();
        assert_close(&bias_gelu(x, &bias).unwrap(), &composed, 1e-6);
    }

    #[test]
    fn sum_and_norm_equal_their_composition() {
        let (x, residual) = (values(&[50, 400], 0.1, 2.0), values(&[50, 400], 0.9, 3.0));
        let bias = values(&[400], 0.7, 1.0);
        let norm = LayerNorm {
            weight: values(&[400], 0.2, 2.0),
            bias: values(&[400], 0.4, 2.0),
            eps: 1e-5,
        };
        let composed = composed_add_norm(&x, &bias, &residual, &norm).unwrap();
        assert_close(
            &add_norm(x, &bias, &residual, &norm).unwrap(),
            &composed,
            2e-6,
        );
    }

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
        let (x, bias) = (values(&[2, 4], 0.1, 1.0), values(&[3], 0.1, 1.0));
        assert!(bias_gelu(x.clone(), &bias).is_err());
        let biases = [0, 1, 2].map(|_| values(&[4], 0.1, 1.0));
        let qkv = || [0, 1, 2].map(|_| x.copy().unwrap());
        assert!(attention(qkv(), biases.each_ref(), 3, &[2]).is_err());
        assert!(attention(qkv(), biases.each_ref(), 2, &[3]).is_err());
        assert!(attention(qkv(), biases.each_ref(), 2, &[2]).is_ok());
    }
}
