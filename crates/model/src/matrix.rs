//! Frozen weight matrices in host memory and their products with activations.
//!
//! Two kinds of product: `HostMatrix::decode` treats each activation row by itself; `HostMatrix::forward` and
//! `HostMatrix::backward` serve many rows (prefill, training). Weights lie in memory once: they are expanded a panel at a
//! time into the type of the product, or, for products in integers, stored in its order from the start.

#[cfg(any(feature = "onednn", target_arch = "x86_64"))]
use std::cell::OnceCell;

use half::{bf16, f16};

#[cfg(all(feature = "onednn", target_arch = "x86_64"))]
use crate::amx;
#[cfg(feature = "onednn")]
use crate::buffer::Buffer;
use crate::expand;
use crate::host::SharedOut;
#[cfg(target_arch = "x86_64")]
use crate::int8;
use crate::packed::Packed;
use crate::panels::{self, Adapter, Taped};
use crate::rows::{self, Dense};

/// The type that products on the CPU are computed in. Sums across groups of columns are always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// 32-bit floats.
    F32,
    /// bfloat16 operands for prompts and training: twice to six times as fast on CPUs with AVX512-BF16 or AMX.
    Bf16,
    /// 8-bit integers for quantised models, on CPUs with AVX512-VNNI or AVX2: activations are rounded to 8 bits a group
    /// of columns at a time, as llama.cpp does. Other products are computed in [`Compute::fastest_float`], and so are
    /// prompts on CPUs with AMX, whose bf16 is faster. Not for training.
    Int8,
}

impl Compute {
    /// Whether this build on this CPU multiplies in the type at more than emulated speed.
    pub fn is_available(self) -> bool {
        match self {
            Self::F32 => true,
            #[cfg(all(feature = "onednn", target_arch = "x86_64"))]
            Self::Bf16 => is_x86_feature_detected!("avx512bf16"),
            #[cfg(not(all(feature = "onednn", target_arch = "x86_64")))]
            Self::Bf16 => false,
            #[cfg(target_arch = "x86_64")]
            Self::Int8 => int8::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Int8 => false,
        }
    }

    /// The fastest for inference: integers where they are available, else [`Self::fastest_float`].
    pub fn fastest() -> Self {
        if Self::Int8.is_available() {
            Self::Int8
        } else {
            Self::fastest_float()
        }
    }

    /// The fastest for training: bf16 where it is available, f32 elsewhere.
    pub fn fastest_float() -> Self {
        if Self::Bf16.is_available() {
            Self::Bf16
        } else {
            Self::F32
        }
    }

    /// The type of products that cannot be computed in integers.
    fn float(self) -> Self {
        match self {
            Self::Int8 => Self::fastest_float(),
            float => float,
        }
    }
}

/// A frozen matrix `[rows, cols]` = `[out_features, in_features]`.
pub(crate) struct HostMatrix {
    cols: usize,
    values: Values,
    compute: Compute,
}

/// How the weights are stored.
pub(crate) enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    Packed(Packed),
    /// Quantised and in the order of products in integers.
    #[cfg(target_arch = "x86_64")]
    Panels(int8::Panels),
}

impl HostMatrix {
    pub(crate) fn new(cols: usize, values: Values, compute: Compute) -> Self {
        #[cfg(target_arch = "x86_64")]
        let values = match values {
            Values::Packed(packed) if compute == Compute::Int8 => {
                match int8::Panels::new(&packed) {
                    Some(panels) => Values::Panels(panels),
                    None => Values::Packed(packed),
                }
            }
            values => values,
        };
        Self {
            cols,
            values,
            compute,
        }
    }

    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    pub(crate) fn rows(&self) -> usize {
        match &self.values {
            Values::F32(v) => v.len() / self.cols,
            Values::F16(v) => v.len() / self.cols,
            Values::Bf16(v) => v.len() / self.cols,
            Values::Packed(p) => p.rows(),
            #[cfg(target_arch = "x86_64")]
            Values::Panels(p) => p.rows(),
        }
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.values {
            Values::F32(v) => 4 * v.len(),
            Values::F16(v) => 2 * v.len(),
            Values::Bf16(v) => 2 * v.len(),
            Values::Packed(p) => p.bytes(),
            #[cfg(target_arch = "x86_64")]
            Values::Panels(p) => p.bytes(),
        }
    }

