//! The elementwise building blocks: composed of differentiable Candle operations for any device, and as loops over
//! slices with hand-written gradients for host memory. Candle's own fused norm, softmax and rotary calls record no
//! backward pass and cut the gradient without an error, so none of them appears here.

use candle_core::{D, Result, Tensor};
use rayon::prelude::*;

use crate::simd;

/// Root-mean-square norm over the last dimension (Zhang and Sennrich 2019) with a frozen weight:
/// `y = w * x / sqrt(mean(x^2) + eps)`. `x` is `[.., D]`, `weight` `[D]`; only `x` gets a gradient.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    let wide = x.to_dtype(candle_core::DType::F32)?;
    let mean = (wide.sqr()?.sum_keepdim(D::Minus1)? / wide.dim(D::Minus1)? as f64)?;
    let normed = wide.broadcast_div(&(mean + eps)?.sqrt()?)?;
    normed.to_dtype(x.dtype())?.broadcast_mul(weight)
}

/// Cosines and sines of the rotary embedding for the positions of a batch, `[N, D/2]` each.
#[derive(Clone)]
pub struct Rotation {
    cos: Vec<f32>,
    sin: Vec<f32>,
    half: usize,
}

impl Rotation {
    /// Angles `position / theta^(2i/D)` (Su et al. 2021), computed in f32 as the reference
    /// implementation does, so that long positions agree with it too.
    pub fn new(positions: &[usize], head_dim: usize, theta: f64) -> Self {
        let half = head_dim / 2;
        let frequencies: Vec<f32> = (0..half)
            .map(|i| 1.0 / (theta as f32).powf((2 * i) as f32 / head_dim as f32))
            .collect();
        let angles = positions
            .iter()
            .flat_map(|&p| frequencies.iter().map(move |f| p as f32 * f));
        let (sin, cos) = angles.map(f32::sin_cos).unzip();
        Self { cos, sin, half }
    }

    /// Cosines and sines as tensors `[N, 1, D/2]` beside and of the type of `like`.
    ///
    /// # Errors
    /// When the backend fails.
    pub fn tables(&self, like: &Tensor) -> Result<(Tensor, Tensor)> {
        let shape = (self.cos.len() / self.half.max(1), 1, self.half);
        let table = |v: &[f32]| Tensor::from_slice(v, shape, like.device())?.to_dtype(like.dtype());
        Ok((table(&self.cos)?, table(&self.sin)?))
    }

    /// Rotates the heads of each token, `[N, heads, D]`, in place; tokens without angles (padding) stay as they are.
    pub(crate) fn rotate(&self, x: &mut [f32], heads: usize) {
        let half = self.half;
        let width = heads * 2 * half;
        x.par_chunks_mut(width)
            .zip(self.cos.par_chunks(half).zip(self.sin.par_chunks(half)))
            .with_min_len(GRAIN / width + 1)
            .for_each(|(x, (cos, sin))| {
                for x in x.chunks_exact_mut(2 * half) {
                    let (x1, x2) = x.split_at_mut(half);
                    for i in 0..half {
                        let (a, b) = (x1[i], x2[i]);
                        x1[i] = a * cos[i] - b * sin[i];
                        x2[i] = a * sin[i] + b * cos[i];
                    }
                }
            });
    }

    /// The rotation back, which is the transpose and so pulls gradients through [`Self::rotate`].
    pub(crate) fn inverse(&self) -> Self {
        Self {
            sin: self.sin.iter().map(|s| -s).collect(),
            ..self.clone()
        }
    }
}

/// Rotates the halves of each head, `[N, H, D]`, by the angles of its token, whose cosines and sines
/// [`Rotation::tables`] gives.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub fn rope(x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Result<Tensor> {
    let (n, _, d) = x.dims3()?;
    if cos.dims() != [n, 1, d / 2] {
        candle_core::bail!(
            "rotary angles {:?} do not fit heads {:?}",
            cos.dims(),
            x.dims()
        );
    }
    let (a, b) = (x.narrow(2, 0, d / 2)?, x.narrow(2, d / 2, d / 2)?);
    let first = (a.broadcast_mul(cos)? - b.broadcast_mul(sin)?)?;
    let second = (a.broadcast_mul(sin)? + b.broadcast_mul(cos)?)?;
    Tensor::cat(&[first, second], 2)
}

/// `silu(gate) * up` (Shazeer 2020), elementwise.
///
/// # Errors
/// When the shapes differ or the backend fails.
pub fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    if gate.dims() != up.dims() {
        candle_core::bail!("gate {:?} and up {:?} differ", gate.dims(), up.dims());
    }
    gate.silu()? * up
}

/// Values per task of an elementwise loop: enough to outweigh handing it over.
pub(crate) const GRAIN: usize = 1 << 14;

/// `1 / sqrt(mean(x^2) + eps)`
fn inverse_rms(x: &[f32], eps: f32) -> f32 {
    // Sixteen sums side by side fill vector registers.
    let mut sums = [0f32; 16];
    let chunks = x.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().map(|v| v * v).sum();
    for chunk in chunks {
        for (sum, v) in sums.iter_mut().zip(chunk) {
            *sum += v * v;
        }
    }
    let mean = (sums.iter().sum::<f32>() + rest) / x.len() as f32;
    1.0 / (mean + eps).sqrt()
}

/// [`rms_norm`] of rows of `weight`'s length into `y`.
pub(crate) fn norm_rows(x: &[f32], weight: &[f32], eps: f32, y: &mut [f32]) {
    let width = weight.len();
    y.par_chunks_mut(width)
        .zip(x.par_chunks(width))
        .with_min_len(GRAIN / width + 1)
        .for_each(|(y, x)| {
            let inverse = inverse_rms(x, eps);
            for ((y, x), w) in y.iter_mut().zip(x).zip(weight) {
                *y = x * inverse * w;
            }
        });
}

/// Adds the gradient of `x` in [`norm_rows`] to `dx`, for the gradient `dy` of the result.
///
/// With `r = 1 / rms(x)` and `g = w * dy`: `dx = r * g - x * r^3 * mean(g * x)`.
pub(crate) fn norm_rows_backward(x: &[f32], weight: &[f32], eps: f32, dy: &[f32], dx: &mut [f32]) {
    let width = weight.len();
    dx.par_chunks_mut(width)
        .zip(x.par_chunks(width).zip(dy.par_chunks(width)))
        .with_min_len(GRAIN / width + 1)
        .for_each(|(dx, (x, dy))| {
            let r = inverse_rms(x, eps);
            let products = x.iter().zip(dy).zip(weight);
            let dot: f32 = products.map(|((x, dy), w)| x * dy * w).sum();
            let pull = r * r * r * dot / width as f32;
            for (((dx, x), dy), w) in dx.iter_mut().zip(x).zip(dy).zip(weight) {
                *dx += r * w * dy - pull * x;
            }
        });
}

/// [`swiglu`] in place of `gate`.
pub(crate) fn gate_rows(gate: &mut [f32], up: &[f32]) {
    gate.par_chunks_mut(GRAIN)
        .zip(up.par_chunks(GRAIN))
        .for_each(|(gate, up)| simd::swiglu(gate, up));
}

/// Gradients of [`swiglu`] in place of its arguments.
pub(crate) fn gate_rows_backward(gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
    gate.par_chunks_mut(GRAIN)
        .zip(up.par_chunks_mut(GRAIN))
        .zip(dy.par_chunks(GRAIN))
        .for_each(|((gate, up), dy)| simd::swiglu_backward(gate, up, dy));
}
