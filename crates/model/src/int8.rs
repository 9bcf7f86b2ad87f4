//! Products of packed weights in 8-bit integers: activations are rounded to 8 bits a group of columns at a time, as
//! GGML's Q8_0 does, and multiplied four at a time by AVX512-VNNI. The weights lie in the order of the multiplication,
//! so that one row reads them as fast as the memory gives them and many rows share what is read.
//!
//! With `q` the integers and `s` the scales of activation `m` and output `n` in group `g` of 16 or 32 columns:
//! `y[m, n] = sum_g s[m, g] s[n, g] sum_k q[m, k] q[n, k] - offset[n, g] s[m, g] sum_k q[m, k]`.
//! The integer sums are exact; they are scaled and added in f32, in the order of the groups for every number of rows:
//! a row's result has the same bits whatever the other rows are.

use std::arch::x86_64::*;

use rayon::prelude::*;

use crate::expand::Element;
use crate::host::SharedOut;
use crate::packed::Packed;

/// Outputs of a task; `64 x 4864` weights stay in the L2 cache while all rows pass by.
const PANEL: usize = 64;

/// Outputs of a register tile: two vectors.
const WIDTH: usize = 32;

/// Rows of a register tile: with two vectors each of integer and f32 sums they leave eight registers free.
const ROWS: usize = 6;

/// Groups per task of the rounding.
const GRAIN: usize = 512;

/// Whether this CPU has the instructions.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
}

/// `N` columns of an activation row; value = `scale * q`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Group<const N: usize> {
    scale: f32,
    /// `-128 * sum(q)`: undoes the shift of signed weights into the unsigned range.
    start: i32,
    /// `scale * sum(q)`, which a group's offset is multiplied with.
    total: f32,
    q: [i8; N],
}

/// Rounds activations whose rows are whole groups: the largest of each group becomes 127.
///
/// # Panics
/// When the CPU lacks the instructions.
pub(crate) fn quantise<const N: usize>(x: &[f32]) -> Vec<Group<N>> {
    assert!(is_available() && N.is_multiple_of(16) && x.len().is_multiple_of(N));
    let empty = Group {
        scale: 0.0,
        start: 0,
        total: 0.0,
        q: [0; N],
    };
    let mut groups = vec![empty; x.len() / N];
    groups
        .par_chunks_mut(GRAIN)
        .zip(x.par_chunks(GRAIN * N))
        // SAFETY: the instructions were detected, the lengths agree.
        .for_each(|(groups, x)| unsafe { round(groups, x) });
    groups
}

/// # Safety
/// The CPU has the instructions; `x` holds `N` values a group.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn round<const N: usize>(groups: &mut [Group<N>], x: &[f32]) {
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

/// A quantised matrix `[rows, cols]` in the order of the multiplication.
pub(crate) struct Panels {
    rows: usize,
    cols: usize,
    group: usize,
    offsets: bool,
    panels: Vec<Panel>,
}

