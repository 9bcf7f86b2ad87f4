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

/// Tokens of prompts that are computed at once: bounds the memory of activations, and how long rows that decode wait
/// for one that enters.
pub(super) const STEP_TOKENS: usize = 512;

/// Works until `work` is done or breaks off.
pub(super) fn run<'a>(generator: &LocalGenerator, work: &mut dyn Work<'a, Error>) {
    let model = &generator.model;
    let mut rows: Vec<Row<'_>> = Vec::new();
    let mut prefix = Prefix::new(model);
    let mut handed_out = 0;
    let mut more = true;
    // The prompt that entered last: a neighbour of the next.
    let mut last_prompt: Vec<u32> = Vec::new();
    loop {
        let first_new = rows.len();
        while more && rows.len() < generator.rows {
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
        enter(model, &mut rows, first_new, &mut prefix, &mut last_prompt);
        step(model, &mut rows);
        if report(&mut rows, work).is_break() {
            return;
        }
    }
}

/// Gives the rows from `first_new` on what is computed of their prompts already.
fn enter(
    model: &Model,
    rows: &mut [Row<'_>],
    first_new: usize,
    prefix: &mut Prefix,
    last_prompt: &mut Vec<u32>,
) {
    for at in first_new..rows.len() {
        let prompt = rows[at].prompt().to_vec();
        let next = rows.get(at + 1).map(|row| row.prompt());
        let neighbours = next.into_iter().chain([last_prompt.as_slice()]);
        match prefix.start(model, &prompt, neighbours) {
            Ok(cache) => rows[at].cache = cache,
            Err(error) => rows[at].end = Some(Err(error)),
        }
        *last_prompt = prompt;
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

/// One pass of the model over what the rows have to feed, and their choices.
fn step(model: &Model, rows: &mut [Row<'_>]) {
    // Rows that decode come first; prompts share what is left, in the order in which they came.
    let (decoding, reading): (Vec<_>, Vec<_>) = rows
        .iter_mut()
        .filter(|row| row.end.is_none())
        .partition(|row| !row.reads());
    let mut budget = STEP_TOKENS;
    let mut rows: Vec<&mut Row<'_>> = decoding.into_iter().chain(reading).collect();
    for row in &mut rows {
        row.plan(budget);
        budget -= row.fed();
    }
    rows.retain(|row| row.fed() > 0);
    if rows.is_empty() {
        return;
    }
    if let Err(error) = model.device().with_context(|| compute(model, &mut rows)) {
        // All of them took part: each reports it.
        let message = error.to_string();
        let mut error = Some(error);
        for row in rows {
            let copy = || Error::from(candle_core::Error::Msg(message.clone()));
            row.end = Some(Err(error.take().unwrap_or_else(copy)));
        }
    }
}

/// `rows` holds those that decode before those that read.
fn compute(model: &Model, rows: &mut [&mut Row<'_>]) -> Result<()> {
    let decodes = |row: &Row<'_>| row.chooses() && !row.reads();
    let choosing = rows.iter().filter(|row| decodes(row)).count();
    rows.par_iter_mut()
        .filter(|row| decodes(row))
        .for_each(|row| {
            if let Err(error) = row.draft(choosing) {
                row.end = Some(Err(error));
            }
        });
    let decoding = rows.iter().filter(|row| !row.reads()).count();
    let decoded = Feed::of(&rows[..decoding]);
    let read = Feed::of(&rows[decoding..]);
    // Logits of each row.
    let counts: Vec<usize> = rows.iter().map(|row| row.wanted().len()).collect();
    let (mut caches, masks): (Vec<_>, Vec<_>) = rows.iter_mut().map(|row| row.split()).unzip();
    // The grammars work beside the model, which stays on this thread, where its device is open.
    let logits = rayon::in_place_scope(|scope| -> Result<Option<Tensor>> {
        scope.spawn(move |_| masks.into_par_iter().for_each(|masks| masks.run()));
        let (for_decoded, for_read) = caches.split_at_mut(decoding);
        let hidden = [
            decoded.hidden(model, for_decoded, Pass::Decode)?,
            read.hidden(model, for_read, Pass::Prefill)?,
        ];
        let hidden: Vec<Tensor> = hidden.into_iter().flatten().collect();
        if hidden.is_empty() {
            return Ok(None);
        }
        let logits = model.logits(&Tensor::cat(&hidden, 0)?, Pass::Decode)?;
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
        if self.ids.is_empty() {
            return Ok(None);
        }
        let hidden = model.hidden(&self.ids, &self.lens, Some(caches), pass)?;
        if self.wanted.is_empty() {
            return Ok(None);
        }
        let wanted = Tensor::new(self.wanted, hidden.device())?;
        Ok(Some(hidden.index_select(&wanted, 0)?))
    }
}
