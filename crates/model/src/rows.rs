//! Products of frozen weights with few activation rows: what decoding spends its time on.
//!
//! Weights are read once for up to eight rows and become f32 in registers. A row's sums always run in the same order,
//! whatever other rows are there, so that a token's result does not depend on what is decoded beside it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64;

use half::{bf16, f16};
use rayon::prelude::*;

use crate::host::SharedOut;
use crate::packed::Packed;

/// Outputs of one task.
const OUTPUTS: usize = 64;

/// Activation rows of one task.
const ROWS: usize = 64;

/// Row-major weights `[rows, cols]` that become f32 sixteen at a time.
pub(crate) trait Source: Sync {
    /// Where a row's weights lie.
    type Row: Copy;

    /// Row `row`.
    fn row(&self, row: usize) -> Self::Row;

    /// Columns `at..at + 16` in a register; asks the memory for what lies `ahead` columns further on.
    ///
    /// # Safety
    /// The CPU has AVX-512 F and BW; the sixteen weights exist.
    #[cfg(target_arch = "x86_64")]
    unsafe fn register(row: Self::Row, at: usize, ahead: usize) -> std::arch::x86_64::__m512;

    /// Columns `at..at + 16` of row `row`.
    fn sixteen(&self, row: usize, at: usize) -> [f32; 16];

    /// One weight.
    fn one(&self, row: usize, at: usize) -> f32;
}

/// `x W^T`: `x` is `[n, cols]`, `W` `[rows, cols]`, `out` `[n, rows]`, which it is added to with `accumulate`.
///
/// # Panics
/// When the sizes do not fit.
pub(crate) fn product(
    weights: &impl Source,
    (rows, cols): (usize, usize),
    x: &[f32],
    out: &SharedOut<'_>,
    accumulate: bool,
) {
    assert!(cols > 0 && x.len().is_multiple_of(cols));
    let n = x.len() / cols;
    let (across, down) = (rows.div_ceil(OUTPUTS), n.div_ceil(ROWS));
    (0..across * down).into_par_iter().for_each(|task| {
        let first = task / across * ROWS;
        let job = Job {
            weights,
            cols,
            x: &x[first * cols..n.min(first + ROWS) * cols],
            stride: rows,
            first,
            out,
            accumulate,
        };
        let outputs = task % across * OUTPUTS;
        job.run(outputs..rows.min(outputs + OUTPUTS));
    });
}

struct Job<'a, S> {
    weights: &'a S,
    cols: usize,
    /// The task's rows.
    x: &'a [f32],
    /// Number of the first of them.
    first: usize,
    stride: usize,
    out: &'a SharedOut<'a>,
    accumulate: bool,
}

