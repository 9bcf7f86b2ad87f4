//! Logits of prompts and of tokens that are decoded in all the ways of the engine.

use candle_core::Tensor;
use mem_model::cache::KvCache;
use mem_model::linear::Pass;
use mem_model::qwen::Model;

use super::{Result, error, ids};

/// Logits of all of one row's tokens.
fn row_logits(model: &Model, ids: &[u32]) -> Result<Tensor> {
    let hidden = model.hidden(ids, &[ids.len()], None, Pass::Prefill)?;
    Ok(model.logits(&hidden, Pass::Prefill)?)
}

/// Feeds tokens behind a cache and gives their logits.
fn feed(model: &Model, cache: &mut KvCache, ids: &[u32], pass: Pass) -> Result<Tensor> {
    let hidden = model.hidden(ids, &[ids.len()], Some(&mut [cache]), pass)?;
    Ok(model.logits(&hidden, pass)?)
}

pub(super) fn packed(expected: &Model, found: &Model) -> Result<f64> {
    let rows = [ids(37, 1), ids(1, 2), ids(70, 3)];
    let hidden = found.hidden(&rows.concat(), &[37, 1, 70], None, Pass::Prefill)?;
    let logits = found.logits(&hidden, Pass::Prefill)?;
    let alone = rows.iter().map(|row| row_logits(expected, row));
    error(
        &logits,
        &Tensor::cat(&alone.collect::<Result<Vec<_>>>()?, 0)?,
    )
}

/// Longer than what a device's cache grows by at a time.
pub(super) fn in_parts(expected: &Model, found: &Model) -> Result<f64> {
    let row = ids(300, 4);
    let mut cache = found.new_cache();
    let mut parts = Vec::new();
    for part in row.chunks(110) {
        parts.push(feed(found, &mut cache, part, Pass::Prefill)?);
    }
    error(&Tensor::cat(&parts, 0)?, &row_logits(expected, &row)?)
}

pub(super) fn cut_back(expected: &Model, found: &Model) -> Result<f64> {
    let (row, other) = (ids(50, 5), ids(3, 6));
    let mut cache = found.new_cache();
    feed(found, &mut cache, &row[..40], Pass::Prefill)?;
    let mut worst: f64 = 0.0;
    let all = row_logits(expected, &row)?;
    for at in 40..50 {
        let logits = feed(found, &mut cache, &row[at..=at], Pass::Decode)?;
        worst = worst.max(error(&logits, &all.narrow(0, at, 1)?)?);
    }
    cache.truncate(45);
    let logits = feed(found, &mut cache, &other, Pass::Decode)?;
    let all = row_logits(expected, &[&row[..45], &other].concat())?;
    Ok(worst.max(error(&logits, &all.narrow(0, 45, 3)?)?))
}

pub(super) fn forked(expected: &Model, found: &Model) -> Result<f64> {
    let prompt = ids(20, 7);
    let mut first = found.new_cache();
    feed(found, &mut first, &prompt, Pass::Prefill)?;
    let mut second = first.fork()?;
    let mut worst: f64 = 0.0;
    for (cache, reply) in [(&mut first, ids(4, 8)), (&mut second, ids(6, 9))] {
        let logits = feed(found, cache, &reply, Pass::Decode)?;
        let all = row_logits(expected, &[&prompt[..], &reply].concat())?;
        worst = worst.max(error(&logits, &all.narrow(0, 20, reply.len())?)?);
    }
    let logits = feed(found, &mut first, &ids(1, 1), Pass::Decode)?;
    let row = [prompt, ids(4, 8), ids(1, 1)].concat();
    let all = row_logits(expected, &row)?;
    Ok(worst.max(error(&logits, &all.narrow(0, 24, 1)?)?))
}

/// Rows of different lengths that take one token each, then different numbers of them.
pub(super) fn together(expected: &Model, found: &Model) -> Result<f64> {
    let mut rows = [ids(9, 1), ids(64, 2), ids(1, 3), ids(30, 4)];
    let mut caches = [(); 4].map(|()| found.new_cache());
    for (row, cache) in rows.iter().zip(&mut caches) {
        feed(found, cache, row, Pass::Prefill)?;
    }
    let mut worst: f64 = 0.0;
    for lens in [[1, 1, 1, 1], [1, 1, 1, 1], [3, 1, 5, 2]] {
        let mut fed = Vec::new();
        for (row, len) in rows.iter_mut().zip(lens) {
            let next = ids(len, row.len());
            row.extend(&next);
            fed.extend(next);
        }
        let mut borrowed: Vec<&mut KvCache> = caches.iter_mut().collect();
        let hidden = found.hidden(&fed, &lens, Some(&mut borrowed), Pass::Decode)?;
        let logits = found.logits(&hidden, Pass::Decode)?;
        let mut start = 0;
        for (row, len) in rows.iter().zip(lens) {
            let all = row_logits(expected, row)?.narrow(0, row.len() - len, len)?;
            worst = worst.max(error(&logits.narrow(0, start, len)?, &all)?);
            start += len;
        }
    }
    Ok(worst)
}
