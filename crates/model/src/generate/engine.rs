//! The loop that advances all rows.

use std::ops::ControlFlow;

use candle_core::{DType, Device, Tensor};
use mem_schema::generator::Work;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::host;
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
    let decodes = |row: &Row<'_>| row.cache.len() >= row.prompt().len();
    let mut budget = STEP_TOKENS;
    for prompts in [false, true] {
        for row in rows.iter_mut().filter(|row| decodes(row) != prompts) {
            if row.end.is_none() {
                row.plan(budget);
                budget -= row.fed();
            }
        }
    }
    let mut rows: Vec<&mut Row<'_>> = rows.iter_mut().filter(|row| row.fed() > 0).collect();
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

fn compute(model: &Model, rows: &mut [&mut Row<'_>]) -> Result<()> {
    let choosing = rows.iter().filter(|row| row.chooses()).count();
    rows.par_iter_mut()
        .filter(|row| row.chooses())
        .for_each(|row| {
            if let Err(error) = row.draft(choosing) {
                row.end = Some(Err(error));
            }
        });
    let mut ids = Vec::new();
    let mut wanted = Vec::new();
    let mut lens = Vec::with_capacity(rows.len());
    // Logits of each row.
    let mut counts = Vec::with_capacity(rows.len());
    for row in rows.iter() {
        let start = ids.len();
        lens.push(row.feed(&mut ids));
        let positions = row.wanted();
        counts.push(positions.len());
        wanted.extend(positions.into_iter().map(|at| (start + at) as u32));
    }
    let (mut caches, masks): (Vec<_>, Vec<_>) = rows.iter_mut().map(|row| row.split()).unzip();
    // The grammars work on one thread while the model uses all; the model stays on this one, where its device is open.
    let logits = rayon::in_place_scope(|scope| -> Result<Option<Tensor>> {
        scope.spawn(move |_| masks.into_par_iter().for_each(|masks| masks.run()));
        let hidden = model.hidden(&ids, &lens, Some(&mut caches))?;
        if wanted.is_empty() {
            return Ok(None);
        }
        let wanted = Tensor::new(wanted, hidden.device())?;
        let logits = model.logits(&hidden.index_select(&wanted, 0)?)?;
        let logits = logits.to_dtype(DType::F32)?.to_device(&Device::Cpu)?;
        Ok(Some(logits))
    })?;
    let Some(logits) = logits else { return Ok(()) };
    let width = logits.dim(1)?;
    host::with_values(&logits, |values| {
        let mut rest = values;
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
