//! From a model's reply about one window to records (DimMem specification, section 5.3).

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    clean::{Mode, clean, clean_keywords, trim},
    record::{Dimension, RECORD_VERSION, Record, Source},
    repetition::is_repeat,
    reply::read_rows,
    time::check::TimeChecked,
    window::{Message, Window},
};

/// Memories of a reply that became no record, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drops {
    /// Not a JSON object.
    pub not_an_object: usize,
    /// No content, or blank.
    pub no_content: usize,
    /// No usable `source_id`.
    pub no_source: usize,
    /// A `source_id` that no message of the window has.
    pub unknown_source: usize,
    /// Rests on the overlap: the window before has had its turn at that message.
    pub in_overlap: usize,
    /// Repeats an earlier memory of the same reply.
    pub duplicate: usize,
}

impl Drops {
    /// All drops together.
    pub fn total(&self) -> usize {
        self.not_an_object
            + self.no_content
            + self.no_source
            + self.unknown_source
            + self.in_overlap
            + self.duplicate
    }

    /// Reasons that occurred, in words, with their counts.
    pub fn reasons(&self) -> Vec<(&'static str, usize)> {
        let all = [
            ("not an object", self.not_an_object),
            ("no content", self.no_content),
            ("no source", self.no_source),
            ("unknown source", self.unknown_source),
            ("in overlap", self.in_overlap),
            ("duplicate", self.duplicate),
        ];
        all.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    fn count(&mut self, reason: DropReason) {
        *match reason {
            DropReason::NotAnObject => &mut self.not_an_object,
            DropReason::NoContent => &mut self.no_content,
            DropReason::NoSource => &mut self.no_source,
            DropReason::UnknownSource => &mut self.unknown_source,
            DropReason::InOverlap => &mut self.in_overlap,
            DropReason::Duplicate => &mut self.duplicate,
        } += 1;
    }
}

impl AddAssign for Drops {
    fn add_assign(&mut self, other: Self) {
        self.not_an_object += other.not_an_object;
        self.no_content += other.no_content;
        self.no_source += other.no_source;
        self.unknown_source += other.unknown_source;
        self.in_overlap += other.in_overlap;
        self.duplicate += other.duplicate;
    }
}

/// Why a memory became no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// See [`Drops::not_an_object`].
    NotAnObject,
    /// See [`Drops::no_content`].
    NoContent,
    /// See [`Drops::no_source`].
    NoSource,
    /// See [`Drops::unknown_source`].
    UnknownSource,
    /// See [`Drops::in_overlap`].
    InOverlap,
    /// See [`Drops::duplicate`].
    Duplicate,
}

/// What a reply held.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadReply {
    /// The records, in reply order.
    pub records: Vec<Record>,
    /// What was dropped.
    pub drops: Drops,
    /// The reply was cut off and only its complete memories were read.
    pub salvaged: bool,
}

/// Reads the reply about `window`; `None` when it holds no memories list, which is a failed try.
///
/// Speaker, time, session and turn come from the message that `source_id` names, never from the model. Evidence is
/// what the reply's `evidence` names within the window plus the source turn, in conversation order. Times are as the
/// reply has them; [`check_times`](crate::time_check::check_times) is the next step.
pub fn read_reply(text: &str, window: &Window) -> Option<ReadReply> {
    let found = read_rows(text)?;
    let mut read = ReadReply {
        records: Vec::new(),
        drops: Drops::default(),
        salvaged: found.salvaged,
    };
    for row in &found.rows {
        let memory = Memory::normalise(row).and_then(|memory| {
            let source = source_message(&memory, window)?;
            let repeats = |earlier: &Record| is_repeat(&earlier.content, &memory.content);
            if read.records.iter().any(repeats) {
                return Err(DropReason::Duplicate);
            }
            Ok(record(memory, source, window, read.records.len()))
        });
        match memory {
            Ok(record) => read.records.push(record),
            Err(reason) => read.drops.count(reason),
        }
    }
    Some(read)
}

