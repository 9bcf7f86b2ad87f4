//! Many-row products: tasks expand panels of the weights and multiply them, each on its own thread.
//!
//! Panels depend on the matrix alone, so that results do not depend on the number of threads.

use std::ops::Range;

use rayon::prelude::*;

use crate::buffer::Buffer;
use crate::host::SharedOut;
use crate::matrix::HostMatrix;
use crate::ops::GRAIN;
use crate::product::{Operand, Panel};

/// Wanted outputs a panel: 128 x 896 bf16 stay in the L2 cache.
const PANEL: usize = 128;

/// Contraction steps of a backward product that are expanded at once (the head has as many as the vocabulary).
const DEPTH: usize = 8192;

/// Panels of equal width, a multiple of 32 (the largest group of packed weights); the last may be narrower. Their number
/// is even where the width allows.
pub(crate) fn panels(outputs: usize) -> impl IndexedParallelIterator<Item = Range<usize>> {
    let count = (outputs + PANEL) / (2 * PANEL) * 2;
    let width = outputs.div_ceil(count.max(2)).next_multiple_of(32);
    (0..outputs.div_ceil(width))
        .into_par_iter()
        .map(move |i| i * width..outputs.min((i + 1) * width))
}

/// Activation rows are padded to few distinct numbers, for each of which oneDNN prepares its kernels once. For fewer than
/// 16 it takes kernels that sum in another order: a row's result would then depend on how many rows there are. AMX takes
/// multiples of 16 alone.
pub(crate) fn padded(n: usize) -> usize {
    match n {
        0..=256 => n.next_multiple_of(16),
        _ => n.next_multiple_of(32),
    }
}

/// The values in the compute type.
pub(crate) fn convert<T: Panel>(x: &[f32]) -> Buffer<T> {
    let mut out = Buffer::new(x.len());
    out.par_chunks_mut(GRAIN)
        .zip(x.par_chunks(GRAIN))
        .for_each(|(out, x)| T::from_f32(x, out));
    out
}

/// An adapter beside a matrix `[rows, cols]`: `a` is `[rank, cols]`, `b` `[rows, rank]`.
#[derive(Clone, Copy)]
pub(crate) struct Adapter<'a> {
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) rank: usize,
    pub(crate) scale: f32,
}

impl Adapter<'_> {
    /// Products read as much as the shape of the matrix says.
    fn check(&self, (rows, cols): (usize, usize)) {
        assert!(self.a.len() == self.rank * cols && self.b.len() == rows * self.rank);
    }
}

/// `x (W + scale B A)^T`: `x` is `[m, cols]`, `out` `[m, rows]`, which it is added to with `accumulate`. Returns
/// `x A^T` (`[m, rank]`), which the backward pass needs.
pub(crate) fn forward<T: Panel>(
    w: &HostMatrix,
    adapter: Option<Adapter<'_>>,
    x: &[T],
    out: &SharedOut<'_>,
    accumulate: bool,
) -> Vec<f32> {
    let (rows, cols) = (w.rows(), w.cols());
    let m = x.len() / cols;
    if m == 0 {
        return Vec::new();
    }
    out.at(m * rows - 1);
    let update = adapter.map(|adapter| Update::new(adapter, x, (rows, cols)));
    panels(rows).for_each(|panel| {
        let width = panel.len();
        let c = out.at(panel.start);
        T::with_buffer(width * cols, |weights| {
            for (row, weights) in panel.clone().zip(weights.chunks_exact_mut(cols)) {
                w.expand(row, 0, weights);
            }
            let (a, b) = (Operand::new(x, cols), Operand::new(weights, cols).t());
            // SAFETY: the operands are as large as given, `out` was seen to be; no other task writes these columns.
            unsafe { T::matmul((m, width, cols), a, b, c, rows, accumulate) };
        });
        if let Some(update) = &update {
            // SAFETY: as above; the panel has just been written.
            unsafe { update.add(m, panel, c, rows) };
        }
    });
    update.map(|update| update.low).unwrap_or_default()
}

