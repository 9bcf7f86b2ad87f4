//! The products of [`super`] by AVX512-VNNI, which multiplies four columns at a time.

use std::arch::x86_64::*;

use super::{Group, Job, Panels, Tile};

/// Rows of a register tile: with two vectors each of integer and f32 sums they leave eight registers free.
const ROWS: usize = 6;

/// Whether this CPU has the instructions.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
}

/// # Safety
/// The CPU has the instructions; `x` holds `N` values a group.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn round<const N: usize>(groups: &mut [Group<N>], x: &[f32]) {
    for (group, x) in groups.iter_mut().zip(x.chunks_exact(N)) {
        let mut largest = _mm512_setzero_ps();
        let mut numbers = true;
        for x in x.chunks_exact(16) {
            // SAFETY: the chunk holds sixteen values.
            let x = unsafe { _mm512_loadu_ps(x.as_ptr()) };
            largest = _mm512_max_ps(largest, _mm512_abs_ps(x));
            numbers &= _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x) == 0;
        }
        let largest = _mm512_reduce_max_ps(largest);
        // Groups too small to divide by are zero; one that is no number stays none.
        let inverse = if largest > 1e-30 {
            127.0 / largest
        } else {
            0.0
        };
        let factor = _mm512_set1_ps(inverse);
        let mut sum = _mm512_setzero_si512();
        for (q, x) in group.q.chunks_exact_mut(16).zip(x.chunks_exact(16)) {
            // SAFETY: both chunks hold sixteen values.
            unsafe {
                let x = _mm512_mul_ps(_mm512_loadu_ps(x.as_ptr()), factor);
                let x = _mm512_cvtps_epi32(x);
                sum = _mm512_add_epi32(sum, x);
                _mm_storeu_si128(q.as_mut_ptr().cast(), _mm512_cvtsepi32_epi8(x));
            }
        }
        let sum = _mm512_reduce_add_epi32(sum);
        group.scale = match numbers && largest.is_finite() {
            true => largest / 127.0,
            false => f32::NAN,
        };
        group.start = sum.wrapping_mul(-128);
        group.total = group.scale * sum as f32;
    }
}

/// # Safety
/// The CPU has the instructions; the job's outputs exist and are the caller's, `x` and `out` have the same rows, which are
/// set with `accumulate`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn multiply<const N: usize, const OFFSET: bool>(
    matrix: &Panels,
    job: &Job<'_, N>,
) {
    let m = job.rows();
    for row in (0..m).step_by(ROWS) {
        for tile in job.tiles() {
            let tile = matrix.tile(job, row, tile);
            // SAFETY: as for this function.
            unsafe {
                match m - row {
                    1 => run::<N, OFFSET, 1>(&tile),
                    2 => run::<N, OFFSET, 2>(&tile),
                    3 => run::<N, OFFSET, 3>(&tile),
                    4 => run::<N, OFFSET, 4>(&tile),
                    5 => run::<N, OFFSET, 5>(&tile),
                    _ => run::<N, OFFSET, ROWS>(&tile),
                }
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions; `x` and `out` have `R` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[expect(
    clippy::needless_range_loop,
    reason = "one index runs over several arrays"
)]
unsafe fn run<const N: usize, const OFFSET: bool, const R: usize>(tile: &Tile<'_, N>) {
    debug_assert!(R * tile.groups <= tile.x.len());
    let mut sums = [[_mm512_setzero_ps(); 2]; R];
    let mut weights = tile.weights.as_ptr();
    let mut x = tile.x.as_ptr();
    // SAFETY: the pointers run over what the tile holds, which `Panels` made as long as the groups say.
    unsafe {
        for g in 0..tile.groups {
            let rows: [*const Group<N>; R] = std::array::from_fn(|r| x.add(r * tile.groups));
            let mut exact: [[__m512i; 2]; R] = std::array::from_fn(|r| match OFFSET {
                true => [_mm512_setzero_si512(); 2],
                false => [_mm512_set1_epi32((*rows[r]).start); 2],
            });
            for step in 0..N / 4 {
                let w = [
                    _mm512_load_si512(weights.add(2 * step).cast()),
                    _mm512_load_si512(weights.add(2 * step + 1).cast()),
                ];
                for r in 0..R {
                    let q: *const i32 = (&raw const (*rows[r]).q).cast();
                    let q = _mm512_set1_epi32(q.add(step).read_unaligned());
                    for v in 0..2 {
                        exact[r][v] = _mm512_dpbusd_epi32(exact[r][v], w[v], q);
                    }
                }
            }
            for v in 0..2 {
                let scale = _mm512_load_ps(tile.scale.as_ptr().add(2 * g + v).cast());
                for r in 0..R {
                    let scale = _mm512_mul_ps(scale, _mm512_set1_ps((*rows[r]).scale));
                    sums[r][v] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact[r][v]), scale, sums[r][v]);
                }
                if OFFSET {
                    let offset = _mm512_load_ps(tile.offset.as_ptr().add(2 * g + v).cast());
                    for r in 0..R {
                        let total = _mm512_set1_ps((*rows[r]).total);
                        sums[r][v] = _mm512_fnmadd_ps(offset, total, sums[r][v]);
                    }
                }
            }
            weights = weights.add(N / 2);
            x = x.add(1);
        }
        for r in 0..R {
            for v in 0..tile.width.div_ceil(16) {
                let mask = ((1u32 << (tile.width - 16 * v).min(16)) - 1) as u16;
                let out = tile.out.add(r * tile.stride + 16 * v);
                if tile.accumulate {
                    sums[r][v] = _mm512_add_ps(sums[r][v], _mm512_maskz_loadu_ps(mask, out));
                }
                _mm512_mask_storeu_ps(out, mask, sums[r][v]);
            }
        }
    }
}
