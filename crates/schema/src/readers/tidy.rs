//! What holds for every transcript, whichever reader it comes from: nothing empty, no identifier twice.

use std::collections::{HashMap, HashSet};

use super::Format;
use super::warnings::Warnings;
use crate::transcript::Transcript;

/// Identifiers handed out so far.
#[derive(Default)]
pub(super) struct UniqueIds {
    taken: HashSet<String>,
    /// Of identifiers that occurred twice, the number that comes next.
    next: HashMap<String, u64>,
}

impl UniqueIds {
    /// `Some` with a new name (`id~2`, `id~3`, …) if `id` was taken before.
    pub(super) fn rename(&mut self, id: &str) -> Option<String> {
        if self.taken.insert(id.to_owned()) {
            return None;
        }
        let next = self.next.entry(id.to_owned()).or_insert(2);
        loop {
            let name = format!("{id}~{next}");
            *next += 1;
            if self.taken.insert(name.clone()) {
                return Some(name);
            }
        }
    }
}

/// Gives transcripts whose identifier another one before them has a suffix (`conv-26~2`). For runs over
/// several files. Yields the index and the former identifier of each one renamed.
pub fn make_ids_unique(transcripts: &mut [Transcript]) -> Vec<(usize, String)> {
    let mut ids = UniqueIds::default();
    let mut renamed = Vec::new();
    for (index, transcript) in transcripts.iter_mut().enumerate() {
        if let Some(id) = ids.rename(&transcript.id) {
            renamed.push((index, std::mem::replace(&mut transcript.id, id)));
        }
    }
    renamed
}

/// Leaves out empty turns, sessions and transcripts, and makes identifiers unique; both with warnings.
pub(super) fn tidy(transcripts: &mut Vec<Transcript>, format: Format, warnings: &mut Warnings) {
    for transcript in transcripts.iter_mut() {
        // LongMemEval counts empty user messages (golden case L3).
        if format != Format::Longmemeval {
            drop_empty_turns(transcript, warnings);
        }
        let id = &transcript.id;
        transcript.sessions.retain(|session| {
            if session.turns.is_empty() {
                let place = format_args!("transcript `{id}`, session `{}`", session.id);
                warnings.add(place, "the session is empty; it was left out");
            }
            !session.turns.is_empty()
        });
        rename_duplicates(transcript, warnings);
    }
    transcripts.retain(|transcript| {
        if transcript.sessions.is_empty() {
            let place = format_args!("transcript `{}`", transcript.id);
            warnings.add(place, "nobody says anything; the transcript was left out");
        }
        !transcript.sessions.is_empty()
    });
    for (index, before) in make_ids_unique(transcripts) {
        let message = format!(
            "the identifier occurs twice; now `{}`",
            transcripts[index].id
        );
        warnings.add(format_args!("transcript `{before}`"), message);
    }
}

fn drop_empty_turns(transcript: &mut Transcript, warnings: &mut Warnings) {
    let id = &transcript.id;
    for session in &mut transcript.sessions {
        session.turns.retain(|turn| {
            let empty = turn.text.is_empty() && turn.image_caption.is_none();
            if empty {
                let place = format_args!("transcript `{id}`, turn `{}`", turn.id);
                warnings.add(
                    place,
                    "neither text nor a picture's caption; the turn was left out",
                );
            }
            !empty
        });
    }
}

fn rename_duplicates(transcript: &mut Transcript, warnings: &mut Warnings) {
    let id = &transcript.id;
    let mut session_ids = UniqueIds::default();
    let mut turn_ids = UniqueIds::default();
    for session in &mut transcript.sessions {
        if let Some(new) = session_ids.rename(&session.id) {
            let place = format_args!("transcript `{id}`, session `{}`", session.id);
            warnings.add(place, format!("the identifier occurs twice; now `{new}`"));
            session.id = new;
        }
        for turn in &mut session.turns {
            if let Some(new) = turn_ids.rename(&turn.id) {
                let place = format_args!("transcript `{id}`, turn `{}`", turn.id);
                warnings.add(place, format!("the identifier occurs twice; now `{new}`"));
                turn.id = new;
            }
        }
    }
}
