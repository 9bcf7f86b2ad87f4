//! Taking fields out of JSON objects whose types nobody guarantees.

use std::fmt::Display;

use serde_json::{Map, Value};

use super::Source;
use super::warnings::Warnings;
use crate::clean::trim;
use crate::transcript::{Role, Turn};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Takes the text at `key`, cleaned; numbers and truth values count as text. `None` if missing,
/// null or, with a warning, of another type.
pub(super) fn take_text(
    object: &mut Object,
    key: &str,
    place: impl Display,
    warnings: &mut Warnings,
) -> Option<String> {
    text_of(object.remove(key)?).unwrap_or_else(|type_name| {
        warnings.add(place, not_text(key, type_name));
        None
    })
}

/// As [`take_text`], of what somebody said or who said it: of another type, it is lost.
pub(super) fn take_content(
    object: &mut Object,
    key: &str,
    place: impl Display,
    warnings: &mut Warnings,
) -> Option<String> {
    text_of(object.remove(key)?).unwrap_or_else(|type_name| {
        warnings.lose(place, not_text(key, type_name));
        None
    })
}

fn text_of(value: Value) -> Result<Option<String>, &'static str> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(clean_text(text))),
        other @ (Value::Number(_) | Value::Bool(_)) => Ok(Some(other.to_string())),
        other => Err(type_name(&other)),
    }
}

fn not_text(key: &str, type_name: &str) -> String {
    format!("`{key}` is {type_name}, not text; it was ignored")
}

/// Takes the list at `key`. `None`, and what belongs there is lost, if there is none.
pub(super) fn take_list(
    object: &mut Object,
    key: &str,
    place: impl Display,
    warnings: &mut Warnings,
) -> Option<Vec<Value>> {
    match object.remove(key) {
        Some(Value::Array(items)) => Some(items),
        Some(other) => {
            warnings.lose(
                place,
                format!("`{key}` is {}, not a list", type_name(&other)),
            );
            None
        }
        None => {
            warnings.lose(place, format!("`{key}` is missing"));
            None
        }
    }
}

/// The object in `value`; anything else is left out with a warning.
pub(super) fn object(value: Value, place: impl Display, warnings: &mut Warnings) -> Option<Object> {
    match value {
        Value::Object(object) => Some(object),
        other => {
            warnings.lose(
                place,
                format!(
                    "{} where an object belongs; it was left out",
                    type_name(&other)
                ),
            );
            None
        }
    }
}

/// The type of a JSON value with its article.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Trims as the specification does (section 1.3), unifies line ends, removes NUL.
pub(super) fn clean_text(text: String) -> String {
    let mut text = text;
    if text.contains(['\r', '\0']) {
        text = text
            .replace("\r\n", "\n")
            .replace('\r', "\n")
            .replace('\0', "");
    }
    let trimmed = trim(&text);
    if trimmed.len() == text.len() {
        text
    } else {
        trimmed.to_owned()
    }
}

/// A name on one line with single spaces.
pub(super) fn clean_name(name: &str) -> String {
    let visible = name.replace(['\0', '\u{200e}', '\u{200f}'], "");
    visible.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part that a role word or a role-like speaker name stands for.
pub(super) fn role_of(word: &str) -> Option<Role> {
    match word.trim().to_lowercase().as_str() {
        "user" | "human" | "사용자" => Some(Role::User),
        "assistant" | "ai" | "model" | "어시스턴트" => Some(Role::Assistant),
        "system" | "developer" => Some(Role::System),
        "tool" | "function" => Some(Role::Tool),
        _ => None,
    }
}

/// The word for a role, as speaker of messages without a name.
pub(super) fn role_word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    }
}

/// A turn between people, from an object that names it under `id_key` and holds what a picture shows under
/// `caption_key`.
pub(super) fn turn(
    [id_key, caption_key]: [&str; 2],
    default_id: String,
    mut fields: Object,
    place: &str,
    source: &mut Source<'_>,
) -> Turn {
    let id = take_text(&mut fields, id_key, place, source.warnings).filter(|id| !id.is_empty());
    let mut text =
        |key| take_content(&mut fields, key, place, source.warnings).filter(|t| !t.is_empty());
    let speaker = text("speaker");
    let (said, image_caption) = (text("text"), text(caption_key));
    let mut missing = |key: &str, instead: &str| {
        source
            .warnings
            .add(place, format!("`{key}` is missing; now `{instead}`"));
        instead.to_owned()
    };
    Turn {
        id: id.unwrap_or_else(|| missing(id_key, &default_id)),
        speaker: speaker.map_or_else(|| missing("speaker", "unknown"), |name| clean_name(&name)),
        role: Role::User,
        text: said.unwrap_or_default(),
        image_caption,
        time: None,
    }
}
