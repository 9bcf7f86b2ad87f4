//! Products of bf16 matrices by AMX, on the calling thread: tiles of 16 rows of 64 bytes, sums in f32.
//!
//! The left side is read as it lies. The right side is put into tiles first, in which pairs of rows alternate:
//! `[n / 16, k / depth, depth / 2, 16, 2]`. Sums run over `k` in order whatever the number of rows is, so that a row's
//! result has the same bits beside any other rows.

use std::arch::asm;
use std::arch::x86_64::*;
use std::cell::RefCell;
use std::sync::LazyLock;

use half::bf16;
use rayon::prelude::*;

use crate::host::SharedOut;
use crate::int8::Panels;
use crate::panels::panels;
use crate::product::Operand;

/// Rows and columns of a tile of sums.
pub(crate) const SIDE: usize = 16;

/// Values of a row that a tile holds.
const DEPTH: usize = 32;

/// Sixteen pairs of values.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line([bf16; 32]);

/// Whether this CPU has the instructions and the system lets this process use them.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: LazyLock<bool> = LazyLock::new(|| {
        /// EDX of CPUID's leaf 7: AMX-BF16 and AMX-TILE.
        const BITS: u32 = 1 << 22 | 1 << 24;
        __cpuid(0).eax >= 7
            && __cpuid_count(7, 0).edx & BITS == BITS
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
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
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn is_permitted() -> bool {
    false
}

/// How many values of a row a tile holds, if [`matmul`] can multiply matrices of this shape.
fn depth((m, n, k): (usize, usize, usize)) -> Option<usize> {
    let whole = m.is_multiple_of(SIDE) && n.is_multiple_of(SIDE) && m * n > 0;
    let depth = if k.is_multiple_of(DEPTH) { DEPTH } else { DEPTH / 2 };
    (whole && k > 0 && k.is_multiple_of(depth)).then_some(depth)
}

/// `c = a b` or `c += a b` if `a` lies row by row and the shape consists of whole tiles; tells whether it was done.
///
/// # Safety
/// As for [`crate::product::Panel::matmul`]; the CPU has the instructions.
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
            multiply(shape, depth, a, tiles, c, ldc, accumulate);
        }
    });
    true
}

/// `x W^T` into `out` or added to it for weights in the order of products in integers: `x` is `[m, cols]`, `out`
/// `[m, rows]`, `m` and `rows` multiples of [`SIDE`].
pub(crate) fn product(w: &Panels, x: &[bf16], out: &SharedOut<'_>, accumulate: bool) {
    let (rows, cols) = (w.rows(), w.cols());
    let m = x.len() / cols;
    out.at(m * rows - 1);
    panels(rows).for_each(|panel| {
        let shape = (m, panel.len(), cols);
        let Some(depth) = depth(shape) else {
            panic!("no whole tiles: [{m}, {cols}] x [{rows}, {cols}]");
        };
        with_tiles(panel.len() * cols, |tiles| {
            w.write_tiles(panel.clone(), tiles);
            let (a, c) = (Operand::new(x, cols), out.at(panel.start));
            // SAFETY: the operands are as large as given, `out` was seen to be; no other task writes these columns, which
            // are set with `accumulate`.
            unsafe { multiply(shape, depth, a, tiles, c, rows, accumulate) };
        });
    });
}

/// Calls `f` with room of the thread's own for `len` values.
fn with_tiles<R>(len: usize, f: impl FnOnce(&mut [Line]) -> R) -> R {
    thread_local!(static TILES: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) });
    let lines = len / 32;
    TILES.with_borrow_mut(|tiles| {
        if tiles.len() < lines {
            tiles.resize(lines, Line([bf16::ZERO; 32]));
        }
        f(&mut tiles[..lines])
    })
}

