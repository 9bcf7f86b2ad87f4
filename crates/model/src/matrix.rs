//! Frozen weight matrices in host memory and their products with activations.
//!
//! Few rows (decode) read the packed weights directly; many rows (prefill, training) expand some
//! weight rows at a time to f32 and hand them to the GEMM, so that no f32 copy of the whole matrix
//! ever exists.

use half::{bf16, f16};
use rayon::prelude::*;

use crate::gemm::{MatMut, MatRef, Threads, matmul};
use crate::packed::Packed;

/// Up to this many activation rows, packed weights are read row by row: expanding a matrix for the GEMM only pays
/// once enough rows share the expansion.
const FEW_ROWS: usize = 8;

/// Weight rows that are expanded at once: 1024 x 4864 f32 are 20 MB.
const CHUNK_ROWS: usize = 1024;

/// A frozen matrix `[rows, cols]` = `[out_features, in_features]`.
pub(crate) struct HostMatrix {
    cols: usize,
    values: Values,
}

/// How the weights are stored.
pub(crate) enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
    Packed(Packed),
}

impl HostMatrix {
    pub(crate) fn new(cols: usize, values: Values) -> Self {
        Self { cols, values }
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
        }
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        match &self.values {
            Values::F32(v) => 4 * v.len(),
            Values::F16(v) => 2 * v.len(),
            Values::Bf16(v) => 2 * v.len(),
            Values::Packed(p) => p.bytes(),
        }
    }

    /// Writes row `row` as f32 into `out` (`[cols]`).
    pub(crate) fn row_to_f32(&self, row: usize, out: &mut [f32]) {
        let range = row * self.cols..(row + 1) * self.cols;
        match &self.values {
            Values::F32(v) => out.copy_from_slice(&v[range]),
            Values::F16(v) => out
                .iter_mut()
                .zip(&v[range])
                .for_each(|(o, v)| *o = v.to_f32()),
            Values::Bf16(v) => out
                .iter_mut()
                .zip(&v[range])
                .for_each(|(o, v)| *o = v.to_f32()),
            Values::Packed(p) => p.row_to_f32(row, out),
        }
    }

    /// `x W^T`: `x` is `[n, cols]`, the result `[n, rows]`.
    pub(crate) fn forward(&self, x: &[f32]) -> Vec<f32> {
        let (n, rows) = (x.len() / self.cols, self.rows());
        let mut y = vec![0f32; n * rows];
        if n == 0 {
            return y;
        }
        match &self.values {
            Values::Packed(p) if n <= FEW_ROWS => self.forward_few(p, x, &mut y),
            _ => self.for_chunks(|first, chunk| {
                let weights = MatRef::new(chunk, chunk.len() / self.cols, self.cols, self.cols);
                let dst = MatMut::new(&mut y[first..], n, chunk.len() / self.cols, rows);
                matmul(
                    dst,
                    MatRef::new(x, n, self.cols, self.cols),
                    weights.t(),
                    1.0,
                    false,
                    Threads::All,
                );
            }),
        }
        y
    }

    /// `dy W`: `dy` is `[n, rows]`, the result `[n, cols]`: the gradient of [`Self::forward`]'s input.
    pub(crate) fn backward(&self, dy: &[f32]) -> Vec<f32> {
        let rows = self.rows();
        let n = dy.len() / rows;
        let mut dx = vec![0f32; n * self.cols];
        if n == 0 {
            return dx;
        }
        self.for_chunks(|first, chunk| {
            let chunk_rows = chunk.len() / self.cols;
            let dy = MatRef::new(&dy[first..], n, chunk_rows, rows);
            let weights = MatRef::new(chunk, chunk_rows, self.cols, self.cols);
            let dst = MatMut::new(&mut dx, n, self.cols, self.cols);
            matmul(dst, dy, weights, 1.0, first > 0, Threads::All);
        });
        dx
    }

    fn forward_few(&self, packed: &Packed, x: &[f32], y: &mut [f32]) {
        let rows = packed.rows();
        let sums: Vec<Vec<f32>> = x
            .chunks_exact(self.cols)
            .map(|x| packed.group_sums(x))
            .collect();
        // Transposed, so that each task owns a contiguous part; at most eight rows are copied back.
        let n = sums.len();
        let mut by_row = vec![0f32; rows * n];
        by_row
            .par_chunks_mut(128 * n)
            .enumerate()
            .for_each(|(chunk, out)| {
                for (i, out) in out.chunks_exact_mut(n).enumerate() {
                    for ((out, x), sums) in out.iter_mut().zip(x.chunks_exact(self.cols)).zip(&sums)
                    {
                        *out = packed.dot(chunk * 128 + i, x, sums);
                    }
                }
            });
        for (row, values) in by_row.chunks_exact(n).enumerate() {
            for (i, &value) in values.iter().enumerate() {
                y[i * rows + row] = value;
            }
        }
    }

    /// Calls `f(first_row, values)` for consecutive row ranges as f32.
    fn for_chunks(&self, mut f: impl FnMut(usize, &[f32])) {
        if let Values::F32(values) = &self.values {
            return f(0, values);
        }
        let mut buffer = vec![0f32; CHUNK_ROWS.min(self.rows()) * self.cols];
        for first in (0..self.rows()).step_by(CHUNK_ROWS) {
            let rows = CHUNK_ROWS.min(self.rows() - first);
            let chunk = &mut buffer[..rows * self.cols];
            chunk
                .par_chunks_exact_mut(self.cols)
                .enumerate()
                .for_each(|(i, out)| self.row_to_f32(first + i, out));
            f(first, chunk);
        }
    }
}
