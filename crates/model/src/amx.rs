//! Products of bf16 matrices by AMX, on the calling thread: tiles of 16 rows of 64 bytes, sums in f32.
//!
//! The left side is read as it lies. The right side is put into tiles first, in which pairs of rows alternate:
//! `[n / 16, k / depth, depth / 2, 16, 2]`. Sums run over `k` in order whatever the number of rows is, so that a row's
//! result has the same bits beside any other rows.

mod block;
mod pack;

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::cell::RefCell;
use std::sync::LazyLock;

use half::bf16;
use rayon::prelude::*;

use self::block::{Block, Right};
use self::pack::{pack, pack_transposed};
use crate::host::SharedOut;
use crate::int8::{Line, Panels};
use crate::lanes::{Pair, Product};
use crate::panels::panels;
use crate::product::Operand;

/// Rows and columns of a tile of sums.
pub(crate) const SIDE: usize = 16;

/// Values of a row that a tile holds.
const DEPTH: usize = 32;

/// Sixteen pairs of values.
type Pairs = Line<[bf16; 32]>;

/// Whether this CPU has the instructions and the system lets this process use them.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        /// EDX of CPUID's leaf 7: AMX-BF16 and AMX-TILE.
        const BITS: u32 = 1 << 22 | 1 << 24;
        __cpuid(0).eax >= 7
            && __cpuid_count(7, 0).edx & BITS == BITS
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
            && is_permitted()
    });
    *AVAILABLE
}

/// Asks the system for the tile registers, which a process has only then.
#[cfg(target_os = "linux")]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call takes two numbers and changes nothing but what this process may do.
    unsafe {
        libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_REQ_XCOMP_PERM,
            XFEATURE_XTILEDATA,
        ) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// How many values of a row a tile holds, if AMX is available and matrices of this shape consist of whole tiles.
fn depth((m, n, k): (usize, usize, usize)) -> Option<usize> {
    let whole = m.is_multiple_of(SIDE) && n.is_multiple_of(SIDE) && m * n * k > 0;
    let depths = [DEPTH, DEPTH / 2];
    let depth = depths.into_iter().find(|&depth| k.is_multiple_of(depth));
    depth.filter(|_| whole && is_available())
}

/// `c = a b` or `c += a b` if `a` lies row by row and the shape consists of whole tiles; tells whether it was done.
///
/// # Safety
/// As for [`crate::product::Panel::matmul`].
pub(crate) unsafe fn matmul(
    shape: (usize, usize, usize),
    a: Operand<bf16>,
    b: Operand<bf16>,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) -> bool {
    let Some(depth) = depth(shape).filter(|_| !a.transposed) else {
        return false;
    };
    let (_, n, k) = shape;
    with_tiles(n * k, |tiles| {
        // SAFETY: the caller vouches for the operands.
        unsafe {
            match b.transposed {
                true => pack_transposed(b, (n, k), depth, tiles),
                false => pack(b, (n, k), tiles),
            }
            multiply(shape, depth, a, packed(tiles, k, depth), c, ldc, accumulate);
        }
    });
    true
}

/// `x W^T` into `out` or added to it for weights in the order of products in integers, if `x` (`[m, cols]`) and `out`
/// (`[m, rows]`) consist of whole tiles; tells whether it was done.
pub(crate) fn product(w: &Panels, x: &[bf16], out: &SharedOut<'_>, accumulate: bool) -> bool {
    let (rows, cols) = (w.rows(), w.cols());
    let m = x.len() / cols;
    let Some(depth) = depth((m, rows, cols)) else {
        return false;
    };
    out.at(m * rows - 1);
    panels(rows).for_each(|panel| {
        with_tiles(panel.len() * cols, |tiles| {
            w.write_tiles(panel.clone(), tiles);
            let (shape, b) = ((m, panel.len(), cols), packed(tiles, cols, depth));
            let (a, c) = (Operand::new(x, cols), out.at(panel.start));
            // SAFETY: the operands are as large as given, `out` was seen to be; no other task writes these columns, which
            // are set with `accumulate`.
            unsafe { multiply(shape, depth, a, b, c, rows, accumulate) };
        });
    });
    true
}