/// Tiles of `b` (`[k, n]`).
///
/// # Safety
/// The CPU has the instructions; `b` is as large as given, `tiles` has as much room.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack(b: Operand<bf16>, (n, k): (usize, usize), tiles: &mut [Line]) {
    assert!(tiles.len() * 32 == n * k);
    for pair in 0..k / 2 {
        for column in 0..n / SIDE {
            // SAFETY: rows and columns lie within `b`; the line's number is below the product of all.
            unsafe {
                let row = b.start.add(2 * pair * b.stride + column * SIDE);
                let even = _mm512_cvtepu16_epi32(_mm256_loadu_si256(row.cast()));
                let odd = _mm512_cvtepu16_epi32(_mm256_loadu_si256(row.add(b.stride).cast()));
                let both = _mm512_or_si512(even, _mm512_slli_epi32::<16>(odd));
                let line = tiles.as_mut_ptr().add(column * (k / 2) + pair);
                _mm512_store_si512(line.cast(), both);
            }
        }
    }
}

/// Tiles of `b^T` where `b` is `[n, k]`.
///
/// # Safety
/// As for [`pack`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn pack_transposed(
    b: Operand<bf16>,
    (n, k): (usize, usize),
    depth: usize,
    tiles: &mut [Line],
) {
    assert!(tiles.len() * 32 == n * k);
    let mask = if depth == DEPTH { u16::MAX } else { 0xff };
    for column in 0..n / SIDE {
        for step in 0..k / depth {
            // SAFETY: rows and columns lie within `b`, what lies beyond them is not loaded.
            let rows: [__m512i; SIDE] = std::array::from_fn(|i| unsafe {
                let row = b.start.add((column * SIDE + i) * b.stride + step * depth);
                _mm512_maskz_loadu_epi32(mask, row.cast())
            });
            let pairs = transposed(rows);
            let lines = &mut tiles[column * (k / 2) + step * (depth / 2)..][..depth / 2];
            for (line, pairs) in lines.iter_mut().zip(pairs) {
                // SAFETY: a line is as large as a register, and aligned.
                unsafe { _mm512_store_si512((&raw mut *line).cast(), pairs) };
            }
        }
    }
}

/// Value `j` of row `i` as value `i` of row `j`.
#[target_feature(enable = "avx512f")]
fn transposed(r: [__m512i; SIDE]) -> [__m512i; SIDE] {
    // Pairs of rows, then of pairs, then of quarters of registers.
    let a: [__m512i; SIDE] = std::array::from_fn(|i| match i % 2 {
        0 => _mm512_unpacklo_epi32(r[i], r[i + 1]),
        _ => _mm512_unpackhi_epi32(r[i - 1], r[i]),
    });
    let b: [__m512i; SIDE] = std::array::from_fn(|i| {
        let (first, half) = (i / 4 * 4 + i % 4 / 2, i % 2);
        match half {
            0 => _mm512_unpacklo_epi64(a[first], a[first + 2]),
            _ => _mm512_unpackhi_epi64(a[first], a[first + 2]),
        }
    });
    // Now `b[4 q + j]` holds columns `j`, `4 + j`, `8 + j` and `12 + j` of rows `4 q..4 q + 4`.
    let c: [__m512i; SIDE] = std::array::from_fn(|i| {
        let (j, part) = (i % 4, i / 4);
        let (first, second) = (b[part % 2 * 8 + j], b[part % 2 * 8 + 4 + j]);
        match part / 2 {
            0 => _mm512_shuffle_i32x4::<0x88>(first, second),
            _ => _mm512_shuffle_i32x4::<0xdd>(first, second),
        }
    });
    // `c[j]` and `c[4 + j]` hold columns `j` and `8 + j` of the upper and lower rows, `c[8 + j]` and `c[12 + j]` the others.
    std::array::from_fn(|i| {
        let j = i % 4 + i / 4 % 2 * 8;
        match i / 8 {
            0 => _mm512_shuffle_i32x4::<0x88>(c[j], c[j + 4]),
            _ => _mm512_shuffle_i32x4::<0xdd>(c[j], c[j + 4]),
        }
    })
}

/// What the tile registers hold: sums in 0 to 3, rows of the left side in 4 and 5, of the right one in 6 and 7.
#[repr(align(64))]
struct Setting([u8; 64]);

impl Setting {
    fn new(depth: usize) -> Self {
        let mut setting = [0; 64];
        setting[0] = 1;
        for tile in 0..8 {
            let (rows, bytes) = match tile {
                0..4 => (SIDE, 64),
                4..6 => (SIDE, 2 * depth),
                _ => (depth / 2, 64),
            };
            setting[16 + 2 * tile] = bytes as u8;
            setting[48 + tile] = rows as u8;
        }
        Self(setting)
    }
}

