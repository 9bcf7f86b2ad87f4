//! Bounds-checked f32 matrix products over slices, on the calling thread.

use crate::product::{Operand, Panel};

/// A read-only matrix inside a slice.
#[derive(Clone, Copy)]
pub(crate) struct MatRef<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    stride: usize,
    transposed: bool,
}

impl<'a> MatRef<'a> {
    /// Row-major `[rows, cols]` whose rows start `stride` elements apart.
    ///
    /// # Panics
    /// When the last element lies outside `data`.
    pub(crate) fn new(data: &'a [f32], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(rows == 0 || cols == 0 || (rows - 1) * stride + cols <= data.len());
        Self {
            data,
            rows,
            cols,
            stride,
            transposed: false,
        }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            transposed: !self.transposed,
            ..self
        }
    }

    fn operand(&self) -> Operand<f32> {
        let plain = Operand::new(self.data, self.stride);
        if self.transposed { plain.t() } else { plain }
    }
}

/// `dst = a b` or, with `accumulate`, `dst += a b`; rows of `dst` start `stride` elements apart.
///
/// # Panics
/// When the shapes do not fit.
pub(crate) fn matmul(
    dst: &mut [f32],
    stride: usize,
    a: MatRef<'_>,
    b: MatRef<'_>,
    accumulate: bool,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert!(k == b.rows && stride >= n);
    if m == 0 || n == 0 {
        return;
    }
    assert!((m - 1) * stride + n <= dst.len());
    // SAFETY: the constructors and the assert checked that every element lies inside its slice; `dst` is borrowed
    // mutably, so it is neither operand.
    unsafe {
        f32::matmul(
            (m, n, k),
            a.operand(),
            b.operand(),
            dst.as_mut_ptr(),
            stride,
            accumulate,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_and_transposed_products() {
        // a = [[1, 2], [3, 4]] inside rows of three; b = [[5, 6], [7, 8]].
        let a = [1.0, 2.0, 9.0, 3.0, 4.0, 9.0];
        let b = [5.0, 6.0, 7.0, 8.0];
        let mut out = [1.0; 4];
        let (ma, mb) = (MatRef::new(&a, 2, 2, 3), MatRef::new(&b, 2, 2, 2));
        matmul(&mut out, 2, ma, mb, false);
        assert_eq!(out, [19.0, 22.0, 43.0, 50.0]);
        matmul(&mut out, 2, ma.t(), mb, true);
        assert_eq!(out, [19.0 + 26.0, 22.0 + 30.0, 43.0 + 38.0, 50.0 + 44.0]);
        matmul(&mut out, 2, ma, mb.t(), false);
        assert_eq!(out, [17.0, 23.0, 39.0, 53.0]);
    }
}
