//! Causal grouped-query attention with gradients, without a `T x T` matrix kept for the backward pass: scores live for
//! one block of queries at a time and are computed again when the gradient is.

use candle_core::{D, DType, Device, Result, Tensor};
use rayon::prelude::*;

use crate::cache::Heads;
use crate::gemm::{MatRef, matmul};
use crate::host::SharedOut;
use crate::simd;

/// Queries whose scores are held at once.
const QUERY_BLOCK: usize = 64;

/// What [`composed`] adds to the scores of the last `t` of `s` positions, `[1, 1, T, S]`: query `i` sees keys
/// `0 ..= s - t + i`. None where the one query sees all.
///
/// # Errors
/// When the backend fails.
pub(crate) fn causal_mask(t: usize, s: usize, device: &Device) -> Result<Option<Tensor>> {
    if t <= 1 || s < t {
        return Ok(None);
    }
    let mut mask = vec![0f32; t * s];
    for (i, row) in mask.chunks_exact_mut(s).enumerate() {
        row[s - t + i + 1..].fill(f32::NEG_INFINITY);
    }
    Tensor::from_vec(mask, (1, 1, t, s), device).map(Some)
}

/// Attention of the last `T` of `S` positions from differentiable Candle operations, with a [`causal_mask`].
///
/// `q` is `[T, H, D]`, `k` and `v` are `[S, KV, D]` with `H` a multiple of `KV` and `S >= T >= 1`; the result is
/// `[T, H, D]`. Scores are scaled by `1 / sqrt(D)`.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub(crate) fn composed(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    mask: Option<&Tensor>,
) -> Result<Tensor> {
    let ((t, heads, d), (s, groups, _)) = (q.dims3()?, k.dims3()?);
    if v.dims() != k.dims()
        || d == 0
        || groups == 0
        || heads % groups != 0
        || t == 0
        || s < t
        || mask.is_none() != (t == 1)
    {
        candle_core::bail!("queries {:?} do not fit keys {:?}", q.dims(), k.dims());
    }
    let scale = 1.0 / (d as f64).sqrt();
    // [T, H, D] -> [KV, H/KV * T, D]: the heads of a group share its keys.
    let q = q
        .reshape((t, groups, heads / groups, d))?
        .permute((1, 2, 0, 3))?;
    let q = q.reshape((groups, heads / groups * t, d))?;
    let (k, v) = (
        k.transpose(0, 1)?.contiguous()?,
        v.transpose(0, 1)?.contiguous()?,
    );
    let scores = (q.matmul(&k.t()?)? * scale)?.to_dtype(DType::F32)?;
    let scores = match mask {
        Some(mask) => scores
            .reshape((groups, heads / groups, t, s))?
            .broadcast_add(mask)?,
        None => scores,
    };
    let weights = candle_nn::ops::softmax(&scores, D::Minus1)?.to_dtype(v.dtype())?;
    let out = weights
        .reshape((groups, heads / groups * t, s))?
        .matmul(&v)?;
    out.reshape((groups, heads / groups, t, d))?
        .permute((2, 0, 1, 3))?
        .reshape((t, heads, d))
}

/// How the new tokens of several cached rows are laid out for [`of_rows`].
pub(crate) struct Layout {
    rows: usize,
    /// New tokens of the row that has most.
    most: usize,
    /// Positions of the longest row.
    longest: usize,
    /// Of each place in `[R * T]` the token, and of each token the place; none if all rows have `T` tokens.
    places: Option<(Tensor, Tensor)>,
    /// `[R, 1, T, S]`
    mask: Tensor,
}

impl Layout {
    /// The layout of `lens` new tokens behind `starts` cached ones.
    ///
    /// # Errors
    /// When the backend fails.
    pub(crate) fn new(lens: &[usize], starts: &[usize], device: &Device) -> Result<Self> {
        let rows = lens.len();
        let most = lens.iter().copied().max().unwrap_or(0);
        let totals = || lens.iter().zip(starts).map(|(len, start)| len + start);
        let longest = totals().max().unwrap_or(0);
        let mut mask = vec![0f32; rows * most * longest];
        let (mut tokens, mut places) = (Vec::new(), Vec::new());
        let mut first = 0;
        for (row, (&len, &start)) in lens.iter().zip(starts).enumerate() {
            for t in 0..most {
                // What stands behind the row's last token repeats it.
                let t_row = t.min(len.saturating_sub(1));
                let at = row * most + t;
                mask[at * longest..(at + 1) * longest][start + t_row + 1..].fill(f32::NEG_INFINITY);
                tokens.push((first + t_row) as u32);
                if t < len {
                    places.push(at as u32);
                }
            }
            first += len;
        }
        let places = match lens.iter().all(|&len| len == most) {
            true => None,
            false => Some((Tensor::new(tokens, device)?, Tensor::new(places, device)?)),
        };
        let mask = Tensor::from_vec(mask, (rows, 1, most, longest), device)?;
        Ok(Self {
            rows,
            most,
            longest,
            places,
            mask,
        })
    }
}

