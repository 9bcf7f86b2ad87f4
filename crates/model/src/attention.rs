//! Causal grouped-query attention over one row, without a `T x T` matrix kept for the backward pass:
//! scores live for one block of queries at a time and are computed again when the gradient is.

use candle_core::{CpuStorage, CustomOp3, D, DType, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use crate::gemm::{MatMut, MatRef, matmul};
use crate::host;

/// Queries whose scores are held at once.
const QUERY_BLOCK: usize = 64;

/// Attention of the last `T` of `S` positions: query `t` sees keys `0 ..= S - T + t`.
///
/// `q` is `[T, H, D]`, `k` and `v` are `[S, KV, D]` with `H` a multiple of `KV` and
/// `S >= T >= 1`; the result is `[T, H, D]`. Scores are scaled by `1 / sqrt(D)`.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub(crate) fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let dims = Dims::new(q.dims3()?, k.dims3()?)?;
    if v.dims() != k.dims() {
        candle_core::bail!(
            "keys {:?} and values {:?} differ in shape",
            k.dims(),
            v.dims()
        );
    }
    if !q.device().is_cpu() {
        return composed(q, k, v);
    }
    let (q, k, v) = (q.contiguous()?, k.contiguous()?, v.contiguous()?);
    if q.track_op() || k.track_op() || v.track_op() {
        q.apply_op3(&k, &v, Attention(dims))
    } else {
        q.apply_op3_no_bwd(&k, &v, &Attention(dims))
    }
}

/// The same from differentiable Candle operations, for other devices.
pub(crate) fn composed(q: &Tensor, k: &Tensor, v: &Tensor) -> Result<Tensor> {
    let Dims {
        t,
        s,
        heads,
        groups,
        d,
        scale,
    } = Dims::new(q.dims3()?, k.dims3()?)?;
    // [T, H, D] -> [KV, H/KV * T, D]: the heads of a group share its keys.
    let q = q
        .reshape((t, groups, heads / groups, d))?
        .permute((1, 2, 0, 3))?;
    let q = q.reshape((groups, heads / groups * t, d))?;
    let (k, v) = (
        k.transpose(0, 1)?.contiguous()?,
        v.transpose(0, 1)?.contiguous()?,
    );
    let scores = (q.matmul(&k.t()?)? * f64::from(scale))?.to_dtype(DType::F32)?;
    let mask: Vec<f32> = (0..t)
        .flat_map(|i| {
            (0..s).map(move |j| {
                if j <= s - t + i {
                    0.0
                } else {
                    f32::NEG_INFINITY
                }
            })
        })
        .collect();
    let mask = Tensor::from_vec(mask, (1, 1, t, s), q.device())?;
    let scores = scores
        .reshape((groups, heads / groups, t, s))?
        .broadcast_add(&mask)?;
    let weights = candle_nn::ops::softmax(&scores, D::Minus1)?.to_dtype(v.dtype())?;
    let out = weights
        .reshape((groups, heads / groups * t, s))?
        .matmul(&v)?;
    out.reshape((groups, heads / groups, t, d))?
        .permute((2, 0, 1, 3))?
        .reshape((t, heads, d))
}

#[derive(Clone, Copy)]
struct Dims {
    t: usize,
    s: usize,
    heads: usize,
    groups: usize,
    d: usize,
    scale: f32,
}

impl Dims {
    fn new(
        (t, heads, d): (usize, usize, usize),
        (s, groups, dk): (usize, usize, usize),
    ) -> Result<Self> {
        if d != dk || d == 0 || groups == 0 || heads % groups != 0 || t == 0 || s < t {
            candle_core::bail!("queries [{t}, {heads}, {d}] do not fit keys [{s}, {groups}, {dk}]");
        }
        Ok(Self {
            t,
            s,
            heads,
            groups,
            d,
            scale: 1.0 / (d as f32).sqrt(),
        })
    }

    /// Rows `start..start + n` of head `h` in `[_, H, D]` values.
    fn head<'a>(&self, values: &'a [f32], h: usize, start: usize, n: usize) -> MatRef<'a> {
        let stride = self.heads * self.d;
        MatRef::new(&values[start * stride + h * self.d..], n, self.d, stride)
    }

    /// The first `n` rows of group `g` in `[_, KV, D]` values.
    fn group<'a>(&self, values: &'a [f32], g: usize, n: usize) -> MatRef<'a> {
        MatRef::new(&values[g * self.d..], n, self.d, self.groups * self.d)
    }

    /// Softmax weights of queries `start..start + n` of head `h` into `p` (`[n, keys]`); returns `keys`,
    /// the number of keys that the last of them sees.
    fn weights(
        &self,
        q: &[f32],
        k: &[f32],
        h: usize,
        start: usize,
        n: usize,
        p: &mut [f32],
    ) -> usize {
        let keys = self.s - self.t + start + n;
        let k = self.group(k, h / (self.heads / self.groups), keys);
        matmul(
            MatMut::new(p, n, keys, keys),
            self.head(q, h, start, n),
            k.t(),
            self.scale,
            false,
        );
        for (i, row) in p.chunks_exact_mut(keys).take(n).enumerate() {
            let (seen, hidden) = row.split_at_mut(keys - n + i + 1);
            let max = seen.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let mut sum = 0f32;
            for v in seen.iter_mut() {
                *v = (*v - max).exp();
                sum += *v;
            }
            let inverse = 1.0 / sum;
            seen.iter_mut().for_each(|v| *v *= inverse);
            hidden.fill(0.0);
        }
        keys
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let t = self.t;
        (0..t)
            .step_by(QUERY_BLOCK)
            .map(move |start| (start, QUERY_BLOCK.min(t - start)))
    }
}

