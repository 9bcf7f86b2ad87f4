//! One matrix product on the calling thread: by AMX or oneDNN in builds that have it, else by the `gemm` crate.

use std::cell::RefCell;

#[cfg(feature = "onednn")]
use half::bf16;

#[cfg(all(feature = "onednn", target_arch = "x86_64"))]
use crate::amx;
use crate::buffer::Pooled;
use crate::expand::Element;
#[cfg(feature = "onednn")]
use crate::onednn;

/// A type that panels are multiplied in.
pub(crate) trait Panel: Element + Pooled {
    /// Calls `f` with a buffer of the thread's own, so that panels do not allocate.
    fn with_buffer<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R;

    /// `c = a b` or `c += a b` on the calling thread.
    ///
    /// # Safety
    /// `a` and `b` are as large as the shape and the strides say; `c` too, for this thread alone, and with `accumulate`
    /// it holds numbers.
    unsafe fn matmul(
        shape: (usize, usize, usize),
        a: Operand<Self>,
        b: Operand<Self>,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    );
}

/// One side of a product: rows `stride` elements apart, or columns if it is transposed.
#[derive(Clone, Copy)]
pub(crate) struct Operand<T> {
    pub(crate) start: *const T,
    pub(crate) stride: usize,
    pub(crate) transposed: bool,
}

impl<T> Operand<T> {
    pub(crate) fn new(values: &[T], stride: usize) -> Self {
        Self {
            start: values.as_ptr(),
            stride,
            transposed: false,
        }
    }

    pub(crate) fn t(self) -> Self {
        Self {
            transposed: !self.transposed,
            ..self
        }
    }
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
        shape: (usize, usize, usize),
        a: Operand<f32>,
        b: Operand<f32>,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    ) {
        // SAFETY: the caller vouches for the operands.
        #[cfg(feature = "onednn")]
        unsafe {
            onednn::matmul(false, shape, a, b, c, ldc, accumulate)
        }
        #[cfg(not(feature = "onednn"))]
        {
            // Strides from column to column and from row to row.
            let strides = |x: Operand<f32>| match x.transposed {
                true => (x.stride as isize, 1),
                false => (1, x.stride as isize),
            };
            let ((a_col, a_row), (b_col, b_row)) = (strides(a), strides(b));
            let (m, n, k) = shape;
            // SAFETY: the caller vouches for the operands.
            unsafe {
                gemm::gemm(
                    m,
                    n,
                    k,
                    c,
                    1,
                    ldc as isize,
                    accumulate,
                    a.start,
                    a_col,
                    a_row,
                    b.start,
                    b_col,
                    b_row,
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
        a: Operand<bf16>,
        b: Operand<bf16>,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    ) {
        // SAFETY: the caller vouches for the operands.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            if amx::matmul(shape, a, b, c, ldc, accumulate) {
                return;
            }
            onednn::matmul(true, shape, a, b, c, ldc, accumulate)
        }
    }
}