/// Adds an adapter's part of [`forward`] to `out`, of a matrix of this shape, and returns `x A^T`.
#[cfg(target_arch = "x86_64")]
pub(crate) fn update<T: Panel>(
    adapter: Adapter<'_>,
    (rows, cols): (usize, usize),
    x: &[T],
    out: &SharedOut<'_>,
) -> Vec<f32> {
    let m = x.len() / cols;
    if m == 0 {
        return Vec::new();
    }
    out.at(m * rows - 1);
    let update = Update::new(adapter, x, (rows, cols));
    panels(rows).for_each(|panel| {
        let c = out.at(panel.start);
        // SAFETY: `out` was seen to be large enough and is set; no other task writes these columns.
        unsafe { update.add(m, panel, c, rows) };
    });
    update.low
}

/// An adapter's part of a forward product.
struct Update<T: Panel> {
    /// `x A^T`, `[m, rank]`
    low: Vec<f32>,
    /// The same times the adapter's scale.
    scaled: Buffer<T>,
    b: Buffer<T>,
    rank: usize,
}

impl<T: Panel> Update<T> {
    fn new(adapter: Adapter<'_>, x: &[T], (rows, cols): (usize, usize)) -> Self {
        adapter.check((rows, cols));
        let Adapter { a, b, rank, scale } = adapter;
        let a = convert::<T>(a);
        let low = thin(
            (x.len() / cols, rank, cols),
            Operand::new(x, cols),
            Operand::new(&a, cols).t(),
        );
        Self {
            scaled: scaled::<T>(&low, scale),
            b: convert::<T>(b),
            low,
            rank,
        }
    }

    /// Adds the columns of a panel to `m` rows `stride` apart, of which the first panel column starts at `c`.
    ///
    /// # Safety
    /// The rows exist, are set, and no other task reads or writes these columns.
    unsafe fn add(&self, m: usize, panel: Range<usize>, c: *mut f32, stride: usize) {
        let (a, b) = (
            Operand::new(&self.scaled, self.rank),
            Operand::new(&self.b[panel.start * self.rank..], self.rank).t(),
        );
        // SAFETY: the caller vouches for `c`; the operands are as large as given.
        unsafe { T::matmul((m, panel.len(), self.rank), a, b, c, stride, true) };
    }
}

/// What [`forward`] was called with and what it returned, for the gradients of an adapter.
pub(crate) struct Taped<'a, T> {
    pub(crate) adapter: Adapter<'a>,
    pub(crate) x: &'a [T],
    pub(crate) low: &'a [f32],
}

/// `dy (W + scale B A)`: `dy` is `[m, rows]`, `out` `[m, cols]`. Returns the gradients of `A` and `B`.
pub(crate) fn backward<T: Panel>(
    w: &HostMatrix,
    taped: Option<Taped<'_, T>>,
    dy: &[T],
    out: &SharedOut<'_>,
    accumulate: bool,
) -> Option<[Vec<f32>; 2]> {
    let (rows, cols) = (w.rows(), w.cols());
    let m = dy.len() / rows;
    if m == 0 {
        return None;
    }
    out.at(m * cols - 1);
    let (mut gradients, mut update) = (None, None);
    if let Some(Taped { adapter, x, low }) = taped {
        adapter.check((rows, cols));
        let Adapter { a, b, rank, scale } = adapter;
        assert!(x.len() == m * cols && low.len() == m * rank);
        let b = convert::<T>(b);
        // d(x A^T) = scale dy B
        let dlow = thin(
            (m, rank, rows),
            Operand::new(dy, rows),
            Operand::new(&b, rank),
        );
        let (low, dlow) = (scaled::<T>(low, scale), scaled::<T>(&dlow, scale));
        let db = thin(
            (rows, rank, m),
            Operand::new(dy, rows).t(),
            Operand::new(&low, rank),
        );
        let da = thin(
            (rank, cols, m),
            Operand::new(&dlow, rank).t(),
            Operand::new(x, cols),
        );
        gradients = Some([da, db]);
        update = Some((dlow, convert::<T>(a), rank));
    }
    panels(cols).for_each(|panel| {
        let width = panel.len();
        let c = out.at(panel.start);
        T::with_buffer(width * rows.min(DEPTH), |weights| {
            for first in (0..rows).step_by(DEPTH) {
                let depth = DEPTH.min(rows - first);
                for (i, weights) in weights.chunks_exact_mut(width).take(depth).enumerate() {
                    w.expand(first + i, panel.start, weights);
                }
                let (a, b) = (
                    Operand::new(&dy[first..], rows),
                    Operand::new(weights, width),
                );
                // SAFETY: as in `forward`; from the second round on the sums of the first are added to.
                unsafe { T::matmul((m, width, depth), a, b, c, cols, accumulate || first > 0) };
            }
        });
        if let Some((dlow, a, rank)) = &update {
            let (dlow, a) = (
                Operand::new(dlow, *rank),
                Operand::new(&a[panel.start..], cols),
            );
            // SAFETY: as above; the panel has just been written.
            unsafe { T::matmul((m, width, *rank), dlow, a, c, cols, true) };
        }
    });
    gradients
}

