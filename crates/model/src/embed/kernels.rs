//! What an encoder computes between its matrix products, attention apart, for inference alone.
//!
//! On the CPU each function works in place, in f32 and on all threads; on other devices it is a
//! composition of Candle operations. A function that takes its first tensor by value expects to be
//! given its only handle, as a matrix product returns it.

use candle_core::{CpuStorage, D, DType, InplaceOp1, InplaceOp2, Layout, Result, Tensor};
use rayon::prelude::*;

use super::wide::{erf, sum, widest};
use crate::host;
use crate::ops::GRAIN;

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

/// The values behind a CPU storage, to be written.
pub(super) fn values_mut<'a>(
    storage: &'a mut CpuStorage,
    layout: &Layout,
) -> Result<&'a mut [f32]> {
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

#[cfg(test)]
pub(super) mod tests {
    use candle_core::Device;

    use super::*;

    /// Smooth, irregular values of both signs.
    pub(in crate::embed) fn values(dims: &[usize], seed: f32, spread: f32) -> Tensor {
        let count = dims.iter().product::<usize>();
        let values = (0..count).map(|i| (seed + 1.7 * i as f32).sin() * spread);
        Tensor::from_vec(values.collect::<Vec<f32>>(), dims, &Device::Cpu).unwrap()
    }

    pub(in crate::embed) fn assert_close(a: &Tensor, b: &Tensor, tolerance: f32) {
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

    #[test]
    fn a_bias_that_does_not_fit_is_refused() {
        let (x, bias) = (values(&[2, 4], 0.1, 1.0), values(&[3], 0.1, 1.0));
        assert!(bias_gelu(x, &bias).is_err());
    }
}