/// Attention of a few new tokens of each of `R` rows (`q` is `[N, H, D]`, all of them) to the row's own positions, for
/// inference: `keys` and `values` are the rows' `[S, KV, D]`. All rows in one product, so that a device is given few
/// large operations instead of many small ones.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub(crate) fn of_rows(
    q: &Tensor,
    keys: &[Tensor],
    values: &[Tensor],
    layout: &Layout,
) -> Result<Tensor> {
    let &Layout {
        rows,
        most,
        longest,
        ref places,
        ref mask,
    } = layout;
    let (_, heads, d) = q.dims3()?;
    let groups = match keys {
        [first, ..] if keys.len() == rows && values.len() == rows => first.dim(1)?,
        _ => candle_core::bail!("{rows} rows of queries, {} of keys", keys.len()),
    };
    let per_group = heads / groups;
    // [R * KV, S, D], zeros behind a row's end.
    let padded = |parts: &[Tensor]| -> Result<Tensor> {
        let all = Tensor::zeros((rows * longest, groups, d), q.dtype(), q.device())?;
        for (row, part) in parts.iter().enumerate() {
            all.slice_set(&part.detach().contiguous()?, 0, row * longest)?;
        }
        all.reshape((rows, longest, groups, d))?
            .transpose(1, 2)?
            .reshape((rows * groups, longest, d))
    };
    let q = match places {
        Some((tokens, _)) => q.index_select(tokens, 0)?,
        None => q.clone(),
    };
    let q = q
        .reshape((rows, most, groups, per_group, d))?
        .permute((0, 2, 3, 1, 4))?
        .reshape((rows * groups, per_group * most, d))?;
    let scale = 1.0 / (d as f64).sqrt();
    let scores = (q.matmul(&padded(keys)?.t()?)? * scale)?.to_dtype(DType::F32)?;
    let scores = scores
        .reshape((rows, heads, most, longest))?
        .broadcast_add(mask)?;
    let weights = candle_nn::ops::softmax(&scores, D::Minus1)?.to_dtype(q.dtype())?;
    let y = weights
        .reshape((rows * groups, per_group * most, longest))?
        .matmul(&padded(values)?)?
        .reshape((rows, heads, most, d))?
        .transpose(1, 2)?
        .reshape((rows * most, heads, d))?;
    match places {
        Some((_, places)) => y.index_select(places, 0),
        None => Ok(y),
    }
}

/// Attention inside each row of a packed batch: `q` is `[N, H, D]`, `k` and `v` `[N, KV, D]`, `lens` the rows' tokens.
pub(crate) struct Packed<'a> {
    pub(crate) query_heads: usize,
    pub(crate) heads: Heads,
    pub(crate) lens: &'a [usize],
    pub(crate) q: &'a [f32],
    pub(crate) k: &'a [f32],
    pub(crate) v: &'a [f32],
}