impl<S: Source> Job<'_, S> {
    fn run(&self, outputs: std::ops::Range<usize>) {
        let n = self.x.len() / self.cols;
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
                // SAFETY: the instructions were just detected; all indices lie inside the matrices.
                return unsafe { self.run_avx512(n, outputs) };
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                // SAFETY: the instructions were just detected.
                return unsafe { self.run_avx2(n, outputs) };
            }
        }
        self.run_portable(n, outputs);
    }

    fn write(&self, row: usize, output: usize, value: f32) {
        let at = (self.first + row) * self.stride + output;
        // SAFETY: each task owns its outputs in its rows; what is added to was set by the caller.
        unsafe {
            if self.accumulate {
                self.out.add(at, value);
            } else {
                self.out.write(at, value);
            }
        }
    }

    #[inline(always)]
    fn run_portable(&self, n: usize, outputs: std::ops::Range<usize>) {
        let whole = self.cols / 16 * 16;
        for row in 0..n {
            let x = &self.x[row * self.cols..(row + 1) * self.cols];
            for output in outputs.clone() {
                let mut sums = [0f32; 16];
                for (at, x) in (0..whole).step_by(16).zip(x.chunks_exact(16)) {
                    let w = self.weights.sixteen(output, at);
                    for i in 0..16 {
                        sums[i] += w[i] * x[i];
                    }
                }
                self.write(row, output, sums.iter().sum::<f32>() + self.tail(output, x));
            }
        }
    }

    /// # Safety
    /// The CPU has AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run_avx2(&self, n: usize, outputs: std::ops::Range<usize>) {
        self.run_portable(n, outputs);
    }

    /// What is left behind the last sixteen columns.
    #[inline(always)]
    fn tail(&self, output: usize, x: &[f32]) -> f32 {
        (self.cols / 16 * 16..self.cols)
            .map(|at| self.weights.one(output, at) * x[at])
            .sum()
    }

    /// # Safety
    /// The CPU has AVX-512 F and BW; `outputs` and `n` lie inside the matrices.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn run_avx512(&self, n: usize, outputs: std::ops::Range<usize>) {
        let mut row = 0;
        // SAFETY: as for this function.
        unsafe {
            while row < n {
                row += match n - row {
                    8.. => self.tiles::<8, 3>(row, outputs.clone()),
                    4.. => self.tiles::<4, 6>(row, outputs.clone()),
                    2.. => self.tiles::<2, 8>(row, outputs.clone()),
                    _ => self.tiles::<1, 8>(row, outputs.clone()),
                };
            }
        }
    }

    /// # Safety
    /// As for [`Self::run_avx512`], for rows `row..row + R`.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn tiles<const R: usize, const O: usize>(
        &self,
        row: usize,
        outputs: std::ops::Range<usize>,
    ) -> usize {
        let mut output = outputs.start;
        // SAFETY: as for this function.
        unsafe {
            while output + O <= outputs.end {
                self.tile::<R, O>(row, output);
                output += O;
            }
            for output in output..outputs.end {
                self.tile::<R, 1>(row, output);
            }
        }
        R
    }

    /// # Safety
    /// As for [`Self::run_avx512`], for `R` rows and `O` outputs.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw")]
    #[expect(
        clippy::needless_range_loop,
        reason = "one index runs over several arrays"
    )]
    unsafe fn tile<const R: usize, const O: usize>(&self, row: usize, output: usize) {
        use std::arch::x86_64::*;
        let x: [&[f32]; R] =
            std::array::from_fn(|r| &self.x[(row + r) * self.cols..(row + r + 1) * self.cols]);
        let whole = self.cols / 16 * 16;
        let w: [S::Row; O] = std::array::from_fn(|o| self.weights.row(output + o));
        // One sum a pair, in the order of the columns, for every R and O: results do not depend on the tile.
        let mut sums = [[_mm512_setzero_ps(); O]; R];
        for at in (0..whole).step_by(16) {
            // SAFETY: `at + 16 <= cols`, of the weights and of every row of `x`.
            unsafe {
                let w: [__m512; O] = std::array::from_fn(|o| S::register(w[o], at, O * self.cols));
                for r in 0..R {
                    let x = _mm512_loadu_ps(x[r].as_ptr().add(at));
                    for o in 0..O {
                        sums[r][o] = _mm512_fmadd_ps(w[o], x, sums[r][o]);
                    }
                }
            }
        }
        for r in 0..R {
            for o in 0..O {
                let sum = _mm512_reduce_add_ps(sums[r][o]);
                self.write(row + r, output + o, sum + self.tail(output + o, x[r]));
            }
        }
    }
}

/// Unquantised weights.
pub(crate) struct Dense<'a, T> {
    pub(crate) values: &'a [T],
    pub(crate) cols: usize,
}

