//! Bounds-checked f32 matrix products over slices: the one door to the `gemm` crate.

use gemm::Parallelism;

/// A read-only matrix inside a slice.
#[derive(Clone, Copy)]
pub(crate) struct MatRef<'a> {
    data: &'a [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

impl<'a> MatRef<'a> {
    /// Row-major `[rows, cols]` whose rows start `row_stride` elements apart.
    ///
    /// # Panics
    /// When the last element lies outside `data`.
    pub(crate) fn new(data: &'a [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(rows == 0 || cols == 0 || (rows - 1) * row_stride + cols <= data.len());
        Self {
            data,
            rows,
            cols,
            row_stride,
            col_stride: 1,
        }
    }

    /// The transposed view.
    pub(crate) fn t(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

/// Where a product goes: row-major, rows `row_stride` elements apart.
pub(crate) struct MatMut<'a> {
    data: &'a mut [f32],
    rows: usize,
    cols: usize,
    row_stride: usize,
}

impl<'a> MatMut<'a> {
    /// Row-major `[rows, cols]` whose rows start `row_stride` elements apart.
    ///
    /// # Panics
    /// When the last element lies outside `data`, or rows overlap.
    pub(crate) fn new(data: &'a mut [f32], rows: usize, cols: usize, row_stride: usize) -> Self {
        assert!(rows == 0 || cols == 0 || (rows - 1) * row_stride + cols <= data.len());
        assert!(row_stride >= cols);
        Self {
            data,
            rows,
            cols,
            row_stride,
        }
    }
}

/// `dst = scale * a b`, or `dst += scale * a b` with `accumulate`, on the calling thread.
///
/// # Panics
/// When the shapes do not fit.
pub(crate) fn matmul(dst: MatMut<'_>, a: MatRef<'_>, b: MatRef<'_>, scale: f32, accumulate: bool) {
    assert!(a.cols == b.rows && dst.rows == a.rows && dst.cols == b.cols);
    if dst.rows == 0 || dst.cols == 0 {
        return;
    }
    // SAFETY: the constructors checked that every element addressed by rows, columns and strides
    // lies inside the slices and that no two of `dst` are the same; `dst` is borrowed mutably, so it
    // aliases neither operand.
    unsafe {
        gemm::gemm(
            dst.rows,
            dst.cols,
            a.cols,
            dst.data.as_mut_ptr(),
            1,
            dst.row_stride as isize,
            accumulate,
            a.data.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.data.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            Parallelism::None,
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
        matmul(MatMut::new(&mut out, 2, 2, 2), ma, mb, 1.0, false);
        assert_eq!(out, [19.0, 22.0, 43.0, 50.0]);
        matmul(MatMut::new(&mut out, 2, 2, 2), ma.t(), mb, 2.0, true);
        assert_eq!(out, [19.0 + 52.0, 22.0 + 60.0, 43.0 + 76.0, 50.0 + 88.0]);
    }
}