impl Panels {
    /// Puts a matrix in order.
    ///
    /// # Panics
    /// When the CPU lacks the instructions.
    pub(crate) fn new(weights: &Packed) -> Self {
        assert!(is_available());
        let rows = weights.rows();
        let offsets = !weights.parts().2.is_empty();
        let panel = |task: usize| {
            let first = task * PANEL;
            let width = PANEL.min(rows - first);
            let mut panel = Panel::default();
            // SAFETY: the instructions were detected, the outputs exist.
            unsafe {
                match (weights.group(), offsets) {
                    (16, false) => panel.fill::<16, false>(weights, first, width),
                    (16, true) => panel.fill::<16, true>(weights, first, width),
                    (_, false) => panel.fill::<32, false>(weights, first, width),
                    (_, true) => panel.fill::<32, true>(weights, first, width),
                }
            }
            panel
        };
        Self {
            rows,
            cols: weights.cols,
            group: weights.group(),
            offsets,
            panels: (0..rows.div_ceil(PANEL))
                .into_par_iter()
                .map(panel)
                .collect(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Weights of a group.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        let lines = |p: &Panel| p.weights.len() + p.scale.len() + p.offset.len();
        64 * self.panels.iter().map(lines).sum::<usize>()
    }

    /// Writes columns `start..start + out.len()` of row `row` into `out`: for the look-up of a few rows.
    pub(crate) fn expand<T: Element>(&self, row: usize, start: usize, out: &mut [T]) {
        let panel = &self.panels[row / PANEL];
        let (tile, vector, lane) = (row % PANEL / WIDTH, row % WIDTH / 16, row % 16);
        let shift = if self.offsets { 0.0 } else { 128.0 };
        let groups = self.cols / self.group;
        let value = |at: usize| {
            let line = &panel.weights[tile * (self.cols / 2) + at / 4 * 2 + vector];
            let group = (tile * groups + at / self.group) * 2 + vector;
            let offset = panel.offset.get(group).map_or(0.0, |line| line.0[lane]);
            let q = f32::from(line.0[4 * lane + at % 4]) - shift;
            panel.scale[group].0[lane] * q - offset
        };
        let values: Vec<f32> = (start..start + out.len()).map(value).collect();
        T::from_f32(&values, out);
    }

    /// `x W^T` into `out` or added to it: `x` is `[m, cols]` in groups of the weights' size, `out` `[m, rows]`.
    ///
    /// # Panics
    /// When the sizes do not fit.
    pub(crate) fn product<const N: usize>(
        &self,
        x: &[Group<N>],
        out: &SharedOut<'_>,
        accumulate: bool,
    ) {
        assert!(self.group == N);
        match self.offsets {
            false => self.run::<N, false>(x, out, accumulate),
            true => self.run::<N, true>(x, out, accumulate),
        }
    }

    fn run<const N: usize, const OFFSET: bool>(
        &self,
        x: &[Group<N>],
        out: &SharedOut<'_>,
        accumulate: bool,
    ) {
        let (rows, groups) = (self.rows, self.cols / N);
        assert!(groups > 0 && x.len().is_multiple_of(groups));
        let m = x.len() / groups;
        if m == 0 || rows == 0 {
            return;
        }
        out.at(m * rows - 1);
        self.panels
            .par_iter()
            .enumerate()
            .for_each(|(task, panel)| {
                let first = task * PANEL;
                let width = PANEL.min(rows - first);
                // SAFETY: the instructions were detected when the panels were made, the outputs exist, `x` and `out` have
                // `m` rows.
                unsafe {
                    panel.multiply::<N, OFFSET>(x, groups, (first, width), rows, out, accumulate);
                }
            });
    }
}

/// Sixteen f32 or 64 bytes, which a vector register loads at once.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line<T>(T);

/// The weights of up to [`PANEL`] outputs in the order of the multiplication; each vector's lanes are 16 outputs.
#[derive(Default)]
struct Panel {
    /// `[tiles, cols / 4, 2, 16 outputs, 4 columns]`, unsigned: shifted by 128 where there are no offsets.
    weights: Vec<Line<[u8; 64]>>,
    /// `[tiles, groups, 2, 16 outputs]`
    scale: Vec<Line<[f32; 16]>>,
    /// As `scale`; only where there are offsets.
    offset: Vec<Line<[f32; 16]>>,
}

impl Panel {
    /// # Safety
    /// The CPU has the instructions.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn fill<const N: usize, const OFFSET: bool>(
        &mut self,
        weights: &Packed,
        first: usize,
        width: usize,
    ) {
        let cols = weights.cols;
        let groups = cols / N;
        let (q, scale, offset) = weights.parts();
        let tiles = width.div_ceil(WIDTH);
        // Missing outputs of the last tile are multiplied as well but never written.
        self.weights.resize(tiles * cols / 4 * 2, Line([0; 64]));
        let shift = _mm512_set1_epi8(if OFFSET { 0 } else { -128 });
        for vector in 0..width.div_ceil(16) {
            let lines = &mut self.weights[vector / 2 * (cols / 2)..][..cols / 2];
            let outputs = first + 16 * vector..first + width.min(16 * (vector + 1));
            for at in (0..cols).step_by(64) {
                let present = (cols - at).min(64) / 4;
                let mask = (1u32 << present).wrapping_sub(1) as u16;
                let mut block = [_mm512_setzero_si512(); 16];
                for (block, output) in block.iter_mut().zip(outputs.clone()) {
                    let start = q[output * cols + at..].as_ptr();
                    // SAFETY: the mask keeps to the columns of the row.
                    *block = unsafe { _mm512_maskz_loadu_epi32(mask, start.cast()) };
                }
                let block = transpose(block);
                let lines = lines[at / 2 + vector % 2..].iter_mut().step_by(2);
                for (line, values) in lines.zip(block).take(present) {
                    // SAFETY: a line is as large as a register, and aligned.
                    unsafe {
                        _mm512_store_si512(
                            line.0.as_mut_ptr().cast(),
                            _mm512_xor_si512(values, shift),
                        );
                    }
                }
            }
        }
        let order = |from: &[f32], to: &mut Vec<Line<[f32; 16]>>| {
            to.resize(tiles * groups * 2, Line([0.0; 16]));
            for i in 0..width {
                let lines = &mut to[i / WIDTH * 2 * groups + i % WIDTH / 16..];
                let from = &from[(first + i) * groups..][..groups];
                for (line, &value) in lines.iter_mut().step_by(2).zip(from) {
                    line.0[i % 16] = value;
                }
            }
        };
        order(scale, &mut self.scale);
        if OFFSET {
            order(offset, &mut self.offset);
        }
    }

    /// # Safety
    /// The CPU has the instructions; the panel holds outputs `first..first + width`, which are this task's; `out` is
    /// as large as `x` and `stride` say, and set with `accumulate`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    unsafe fn multiply<const N: usize, const OFFSET: bool>(
        &self,
        x: &[Group<N>],
        groups: usize,
        (first, width): (usize, usize),
        stride: usize,
        out: &SharedOut<'_>,
        accumulate: bool,
    ) {
        let m = x.len() / groups;
        for row in (0..m).step_by(ROWS) {
            for tile in 0..width.div_ceil(WIDTH) {
                let job = Tile::<N, OFFSET> {
                    x: &x[row * groups..],
                    groups,
                    weights: &self.weights[tile * groups * N / 2..][..groups * N / 2],
                    scale: &self.scale[tile * groups * 2..][..groups * 2],
                    offset: match OFFSET {
                        true => &self.offset[tile * groups * 2..][..groups * 2],
                        false => &[],
                    },
                    width: (width - tile * WIDTH).min(WIDTH),
                    out: out.at(row * stride + first + tile * WIDTH),
                    stride,
                    accumulate,
                };
                // SAFETY: as for this function.
                unsafe {
                    match m - row {
                        1 => job.run::<1>(),
                        2 => job.run::<2>(),
                        3 => job.run::<3>(),
                        4 => job.run::<4>(),
                        5 => job.run::<5>(),
                        _ => job.run::<ROWS>(),
                    }
                }
            }
        }
    }
}