fn scaled<T: Panel>(x: &[f32], scale: f32) -> Buffer<T> {
    let x: Vec<f32> = x.iter().map(|x| x * scale).collect();
    convert(&x)
}

/// A product `[m, n]` of which one side is an adapter's rank: tasks take parts of the other.
fn thin<T: Panel>((m, n, k): (usize, usize, usize), a: Operand<T>, b: Operand<T>) -> Vec<f32> {
    /// Rows or columns of a task.
    const PART: usize = 128;
    let mut c = vec![0f32; m * n];
    let out = SharedOut::over(&mut c);
    let (a, b) = (Shared(a), Shared(b));
    let parts = |len: usize| {
        (0..len.div_ceil(PART))
            .into_par_iter()
            .map(move |i| i * PART..len.min((i + 1) * PART))
    };
    // Columns that are no whole tiles stay together: how they are multiplied must not depend on the rows.
    if m >= n || !n.is_multiple_of(16) {
        parts(m).for_each(|rows| {
            let (a, b) = (a.from(rows.start, false), b.from(0, true));
            // SAFETY: rows `rows` of `a` and `c` exist, and `c`'s are this task's alone.
            unsafe { T::matmul((rows.len(), n, k), a, b, out.at(rows.start * n), n, false) };
        });
    } else {
        parts(n).for_each(|columns| {
            let (a, b) = (a.from(0, false), b.from(columns.start, true));
            // SAFETY: columns `columns` of `b` and `c` exist, and `c`'s are this task's alone.
            unsafe { T::matmul((m, columns.len(), k), a, b, out.at(columns.start), n, false) };
        });
    }
    c
}

/// An operand whose slice outlives the tasks that read it.
struct Shared<T>(Operand<T>);

// SAFETY: it is only read.
unsafe impl<T: Sync> Sync for Shared<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Send for Shared<T> {}

