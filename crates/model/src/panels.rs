//! Many-row products: tasks expand panels of the weights and multiply them, each on its own thread.
//!
//! Panels depend on the matrix alone, so that results do not depend on the number of threads.

use std::cell::RefCell;
use std::ops::Range;

#[cfg(feature = "onednn")]
use half::bf16;
use rayon::prelude::*;

use crate::expand::Element;
use crate::host::SharedOut;
use crate::matrix::HostMatrix;
#[cfg(feature = "onednn")]
use crate::onednn;

/// Wanted outputs a panel: 128 x 896 bf16 stay in the L2 cache.
const PANEL: usize = 128;

/// Contraction steps of a backward product that are expanded at once (the head has as many as the vocabulary).
const DEPTH: usize = 8192;

/// Values per task of a conversion.
const GRAIN: usize = 1 << 14;

/// A type that panels are multiplied in.
pub(crate) trait Panel: Element {
    /// Calls `f` with a buffer of the thread's own, so that panels do not allocate.
    fn with_buffer<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R;

    /// `c = a b` or `c += a b` on the calling thread: `a` is `[m, k]`, `b` `[k, n]` or, transposed, `[n, k]`, `c` `[m, n]`.
    ///
    /// # Safety
    /// Rows of `a`, `b` and `c`, `lda`, `ldb` and `ldc` elements apart, lie in memory that is valid for reading, and for
    /// `c` for writing by this thread alone; with `accumulate`, `c` holds numbers.
    #[expect(clippy::too_many_arguments, reason = "the arguments of every GEMM")]
    unsafe fn matmul(
        shape: (usize, usize, usize),
        a: *const Self,
        lda: usize,
        b: *const Self,
        ldb: usize,
        b_transposed: bool,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    );
}

macro_rules! with_buffer {
    ($type:ty) => {
        fn with_buffer<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R {
            thread_local!(static BUFFER: RefCell<Vec<$type>> = const { RefCell::new(Vec::new()) });
            BUFFER.with_borrow_mut(|buffer| {
                if buffer.len() < len {
                    buffer.resize(len, <$type>::default());
                }
                f(&mut buffer[..len])
            })
        }
    };
}

impl Panel for f32 {
    with_buffer!(f32);

    unsafe fn matmul(
        (m, n, k): (usize, usize, usize),
        a: *const f32,
        lda: usize,
        b: *const f32,
        ldb: usize,
        b_transposed: bool,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    ) {
        // SAFETY: the caller vouches for the operands.
        #[cfg(feature = "onednn")]
        unsafe {
            onednn::matmul(
                false,
                (m, n, k),
                a,
                lda,
                b,
                ldb,
                b_transposed,
                c,
                ldc,
                accumulate,
            )
        }
        #[cfg(not(feature = "onednn"))]
        {
            let (step, row) = if b_transposed { (ldb, 1) } else { (1, ldb) };
            let (lda, ldc) = (lda as isize, ldc as isize);
            // SAFETY: the caller vouches for the operands.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    c,
                    1,
                    ldc,
                    accumulate,
                    a,
                    1,
                    lda,
                    b,
                    step as isize,
                    row as isize,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    gemm::Parallelism::None,
                );
            }
        }
    }
}

#[cfg(feature = "onednn")]
impl Panel for bf16 {
    with_buffer!(bf16);

    unsafe fn matmul(
        shape: (usize, usize, usize),
        a: *const bf16,
        lda: usize,
        b: *const bf16,
        ldb: usize,
        b_transposed: bool,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    ) {
        // SAFETY: the caller vouches for the operands.
        unsafe {
            onednn::matmul(
                true,
                shape,
                a,
                lda,
                b,
                ldb,
                b_transposed,
                c,
                ldc,
                accumulate,
            )
        }
    }
}

/// An even number of panels of equal width, a multiple of 32 (the largest group of packed weights).
fn panels(outputs: usize) -> impl IndexedParallelIterator<Item = Range<usize>> {
    let count = (outputs + PANEL) / (2 * PANEL) * 2;
    let width = outputs.div_ceil(count.max(2)).next_multiple_of(32);
    (0..outputs.div_ceil(width))
        .into_par_iter()
        .map(move |i| i * width..outputs.min((i + 1) * width))
}

/// Activation rows are padded to few distinct numbers, for each of which oneDNN prepares its kernels once.
pub(crate) fn padded(n: usize) -> usize {
    match n {
        0..=16 => n,
        17..=256 => n.next_multiple_of(16),
        _ => n.next_multiple_of(32),
    }
}

/// The values in the compute type, padded with zeroes.
pub(crate) fn convert<T: Panel>(x: &[f32], padded_len: usize) -> Vec<T> {
    let mut out = vec![T::default(); padded_len];
    out[..x.len()]
        .par_chunks_mut(GRAIN)
        .zip(x.par_chunks(GRAIN))
        .for_each(|(out, x)| T::from_f32(x, out));
    out
}

