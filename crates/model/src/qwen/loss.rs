//! Cross-entropy over the supervised positions in host memory: logits exist for some of them at a time.

use candle_core::{Result, Tensor};
use rayon::prelude::*;

use super::Model;
use crate::host::{self, SharedOut};
use crate::linear::padded_product;
use crate::ops::{norm_rows, norm_rows_backward};
use crate::simd;

/// Positions whose logits are held at once: 512 x 151,936 f32 are 311 MB. With fewer the head is expanded more often.
const ROWS: usize = 512;

impl Model {
    /// Summed negative log-likelihood in nats of `targets` after the positions `rows` of the blocks' output `last`
    /// (`[N, D]`, before the final norm), and, if wanted, its gradient for `last`.
    ///
    /// # Errors
    /// When a row or target lies outside, or the model does not lie in host memory.
    pub fn loss(
        &self,
        last: &Tensor,
        rows: &[u32],
        targets: &[u32],
        with_gradient: bool,
    ) -> Result<(f64, Option<Tensor>)> {
        let (n, d) = last.dims2()?;
        let vocabulary = self.config.vocab_size;
        if rows.len() != targets.len()
            || rows.iter().any(|&row| row as usize >= n)
            || targets.iter().any(|&target| target as usize >= vocabulary)
        {
            candle_core::bail!("{} targets do not fit {n} positions", targets.len());
        }
        let head = self.head.host()?;
        let eps = self.config.norm_eps as f32;
        host::with_values(last, |last| {
            host::with_values(&self.norm, |norm| {
                let mut loss = 0.0;
                let mut gradient = vec![0f32; if with_gradient { n * d } else { 0 }];
                for (rows, targets) in rows.chunks(ROWS).zip(targets.chunks(ROWS)) {
                    let at = |row: &u32| *row as usize * d..(*row as usize + 1) * d;
                    let x: Vec<f32> = rows
                        .iter()
                        .flat_map(|row| &last[at(row)])
                        .copied()
                        .collect();
                    let mut normed = vec![0f32; x.len()];
                    norm_rows(&x, norm, eps, &mut normed);
                    let mut logits =
                        padded_product(&normed, d, vocabulary, |x, out: &SharedOut<'_>| {
                            head.forward(None, x, out, false);
                        });
                    loss += loss_and_slope(&mut logits, vocabulary, targets);
                    if !with_gradient {
                        continue;
                    }
                    let dnormed = padded_product(&logits, vocabulary, d, |dy, out| {
                        head.backward(None, dy, out, false);
                    });
                    let mut dx = vec![0f32; x.len()];
                    norm_rows_backward(&x, norm, eps, &dnormed, &mut dx);
                    for (row, dx) in rows.iter().zip(dx.chunks_exact(d)) {
                        gradient[at(row)]
                            .iter_mut()
                            .zip(dx)
                            .for_each(|(g, d)| *g += d);
                    }
                }
                let gradient = match with_gradient {
                    true => Some(Tensor::from_vec(gradient, (n, d), &self.device)?),
                    false => None,
                };
                Ok((loss, gradient))
            })
        })
    }
}

/// Summed cross-entropy of `[M, V]` logits, which become its gradient: `softmax(logits) - onehot(target)`.
fn loss_and_slope(logits: &mut [f32], vocabulary: usize, targets: &[u32]) -> f64 {
    let losses: Vec<f64> = logits
        .par_chunks_mut(vocabulary)
        .zip(targets)
        .map(|(row, &target)| {
            let max = simd::max(row);
            let wanted = row[target as usize] - max;
            let sum = simd::exp_and_sum(row, max);
            let inverse = 1.0 / sum;
            row.iter_mut().for_each(|v| *v *= inverse);
            row[target as usize] -= 1.0;
            f64::from(sum).ln() - f64::from(wanted)
        })
        .collect();
    losses.iter().sum()
}
