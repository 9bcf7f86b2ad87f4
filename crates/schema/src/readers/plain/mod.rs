//! Lines of text with a speaker, with or without times; also exports of KakaoTalk and WhatsApp, and IRC's `<Mina> …`.
//!
//! - With times, a pause of more than four hours begins a session.
//! - Without times, a session begins at a heading with a date (`# 2024-03-04`) and at blank lines, unless they separate
//!   all turns alike; between others than `user` and `assistant` also at a rule (`---`).
//! - Other lines continue the turn above them, also dates that nobody speaks under, save those marked as headings.
//! - Lines of the exporting program are left out; lines after them that belong to nobody count as lost.
//! - Messages that only stand for a picture, a file or a deleted message are counted and left out.
//! - KakaoTalk's table (`Date,User,Message`) is read, too.
//! - `04/03/2024` is the fourth of March unless other lines of the file rule that out.

mod collect;
mod csv;
mod line;
mod lines;
mod phrases;
mod placeholders;

use super::Source;
use super::fields::{clean_text, role_of, role_word};
use super::sittings::Sittings;
use crate::transcript::{Kind, Role, Transcript, Turn};
use collect::{Gap, Spoken, collect};
pub(super) use csv::{Rows, rows};
pub(super) use lines::{Lines, is_of_line};
use placeholders::Export;

pub(super) fn read(lines: &Lines<'_>, source: &mut Source<'_>) -> Vec<Transcript> {
    let spoken = collect(lines, source.warnings);
    vec![transcript(spoken, lines.are_timed(), lines.export, source)]
}

/// Reads KakaoTalk's table of messages.
pub(super) fn read_rows(rows: Rows, source: &mut Source<'_>) -> Vec<Transcript> {
    let spoken = csv::spoken(rows, source.warnings);
    vec![transcript(spoken, true, Some(Export::KakaoTalk), source)]
}

fn transcript(
    spoken: Vec<Spoken>,
    timed: bool,
    export: Option<Export>,
    source: &mut Source<'_>,
) -> Transcript {
    let blank_separates = spoken.iter().skip(1).any(|turn| turn.gap == Gap::None);
    let roles: Vec<_> = spoken.iter().map(|turn| role_of(&turn.name)).collect();
    let with_assistant = roles.contains(&Some(Role::User))
        && roles.contains(&Some(Role::Assistant))
        && roles.iter().all(Option::is_some);
    let kind = if with_assistant {
        Kind::Assistant
    } else {
        Kind::Dialogue
    };
    let mut sittings = Sittings::default();
    let mut participants: Vec<String> = Vec::new();
    for Spoken {
        line,
        name,
        text,
        time,
        gap,
    } in spoken
    {
        let role = role_of(&name)
            .filter(|_| with_assistant)
            .unwrap_or(Role::User);
        let speaker = if with_assistant {
            role_word(role).to_owned()
        } else {
            name
        };
        if role.may_hold_memories() && !participants.contains(&speaker) {
            participants.push(speaker.clone());
        }
        match gap {
            Gap::Heading(start) if time.is_none() => sittings.open(Some(start)),
            Gap::Rule if !timed => sittings.open(None),
            Gap::Blank if !timed && blank_separates => sittings.open(None),
            _ => {}
        }
        let mut text = clean_text(text);
        if let Some(said) = export.and_then(|export| export.without_edit_mark(&text)) {
            text = clean_text(said.to_owned());
        }
        if let Some(rest) = export.and_then(|export| export.without_placeholder(&text)) {
            source.placeholders += 1;
            text = clean_text(rest.to_owned());
            if text.is_empty() {
                continue;
            }
        }
        if text.is_empty() {
            let place = format_args!("line {line}");
            source
                .warnings
                .add(place, "nothing is said; the turn was left out");
            continue;
        }
        sittings.push(Turn {
            id: String::new(),
            speaker,
            role,
            text,
            image_caption: None,
            time,
        });
    }
    let sessions = sittings.finish();
    Transcript {
        id: source.stem.to_owned(),
        kind,
        language: None,
        participants,
        sessions,
    }
}
