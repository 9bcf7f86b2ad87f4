//! The right side of a product in tiles.

use std::arch::x86_64::*;

use half::bf16;

use super::{DEPTH, Pairs, SIDE};
use crate::product::Operand;

/// Tiles of `b` (`[k, n]`).
///
/// # Safety
/// The CPU has the instructions; `b` is as large as given, `tiles` has as much room.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn pack(b: Operand<bf16>, (n, k): (usize, usize), tiles: &mut [Pairs]) {
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
pub(super) unsafe fn pack_transposed(
    b: Operand<bf16>,
    (n, k): (usize, usize),
    depth: usize,
    tiles: &mut [Pairs],
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