/// Up to [`ROWS`] activation rows times up to [`WIDTH`] outputs.
struct Tile<'a, const N: usize, const OFFSET: bool> {
    x: &'a [Group<N>],
    groups: usize,
    weights: &'a [Line<[u8; 64]>],
    scale: &'a [Line<[f32; 16]>],
    offset: &'a [Line<[f32; 16]>],
    width: usize,
    out: *mut f32,
    stride: usize,
    accumulate: bool,
}

impl<const N: usize, const OFFSET: bool> Tile<'_, N, OFFSET> {
    /// # Safety
    /// The CPU has the instructions; `x` and `out` have `R` rows.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[expect(
        clippy::needless_range_loop,
        reason = "one index runs over several arrays"
    )]
    unsafe fn run<const R: usize>(&self) {
        debug_assert!(R * self.groups <= self.x.len());
        let mut sums = [[_mm512_setzero_ps(); 2]; R];
        let mut weights = self.weights.as_ptr();
        let mut x = self.x.as_ptr();
        // SAFETY: the pointers run over what the tile holds, which `Panel` made as long as the groups say.
        unsafe {
            for g in 0..self.groups {
                let rows: [*const Group<N>; R] = std::array::from_fn(|r| x.add(r * self.groups));
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
                    let scale = _mm512_load_ps(self.scale.as_ptr().add(2 * g + v).cast());
                    for r in 0..R {
                        let scale = _mm512_mul_ps(scale, _mm512_set1_ps((*rows[r]).scale));
                        sums[r][v] =
                            _mm512_fmadd_ps(_mm512_cvtepi32_ps(exact[r][v]), scale, sums[r][v]);
                    }
                    if OFFSET {
                        let offset = _mm512_load_ps(self.offset.as_ptr().add(2 * g + v).cast());
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
                for v in 0..self.width.div_ceil(16) {
                    let mask = ((1u32 << (self.width - 16 * v).min(16)) - 1) as u16;
                    let out = self.out.add(r * self.stride + 16 * v);
                    if self.accumulate {
                        sums[r][v] = _mm512_add_ps(sums[r][v], _mm512_maskz_loadu_ps(mask, out));
                    }
                    _mm512_mask_storeu_ps(out, mask, sums[r][v]);
                }
            }
        }
    }
}