/// A memory as the reply states it, cleaned but not yet tied to a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Number of a message, if one was given; not checked against the window.
    pub source_id: Option<usize>,
    /// Speaker by the model's word.
    pub source_speaker: String,
    /// Further messages by the model's word.
    pub evidence: Vec<usize>,
    /// What is remembered.
    pub content: String,
    /// Its dimensions.
    pub dimension: Dimension,
}

impl Memory {
    /// Cleans one row of a reply.
    ///
    /// # Errors
    /// When the row is not an object or has no content.
    pub fn normalise(row: &Value) -> Result<Self, DropReason> {
        let row = row.as_object().ok_or(DropReason::NotAnObject)?;
        let field = |key| row.get(key).unwrap_or(&Value::Null);
        let content = clean(field("content"), Mode::Default);
        if content.is_empty() {
            return Err(DropReason::NoContent);
        }
        let evidence = match field("evidence") {
            Value::Array(items) => items.iter().filter_map(message_number).collect(),
            single => message_number(single).into_iter().collect(),
        };
        Ok(Self {
            source_id: message_number(field("source_id")),
            source_speaker: clean(field("source_speaker"), Mode::Default),
            evidence,
            content,
            dimension: normalise_dimension(field("dimension")),
        })
    }
}

fn normalise_dimension(value: &Value) -> Dimension {
    let field = |key| value.get(key).unwrap_or(&Value::Null);
    let text = |key| clean(field(key), Mode::Default);
    let mut memory_type = text("memory_type").to_lowercase();
    if !MEMORY_TYPES.contains(&memory_type.as_str()) {
        memory_type.clear();
    }
    Dimension {
        memory_type,
        time: text("time"),
        location: text("location"),
        reason: text("reason"),
        purpose: text("purpose"),
        keywords: clean_keywords(field("keywords"), Mode::Default),
    }
}

/// The types a memory can have.
pub const MEMORY_TYPES: [&str; 3] = ["fact", "episodic", "profile"];

/// A message number: a whole number from 1 on, also as a float or as text.
fn message_number(value: &Value) -> Option<usize> {
    let number = match value {
        Value::Number(number) => match number.as_u64() {
            Some(whole) => whole,
            None => number
                .as_f64()
                .filter(|n| n.fract() == 0.0 && (1.0..1e9).contains(n))? as u64,
        },
        Value::String(text) => {
            let text = trim(text);
            let whole = match text.split_once('.') {
                Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => {
                    whole
                }
                _ => text,
            };
            whole.parse().ok()?
        }
        _ => return None,
    };
    usize::try_from(number).ok().filter(|number| *number > 0)
}

fn source_message<'w>(memory: &Memory, window: &'w Window) -> Result<&'w Message, DropReason> {
    let number = memory.source_id.ok_or(DropReason::NoSource)?;
    let message = window
        .messages
        .iter()
        .find(|message| message.number == number);
    let message = message.ok_or(DropReason::UnknownSource)?;
    if number < window.extract_start() {
        return Err(DropReason::InOverlap);
    }
    Ok(message)
}

fn record(memory: Memory, source: &Message, window: &Window, position: usize) -> Record {
    let is_evidence = |message: &&Message| {
        message.number == source.number || memory.evidence.contains(&message.number)
    };
    let evidence = window.messages.iter().filter(is_evidence);
    Record {
        version: RECORD_VERSION,
        id: format!("w{:04}m{position:03}", window.index),
        evidence: evidence.map(|message| message.turn_id.clone()).collect(),
        content: memory.content,
        dimension: memory.dimension,
        source: Source {
            transcript: window.transcript_id.clone(),
            session: source.session_id.clone(),
            turn: source.turn_id.clone(),
            window: window.index,
        },
        source_speaker: source.speaker.clone(),
        source_time: source
            .time
            .map_or_else(String::new, |time| time.to_string()),
        time_checked: TimeChecked::Unverified,
    }
}