impl Packed<'_> {
    /// Rows with their first token, times `parts`.
    fn tasks(&self, parts: usize) -> Vec<(usize, usize, usize)> {
        let mut tasks = Vec::new();
        let mut first = 0;
        for &len in self.lens {
            tasks.extend((0..parts).map(|part| (first, len, part)));
            first += len;
        }
        // Long rows first: whoever is done early takes the short ones.
        tasks.sort_by_key(|&(_, len, _)| std::cmp::Reverse(len));
        tasks
    }

    fn per_group(&self) -> usize {
        self.query_heads / self.heads.groups
    }

    /// `n` tokens from `token` on of head `head` in `[N, heads, D]` values.
    fn head<'a>(
        &self,
        x: &'a [f32],
        heads: usize,
        head: usize,
        token: usize,
        n: usize,
    ) -> MatRef<'a> {
        let (d, stride) = (self.heads.d, heads * self.heads.d);
        MatRef::new(&x[token * stride + head * d..], n, d, stride)
    }

    fn key_group<'a>(&self, x: &'a [f32], group: usize, first: usize, n: usize) -> MatRef<'a> {
        self.head(x, self.heads.groups, group, first, n)
    }

    /// Softmax weights of the queries `start..start + n` of a row into `p` (`[n, start + n]`), and the scaled queries
    /// (`[n, D]`) that they come from into `q`.
    fn weights(
        &self,
        (first, start, n): (usize, usize, usize),
        head: usize,
        q: &mut [f32],
        p: &mut [f32],
    ) {
        let (d, keys) = (self.heads.d, start + n);
        let scale = 1.0 / (d as f32).sqrt();
        for (i, q) in q.chunks_exact_mut(d).take(n).enumerate() {
            let at = ((first + start + i) * self.query_heads + head) * d;
            for (q, x) in q.iter_mut().zip(&self.q[at..at + d]) {
                *q = x * scale;
            }
        }
        let k = self.key_group(self.k, head / self.per_group(), first, keys);
        matmul(p, keys, MatRef::new(q, n, d, d), k.t(), false);
        for (i, row) in p.chunks_exact_mut(keys).take(n).enumerate() {
            let (seen, hidden) = row.split_at_mut(start + i + 1);
            let max = simd::max(seen);
            let inverse = 1.0 / simd::exp_and_sum(seen, max);
            seen.iter_mut().for_each(|v| *v *= inverse);
            hidden.fill(0.0);
        }
    }

    /// Writes the result into `y`, `[N, H, D]`.
    pub(crate) fn forward(&self, y: &mut [f32]) {
        assert_eq!(y.len(), self.q.len());
        let d = self.heads.d;
        let out = SharedOut::over(y);
        self.tasks(self.query_heads)
            .into_par_iter()
            .for_each(|(first, len, head)| {
                let block = QUERY_BLOCK.min(len);
                let (mut q, mut p, mut part) = (
                    vec![0f32; block * d],
                    vec![0f32; block * len],
                    vec![0f32; block * d],
                );
                for (start, n) in blocks(len) {
                    self.weights((first, start, n), head, &mut q, &mut p);
                    let keys = start + n;
                    let v = self.key_group(self.v, head / self.per_group(), first, keys);
                    matmul(&mut part, d, MatRef::new(&p, n, keys, keys), v, false);
                    self.put(&part, (first + start, n), self.query_heads, head, &out);
                }
            });
    }

    /// Copies `[n, D]` to head `head` of `n` tokens from `token` on in `[N, heads, D]`.
    fn put(
        &self,
        part: &[f32],
        (token, n): (usize, usize),
        heads: usize,
        head: usize,
        out: &SharedOut<'_>,
    ) {
        let d = self.heads.d;
        for (i, part) in part.chunks_exact(d).take(n).enumerate() {
            for (j, v) in part.iter().enumerate() {
                // SAFETY: each task owns its heads of its row's tokens.
                unsafe { out.write(((token + i) * heads + head) * d + j, *v) };
            }
        }
    }

    /// Writes the gradients of `q`, `k` and `v` from those (`dy`) of the result `y`.
    ///
    /// With `P` the weights and `r_i = dy_i . y_i`: `dS = P * (dY V^T - r)`, `dQ = dS K`, `dK = dS^T Q`,
    /// `dV = P^T dY` (the recomputing form of Dao et al. 2022). One task a row and group of heads: the heads that
    /// share keys also share their gradient.
    pub(crate) fn backward(&self, y: &[f32], dy: &[f32], [dq, dk, dv]: [&mut [f32]; 3]) {
        assert_eq!(
            [dq.len(), dk.len(), dv.len()],
            [self.q.len(), self.k.len(), self.v.len()]
        );
        let Heads { groups, d } = self.heads;
        let scale = 1.0 / (d as f32).sqrt();
        let (oq, ok, ov) = (
            SharedOut::over(dq),
            SharedOut::over(dk),
            SharedOut::over(dv),
        );
        self.tasks(groups)
            .into_par_iter()
            .for_each(|(first, len, group)| {
                let block = QUERY_BLOCK.min(len);
                let (mut q, mut dq) = (vec![0f32; block * d], vec![0f32; block * d]);
                let (mut p, mut ds) = (vec![0f32; block * len], vec![0f32; block * len]);
                let (mut dk, mut dv) = (vec![0f32; len * d], vec![0f32; len * d]);
                for head in group * self.per_group()..(group + 1) * self.per_group() {
                    for (start, n) in blocks(len) {
                        let keys = start + n;
                        self.weights((first, start, n), head, &mut q, &mut p);
                        let weights = MatRef::new(&p, n, keys, keys);
                        let dy_block = self.head(dy, self.query_heads, head, first + start, n);
                        matmul(&mut dv, d, weights.t(), dy_block, true);
                        let v = self.key_group(self.v, group, first, keys);
                        matmul(&mut ds, keys, dy_block, v.t(), false);
                        for i in 0..n {
                            let at = ((first + start + i) * self.query_heads + head) * d;
                            let products = y[at..at + d].iter().zip(&dy[at..at + d]);
                            let r: f32 = products.map(|(y, dy)| y * dy).sum();
                            let row = i * keys..(i + 1) * keys;
                            for (ds, p) in ds[row.clone()].iter_mut().zip(&p[row]) {
                                *ds = p * (*ds - r);
                            }
                        }
                        let ds = MatRef::new(&ds, n, keys, keys);
                        let k = self.key_group(self.k, group, first, keys);
                        matmul(&mut dq, d, ds, k, false);
                        dq.iter_mut().for_each(|v| *v *= scale);
                        self.put(&dq, (first + start, n), self.query_heads, head, &oq);
                        // The queries are scaled already.
                        matmul(&mut dk, d, ds.t(), MatRef::new(&q, n, d, d), true);
                    }
                }
                self.put(&dk, (first, len), groups, group, &ok);
                self.put(&dv, (first, len), groups, group, &ov);
            });
    }
}

/// Blocks of a row's queries: the first of each and how many.
fn blocks(len: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..len)
        .step_by(QUERY_BLOCK)
        .map(move |start| (start, QUERY_BLOCK.min(len - start)))
}
