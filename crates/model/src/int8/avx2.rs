//! The products of [`super`] by AVX2, for CPUs without VNNI. It adds products of neighbours in 16 bits; few enough of
//! them, for the size of the weights, that no sum overflows.

use std::arch::x86_64::*;

use super::{Group, Job, Panels, Tile};

/// Rows of a register tile of two vectors of outputs: eight registers of sums in 16 bits, and what they are made of.
const ROWS: usize = 4;

/// Whether this CPU has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// # Safety
/// The CPU has the instructions; `x` holds `N` values a group.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn round<const N: usize>(groups: &mut [Group<N>], x: &[f32]) {
    for (group, x) in groups.iter_mut().zip(x.as_chunks::<N>().0) {
        // Lanes side by side, which the compiler puts into vectors.
        let mut lanes = [0f32; 16];
        let mut numbers = true;
        for x in x.chunks_exact(16) {
            for (largest, x) in lanes.iter_mut().zip(x) {
                *largest = largest.max(x.abs());
                numbers &= !x.is_nan();
            }
        }
        let largest = lanes.into_iter().fold(0.0, f32::max);
        // Groups too small to divide by are zero; one that is no number stays none.
        let inverse = match largest > 1e-30 {
            true => 127.0 / largest,
            false => 0.0,
        };
        let mut sum = 0;
        for (q, x) in group.q.iter_mut().zip(x) {
            *q = (x * inverse).round_ties_even() as i8;
            sum += i32::from(*q);
        }
        group.scale = match numbers && largest.is_finite() {
            true => largest / 127.0,
            false => f32::NAN,
        };
        group.start = i32::from((-sum) as u16);
        group.total = group.scale * sum as f32;
    }
}

/// # Safety
/// As for [`super::vnni::multiply`].
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn multiply<const N: usize, const OFFSET: bool>(
    matrix: &Panels,
    job: &Job<'_, N>,
) {
    // A step adds two products of at most 127 times the largest weight to a sum below 2^15.
    // SAFETY: as for this function.
    unsafe {
        match matrix.largest {
            0..=16 => rows::<N, OFFSET, 8>(matrix, job),
            17..=32 => rows::<N, OFFSET, 4>(matrix, job),
            33..=64 => rows::<N, OFFSET, 2>(matrix, job),
            65.. => rows::<N, OFFSET, HALVES>(matrix, job),
        }
    }
}

/// In place of a number of steps: the upper and the lower four bits of the weights are multiplied apart.
const HALVES: usize = 0;

/// # Safety
/// As for [`multiply`]; sums of `STEPS` products fit into 16 bits.
#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const N: usize, const OFFSET: bool, const STEPS: usize>(
    matrix: &Panels,
    job: &Job<'_, N>,
) {
    let m = job.rows();
    let shift = matrix.shift;
    for tile in job.tiles() {
        let tile = matrix.tile(job, 0, tile);
        // SAFETY: as for this function; the rows and lines exist.
        unsafe {
            if m == 1 {
                run::<N, OFFSET, STEPS, 1, 4>(&tile, shift, 0, 0);
                continue;
            }
            // The weights of 16 outputs stay in the L1 cache while all rows pass by.
            for line in 0..tile.width.div_ceil(16) {
                let mut row = 0;
                while row < m {
                    row += match (m - row, STEPS) {
                        (1, _) => run::<N, OFFSET, STEPS, 1, 2>(&tile, shift, row, line),
                        // Halves have twice the sums.
                        (2 | 3, _) | (_, HALVES) => {
                            run::<N, OFFSET, STEPS, 2, 2>(&tile, shift, row, line)
                        }
                        _ => run::<N, OFFSET, STEPS, ROWS, 2>(&tile, shift, row, line),
                    };
                }
            }
        }
    }
}

/// `8 V` outputs from line `line` of the tile on for `R` rows from `row` on. Returns `R`.
///
/// # Safety
/// The CPU has the instructions; `x` and `out` have the rows; the tile has the line; sums of `STEPS` products fit into
/// 16 bits.
#[target_feature(enable = "avx2,fma")]
#[expect(
    clippy::needless_range_loop,
    reason = "one index runs over several arrays"
)]
unsafe fn run<
    const N: usize,
    const OFFSET: bool,
    const STEPS: usize,
    const R: usize,
    const V: usize,
