//! Products of packed weights in 8-bit integers: activations are rounded to 8 bits a group of columns at a time, as
//! GGML's Q8_0 does, and multiplied by AVX512-VNNI or AVX2. The weights lie in the order of the multiplication, so that
//! one row reads them as fast as the memory gives them and many rows share what is read. Prompts are multiplied by
//! `crate::amx` instead, in bf16, where the CPU has AMX.
//!
//! With `q` the integers and `s` the scales of activation `m` and output `n` in group `g` of 16 or 32 columns:
//! `y[m, n] = sum_g s[m, g] s[n, g] sum_k q[m, k] q[n, k] - offset[n, g] s[m, g] sum_k q[m, k]`.
//! The integer sums are exact; they are scaled and added in f32, in the order of the groups for every number of rows:
//! a row's result has the same bits whatever the other rows are, and on every CPU.

mod avx2;
#[cfg(feature = "onednn")]
mod tiles;
mod vnni;

use std::ops::Range;

use rayon::prelude::*;

use crate::expand::Element;
use crate::host::SharedOut;
use crate::packed::Packed;

/// Outputs of a task; `64 x 4864` weights stay in the L2 cache while all rows pass by.
const PANEL: usize = 64;

/// Outputs of a tile: two [`Line`]s.
const WIDTH: usize = 32;

/// Groups per task of the rounding.
const GRAIN: usize = 512;

/// Whether this CPU has the instructions.
pub(crate) fn is_available() -> bool {
    Engine::best().is_some()
}

/// The instructions of the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Vnni,
    Avx2,
}

impl Engine {
    /// The fastest that this CPU has.
    fn best() -> Option<Self> {
        [Self::Vnni, Self::Avx2]
            .into_iter()
            .find(|e| e.is_available())
    }

    fn is_available(self) -> bool {
        match self {
            Self::Vnni => vnni::is_available(),
            Self::Avx2 => avx2::is_available(),
        }
    }
}

/// `N` columns of an activation row; value = `scale * q`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Group<const N: usize> {
    scale: f32,
    /// Undoes the shift of signed weights into the unsigned range: of `sum(q)`, in the form that the instructions take.
    start: i32,
    /// `scale * sum(q)`, which a group's offset is multiplied with.
    total: f32,
    /// -127 to 127; anything where the scale is no number.
    q: [i8; N],
}

/// Rounds activations whose rows are whole groups: the largest of each group becomes 127.
///
/// # Panics
/// When the CPU lacks the instructions.
pub(crate) fn quantise<const N: usize>(x: &[f32]) -> Vec<Group<N>> {
    quantise_by(Engine::best(), x)
}

fn quantise_by<const N: usize>(engine: Option<Engine>, x: &[f32]) -> Vec<Group<N>> {
    assert!(engine.is_some_and(Engine::is_available));
    assert!(N.is_multiple_of(16) && x.len().is_multiple_of(N));
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
        .for_each(|(groups, x)| unsafe {
            match engine {
                Some(Engine::Vnni) => vnni::round(groups, x),
                _ => avx2::round(groups, x),
            }
        });
    groups
}

/// A quantised matrix `[rows, cols]` in the order of the multiplication.
pub(crate) struct Panels {
    rows: usize,
    cols: usize,
    group: usize,
    offsets: bool,
    engine: Engine,
    /// What was added to the weights so that they are unsigned.
    shift: u8,
    /// The largest of them then.
    largest: u8,
    /// `[tiles, cols / 4, 2, 16 outputs, 4 columns]`, unsigned; each line belongs to 16 outputs.
    weights: Vec<Line<[u8; 64]>>,
    /// `[tiles, groups, 2, 16 outputs]`
    scale: Vec<Line<[f32; 16]>>,
    /// As `scale`; only where there are offsets.
    offset: Vec<Line<[f32; 16]>>,
}

impl Panels {
    /// Puts a matrix in order; none when the CPU lacks the instructions.
    pub(crate) fn new(weights: &Packed) -> Option<Self> {
        Some(Self::by(Engine::best()?, weights))
    }

