//! Weights of [`Panels`] as the tiles of bf16 that [`crate::amx`] multiplies: both have sixteen outputs side by side.

use std::arch::x86_64::*;
use std::ops::Range;

use half::bf16;

use super::{Line, Panels};

impl Panels {
    /// Writes the tiles of these outputs, whole ones: the values of [`Self::expand`], rounded to bf16.
    ///
    /// # Panics
    /// When `tiles` has not their size, or AMX is missing.
    pub(crate) fn write_tiles(&self, outputs: Range<usize>, tiles: &mut [Line<[bf16; 32]>]) {
        assert!(crate::amx::is_available() && outputs.end <= self.rows);
        assert!(tiles.len() * 32 == outputs.len() * self.cols);
        for (column, tiles) in tiles.chunks_exact_mut(self.cols / 2).enumerate() {
            let first = outputs.start / 16 + column;
            // SAFETY: every CPU with AMX has the instructions; the outputs are some of the matrix.
            unsafe {
                match self.offsets {
                    true => self.write::<true>(first, tiles),
                    false => self.write::<false>(first, tiles),
                }
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions.
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    unsafe fn write<const OFFSET: bool>(&self, column: usize, tiles: &mut [Line<[bf16; 32]>]) {
        let (tile, vector) = (column / 2, column % 2);
        let groups = self.cols / self.group;
        let weights = self.weights[tile * (self.cols / 2)..][..self.cols / 2].iter();
        let mut weights = weights.skip(vector).step_by(2);
        let byte = _mm512_set1_epi32(0xff);
        let shift = _mm512_set1_epi32(i32::from(self.shift));
        // Even columns in the lower halves of pairs.
        let pairs = _mm512_set_epi16(
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
            4, 19, 3, 18, 2, 17, 1, 16, 0,
        );
        for (g, lines) in tiles.chunks_exact_mut(self.group / 2).enumerate() {
            let group = (tile * groups + g) * 2 + vector;
            // SAFETY: a line is as large as a register, and aligned.
            let scale = unsafe { _mm512_load_ps(self.scale[group].0.as_ptr()) };
            let offset = match OFFSET {
                // SAFETY: as above.
                true => unsafe { _mm512_load_ps(self.offset[group].0.as_ptr()) },
                false => _mm512_setzero_ps(),
            };
            let value = |q: __m512i| {
                let q = _mm512_sub_epi32(_mm512_and_si512(q, byte), shift);
                let scaled = _mm512_mul_ps(scale, _mm512_cvtepi32_ps(q));
                match OFFSET {
                    true => _mm512_sub_ps(scaled, offset),
                    false => scaled,
                }
            };
            for (lines, q) in lines.as_chunks_mut::<2>().0.iter_mut().zip(&mut weights) {
                // SAFETY: as above.
                let q = unsafe { _mm512_load_si512(q.0.as_ptr().cast()) };
                let columns = [
                    value(q),
                    value(_mm512_srli_epi32::<8>(q)),
                    value(_mm512_srli_epi32::<16>(q)),
                    value(_mm512_srli_epi32::<24>(q)),
                ];
                for (line, [even, odd]) in lines.iter_mut().zip(columns.as_chunks::<2>().0) {
                    // SAFETY: both are 512 bits of any value; a line is as large as a register, and aligned.
                    unsafe {
                        let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(*odd, *even));
                        let both = _mm512_permutexvar_epi16(pairs, both);
                        _mm512_store_si512((&raw mut *line).cast(), both);
                    }
                }
            }
        }
    }
}
