//! Single-threaded matrix products by oneDNN: f32 or bf16 operands (AMX or AVX-512 where the CPU has them), f32 sums.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

use crate::product::Operand;

unsafe extern "C" {
    fn mem_onednn_matmul(
        bf16: c_int,
        m: c_long,
        n: c_long,
        k: c_long,
        a: *const c_void,
        lda: c_long,
        a_transposed: c_int,
        b: *const c_void,
        ldb: c_long,
        b_transposed: c_int,
        c: *mut f32,
        ldc: c_long,
        accumulate: c_int,
        problem: *mut c_char,
        room: c_long,
    ) -> c_int;
}

/// `c = a b` or `c += a b` on the calling thread; `T` is f32 or, with `is_bf16`, bf16.
///
/// # Safety
/// As for [`crate::product::Panel::matmul`].
///
/// # Panics
/// When memory runs out, or oneDNN refuses the product, which it does for no shape of these types.
pub(crate) unsafe fn matmul<T>(
    is_bf16: bool,
    (m, n, k): (usize, usize, usize),
    a: Operand<T>,
    b: Operand<T>,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    let mut problem: [c_char; 256] = [0; 256];
    // SAFETY: the caller vouches for the operands; the text's room is given.
    let failed = unsafe {
        mem_onednn_matmul(
            c_int::from(is_bf16),
            m as c_long,
            n as c_long,
            k as c_long,
            a.start.cast(),
            a.stride as c_long,
            c_int::from(a.transposed),
            b.start.cast(),
            b.stride as c_long,
            c_int::from(b.transposed),
            c,
            ldc as c_long,
            c_int::from(accumulate),
            problem.as_mut_ptr(),
            problem.len() as c_long,
        )
    };
    // SAFETY: the array began as zeroes and a terminated text was written, if anything.
    let problem = unsafe { CStr::from_ptr(problem.as_ptr()) };
    assert!(
        failed != 2,
        "memory ran out in a product [{m}, {k}] x [{k}, {n}]: decode fewer windows together (`--rows`), make them \
         smaller (`--window`), or lower `train.max_tokens`"
    );
    assert!(
        failed == 0,
        "oneDNN: product [{m}, {k}] x [{k}, {n}]: {problem:?}"
    );
}
