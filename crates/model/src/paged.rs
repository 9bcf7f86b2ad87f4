//! Causal grouped-query attention over paged keys and values in host memory.
//!
//! Every pair of query and head is computed by the same steps in the same order, whatever stands beside it in the call:
//! a token's result does not depend on how its row was cut into calls.

use std::cell::RefCell;

use rayon::prelude::*;

use crate::cache::{Heads, KvCache, PAGE};
use crate::host::SharedOut;
use crate::simd;

/// Queries of one task.
const QUERIES: usize = 16;

/// Pairs of query and head that share what is loaded: with four registers of sums each they fill the register file.
const TILE: usize = 7;

/// What one call attends with.
pub(crate) struct Attention<'a> {
    pub(crate) layer: usize,
    /// Query heads, a multiple of the key groups.
    pub(crate) query_heads: usize,
    pub(crate) heads: Heads,
    /// `[N, H, D]`: the tokens of all rows.
    pub(crate) q: &'a [f32],
    /// Tokens of each row; they are the last of its cache, written but not yet counted.
    pub(crate) lens: &'a [usize],
}

impl Attention<'_> {
    /// Attention of all tokens into `out` (`[N, H, D]`).
    pub(crate) fn run(&self, caches: &[&mut KvCache], out: &mut [f32]) {
        assert_eq!(out.len(), self.q.len());
        let width = self.query_heads * self.heads.d;
        let mut tasks = Vec::new();
        let mut first = 0;
        for (row, &len) in self.lens.iter().enumerate() {
            for start in (0..len).step_by(QUERIES) {
                for group in 0..self.heads.groups {
                    tasks.push((row, first, start..len.min(start + QUERIES), group));
                }
            }
            first += len;
        }
        assert_eq!(first * width, self.q.len());
        let out = SharedOut::over(out);
        // The last queries see most keys.
        tasks
            .into_par_iter()
            .rev()
            .for_each(|(row, first, queries, group)| {
                let per_group = self.query_heads / self.heads.groups;
                let pairs: Vec<(usize, usize)> = queries
                    .flat_map(|query| (0..per_group).map(move |h| (query, group * per_group + h)))
                    .collect();
                self.block(&*caches[row], group, first, &pairs, &out);
            });
    }

    /// Pairs of query and head against the keys of their group, page by page with running softmax sums (Milakov and
    /// Gimelshein 2018): a page is read once for all pairs.
    fn block(
        &self,
        cache: &KvCache,
        group: usize,
        first: usize,
        pairs: &[(usize, usize)],
        out: &SharedOut<'_>,
    ) {
        let d = self.heads.d;
        let scale = 1.0 / (d as f32).sqrt();
        let Some(&(last, _)) = pairs.last() else {
            return;
        };
        let pages = (cache.len() + last + 1).div_ceil(PAGE);
        let n = pairs.len();
        with_scratch(n * (2 * d + PAGE + 2), |scratch| {
            let (queries, rest) = scratch.split_at_mut(n * d);
            let (sums, rest) = rest.split_at_mut(n * d);
            let (scores, rest) = rest.split_at_mut(n * PAGE);
            let (highest, totals) = rest.split_at_mut(n);
            for (q, &(query, head)) in queries.chunks_exact_mut(d).zip(pairs) {
                let at = ((first + query) * self.query_heads + head) * d;
                for (q, x) in q.iter_mut().zip(&self.q[at..at + d]) {
                    *q = x * scale;
                }
            }
            sums.fill(0.0);
            highest.fill(f32::NEG_INFINITY);
            totals.fill(0.0);
            let pages = cache
                .pages(self.layer, group, self.heads)
                .take(pages)
                .enumerate();
            for (page, (keys, values)) in pages {
                for (q, s) in queries.chunks(TILE * d).zip(scores.chunks_mut(TILE * PAGE)) {
                    let product = Product {
                        rows: q.len() / d,
                        depth: d,
                        b: keys,
                        width: PAGE,
                    };
                    product.run(q, d, s, PAGE, false);
                }
                let rows = scores.chunks_exact_mut(PAGE).zip(sums.chunks_exact_mut(d));
                let states = highest.iter_mut().zip(totals.iter_mut());
                for (((row, sum), (highest, total)), &(query, _)) in rows.zip(states).zip(pairs) {
                    let seen = (cache.len() + query + 1)
                        .saturating_sub(page * PAGE)
                        .min(PAGE);
                    let (seen, hidden) = row.split_at_mut(seen);
                    hidden.fill(0.0);
                    if seen.is_empty() {
                        continue;
                    }
                    let max = simd::max(seen).max(*highest);
                    if max > *highest {
                        let shrink = (*highest - max).exp();
                        *total *= shrink;
                        sum.iter_mut().for_each(|v| *v *= shrink);
                        *highest = max;
                    }
                    *total += simd::exp_and_sum(seen, max);
                }
                for (s, sum) in scores.chunks(TILE * PAGE).zip(sums.chunks_mut(TILE * d)) {
                    let product = Product {
                        rows: s.len() / PAGE,
                        depth: PAGE,
                        b: values,
                        width: d,
                    };
                    product.run(s, PAGE, sum, d, true);
                }
            }
            for ((sum, total), &(query, head)) in sums.chunks_exact(d).zip(totals).zip(pairs) {
                let at = ((first + query) * self.query_heads + head) * d;
                for (i, v) in sum.iter().enumerate() {
                    // SAFETY: this task alone owns the pair.
                    unsafe { out.write(at + i, v / *total) };
                }
            }
        });
    }
}

fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [f32]) -> R) -> R {
    thread_local!(static SCRATCH: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) });
    SCRATCH.with_borrow_mut(|scratch| {
        if scratch.len() < len {
            scratch.resize(len, 0.0);
        }
        f(&mut scratch[..len])
    })
}

/// `c = a b` or `c += a b` for up to seven rows of `a`; `b` is `[depth, width]`.
struct Product<'a> {
    rows: usize,
    depth: usize,
    b: &'a [f32],
    width: usize,
}

impl Product<'_> {
    fn run(&self, a: &[f32], lda: usize, c: &mut [f32], ldc: usize, accumulate: bool) {
        assert!(self.rows > 0 && self.rows <= TILE && self.b.len() >= self.depth * self.width);
        assert!((self.rows - 1) * lda + self.depth <= a.len());
        assert!((self.rows - 1) * ldc + self.width <= c.len());
        let mut at = 0;
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            while at + 64 <= self.width {
                let (a, c) = (a.as_ptr(), c[at..].as_mut_ptr());
                // SAFETY: the instructions were just detected, the asserts keep every access inside.
                unsafe {
                    match self.rows {
                        1 => self.wide::<1>(at, a, lda, c, ldc, accumulate),
                        2 => self.wide::<2>(at, a, lda, c, ldc, accumulate),
                        3 => self.wide::<3>(at, a, lda, c, ldc, accumulate),
                        4 => self.wide::<4>(at, a, lda, c, ldc, accumulate),
                        5 => self.wide::<5>(at, a, lda, c, ldc, accumulate),
                        6 => self.wide::<6>(at, a, lda, c, ldc, accumulate),
                        _ => self.wide::<7>(at, a, lda, c, ldc, accumulate),
                    }
                }
                at += 64;
            }
        }
        self.portable(at, a, lda, c, ldc, accumulate);
    }

    /// Columns `at..` in plain loops.
    fn portable(
        &self,
        at: usize,
        a: &[f32],
        lda: usize,
        c: &mut [f32],
        ldc: usize,
        accumulate: bool,
    ) {
        if at == self.width {
            return;
        }
        for row in 0..self.rows {
            let c = &mut c[row * ldc..][at..self.width];
            if !accumulate {
                c.fill(0.0);
            }
            for (a, b) in a[row * lda..][..self.depth]
                .iter()
                .zip(self.b.chunks_exact(self.width))
            {
                for (c, b) in c.iter_mut().zip(&b[at..]) {
                    *c += a * b;
                }
            }
        }
    }

    /// Columns `at..at + 64` of `R` rows, the sums in registers.
    ///
    /// # Safety
    /// The CPU has AVX-512 F; `a` and `c` (from column `at` on) have `R` rows.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    #[expect(
        clippy::needless_range_loop,
        reason = "one index runs over several arrays"
    )]
    unsafe fn wide<const R: usize>(
        &self,
        at: usize,
        a: *const f32,
        lda: usize,
        c: *mut f32,
        ldc: usize,
        accumulate: bool,
    ) {
        use std::arch::x86_64::*;
        let mut sums = [[_mm512_setzero_ps(); 4]; R];
        // SAFETY: the caller vouches for the rows; `b` has `depth` rows of `width`.
        unsafe {
            if accumulate {
                for r in 0..R {
                    for j in 0..4 {
                        sums[r][j] = _mm512_loadu_ps(c.add(r * ldc + 16 * j));
                    }
                }
            }
            let mut b = self.b.as_ptr().add(at);
            for i in 0..self.depth {
                let columns: [__m512; 4] = [
                    _mm512_loadu_ps(b),
                    _mm512_loadu_ps(b.add(16)),
                    _mm512_loadu_ps(b.add(32)),
                    _mm512_loadu_ps(b.add(48)),
                ];
                for r in 0..R {
                    let a = _mm512_set1_ps(*a.add(r * lda + i));
                    for j in 0..4 {
                        sums[r][j] = _mm512_fmadd_ps(a, columns[j], sums[r][j]);
                    }
                }
                b = b.add(self.width);
            }
            for r in 0..R {
                for j in 0..4 {
                    _mm512_storeu_ps(c.add(r * ldc + 16 * j), sums[r][j]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};

    use super::*;
    use crate::attention;

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n)
            .map(|i| ((i * 7 + seed * 13) as f32 * 0.37).sin())
            .collect()
    }

    /// A row of `total` tokens through calls of the given sizes.
    fn in_calls(calls: &[usize], query_heads: usize, heads: Heads) -> Vec<f32> {
        let (wq, wk) = (query_heads * heads.d, heads.groups * heads.d);
        let total: usize = calls.iter().sum();
        let (q, k, v) = (
            values(total * wq, 1),
            values(total * wk, 2),
            values(total * wk, 3),
        );
        let mut cache = KvCache::new(1);
        let mut out = vec![0.0; total * wq];
        let mut start = 0;
        for &len in calls {
            let end = start + len;
            cache.reserve(len, heads);
            cache.write(0, heads, &k[start * wk..end * wk], &v[start * wk..end * wk]);
            let attention = Attention {
                layer: 0,
                query_heads,
                heads,
                q: &q[start * wq..end * wq],
                lens: &[len],
            };
            attention.run(&[&mut cache], &mut out[start * wq..end * wq]);
            cache.advance(len);
            start = end;
        }
        out
    }

    #[test]
    fn equals_composed_attention_and_does_not_depend_on_the_calls() {
        for (query_heads, groups, d) in [(14, 2, 64), (4, 2, 24), (16, 8, 128), (3, 3, 8)] {
            let heads = Heads { groups, d };
            let whole = in_calls(&[150], query_heads, heads);
            assert_eq!(whole, in_calls(&[63, 1, 1, 30, 55], query_heads, heads));
            let tensor = |n: usize, seed| {
                Tensor::from_vec(values(150 * n * d, seed), (150, n, d), &Device::Cpu).unwrap()
            };
            let expected = attention::composed(
                &tensor(query_heads, 1),
                &tensor(groups, 2),
                &tensor(groups, 3),
                attention::causal_mask(150, 150, &Device::Cpu)
                    .unwrap()
                    .as_ref(),
            );
            let expected: Vec<f32> = expected.unwrap().flatten_all().unwrap().to_vec1().unwrap();
            for (a, b) in whole.iter().zip(&expected) {
                assert!((a - b).abs() < 1e-5, "{a} {b}");
            }
        }
    }
}