/// `c = a b` or `c += a b`: `a` is `[m, k]`, `b` in tiles.
///
/// # Safety
/// As for [`matmul`]; the shape consists of whole tiles of this depth.
unsafe fn multiply(
    (m, n, k): (usize, usize, usize),
    depth: usize,
    a: Operand<bf16>,
    b: &[Line],
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
) {
    assert!(b.len() * 32 == n * k);
    let setting = Setting::new(depth);
    // SAFETY: the setting is one that the CPU takes, and whoever uses the registers sets them.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const setting, options(readonly, nostack)) };
    for row in (0..m).step_by(2 * SIDE) {
        for column in (0..n).step_by(2 * SIDE) {
            let block = Block {
                a: a.start.wrapping_add(row * a.stride),
                stride: a.stride,
                b: b[column / SIDE * (k / 2)..].as_ptr(),
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
                    (below, beside) => {
                        block.one(0, 0);
                        if below {
                            block.one(1, 0);
                        }
                        if beside {
                            block.one(0, 1);
                        }
                    }
                }
            }
        }
    }
    // SAFETY: nothing is left in the registers that anyone wants.
    unsafe { asm!("tilerelease", options(nomem, nostack)) };
}

/// Two by two tiles of sums, of which some may be missing.
struct Block {
    a: *const bf16,
    stride: usize,
    b: *const Line,
    steps: usize,
    depth: usize,
    c: *mut f32,
    ldc: usize,
    accumulate: bool,
}

