//! The JSON schema that a reply about one window must satisfy, for grammar-constrained generation.
//!
//! It says more than the reply format of the specification (section 5.1): messages of the overlap cannot be named,
//! time has a normal form, and nothing is unbounded, since small models otherwise write blanks or copies without end.
//! Texts begin and end with a visible character and hold no control characters and no two blanks in a row.

use serde_json::{Value, json};

use crate::{extraction::MEMORY_TYPES, labels::Label, time::value, window::Window};

/// Longest content, in characters that are not blanks.
const CONTENT_CHARS: usize = 400;
/// Longest location, counted likewise.
const LOCATION_CHARS: usize = 80;
/// Longest reason or purpose, counted likewise.
const MOTIVE_CHARS: usize = 160;
/// Longest keyword, counted likewise.
const KEYWORD_CHARS: usize = 40;
/// Most keywords of a memory.
const KEYWORDS: usize = 8;
/// Most messages that `evidence` can name besides the source.
pub(crate) const EVIDENCE: usize = 6;
/// Most memories of a window.
const MEMORIES: usize = 60;
/// How many each extractable message may bring, and as many again for the window.
const MEMORIES_PER_MESSAGE: usize = 4;

/// The schema for replies about `window`.
///
/// The order of the keys is part of it, and so is compact JSON (`x-guidance`, read by llguidance). `evidence` names
/// messages that a memory needs besides its source, and is left out where there are none.
pub fn reply_schema(window: &Window) -> Value {
    let numbers = |from: usize| (from..=window.messages.len()).collect::<Vec<_>>();
    let extractable = numbers(window.extract_start());
    let dimension = object(json!({
        "memory_type": {"enum": MEMORY_TYPES},
        "time": if crate::time::words::wanted() { text(0, 60) } else { json!({"type": "string", "pattern": value::pattern()}) },
        "location": text(0, LOCATION_CHARS),
        "reason": text(0, MOTIVE_CHARS),
        "purpose": text(0, MOTIVE_CHARS),
        "keywords": {"type": "array", "items": text(1, KEYWORD_CHARS), "maxItems": KEYWORDS},
    }));
    let mut memory = object(json!({
        "source_id": {"enum": extractable},
        "evidence": {"type": "array", "items": {"enum": numbers(1)}, "minItems": 1, "maxItems": EVIDENCE},
        "content": text(1, CONTENT_CHARS),
        "dimension": dimension,
    }));
    if let Some(required) = memory.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|key| key != "evidence");
    }
    let mut schema = object(json!({
        "memories": {"type": "array", "items": memory, "maxItems": most_memories(window)},
    }));
    schema["x-guidance"] =
        json!({"whitespace_flexible": false, "item_separator": ",", "key_separator": ":"});
    schema
}

/// Whether a label can be written within the bounds of [`reply_schema`].
pub fn fits(label: &Label) -> bool {
    let short = |text: &str, least: usize, most: usize| {
        let visible = text.chars().filter(|c| *c != ' ').count();
        let tidy = text
            .split(' ')
            .all(|word| !word.is_empty() && word.chars().all(is_visible));
        (text.is_empty() && least == 0) || (tidy && (least..=most).contains(&visible))
    };
    let dimension = &label.dimension;
    short(&label.content, 1, CONTENT_CHARS)
        && MEMORY_TYPES.contains(&dimension.memory_type.as_str())
        && value::is_normal(&dimension.time)
        && short(&dimension.location, 0, LOCATION_CHARS)
        && short(&dimension.reason, 0, MOTIVE_CHARS)
        && short(&dimension.purpose, 0, MOTIVE_CHARS)
        && dimension.keywords.len() <= KEYWORDS
        && dimension
            .keywords
            .iter()
            .all(|keyword| short(keyword, 1, KEYWORD_CHARS))
}

/// Most memories that a reply about `window` can hold.
pub(crate) fn most_memories(window: &Window) -> usize {
    let extractable = window.messages.len().saturating_sub(window.overlap_count);
    MEMORIES.min((extractable + 1) * MEMORIES_PER_MESSAGE)
}

fn is_visible(c: char) -> bool {
    !c.is_whitespace() && !c.is_control()
}

/// An object whose properties are all required, in their order, and which has no others.
fn object(properties: Value) -> Value {
    let keys: Vec<_> = properties
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
        .collect();
    json!({"type": "object", "properties": properties, "required": keys, "additionalProperties": false})
}

/// A tidy text of `least` (0 or 1) to `most` visible characters.
fn text(least: usize, most: usize) -> Value {
    // One more visible character, after one blank at most, `most - 1` times: a small automaton, where `maxLength` would
    // be intersected with the pattern.
    let visible = r"[^\s\x00-\x1f\x7f-\x9f]";
    let some = format!("{visible}( ?{visible}){{0,{}}}", most - 1);
    let pattern = if least == 0 {
        format!("^({some})?$")
    } else {
        format!("^{some}$")
    };
    json!({"type": "string", "pattern": pattern})
}