impl<T> Shared<T> {
    /// The operand from a row on, or from a column on.
    fn from(&self, first: usize, column: bool) -> Operand<T> {
        let step = if self.0.transposed == column {
            self.0.stride
        } else {
            1
        };
        Operand {
            start: self.0.start.wrapping_add(first * step),
            ..self.0
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::{GgmlDType, QTensor};
    use candle_core::{Device, Tensor};
    #[cfg(feature = "onednn")]
    use half::bf16;
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
        super::forward(w, None, &convert::<T>(x), &SharedOut::over(&mut y), false);
        y
    }

    fn backward<T: Panel>(w: &HostMatrix, dy: &[f32]) -> Vec<f32> {
        let mut dx = vec![0.0; dy.len() / w.rows() * w.cols()];
        super::backward(w, None, &convert::<T>(dy), &SharedOut::over(&mut dx), false);
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

    /// `[m, n]` from the entries of `[m, k]` and `[k, n]`, in f64.
    fn product(
        (m, n, k): (usize, usize, usize),
        a: impl Fn(usize, usize) -> f32,
        b: impl Fn(usize, usize) -> f32,
    ) -> Vec<f32> {
        let entry = |i: usize, j: usize| -> f64 {
            let terms = (0..k).map(|l| f64::from(a(i, l)) * f64::from(b(l, j)));
            terms.sum()
        };
        (0..m * n).map(|at| entry(at / n, at % n) as f32).collect()
    }

    /// Forward and backward with an adapter, `[y, low, dx, da, db]`, against sums in f64.
    fn check_adapter<T: Panel>(rank: usize, n: usize, tolerance: f64) {
        let (rows, cols, scale) = (70, 96, 0.5);
        let w = packed(rows, cols);
        let (a, b) = (values(rank * cols, 3), values(rows * rank, 4));
        let (x, dy) = (values(n * cols, 7), values(n * rows, 9));
        let adapter = Adapter {
            a: &a,
            b: &b,
            rank,
            scale,
        };
        let (x_values, dy_values) = (convert::<T>(&x), convert::<T>(&dy));
        let (mut y, mut dx) = (vec![0f32; n * rows], vec![0f32; n * cols]);
        let out = SharedOut::over(&mut y);
        let low = super::forward(&w, Some(adapter), &x_values, &out, false);
        let taped = Taped {
            adapter,
            x: &x_values,
            low: &low,
        };
        let out = SharedOut::over(&mut dx);
        let [da, db] = super::backward(&w, Some(taped), &dy_values, &out, false).unwrap();
        let exact_low = product(
            (n, rank, cols),
            |i, l| x[i * cols + l],
            |l, j| a[j * cols + l],
        );
        let dlow = product(
            (n, rank, rows),
            |i, l| dy[i * rows + l],
            |l, j| b[l * rank + j],
        );
        let (plain, plain_dx) = exact(&w, &x, &dy);
        let added = |plain: Vec<f32>, update: Vec<f32>| -> Vec<f32> {
            let pairs = plain.into_iter().zip(update);
            pairs
                .map(|(plain, update)| plain + scale * update)
                .collect()
        };
        let scaled = |values: Vec<f32>| -> Vec<f32> { values.iter().map(|v| v * scale).collect() };
        let low_at = |i: usize, l: usize| exact_low[i * rank + l];
        let dlow_at = |i: usize, l: usize| dlow[i * rank + l];
        let update = product((n, rows, rank), low_at, |l, j| b[j * rank + l]);
        let update_dx = product((n, cols, rank), dlow_at, |l, j| a[l * cols + j]);
        let exact_da = product(
            (rank, cols, n),
            |i, l| dlow_at(l, i),
            |l, j| x[l * cols + j],
        );
        let exact_db = product((rows, rank, n), |i, l| dy[l * rows + i], low_at);
        for (what, found, expected) in [
            ("y", y, added(plain, update)),
            ("low", low, exact_low.clone()),
            ("dx", dx, added(plain_dx, update_dx)),
            ("da", da, scaled(exact_da)),
            ("db", db, scaled(exact_db)),
        ] {
            let error = deviation(&found, &expected);
            assert!(error < tolerance, "rank {rank}, {n} rows, {what}: {error}");
        }
    }

    /// Whether products in bf16 can be tested; said where they cannot.
    #[cfg(feature = "onednn")]
    fn has_bf16() -> bool {
        let available = Compute::Bf16.is_available();
        if !available {
            eprintln!("skipped: this CPU does not multiply bf16");
        }
        available
    }

    #[test]
    fn adapters_agree_with_f64() {
        for rank in [1, 5, 16] {
            for n in [1, 20, 48] {
                check_adapter::<f32>(rank, n, 1e-4);
                #[cfg(feature = "onednn")]
                if has_bf16() {
                    check_adapter::<bf16>(rank, n, 4e-2);
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "rank * cols")]
    fn an_adapter_of_another_shape_is_not_read() {
        let adapter = Adapter {
            a: &values(4 * 95, 3),
            b: &values(70 * 4, 4),
            rank: 4,
            scale: 1.0,
        };
        let (x, mut y) = (values(96, 7), vec![0f32; 70]);
        super::forward(
            &packed(70, 96),
            Some(adapter),
            &x,
            &SharedOut::over(&mut y),
            false,
        );
    }

    #[test]
    fn products_agree_with_f64() {
        for (rows, cols) in [(70, 96), (352, 896), (9000, 64)] {
            let w = packed(rows, cols);
            for n in [1, 5, 33, 48] {
                let (x, dy) = (values(n * cols, 7), values(n * rows, 9));
                let (y, dx) = exact(&w, &x, &dy);
                assert!(deviation(&forward::<f32>(&w, &x), &y) < 1e-4);
                assert!(deviation(&backward::<f32>(&w, &dy), &dx) < 1e-4);
                #[cfg(feature = "onednn")]
                if has_bf16() {
                    // Operands of 8 significant bits: errors of up to 2^-8 each, which partly cancel.
                    assert!(deviation(&forward::<bf16>(&w, &x), &y) < 2e-2);
                    assert!(deviation(&backward::<bf16>(&w, &dy), &dx) < 2e-2);
                }
            }
        }
    }
}