    /// Writes columns `start..start + out.len()` of row `row` into `out`; a packed matrix needs whole groups of 32.
    pub(crate) fn expand<T: expand::Element>(&self, row: usize, start: usize, out: &mut [T]) {
        let range = row * self.cols + start..row * self.cols + start + out.len();
        match &self.values {
            Values::F32(v) => T::from_f32(&v[range], out),
            Values::F16(v) => T::from_f16(&v[range], out),
            Values::Bf16(v) => T::from_bf16(&v[range], out),
            Values::Packed(p) => p.expand(row, start, out),
            #[cfg(target_arch = "x86_64")]
            Values::Panels(p) => p.expand(row, start, out),
        }
    }

    /// `x W^T`, each row by itself, into `out` or added to it: `x` is `[n, cols]`, `out` `[n, rows]`. A row's result has
    /// the same bits whatever the other rows are.
    pub(crate) fn decode(&self, x: &Activations<'_>, out: &SharedOut<'_>, accumulate: bool) {
        let (rows, cols) = (self.rows(), self.cols);
        let (shape, values) = ((rows, cols), x.values);
        match &self.values {
            Values::F32(v) => {
                rows::product(&Dense { values: v, cols }, shape, values, out, accumulate)
            }
            Values::F16(v) => {
                rows::product(&Dense { values: v, cols }, shape, values, out, accumulate)
            }
            Values::Bf16(v) => {
                rows::product(&Dense { values: v, cols }, shape, values, out, accumulate)
            }
            Values::Packed(p) => rows::packed_product(p, shape, values, out, accumulate),
            #[cfg(target_arch = "x86_64")]
            Values::Panels(p) => x.multiply(p, out, accumulate),
        }
    }

    /// `x (W + adapter)^T` into `out` or added to it: `x` is `[m, cols]`, `out` `[m, rows]`. Returns `x A^T`.
    pub(crate) fn forward(
        &self,
        adapter: Option<Adapter<'_>>,
        x: &Activations<'_>,
        out: &SharedOut<'_>,
        accumulate: bool,
    ) -> Vec<f32> {
        #[cfg(target_arch = "x86_64")]
        if let Values::Panels(panels) = &self.values {
            x.multiply_many(panels, out, accumulate);
            let shape = (self.rows(), self.cols);
            return match (adapter, self.compute.float()) {
                (None, _) => Vec::new(),
                #[cfg(feature = "onednn")]
                (Some(adapter), Compute::Bf16) => panels::update(adapter, shape, x.bf16(), out),
                (Some(adapter), _) => panels::update(adapter, shape, x.values, out),
            };
        }
        match self.compute.float() {
            #[cfg(feature = "onednn")]
            Compute::Bf16 => panels::forward(self, adapter, x.bf16(), out, accumulate),
            _ => panels::forward(self, adapter, x.values, out, accumulate),
        }
    }

    /// `dy (W + adapter)` into `out` or added to it: `dy` is `[m, rows]`, `out` `[m, cols]`. Returns the gradients of
    /// the adapter, which comes with the input and the result of [`Self::forward`].
    pub(crate) fn backward(
        &self,
        taped: Option<(Adapter<'_>, &Activations<'_>, &[f32])>,
        dy: &Activations<'_>,
        out: &SharedOut<'_>,
        accumulate: bool,
    ) -> Option<[Vec<f32>; 2]> {
        match self.compute.float() {
            #[cfg(feature = "onednn")]
            Compute::Bf16 => {
                let taped = taped.map(|(adapter, x, low)| Taped {
                    adapter,
                    x: x.bf16(),
                    low,
                });
                panels::backward(self, taped, dy.bf16(), out, accumulate)
            }
            _ => {
                let taped = taped.map(|(adapter, x, low)| Taped {
                    adapter,
                    x: x.values,
                    low,
                });
                panels::backward(self, taped, dy.values, out, accumulate)
            }
        }
    }
}

/// Activations that several matrices are multiplied with: rounded at most once to each type.
pub(crate) struct Activations<'a> {
    values: &'a [f32],
    #[cfg(feature = "onednn")]
    rounded: OnceCell<Buffer<bf16>>,
    #[cfg(target_arch = "x86_64")]
    groups_of_16: OnceCell<Vec<int8::Group<16>>>,
    #[cfg(target_arch = "x86_64")]
    groups_of_32: OnceCell<Vec<int8::Group<32>>>,
}

