//! Differentiable building blocks. This file decides which implementation is used: on the CPU fused
//! operations with hand-written backward passes, elsewhere compositions of differentiable Candle
//! operations. Candle's own fused norm, softmax and rotary calls record no backward pass and cut the
//! gradient without an error, so none of them appears here.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, D, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use crate::{host, simd};

/// Root-mean-square norm over the last dimension (Zhang and Sennrich 2019) with a frozen weight:
/// `y = w * x / sqrt(mean(x^2) + eps)`. `x` is `[.., D]`, `weight` `[D]`; only `x` gets a gradient.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    if x.device().is_cpu() {
        let op = RmsNorm {
            weight: weight.to_vec1::<f32>()?,
            eps: eps as f32,
        };
        return apply1(&x.contiguous()?, op);
    }
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

    fn inverse(&self) -> Self {
        Self {
            sin: self.sin.iter().map(|s| -s).collect(),
            ..self.clone()
        }
    }
}

/// Rotates the halves of each head, `[N, H, D]`, by the angles of its token.
///
/// # Errors
/// When the shapes do not fit or the backend fails.
pub fn rope(x: &Tensor, rotation: &Rotation) -> Result<Tensor> {
    let (n, _, d) = x.dims3()?;
    if d != 2 * rotation.half || n * rotation.half != rotation.cos.len() {
        candle_core::bail!(
            "rotary angles of {} tokens do not fit {:?}",
            rotation.cos.len() / rotation.half.max(1),
            x.dims()
        );
    }
    if x.device().is_cpu() {
        return apply1(&x.contiguous()?, Rope(rotation.clone()));
    }
    let table = |v: &[f32]| Tensor::from_slice(v, (n, 1, d / 2), x.device())?.to_dtype(x.dtype());
    let (cos, sin) = (table(&rotation.cos)?, table(&rotation.sin)?);
    let (a, b) = (x.narrow(2, 0, d / 2)?, x.narrow(2, d / 2, d / 2)?);
    let first = (a.broadcast_mul(&cos)? - b.broadcast_mul(&sin)?)?;
    let second = (a.broadcast_mul(&sin)? + b.broadcast_mul(&cos)?)?;
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
    if !gate.device().is_cpu() {
        return gate.silu()? * up;
    }
    let (gate, up) = (gate.contiguous()?, up.contiguous()?);
    if gate.track_op() || up.track_op() {
        gate.apply_op2(&up, SwiGlu)
    } else {
        gate.apply_op2_no_bwd(&up, &SwiGlu)
    }
}

fn apply1<C: CustomOp1 + Send + Sync + 'static>(x: &Tensor, op: C) -> Result<Tensor> {
    if x.track_op() {
        x.apply_op1(op)
    } else {
        x.apply_op1_no_bwd(&op)
    }
}

/// Values per task of an elementwise loop: enough to outweigh handing it over.
const GRAIN: usize = 1 << 14;

struct RmsNorm {
    weight: Vec<f32>,
    eps: f32,
}

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

impl CustomOp1 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let x = host::values(storage, layout)?;
        let width = self.weight.len();
        if layout.dims().last() != Some(&width) {
            candle_core::bail!(
                "norm weight of width {width} does not fit {:?}",
                layout.dims()
            );
        }
        let mut y = vec![0f32; x.len()];
        norm_rows(x, &self.weight, self.eps, &mut y);
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    /// With `r = 1 / rms(x)` and `g = w * dy`: `dx = r * g - x * r^3 * mean(g * x)`.
    fn bwd(&self, x: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        let width = self.weight.len();
        let dx = host::with_values(x, |x| {
            host::with_values(dy, |dy| {
                let mut dx = vec![0f32; x.len()];
                dx.par_chunks_mut(width)
                    .zip(x.par_chunks(width).zip(dy.par_chunks(width)))
                    .with_min_len(GRAIN / width + 1)
                    .for_each(|(dx, (x, dy))| {
                        let r = inverse_rms(x, self.eps);
                        let dot: f32 = x
                            .iter()
                            .zip(dy)
                            .zip(&self.weight)
                            .map(|((x, dy), w)| x * dy * w)
                            .sum();
                        let pull = r * r * r * dot / width as f32;
                        for (((dx, x), dy), w) in dx.iter_mut().zip(x).zip(dy).zip(&self.weight) {
                            *dx = r * w * dy - pull * x;
                        }
                    });
                Ok(dx)
            })
        })?;
        Tensor::from_vec(dx, x.shape(), x.device()).map(Some)
    }
}

struct Rope(Rotation);

impl CustomOp1 for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let mut y = host::values(storage, layout)?.to_vec();
        self.0.rotate(&mut y, layout.shape().dims3()?.1);
        Ok((CpuStorage::F32(y), layout.shape().clone()))
    }

    /// A rotation's transpose is the rotation back.
    fn bwd(&self, _x: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        dy.detach()
            .contiguous()?
            .apply_op1_no_bwd(&Rope(self.0.inverse()))
            .map(Some)
    }
}

struct SwiGlu;

impl CustomOp2 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(
        &self,
        s1: &CpuStorage,
        l1: &Layout,
        s2: &CpuStorage,
        l2: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (host::values(s1, l1)?, host::values(s2, l2)?);
        let mut y = gate.to_vec();
        y.par_chunks_mut(GRAIN)
            .zip(up.par_chunks(GRAIN))
            .for_each(|(gate, up)| simd::swiglu(gate, up));
        Ok((CpuStorage::F32(y), l1.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _y: &Tensor,
        dy: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let values = |x: &Tensor| host::with_values(x, |x| Ok(x.to_vec()));
        let (mut dgate, mut dup) = (values(gate)?, values(up)?);
        host::with_values(dy, |dy| {
            let grads = dgate.par_chunks_mut(GRAIN).zip(dup.par_chunks_mut(GRAIN));
            grads
                .zip(dy.par_chunks(GRAIN))
                .for_each(|((gate, up), dy)| simd::swiglu_backward(gate, up, dy));
            Ok(())
        })?;
        let wrap = |v| Tensor::from_vec(v, gate.shape(), gate.device());
        Ok((Some(wrap(dgate)?), Some(wrap(dup)?)))
    }
}