/// Implements [`Source`] for unquantised weights: how one and how sixteen of them become f32.
macro_rules! dense {
    ($type:ty, $one:expr, $load:expr) => {
        impl Source for Dense<'_, $type> {
            type Row = *const $type;

            #[inline(always)]
            fn row(&self, row: usize) -> Self::Row {
                self.values[row * self.cols..][..self.cols].as_ptr()
            }

            #[cfg(target_arch = "x86_64")]
            #[inline]
            #[target_feature(enable = "avx512f,avx512bw")]
            unsafe fn register(row: Self::Row, at: usize, ahead: usize) -> x86_64::__m512 {
                // SAFETY: the caller names existing weights; a prefetch may point anywhere.
                unsafe {
                    x86_64::_mm_prefetch::<{ x86_64::_MM_HINT_T0 }>(
                        row.wrapping_add(at + ahead).cast(),
                    );
                    $load(row.add(at))
                }
            }

            #[inline(always)]
            fn sixteen(&self, row: usize, at: usize) -> [f32; 16] {
                let values = &self.values[row * self.cols + at..][..16];
                std::array::from_fn(|i| $one(values[i]))
            }

            fn one(&self, row: usize, at: usize) -> f32 {
                $one(self.values[row * self.cols + at])
            }
        }
    };
}

dense!(f32, |v: f32| v, |at| x86_64::_mm512_loadu_ps(at));
dense!(f16, |v: f16| v.to_f32(), |at: *const f16| {
    x86_64::_mm512_cvtph_ps(x86_64::_mm256_loadu_si256(at.cast()))
});
// A bf16 is the upper half of an f32.
dense!(bf16, |v: bf16| v.to_f32(), |at: *const bf16| {
    let half = x86_64::_mm512_cvtepu16_epi32(x86_64::_mm256_loadu_si256(at.cast()));
    x86_64::_mm512_castsi512_ps(x86_64::_mm512_slli_epi32::<16>(half))
});

/// Quantised weights in groups of `2^BITS`, with an offset a group or without.
pub(crate) struct Grouped<'a, const BITS: u32, const OFFSET: bool>(pub(crate) &'a Packed);

impl<const BITS: u32, const OFFSET: bool> Source for Grouped<'_, BITS, OFFSET> {
    /// Weights, scales and offsets.
    type Row = (*const i8, *const f32, *const f32);

    #[inline(always)]
    fn row(&self, row: usize) -> Self::Row {
        let first = row * self.0.cols;
        let (q, scale, offset) = self.0.parts();
        let offset = match OFFSET {
            true => offset[first >> BITS..].as_ptr(),
            false => std::ptr::null(),
        };
        let q = &q[first..][..self.0.cols];
        (q.as_ptr(), scale[first >> BITS..].as_ptr(), offset)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn register((q, scale, offset): Self::Row, at: usize, ahead: usize) -> x86_64::__m512 {
        use std::arch::x86_64::*;
        // SAFETY: the caller names existing weights, each group has a scale and an offset if any; a prefetch may point
        // anywhere.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(q.wrapping_add(at + ahead));
            let q = _mm512_cvtepi8_epi32(_mm_loadu_si128(q.add(at).cast()));
            let scaled = _mm512_mul_ps(
                _mm512_cvtepi32_ps(q),
                _mm512_set1_ps(*scale.add(at >> BITS)),
            );
            match OFFSET {
                true => _mm512_sub_ps(scaled, _mm512_set1_ps(*offset.add(at >> BITS))),
                false => scaled,
            }
        }
    }

    #[inline(always)]
    fn sixteen(&self, row: usize, at: usize) -> [f32; 16] {
        let first = row * self.0.cols + at;
        let (q, scale, offset) = self.0.parts();
        let (q, scale) = (&q[first..first + 16], scale[first >> BITS]);
        let offset = if OFFSET { offset[first >> BITS] } else { 0.0 };
        std::array::from_fn(|i| scale * f32::from(q[i]) - offset)
    }

    fn one(&self, row: usize, at: usize) -> f32 {
        self.sixteen(row, at / 16 * 16)[at % 16]
    }
}