>(
    tile: &Tile<'_, N>,
    shift: u8,
    row: usize,
    line: usize,
) -> usize {
    debug_assert!((row + R) * tile.groups <= tile.x.len() && (line == 0 || V == 2));
    let shift = _mm256_set1_epi32(i32::from(shift));
    let mut sums = [[_mm256_setzero_ps(); V]; R];
    // SAFETY: the pointers run over what the tile holds, which `Panels` made as long as the groups say.
    unsafe {
        let mut weights: *const u8 = tile.weights.as_ptr().add(line).cast();
        let mut x = tile.x.as_ptr().add(row * tile.groups);
        for g in 0..tile.groups {
            let rows: [*const Group<N>; R] = std::array::from_fn(|r| x.add(r * tile.groups));
            let mut exact = [[_mm256_setzero_si256(); V]; R];
            if !OFFSET {
                for r in 0..R {
                    let start = _mm256_set1_epi32((*rows[r]).start);
                    exact[r] = [_mm256_madd_epi16(start, shift); V];
                }
            }
            let q: [*const i32; R] = std::array::from_fn(|r| (&raw const (*rows[r]).q).cast());
            if STEPS == HALVES {
                add_halves::<R, V>(weights, q, N / 4, &mut exact);
            } else {
                for first in (0..N / 4).step_by(STEPS) {
                    let q = q.map(|q| q.add(first));
                    add::<R, V>(weights.add(128 * first), q, STEPS.min(N / 4), &mut exact);
                }
            }
            for v in 0..V {
                let at = 32 * g + 16 * line + 8 * v;
                let scale = _mm256_load_ps(tile.scale.as_ptr().cast::<f32>().add(at));
                for r in 0..R {
                    let scale = _mm256_mul_ps(scale, _mm256_set1_ps((*rows[r]).scale));
                    let exact = _mm256_cvtepi32_ps(exact[r][v]);
                    sums[r][v] = _mm256_fmadd_ps(exact, scale, sums[r][v]);
                }
                if OFFSET {
                    let offset = _mm256_load_ps(tile.offset.as_ptr().cast::<f32>().add(at));
                    for r in 0..R {
                        let total = _mm256_set1_ps((*rows[r]).total);
                        sums[r][v] = _mm256_fnmadd_ps(offset, total, sums[r][v]);
                    }
                }
            }
            weights = weights.add(32 * N);
            x = x.add(1);
        }
        for r in 0..R {
            let out = tile.out.add((row + r) * tile.stride + 16 * line);
            let width = tile.width - 16 * line;
            for v in 0..width.min(8 * V).div_ceil(8) {
                let mut values = [0f32; 8];
                _mm256_storeu_ps(values.as_mut_ptr(), sums[r][v]);
                for (i, value) in values.into_iter().take(width - 8 * v).enumerate() {
                    let out = out.add(8 * v + i);
                    *out = if tile.accumulate { *out + value } else { value };
                }
            }
        }
    }
    R
}

/// Adds the products of so many steps, four columns each, to `exact`.
///
/// # Safety
/// The CPU has the instructions; the steps exist and their sums fit into 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add<const R: usize, const V: usize>(
    weights: *const u8,
    q: [*const i32; R],
    steps: usize,
    exact: &mut [[__m256i; V]; R],
) {
    let mut short = [[_mm256_setzero_si256(); V]; R];
    for step in 0..steps {
        // SAFETY: as for this function.
        unsafe {
            let w: [__m256i; V] = std::array::from_fn(|v| load(weights, step, v));
            for r in 0..R {
                let q = _mm256_set1_epi32(q[r].add(step).read_unaligned());
                for v in 0..V {
                    short[r][v] = _mm256_add_epi16(short[r][v], _mm256_maddubs_epi16(w[v], q));
                    pin(&mut short[r][v]);
                }
            }
        }
    }
    for r in 0..R {
        for v in 0..V {
            let sum = _mm256_madd_epi16(short[r][v], _mm256_set1_epi16(1));
            exact[r][v] = _mm256_add_epi32(exact[r][v], sum);
        }
    }
}

/// [`add`] for weights of eight bits, whose halves are multiplied apart; up to eight steps.
///
/// # Safety
/// The CPU has the instructions; the steps exist.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_halves<const R: usize, const V: usize>(
    weights: *const u8,
    q: [*const i32; R],
    steps: usize,
    exact: &mut [[__m256i; V]; R],
) {
    let mask = _mm256_set1_epi8(15);
    let mut lower = [[_mm256_setzero_si256(); V]; R];
    let mut upper = lower;
    for step in 0..steps {
        for v in 0..V {
            // SAFETY: as for this function.
            unsafe {
                let w = load(weights, step, v);
                let low = _mm256_and_si256(w, mask);
                let high = _mm256_and_si256(_mm256_srli_epi16::<4>(w), mask);
                for r in 0..R {
                    let q = _mm256_set1_epi32(q[r].add(step).read_unaligned());
                    lower[r][v] = _mm256_add_epi16(lower[r][v], _mm256_maddubs_epi16(low, q));
                    upper[r][v] = _mm256_add_epi16(upper[r][v], _mm256_maddubs_epi16(high, q));
                    pin(&mut lower[r][v]);
                    pin(&mut upper[r][v]);
                }
            }
        }
    }
    for r in 0..R {
        for v in 0..V {
            let low = _mm256_madd_epi16(lower[r][v], _mm256_set1_epi16(1));
            let high = _mm256_madd_epi16(upper[r][v], _mm256_set1_epi16(16));
            exact[r][v] = _mm256_add_epi32(exact[r][v], _mm256_add_epi32(low, high));
        }
    }
}

/// Keeps a sum in a register and in its order: the compiler would add up one sum after the other, and for that load all
/// that they share again.
#[inline]
#[target_feature(enable = "avx2")]
fn pin(sum: &mut __m256i) {
    // SAFETY: no instruction.
    unsafe {
        std::arch::asm!(
            "/* {0} */",
            inout(ymm_reg) * sum,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Vector `v` of step `step`: eight outputs of four columns.
///
/// # Safety
/// The CPU has the instructions; the weights exist.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(weights: *const u8, step: usize, v: usize) -> __m256i {
    // SAFETY: as for this function; a line is aligned to 64 bytes.
    unsafe { _mm256_load_si256(weights.add(128 * step + 32 * v).cast()) }
}