/// Transposes 16 rows of 16 32-bit values.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [__m512i; 16]) -> [__m512i; 16] {
    let zero = _mm512_setzero_si512();
    // Lane `l` of `parts[4 * i + j]` is column `4 * l + j` of rows `4 * i..4 * i + 4`.
    let mut parts = [zero; 16];
    for (rows, parts) in rows.chunks_exact(4).zip(parts.chunks_exact_mut(4)) {
        let low = [
            _mm512_unpacklo_epi32(rows[0], rows[1]),
            _mm512_unpacklo_epi32(rows[2], rows[3]),
        ];
        let high = [
            _mm512_unpackhi_epi32(rows[0], rows[1]),
            _mm512_unpackhi_epi32(rows[2], rows[3]),
        ];
        parts[0] = _mm512_unpacklo_epi64(low[0], low[1]);
        parts[1] = _mm512_unpackhi_epi64(low[0], low[1]);
        parts[2] = _mm512_unpacklo_epi64(high[0], high[1]);
        parts[3] = _mm512_unpackhi_epi64(high[0], high[1]);
    }
    let mut columns = [zero; 16];
    for j in 0..4 {
        let [a, b, c, d] = [parts[j], parts[4 + j], parts[8 + j], parts[12 + j]];
        let low = [
            _mm512_shuffle_i32x4::<0x44>(a, b),
            _mm512_shuffle_i32x4::<0x44>(c, d),
        ];
        let high = [
            _mm512_shuffle_i32x4::<0xee>(a, b),
            _mm512_shuffle_i32x4::<0xee>(c, d),
        ];
        columns[j] = _mm512_shuffle_i32x4::<0x88>(low[0], low[1]);
        columns[4 + j] = _mm512_shuffle_i32x4::<0xdd>(low[0], low[1]);
        columns[8 + j] = _mm512_shuffle_i32x4::<0x88>(high[0], high[1]);
        columns[12 + j] = _mm512_shuffle_i32x4::<0xdd>(high[0], high[1]);
    }
    columns
}

#[cfg(test)]
mod tests;