/// `x W^T`: `x` is `[m, cols]`, `out` `[m, rows]`, which it is added to with `accumulate`.
pub(crate) fn forward<T: Panel>(w: &HostMatrix, x: &[T], out: &SharedOut<'_>, accumulate: bool) {
    let (rows, cols) = (w.rows(), w.cols());
    let m = x.len() / cols;
    if m == 0 {
        return;
    }
    panels(rows).for_each(|panel| {
        let width = panel.len();
        T::with_buffer(width * cols, |weights| {
            for (row, weights) in panel.clone().zip(weights.chunks_exact_mut(cols)) {
                w.expand(row, 0, weights);
            }
            let (a, b, c) = (x.as_ptr(), weights.as_ptr(), out.at(panel.start));
            out.at((m - 1) * rows + panel.end - 1);
            // SAFETY: the operands are as large as given, the last output was just seen to exist; no other task writes
            // these columns of `out`.
            unsafe {
                T::matmul(
                    (m, width, cols),
                    a,
                    cols,
                    b,
                    cols,
                    true,
                    c,
                    rows,
                    accumulate,
                );
            }
        });
    });
}

/// `dy W`: `dy` is `[m, rows]`, `out` `[m, cols]`.
pub(crate) fn backward<T: Panel>(w: &HostMatrix, dy: &[T], out: &SharedOut<'_>, accumulate: bool) {
    let (rows, cols) = (w.rows(), w.cols());
    let m = dy.len() / rows;
    if m == 0 {
        return;
    }
    panels(cols).for_each(|panel| {
        let width = panel.len();
        T::with_buffer(width * rows.min(DEPTH), |weights| {
            for first in (0..rows).step_by(DEPTH) {
                let depth = DEPTH.min(rows - first);
                for (i, weights) in weights.chunks_exact_mut(width).take(depth).enumerate() {
                    w.expand(first + i, panel.start, weights);
                }
                let (a, b, c) = (dy[first..].as_ptr(), weights.as_ptr(), out.at(panel.start));
                out.at((m - 1) * cols + panel.end - 1);
                let accumulate = accumulate || first > 0;
                // SAFETY: as in `forward`; from the second round on the sums of the first are added to.
                unsafe {
                    T::matmul(
                        (m, width, depth),
                        a,
                        rows,
                        b,
                        width,
                        false,
                        c,
                        cols,
                        accumulate,
                    );
                }
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::matrix::{Compute, Values};
    use crate::packed::Packed;

    fn values(n: usize, seed: u64) -> Vec<f32> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        (0..n).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    fn packed(rows: usize, cols: usize) -> HostMatrix {
        let dense = Tensor::from_vec(values(rows * cols, 2), (rows, cols), &Device::Cpu).unwrap();
        let q = QTensor::quantize(&dense, GgmlDType::Q5_0).unwrap();
        let packed = Packed::from_ggml(GgmlDType::Q5_0, &q.data().unwrap(), cols).unwrap();
        HostMatrix::new(cols, Values::Packed(packed), Compute::F32)
    }

    fn forward<T: Panel>(w: &HostMatrix, x: &[f32]) -> Vec<f32> {
        let mut y = vec![0.0; x.len() / w.cols() * w.rows()];
        super::forward(
            w,
            &convert::<T>(x, x.len()),
            &SharedOut::over(&mut y),
            false,
        );
        y
    }

    fn backward<T: Panel>(w: &HostMatrix, dy: &[f32]) -> Vec<f32> {
        let mut dx = vec![0.0; dy.len() / w.rows() * w.cols()];
        super::backward(
            w,
            &convert::<T>(dy, dy.len()),
            &SharedOut::over(&mut dx),
            false,
        );
        dx
    }

    /// Largest deviation, relative to the root mean square of what is expected.
    fn deviation(found: &[f32], expected: &[f32]) -> f64 {
        assert_eq!(found.len(), expected.len());
        let square: f64 = expected.iter().map(|v| f64::from(*v).powi(2)).sum();
        let rms = (square / expected.len() as f64).sqrt();
        let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        f64::from(worst.fold(0f32, f32::max)) / rms
    }

    /// `x W^T` and `dy W` in f64.
    fn exact(w: &HostMatrix, x: &[f32], dy: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let (rows, cols) = (w.rows(), w.cols());
        let mut weights = vec![0f32; rows * cols];
        for (row, out) in weights.chunks_exact_mut(cols).enumerate() {
            w.expand(row, 0, out);
        }
        let dot = |a: &mut dyn Iterator<Item = (&f32, &f32)>| -> f32 {
            a.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
        };
        let y = x.chunks_exact(cols).flat_map(|x| {
            let weights = weights.chunks_exact(cols);
            weights.map(move |w| dot(&mut w.iter().zip(x)))
        });
        let y = y.collect();
        let weights = &weights;
        let dx = dy.chunks_exact(rows).flat_map(|dy| {
            (0..cols).map(move |col| dot(&mut weights[col..].iter().step_by(cols).zip(dy)))
        });
        (y, dx.collect())
    }

    #[test]
    fn products_agree_with_f64() {
        for (rows, cols) in [(70, 96), (352, 896), (9000, 64)] {
            let w = packed(rows, cols);
            for n in [1, 5, 33] {
                let (x, dy) = (values(n * cols, 7), values(n * rows, 9));
                let (y, dx) = exact(&w, &x, &dy);
                assert!(deviation(&forward::<f32>(&w, &x), &y) < 1e-4);
                assert!(deviation(&backward::<f32>(&w, &dy), &dx) < 1e-4);
                #[cfg(feature = "onednn")]
                {
                    // Operands of 8 significant bits: errors of up to 2^-8 each, which partly cancel.
                    assert!(deviation(&forward::<bf16>(&w, &x), &y) < 2e-2);
                    assert!(deviation(&backward::<bf16>(&w, &dy), &dx) < 2e-2);
                }
            }
        }
    }
}