impl Block {
    /// All four tiles: half of what is loaded serves twice.
    ///
    /// # Safety
    /// The registers are set for the depth; all tiles exist.
    #[inline(always)]
    unsafe fn four(&self) {
        let (below, row) = (self.ldc * SIDE, 4 * self.ldc);
        // SAFETY: the loops read the tiles of `a` and `b` of all steps and write those of `c`.
        unsafe {
            match self.accumulate {
                true => asm!(
                    "tileloadd tmm0, [{c} + {row}*1]",
                    "tileloadd tmm1, [{c} + {row}*1 + 64]",
                    "tileloadd tmm2, [{d} + {row}*1]",
                    "tileloadd tmm3, [{d} + {row}*1 + 64]",
                    c = in(reg) self.c, d = in(reg) self.c.wrapping_add(below), row = in(reg) row,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(readonly, nostack, preserves_flags)
                ),
                false => asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(nomem, nostack, preserves_flags)
                ),
            }
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {stride}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{e} + {line}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{d} + {stride}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, {width}",
                "add {d}, {width}",
                "add {b}, {tile}",
                "add {e}, {tile}",
                "dec {steps}",
                "jnz 2b",
                a = inout(reg) self.a => _,
                d = inout(reg) self.a.wrapping_add(SIDE * self.stride) => _,
                b = inout(reg) self.b => _,
                e = inout(reg) self.b.wrapping_add(self.steps * (self.depth / 2)) => _,
                stride = in(reg) 2 * self.stride,
                line = in(reg) 64usize,
                width = in(reg) 2 * self.depth,
                tile = in(reg) 32 * self.depth,
                steps = inout(reg) self.steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(readonly, nostack)
            );
            asm!(
                "tilestored [{c} + {row}*1], tmm0",
                "tilestored [{c} + {row}*1 + 64], tmm1",
                "tilestored [{d} + {row}*1], tmm2",
                "tilestored [{d} + {row}*1 + 64], tmm3",
                c = in(reg) self.c, d = in(reg) self.c.wrapping_add(below), row = in(reg) row,
                options(nostack, preserves_flags)
            );
        }
    }

    /// The tile in this row and column of tiles.
    ///
    /// # Safety
    /// The registers are set for the depth; the tile exists.
    #[inline(always)]
    unsafe fn one(&self, row: usize, column: usize) {
        let c = self.c.wrapping_add(SIDE * (row * self.ldc + column));
        let b = column * self.steps * (self.depth / 2);
        // SAFETY: as in `four`.
        unsafe {
            match self.accumulate {
                true => asm!(
                    "tileloadd tmm0, [{c} + {row}*1]",
                    c = in(reg) c, row = in(reg) 4 * self.ldc,
                    out("tmm0") _,
                    options(readonly, nostack, preserves_flags)
                ),
                false => asm!(
                    "tilezero tmm0",
                    out("tmm0") _,
                    options(nomem, nostack, preserves_flags)
                ),
            }
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {stride}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "add {a}, {width}",
                "add {b}, {tile}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}*1], tmm0",
                a = inout(reg) self.a.wrapping_add(row * SIDE * self.stride) => _,
                b = inout(reg) self.b.wrapping_add(b) => _,
                c = in(reg) c,
                stride = in(reg) 2 * self.stride,
                line = in(reg) 64usize,
                width = in(reg) 2 * self.depth,
                tile = in(reg) 32 * self.depth,
                row = in(reg) 4 * self.ldc,
                steps = inout(reg) self.steps => _,
                out("tmm0") _, out("tmm4") _, out("tmm6") _,
                options(nostack)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng};

    use super::*;

    fn values(n: usize, seed: u64) -> Vec<bf16> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
        let value = |_| bf16::from_f32(rng.random_range(-1.0..1.0));
        (0..n).map(value).collect()
    }

    #[test]
    fn products_are_those_of_the_definition() {
        if !is_available() {
            eprintln!("no AMX here: nothing was compared");
            return;
        }
        for shape in [(16, 16, 16), (32, 32, 32), (48, 80, 96), (16, 48, 48), (80, 16, 2048)] {
            let (m, n, k) = shape;
            // Rows lie further apart than they are long.
            let (a, b) = (values(m * (k + 8), 1), values((n + k + 8) * (n + k + 8), 2));
            let a = Operand::new(&a, k + 8);
            let b = Operand::new(&b, n + k + 8);
            for (b, accumulate) in [(b, false), (b, true), (b.t(), false), (b.t(), true)] {
                let mut c = vec![0.5f32; m * (n + 3)];
                // SAFETY: all operands are larger than the shape says; the instructions were detected.
                assert!(unsafe { matmul(shape, a, b, c.as_mut_ptr(), n + 3, accumulate) });
                for (at, &found) in c.iter().enumerate() {
                    let (i, j) = (at / (n + 3), at % (n + 3));
                    let entry = |x: Operand<bf16>, row: usize, column: usize| {
                        let at = match x.transposed {
                            true => column * x.stride + row,
                            false => row * x.stride + column,
                        };
                        // SAFETY: the operands are larger than the shape.
                        f64::from(unsafe { *x.start.add(at) })
                    };
                    let sum: f64 = (0..k).map(|l| entry(a, i, l) * entry(b, l, j.min(n - 1))).sum();
                    let expected = match (j < n, accumulate) {
                        (true, true) => sum + 0.5,
                        (true, false) => sum,
                        (false, _) => 0.5,
                    };
                    let gap = (f64::from(found) - expected).abs();
                    assert!(gap < 1e-5 * k as f64, "{shape:?} [{i}, {j}]: {found}, not {expected}");
                }
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_beside_any_others() {
        if !is_available() {
            eprintln!("no AMX here: nothing was compared");
            return;
        }
        let (n, k) = (48, 224);
        let (a, b) = (values(64 * k, 3), values(n * k, 4));
        let product = |m: usize| {
            let mut c = vec![0f32; m * n];
            let (a, b) = (Operand::new(&a, k), Operand::new(&b, k).t());
            // SAFETY: as above.
            assert!(unsafe { matmul((m, n, k), a, b, c.as_mut_ptr(), n, false) });
            c
        };
        let all = product(64);
        for m in [16, 32, 48] {
            assert_eq!(product(m), all[..m * n]);
        }
    }

    #[test]
    fn other_shapes_are_left_to_others() {
        assert_eq!(depth((16, 16, 32)), Some(32));
        assert_eq!(depth((16, 16, 48)), Some(16));
        for shape in [(8, 16, 32), (16, 8, 32), (16, 16, 8), (0, 16, 16), (16, 16, 0)] {
            assert_eq!(depth(shape), None);
        }
    }
}
