//! Causal grouped-query attention over paged keys and values in host memory.
//!
//! Every pair of query and head is computed by the same steps in the same order, whatever stands beside it in the call:
//! a token's result does not depend on how its row was cut into calls.

use rayon::prelude::*;

use crate::cache::{Heads, HostPages, KvCache, PAGE, Pages};
use crate::host::SharedOut;
use crate::lanes::{Lane, Product};
use crate::simd;

/// Queries of one task.
const QUERIES: usize = 16;

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
                let held = caches[row].len();
                match caches[row].host() {
                    HostPages::Floats(p) => self.block(held, p, group, first, &pairs, &out),
                    HostPages::Pairs(p) => self.block(held, p, group, first, &pairs, &out),
                }
            });
    }

    /// Pairs of query and head against the keys of their group, page by page with running softmax sums (Milakov and
    /// Gimelshein 2018): a page is read once for all pairs.
    fn block<L: Lane>(
        &self,
        held: usize,
        pages: &Pages<L>,
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
        // Rows behind the last pair are zeroes.
        let n = L::padded(pairs.len());
        let mut queries = vec![0f32; n * d];
        for (q, &(query, head)) in queries.chunks_exact_mut(d).zip(pairs) {
            let at = ((first + query) * self.query_heads + head) * d;
            for (q, x) in q.iter_mut().zip(&self.q[at..at + d]) {
                *q = x * scale;
            }
        }
        let (mut query_room, mut weight_room) = (Vec::new(), Vec::new());
        let queries = L::pack(&queries, &mut query_room);
        let mut scores = vec![0f32; n * PAGE];
        let mut sums = vec![0f32; n * d];
        let mut states = vec![Softmax::new(); n];
        let count = (held + last + 1).div_ceil(PAGE);
        let pages = pages.of(self.layer, group, self.heads).take(count);
        for (page, (keys, values)) in pages.enumerate() {
            let product = Product {
                depth: d / L::VALUES,
                b: keys,
                width: PAGE,
                accumulate: false,
            };
            product.run(queries, &mut scores);
            let rows = scores.chunks_exact_mut(PAGE).zip(sums.chunks_exact_mut(d));
            for ((row, sum), (state, &(query, _))) in rows.zip(states.iter_mut().zip(pairs)) {
                let seen = (held + query + 1).saturating_sub(page * PAGE).min(PAGE);
                state.add(row, seen, sum);
            }
            let weights = L::pack(&scores, &mut weight_room);
            let product = Product {
                depth: PAGE / L::VALUES,
                b: values,
                width: d,
                accumulate: true,
            };
            product.run(weights, &mut sums);
        }
        for ((sum, state), &(query, head)) in sums.chunks_exact(d).zip(&states).zip(pairs) {
            let at = ((first + query) * self.query_heads + head) * d;
            for (i, v) in sum.iter().enumerate() {
                // SAFETY: this task alone owns the pair.
                unsafe { out.write(at + i, v / state.total) };
            }
        }
    }
}

/// Softmax over scores that come a page at a time.
#[derive(Clone)]
struct Softmax {
    highest: f32,
    total: f32,
}

impl Softmax {
    fn new() -> Self {
        Self {
            highest: f32::NEG_INFINITY,
            total: 0.0,
        }
    }

    /// Turns a page's first `seen` scores into weights and the others into zero; `sum`, what earlier pages gave, shrinks
    /// where the highest score rises.
    fn add(&mut self, scores: &mut [f32], seen: usize, sum: &mut [f32]) {
        let (seen, hidden) = scores.split_at_mut(seen);
        hidden.fill(0.0);
        if seen.is_empty() {
            return;
        }
        let max = simd::max(seen).max(self.highest);
        if max > self.highest {
            let shrink = (self.highest - max).exp();
            self.total *= shrink;
            sum.iter_mut().for_each(|v| *v *= shrink);
            self.highest = max;
        }
        self.total += simd::exp_and_sum(seen, max);
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

    /// A row of `total` tokens through calls of the given sizes, its keys and values as bf16 `pairs` or f32.
    fn in_calls(calls: &[usize], query_heads: usize, heads: Heads, pairs: bool) -> Vec<f32> {
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
            cache.reserve(len, heads, pairs);
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
        for (query_heads, groups, d) in
            [(14, 2, 64), (4, 2, 24), (4, 2, 80), (16, 8, 128), (3, 3, 8)]
        {
            let heads = Heads { groups, d };
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
            for (pairs, tolerance) in [(false, 1e-5), (true, 2e-2)] {
                let whole = in_calls(&[150], query_heads, heads, pairs);
                let parts = in_calls(&[63, 1, 1, 30, 55], query_heads, heads, pairs);
                assert_eq!(whole, parts);
                for (a, b) in whole.iter().zip(&expected) {
                    assert!((a - b).abs() < tolerance, "{a} {b}");
                }
            }
        }
    }
}