impl<'a> Activations<'a> {
    pub(crate) fn new(values: &'a [f32]) -> Self {
        Self {
            values,
            #[cfg(feature = "onednn")]
            rounded: OnceCell::new(),
            #[cfg(target_arch = "x86_64")]
            groups_of_16: OnceCell::new(),
            #[cfg(target_arch = "x86_64")]
            groups_of_32: OnceCell::new(),
        }
    }

    pub(crate) fn values(&self) -> &'a [f32] {
        self.values
    }

    #[cfg(feature = "onednn")]
    fn bf16(&self) -> &[bf16] {
        self.rounded.get_or_init(|| panels::convert(self.values))
    }

    /// The product of many rows: with AMX bf16 is faster than integers, and more exact.
    #[cfg(target_arch = "x86_64")]
    fn multiply_many(&self, panels: &int8::Panels, out: &SharedOut<'_>, accumulate: bool) {
        #[cfg(feature = "onednn")]
        if amx::is_available() && amx::product(panels, self.bf16(), out, accumulate) {
            return;
        }
        self.multiply(panels, out, accumulate);
    }

    /// The product with a matrix in integers.
    #[cfg(target_arch = "x86_64")]
    fn multiply(&self, panels: &int8::Panels, out: &SharedOut<'_>, accumulate: bool) {
        match panels.group() {
            16 => {
                let x = self
                    .groups_of_16
                    .get_or_init(|| int8::quantise(self.values));
                panels.product(x, out, accumulate);
            }
            _ => {
                let x = self
                    .groups_of_32
                    .get_or_init(|| int8::quantise(self.values));
                panels.product(x, out, accumulate);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};
    use rand::{Rng, SeedableRng};

    use super::*;

    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    /// The product of 16 rows, added to ones, and what it returns.
    fn forward(
        rows: usize,
        values: Values,
        compute: Compute,
        adapter: Adapter<'_>,
    ) -> [Vec<f32>; 2] {
        let matrix = HostMatrix::new(256, values, compute);
        let x = self::values(16 * 256, 5);
        let mut y = vec![1f32; 16 * rows];
        let low = matrix.forward(
            Some(adapter),
            &Activations::new(&x),
            &SharedOut::over(&mut y),
            true,
        );
        [y, low]
    }

    fn relative_error(found: &[f32], expected: &[f32]) -> f32 {
        assert_eq!(found.len(), expected.len());
        let pairs = found.iter().zip(expected);
        let error: f32 = pairs.map(|(a, b)| (a - b).powi(2)).sum();
        (error / expected.iter().map(|v| v * v).sum::<f32>()).sqrt()
    }

    #[test]
    fn integers_serve_packed_weights_and_leave_adapters_in_floats() {
        // Whole tiles of AMX, by which prompts are multiplied where it is, and others.
        for rows in [70, 80] {
            check_integers(rows);
        }
    }

    fn check_integers(rows: usize) {
        let forward = |values, compute, adapter| forward(rows, values, compute, adapter);
        let (a, b) = (values(4 * 256, 7), values(rows * 4, 8));
        let adapter = Adapter {
            a: &a,
            b: &b,
            rank: 4,
            scale: 0.5,
        };
        #[cfg(all(feature = "onednn", target_arch = "x86_64"))]
        let has_amx = amx::is_available();
        #[cfg(not(all(feature = "onednn", target_arch = "x86_64")))]
        let has_amx = false;
        let dense = Tensor::from_vec(values(rows * 256, 2), (rows, 256), &Device::Cpu).unwrap();
        for dtype in [GgmlDType::Q4K, GgmlDType::Q6K, GgmlDType::Q8_0] {
            let bytes = QTensor::quantize(&dense, dtype).unwrap();
            let bytes = bytes.data().unwrap();
            let packed = || Values::Packed(Packed::from_ggml(dtype, &bytes, 256).unwrap());
            let [y, low] = forward(packed(), Compute::Int8, adapter);
            let [exact, exact_low] = forward(packed(), Compute::F32, adapter);
            let [floats, floats_low] = forward(packed(), Compute::Int8.float(), adapter);
            assert_eq!(low, floats_low);
            assert!(relative_error(&low, &exact_low) < 1e-2);
            assert!(relative_error(&y, &exact) < 1e-2);
            let in_floats = !Compute::Int8.is_available() || (has_amx && rows == 80);
            assert_eq!(y == floats, in_floats);
        }
        let floats = || Values::F32(values(rows * 256, 2));
        assert_eq!(
            forward(floats(), Compute::Int8, adapter),
            forward(floats(), Compute::Int8.float(), adapter)
        );
    }
}