struct Attention(Dims);

impl CustomOp3 for Attention {
    fn name(&self) -> &'static str {
        "causal-attention"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
        s3: &CpuStorage,
        l3: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (q, k, v) = (
            host::values(s1, l1)?,
            host::values(s2, l2)?,
            host::values(s3, l3)?,
        );
        Ok((
            CpuStorage::F32(forward(self.0, q, k, v)),
            l1.shape().clone(),
        ))
    }

    fn bwd(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let grads = host::with_values(q, |q| {
            host::with_values(k, |k| {
                host::with_values(v, |v| {
                    host::with_values(y, |y| {
                        host::with_values(dy, |dy| Ok(backward(self.0, q, k, v, y, dy)))
                    })
                })
            })
        })?;
        let [dq, dk, dv] = grads;
        Ok((
            Some(Tensor::from_vec(dq, q.shape(), q.device())?),
            Some(Tensor::from_vec(dk, k.shape(), k.device())?),
            Some(Tensor::from_vec(dv, v.shape(), v.device())?),
        ))
    }
}

/// Head-major working copy `[H, T, D]`, so that each task owns what it writes.
fn forward(dims: Dims, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f32> {
    let Dims {
        t,
        s,
        heads,
        groups,
        d,
        ..
    } = dims;
    let mut by_head = vec![0f32; t * heads * d];
    by_head
        .par_chunks_mut(t * d)
        .enumerate()
        .for_each(|(h, out)| {
            let mut p = vec![0f32; QUERY_BLOCK.min(t) * s];
            for (start, n) in dims.blocks() {
                let keys = dims.weights(q, k, h, start, n, &mut p);
                let v = dims.group(v, h / (heads / groups), keys);
                let dst = MatMut::new(&mut out[start * d..], n, d, d);
                matmul(dst, MatRef::new(&p, n, keys, keys), v, 1.0, false);
            }
        });
    interleave(&by_head, t, heads, d)
}

/// `[G, T, D]` to `[T, G, D]`.
fn interleave(values: &[f32], t: usize, groups: usize, d: usize) -> Vec<f32> {
    let mut out = vec![0f32; values.len()];
    for (g, values) in values.chunks_exact(t * d).enumerate() {
        for (i, row) in values.chunks_exact(d).enumerate() {
            out[(i * groups + g) * d..][..d].copy_from_slice(row);
        }
    }
    out
}

/// With `P` the weights and `r_i = dy_i . y_i`: `dS = P * (dY V^T - r)`, `dQ = dS K`, `dK = dS^T Q`,
/// `dV = P^T dY` (the recomputing form of Dao et al. 2022). One task a group of heads: the heads that
/// share keys also share their gradient.
fn backward(dims: Dims, q: &[f32], k: &[f32], v: &[f32], y: &[f32], dy: &[f32]) -> [Vec<f32>; 3] {
    let Dims {
        t,
        s,
        heads,
        groups,
        d,
        scale,
    } = dims;
    let per_group = heads / groups;
    let mut dq = vec![0f32; heads * t * d];
    let (mut dk, mut dv) = (vec![0f32; groups * s * d], vec![0f32; groups * s * d]);
    let tasks = dq
        .par_chunks_mut(per_group * t * d)
        .zip(dk.par_chunks_mut(s * d).zip(dv.par_chunks_mut(s * d)));
    tasks.enumerate().for_each(|(g, (dq, (dk, dv)))| {
        let mut p = vec![0f32; QUERY_BLOCK.min(t) * s];
        let mut dp = p.clone();
        for (local, h) in (g * per_group..(g + 1) * per_group).enumerate() {
            for (start, n) in dims.blocks() {
                let keys = dims.weights(q, k, h, start, n, &mut p);
                let dy_block = dims.head(dy, h, start, n);
                let weights = MatRef::new(&p, n, keys, keys);
                matmul(
                    MatMut::new(dv, keys, d, d),
                    weights.t(),
                    dy_block,
                    1.0,
                    true,
                );
                let dst = MatMut::new(&mut dp, n, keys, keys);
                matmul(dst, dy_block, dims.group(v, g, keys).t(), 1.0, false);
                for i in 0..n {
                    let at = ((start + i) * heads + h) * d;
                    let r: f32 = y[at..at + d]
                        .iter()
                        .zip(&dy[at..at + d])
                        .map(|(y, dy)| y * dy)
                        .sum();
                    let row = i * keys..(i + 1) * keys;
                    for (dp, p) in dp[row.clone()].iter_mut().zip(&p[row]) {
                        *dp = p * (*dp - r);
                    }
                }
                let ds = MatRef::new(&dp, n, keys, keys);
                let dst = MatMut::new(&mut dq[(local * t + start) * d..], n, d, d);
                matmul(dst, ds, dims.group(k, g, keys), scale, false);
                matmul(
                    MatMut::new(dk, keys, d, d),
                    ds.t(),
                    dims.head(q, h, start, n),
                    scale,
                    true,
                );
            }
        }
    });
    [
        interleave(&dq, t, heads, d),
        interleave(&dk, s, groups, d),
        interleave(&dv, s, groups, d),
    ]
}