    fn by(engine: Engine, weights: &Packed) -> Self {
        assert!(engine.is_available());
        let rows = weights.rows();
        let (q, scale, offsets) = weights.parts();
        let (lowest, highest) = q
            .par_iter()
            .fold(|| (0, 0), |(a, b), &q| (q.min(a), q.max(b)))
            .reduce(|| (0, 0), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        let shift = match engine {
            _ if !offsets.is_empty() => 0,
            Engine::Vnni => 128,
            Engine::Avx2 => lowest.unsigned_abs(),
        };
        assert!(offsets.is_empty() || lowest == 0);
        Self {
            rows,
            cols: weights.cols,
            group: weights.group(),
            offsets: !offsets.is_empty(),
            engine,
            shift,
            largest: (highest as u8).wrapping_add(shift),
            weights: in_tiles(q, weights.cols, shift),
            scale: in_lines(scale, weights.cols / weights.group()),
            offset: in_lines(offsets, weights.cols / weights.group()),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    #[cfg(feature = "onednn")]
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Weights of a group.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// Bytes held in memory.
    pub(crate) fn bytes(&self) -> usize {
        64 * (self.weights.len() + self.scale.len() + self.offset.len())
    }

    /// Writes columns `start..start + out.len()` of row `row` into `out`: for the look-up of a few rows.
    pub(crate) fn expand<T: Element>(&self, row: usize, start: usize, out: &mut [T]) {
        let (tile, vector, lane) = (row / WIDTH, row % WIDTH / 16, row % 16);
        let groups = self.cols / self.group;
        let value = |at: usize| {
            let line = &self.weights[tile * (self.cols / 2) + at / 4 * 2 + vector];
            let group = (tile * groups + at / self.group) * 2 + vector;
            let offset = self.offset.get(group).map_or(0.0, |line| line.0[lane]);
            let q = f32::from(line.0[4 * lane + at % 4]) - f32::from(self.shift);
            self.scale[group].0[lane] * q - offset
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
        let (rows, groups) = (self.rows, self.cols / N);
        assert!(self.group == N && groups > 0 && x.len().is_multiple_of(groups));
        let m = x.len() / groups;
        if m == 0 || rows == 0 {
            return;
        }
        out.at(m * rows - 1);
        (0..rows.div_ceil(PANEL)).into_par_iter().for_each(|task| {
            let job = Job {
                x,
                groups,
                outputs: task * PANEL..rows.min((task + 1) * PANEL),
                out,
                accumulate,
            };
            // SAFETY: the instructions were detected when the matrix was made, the outputs exist and are this task's,
            // `x` and `out` have `m` rows.
            unsafe {
                match (self.engine, self.offsets) {
                    (Engine::Vnni, false) => vnni::multiply::<N, false>(self, &job),
                    (Engine::Vnni, true) => vnni::multiply::<N, true>(self, &job),
                    (Engine::Avx2, false) => avx2::multiply::<N, false>(self, &job),
                    (Engine::Avx2, true) => avx2::multiply::<N, true>(self, &job),
                }
            }
        });
    }

    /// Tile `tile` for the rows of a job from `row` on.
    #[inline]
    fn tile<'a, const N: usize>(
        &'a self,
        job: &Job<'a, N>,
        row: usize,
        tile: usize,
    ) -> Tile<'a, N> {
        let (lines, groups) = (self.cols / 2, 2 * job.groups);
        Tile {
            x: &job.x[row * job.groups..],
            groups: job.groups,
            weights: &self.weights[tile * lines..][..lines],
            scale: &self.scale[tile * groups..][..groups],
            offset: match self.offsets {
                true => &self.offset[tile * groups..][..groups],
                false => &[],
            },
            width: (job.outputs.end - tile * WIDTH).min(WIDTH),
            out: job.out.at(row * self.rows + tile * WIDTH),
            stride: self.rows,
            accumulate: job.accumulate,
        }
    }
}

/// Weights in the order of [`Panels`]. Missing outputs of the last tile are multiplied as well but never written.
fn in_tiles(q: &[i8], cols: usize, shift: u8) -> Vec<Line<[u8; 64]>> {
    let mut weights = vec![Line([0; 64]); (q.len() / cols).div_ceil(WIDTH) * cols / 2];
    let tiles = weights.par_chunks_mut(cols / 2);
    tiles.zip(q.par_chunks(WIDTH * cols)).for_each(|(tile, q)| {
        for (i, q) in q.chunks_exact(cols).enumerate() {
            let lines = tile[i / 16..].iter_mut().step_by(2);
            for (line, q) in lines.zip(q.as_chunks::<4>().0) {
                let line = &mut line.0.as_chunks_mut::<4>().0[i % 16];
                *line = q.map(|q| (q as u8).wrapping_add(shift));
            }
        }
    });
    weights
}

/// What there is of a group, in the order of [`Panels`].
fn in_lines(values: &[f32], groups: usize) -> Vec<Line<[f32; 16]>> {
    let outputs = values.len() / groups;
    let mut lines = vec![Line([0.0; 16]); outputs.div_ceil(WIDTH) * groups * 2];
    for (i, values) in values.chunks_exact(groups).enumerate() {
        let lines = &mut lines[i / WIDTH * 2 * groups + i % WIDTH / 16..];
        for (line, &value) in lines.iter_mut().step_by(2).zip(values) {
            line.0[i % 16] = value;
        }
    }
    lines
}

/// 64 bytes, which a vector register loads at once.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line<T>(pub(crate) T);

/// What some outputs of a matrix are multiplied with.
struct Job<'a, const N: usize> {
    /// `[m, groups]`
    x: &'a [Group<N>],
    groups: usize,
    /// Whole tiles but for the last of the matrix.
    outputs: Range<usize>,
    out: &'a SharedOut<'a>,
    accumulate: bool,
}

impl<const N: usize> Job<'_, N> {
    fn rows(&self) -> usize {
        self.x.len() / self.groups
    }

    fn tiles(&self) -> Range<usize> {
        self.outputs.start / WIDTH..self.outputs.end.div_ceil(WIDTH)
    }
}

/// Activation rows times up to [`WIDTH`] outputs.
struct Tile<'a, const N: usize> {
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

#[cfg(test)]
mod tests;
