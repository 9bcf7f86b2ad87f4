//! The loop that advances all rows.

use std::ops::ControlFlow;

use candle_core::{DType, Device, Tensor};
use mem_schema::generator::Work;
use rayon::prelude::*;

use crate::cache::KvCache;
use crate::error::{Error, Result};
use crate::host;
use crate::linear::Pass;
use crate::qwen::Model;

use super::LocalGenerator;
use super::prefix::Prefix;
use super::row::Row;
use super::rows::ROW_TOKENS;

/// Tokens of a prompt that are computed at once: bounds the memory of activations.
pub(super) const PART_TOKENS: usize = 512;

/// Works until `work` is done or breaks off.
pub(super) fn run<'a>(generator: &LocalGenerator, work: &mut dyn Work<'a, Error>) {
    let model = &generator.model;
    let most_tokens = generator.rows.saturating_mul(ROW_TOKENS);
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut prefix = Prefix::new(model);
    let mut handed_out = 0;
    let mut more = true;
    loop {
        while more && rows.len() < generator.rows && held(&rows) < most_tokens {
            let Some(request) = work.next() else {
                more = false;
                break;
            };
            match Row::new(generator, handed_out, request) {
                Ok(row) => rows.push(row),
                Err(error) => {
                    if work.reply(handed_out, Err(error)).is_break() {
                        return;
                    }
                }
            }
            handed_out += 1;
        }
        if rows.is_empty() && !more {
            return;
        }
        read(model, &mut rows, &mut prefix);
        decode(model, &mut rows);
        if report(&mut rows, work).is_break() {
            return;
        }
    }
}

/// Tokens of all rows: long prompts take the room of several rows.
fn held(rows: &[Row<'_>]) -> usize {
    rows.iter().map(Row::len).sum()
}

/// Reads the openings of rows that have just entered, each by itself and cut where it alone says, so that its numbers do
/// not depend on what else is read.
fn read(model: &Model, rows: &mut [Row<'_>], prefix: &mut Prefix) {
    for row in rows.iter_mut().filter(|row| row.reads()) {
        while row.end.is_none() && row.reads() {
            let mut part = || -> Result<()> {
                prefix.lend(row)?;
                row.plan();
                if row.fed() > 0 {
                    compute(model, &mut [&mut *row], Pass::Prefill)?;
                    prefix.keep(row)?;
                }
                Ok(())
            };
            if let Err(error) = part() {
                row.end = Some(Err(error));
            }
        }
    }
}

/// Hands out the replies of rows that have ended.
fn report<'a>(rows: &mut Vec<Row<'_>>, work: &mut dyn Work<'a, Error>) -> ControlFlow<()> {
    for mut row in rows.extract_if(.., |row| row.end.is_some()) {
        let number = row.number;
        if let Some(end) = row.end.take() {
            work.reply(number, end.map(|finish| row.reply(finish)))?;
        }
    }
    ControlFlow::Continue(())
}

/// One pass of the model over what all rows have to feed, and their choices.
fn decode(model: &Model, rows: &mut [Row<'_>]) {
    let mut rows: Vec<_> = rows.iter_mut().filter(|row| row.end.is_none()).collect();
    if rows.is_empty() {
        return;
    }
    let count = rows.len();
    rows.par_iter_mut().for_each(|row| {
        row.plan();
        if let Err(error) = row.draft(count) {
            row.end = Some(Err(error));
        }
    });
    if let Err(error) = compute(model, &mut rows, Pass::Decode) {
        // All of them took part: each reports it.
        let message = error.to_string();
        let mut error = Some(error);
        for row in rows {
            let copy = || Error::from(candle_core::Error::Msg(message.clone()));
            row.end = Some(Err(error.take().unwrap_or_else(copy)));
        }
    }
}

/// Feeds what the rows have planned and lets those choose whose known tokens are then all computed.
fn compute(model: &Model, rows: &mut [&mut Row<'_>], pass: Pass) -> Result<()> {
    let feed = Feed::of(rows);
    // Logits of each row.
    let counts: Vec<usize> = rows.iter().map(|row| row.wanted().len()).collect();
    let (mut caches, masks): (Vec<_>, Vec<_>) = rows.iter_mut().map(|row| row.split()).unzip();
    // The grammars work beside the model, which stays on this thread, where its device is open.
    let logits = rayon::in_place_scope(|scope| -> Result<Option<Tensor>> {
        scope.spawn(move |_| masks.into_par_iter().for_each(|masks| masks.run()));
        let Some(hidden) = feed.hidden(model, &mut caches, pass)? else {
            return Ok(None);
        };
        let logits = model.logits(&hidden, Pass::Decode)?;
        let logits = logits.to_dtype(DType::F32)?.to_device(&Device::Cpu)?;
        Ok(Some(logits))
    })?;
    let Some(logits) = logits else { return Ok(()) };
    let width = logits.dim(1)?;
    host::with_values(&logits, |mut rest| {
        let parts = counts.into_iter().map(|count| {
            let (part, tail) = rest.split_at(count * width);
            rest = tail;
            part
        });
        let work: Vec<_> = rows.iter_mut().zip(parts).collect();
        work.into_par_iter()
            .filter(|(row, part)| !part.is_empty() && row.end.is_none())
            .for_each(|(row, part)| {
                if let Err(error) = row.choose(part) {
                    row.end = Some(Err(error));
                }
            });
        Ok(())
    })?;
    Ok(())
}

/// Tokens of several rows for one pass.
struct Feed {
    ids: Vec<u32>,
    /// Tokens of each row.
    lens: Vec<usize>,
    /// Positions in `ids` whose logits are wanted.
    wanted: Vec<u32>,
}

impl Feed {
    fn of(rows: &[&mut Row<'_>]) -> Self {
        let mut feed = Self {
            ids: Vec::new(),
            lens: Vec::with_capacity(rows.len()),
            wanted: Vec::new(),
        };
        for row in rows {
            let start = feed.ids.len();
            row.feed(&mut feed.ids);
            feed.lens.push(feed.ids.len() - start);
            let wanted = row.wanted().into_iter();
            feed.wanted.extend(wanted.map(|at| (start + at) as u32));
        }
        feed
    }

    /// Final hidden states of the wanted positions, `[M, D]`; none if there are none.
    fn hidden(
        self,
        model: &Model,
        caches: &mut [&mut KvCache],
        pass: Pass,
    ) -> Result<Option<Tensor>> {
        let hidden = model.hidden(&self.ids, &self.lens, Some(caches), pass)?;
        if self.wanted.is_empty() {
            return Ok(None);
        }
        let wanted = Tensor::new(self.wanted, hidden.device())?;
        Ok(Some(hidden.index_select(&wanted, 0)?))
    }
}