/// [`Product::run`] if its shape consists of whole tiles, in whose order its right side is; tells whether it was done.
pub(crate) fn pairs(product: &Product<'_, Pair>, a: &[Pair], c: &mut [f32]) -> bool {
    let &Product {
        depth: pairs,
        b,
        width,
        accumulate,
    } = product;
    let shape = (a.len() / pairs, width, 2 * pairs);
    let Some(depth) = depth(shape) else {
        return false;
    };
    let a = Operand {
        start: a.as_ptr().cast(),
        stride: 2 * pairs,
        transposed: false,
    };
    let b = Right {
        start: b.as_ptr().cast(),
        line: 4 * width,
        column: 64,
        step: 2 * depth * width,
    };
    // SAFETY: `Product::run` saw that the operands are as large as the shape says.
    unsafe { multiply(shape, depth, a, b, c.as_mut_ptr(), width, accumulate) };
    true
}

/// Calls `f` with room of the thread's own for `len` values.
fn with_tiles<R>(len: usize, f: impl FnOnce(&mut [Pairs]) -> R) -> R {
    thread_local!(static TILES: RefCell<Vec<Pairs>> = const { RefCell::new(Vec::new()) });
    let lines = len / 32;
    TILES.with_borrow_mut(|tiles| {
        if tiles.len() < lines {
            tiles.resize(lines, Line([bf16::ZERO; 32]));
        }
        f(&mut tiles[..lines])
    })
}

/// Tiles that stand one after another.
fn packed(tiles: &[Pairs], k: usize, depth: usize) -> Right {
    Right {
        start: tiles.as_ptr().cast(),
        line: 64,
        column: 32 * k,
        step: 32 * depth,
    }
}

/// What the tile registers hold: sums in 0 to 3, rows of the left side in 4 and 5, of the right one in 6 and 7. Their
/// rows and the bytes of a row, as `ldtilecfg` reads them.
#[repr(align(64))]
struct Setting([u8; 64]);

impl Setting {
    const fn new(depth: usize) -> Self {
        let mut setting = [0; 64];
        setting[0] = 1;
        let mut tile = 0;
        while tile < 8 {
            let (rows, bytes) = match tile {
                0..4 => (SIDE, 64),
                4..6 => (SIDE, 2 * depth),
                _ => (depth / 2, 64),
            };
            setting[16 + 2 * tile] = bytes as u8;
            setting[48 + tile] = rows as u8;
            tile += 1;
        }
        Self(setting)
    }
}

static WHOLE: Setting = Setting::new(DEPTH);
static HALF: Setting = Setting::new(DEPTH / 2);

/// `c = a b` or `c += a b`: `a` is `[m, k]`, `b` in tiles.
///
/// # Safety
/// As for [`matmul`]; the shape consists of whole tiles of this depth, all of which `b` has.
unsafe fn multiply(
    (m, n, k): (usize, usize, usize),
    depth: usize,
    a: Operand<bf16>,
    b: Right,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    let setting = if depth == DEPTH { &WHOLE } else { &HALF };
    // SAFETY: the setting is one that the CPU takes. Nothing but the instructions between here and `tilerelease` uses the
    // registers, so that they keep their values from one to the next.
    unsafe {
        asm!(
            "ldtilecfg [{}]", in(reg) setting.0.as_ptr(),
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(readonly, nostack, preserves_flags)
        );
    }
    for row in (0..m).step_by(2 * SIDE) {
        for column in (0..n).step_by(2 * SIDE) {
            let block = Block {
                a: a.start.wrapping_add(row * a.stride),
                stride: a.stride,
                b: Right {
                    start: b.start.wrapping_add(column / SIDE * b.column),
                    ..b
                },
                steps: k / depth,
                depth,
                c: c.wrapping_add(row * ldc + column),
                ldc,
                accumulate,
            };
            // SAFETY: the caller vouches for `a` and `c`, of which these rows and columns are a part.
            unsafe {
                match (m - row > SIDE, n - column > SIDE) {
                    (true, true) => block.four(),
                    (false, true) => block.two(),
                    (true, false) => {
                        block.one(0);
                        block.one(1);
                    }
                    (false, false) => block.one(0),
                }
            }
        }
    }
    // SAFETY: nothing is left in the registers that anyone wants.
    unsafe {
        asm!(
            "tilerelease",
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nomem, nostack, preserves_flags)
        );
    }
}

#[cfg(test)]
mod tests;