/// [`product`] with quantised weights.
pub(crate) fn packed_product(
    weights: &Packed,
    shape: (usize, usize),
    x: &[f32],
    out: &SharedOut<'_>,
    accumulate: bool,
) {
    match (weights.group(), weights.parts().2.is_empty()) {
        (16, true) => product(&Grouped::<4, false>(weights), shape, x, out, accumulate),
        (16, false) => product(&Grouped::<4, true>(weights), shape, x, out, accumulate),
        (_, true) => product(&Grouped::<5, false>(weights), shape, x, out, accumulate),
        (_, false) => product(&Grouped::<5, true>(weights), shape, x, out, accumulate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, seed: f32) -> Vec<f32> {
        (0..n).map(|i| ((i as f32 + seed) * 0.37).sin()).collect()
    }

    fn run(weights: &impl Source, rows: usize, cols: usize, x: &[f32], start: f32) -> Vec<f32> {
        let mut y = vec![start; x.len() / cols * rows];
        product(
            weights,
            (rows, cols),
            x,
            &SharedOut::over(&mut y),
            start != 0.0,
        );
        y
    }

    fn check(weights: &impl Source, rows: usize, cols: usize) {
        let x = values(75 * cols, 5.0);
        let all = run(weights, rows, cols, &x, 0.0);
        let added = run(weights, rows, cols, &x, 1.0);
        for (i, x) in x.chunks_exact(cols).enumerate() {
            let alone = run(weights, rows, cols, x, 0.0);
            assert_eq!(alone, all[i * rows..(i + 1) * rows], "row {i} of 75");
            for (row, found) in alone.iter().enumerate() {
                let exact: f64 = (0..cols)
                    .map(|at| f64::from(weights.one(row, at)) * f64::from(x[at]))
                    .sum();
                assert!((f64::from(*found) - exact).abs() < 1e-4, "{found} {exact}");
                assert!((added[i * rows + row] - found - 1.0).abs() < 1e-5 * (1.0 + found.abs()));
            }
        }
        let mut portable = vec![0.0; all.len()];
        let job = Job {
            weights,
            cols,
            x: &x,
            first: 0,
            stride: rows,
            out: &SharedOut::over(&mut portable),
            accumulate: false,
        };
        job.run_portable(75, 0..rows);
        for (a, b) in all.iter().zip(&portable) {
            assert!((a - b).abs() < 1e-4, "{a} {b}");
        }
    }

    #[test]
    fn a_row_does_not_depend_on_its_neighbours() {
        let dense = values(70 * 59, 1.0);
        check(
            &Dense {
                values: dense.as_slice(),
                cols: 59,
            },
            70,
            59,
        );
        let halves: Vec<f16> = dense.iter().map(|&v| f16::from_f32(v)).collect();
        check(
            &Dense {
                values: halves.as_slice(),
                cols: 59,
            },
            70,
            59,
        );
        let halves: Vec<bf16> = dense.iter().map(|&v| bf16::from_f32(v)).collect();
        check(
            &Dense {
                values: halves.as_slice(),
                cols: 59,
            },
            70,
            59,
        );
    }

    #[test]
    fn packed_weights_too() {
        use candle_core::quantized::{GgmlDType, QTensor};
        use candle_core::{Device, Tensor};
        for (dtype, cols) in [
            (GgmlDType::Q5_0, 96),
            (GgmlDType::Q4K, 256),
            (GgmlDType::Q6K, 512),
            (GgmlDType::Q2K, 256),
        ] {
            let dense = Tensor::from_vec(values(66 * cols, 2.0), (66, cols), &Device::Cpu).unwrap();
            let quantised = QTensor::quantize(&dense, dtype).unwrap();
            let packed = Packed::from_ggml(dtype, &quantised.data().unwrap(), cols).unwrap();
            match dtype {
                GgmlDType::Q5_0 => check(&Grouped::<5, false>(&packed), 66, cols),
                GgmlDType::Q4K => check(&Grouped::<5, true>(&packed), 66, cols),
                GgmlDType::Q6K => check(&Grouped::<4, false>(&packed), 66, cols),
                _ => check(&Grouped::<4, true>(&packed), 66, cols),
            }
        }
    }
}
