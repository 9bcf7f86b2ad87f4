//! Chat messages with `role` and `content`, from a JSON list, an object with `messages`, or JSONL.
//!
//! A pause of more than four hours begins a new session.

use serde_json::Value;

use super::Source;
use super::fields::{
    Object, clean_name, clean_text, object, role_of, role_word, take_text, type_name,
};
use super::sittings::Sittings;
use super::stamps::{epoch, iso_or_date};
use super::warnings::Warnings;
use crate::transcript::{Kind, Moment, Role, Transcript, Turn};

/// Messages of one conversation, each with its place in the file.
pub(super) struct Conversation {
    /// Fields beside `messages`.
    fields: Object,
    /// Place of the conversation; `None` if the file is one list of messages.
    place: Option<String>,
    messages: Vec<(String, Value)>,
}

impl Conversation {
    pub(super) fn from_messages(messages: Vec<(String, Value)>) -> Self {
        Self {
            fields: Object::new(),
            place: None,
            messages,
        }
    }

    /// Takes an object with `messages`.
    pub(super) fn from_object(mut fields: Object, place: String) -> Self {
        let messages = match fields.remove("messages") {
            Some(Value::Array(messages)) => messages,
            _ => Vec::new(),
        };
        let numbered = messages.into_iter().enumerate();
        let messages =
            numbered.map(|(index, message)| (format!("{place}, message {}", index + 1), message));
        Self {
            messages: messages.collect(),
            place: Some(place),
            fields,
        }
    }
}

/// A message before it is known what kind of conversation it belongs to.
struct Draft {
    role: Role,
    name: Option<String>,
    text: String,
    image_caption: Option<String>,
    time: Option<Moment>,
}

pub(super) fn read(conversations: Vec<Conversation>, source: &mut Source<'_>) -> Vec<Transcript> {
    let several = conversations.len() > 1;
    let numbered = conversations.into_iter().enumerate();
    numbered
        .map(|(index, conversation)| {
            let default_id = if several {
                format!("{}-{}", source.stem, index + 1)
            } else {
                source.stem.to_owned()
            };
            transcript(default_id, conversation, source.warnings)
        })
        .collect()
}

fn transcript(
    default_id: String,
    conversation: Conversation,
    warnings: &mut Warnings,
) -> Transcript {
    let Conversation {
        mut fields,
        place,
        messages,
    } = conversation;
    let place = place.unwrap_or_else(|| "whole file".to_owned());
    let mut id = None;
    for key in ["id", "conversation_id", "session_id"] {
        id = id
            .or_else(|| take_text(&mut fields, key, &place, warnings).filter(|id| !id.is_empty()));
    }
    let start = time(&mut fields, &place, warnings);
    let drafts: Vec<_> = messages
        .into_iter()
        .filter_map(|(place, item)| draft(item, &place, warnings))
        .collect();
    let named = drafts.iter().any(|draft| draft.name.is_some());
    let with_assistant = drafts.iter().any(|draft| draft.role == Role::Assistant);
    let kind = if named && !with_assistant {
        Kind::Dialogue
    } else {
        Kind::Assistant
    };
    let mut participants: Vec<String> = Vec::new();
    let mut sittings = Sittings::default();
    if start.is_some() {
        sittings.open(start);
    }
    for Draft {
        role,
        name,
        text,
        image_caption,
        time,
    } in drafts
    {
        let speaker = name.unwrap_or_else(|| role_word(role).to_owned());
        if role.may_hold_memories() && !participants.contains(&speaker) {
            participants.push(speaker.clone());
        }
        sittings.push(Turn {
            id: String::new(),
            speaker,
            role,
            text,
            image_caption,
            time,
        });
    }
    let id = id.unwrap_or(default_id);
    Transcript {
        id,
        kind,
        language: None,
        participants,
        sessions: sittings.finish(),
    }
}

/// Reads one message; what has neither role nor name nor content is left out with a warning.
fn draft(item: Value, place: &str, warnings: &mut Warnings) -> Option<Draft> {
    let mut fields = object(item, place, warnings)?;
    let mut name = take_text(&mut fields, "name", place, warnings)
        .map(|name| clean_name(&name))
        .filter(|name| !name.is_empty());
    let word = take_text(&mut fields, "role", place, warnings);
    let role = match word.as_deref() {
        None => {
            let reason = if name.is_some() {
                "the person named speaks"
            } else {
                "taken for the user's"
            };
            warnings.add(place, format!("`role` is missing; {reason}"));
            Role::User
        }
        Some(word) => role_of(word).unwrap_or_else(|| {
            let shown = super::detect::visible_start(word, 40);
            warnings.add(
                place,
                format!("`{shown}` is no role that is known; taken for a person's name"),
            );
            name = name
                .take()
                .or_else(|| Some(clean_name(word)))
                .filter(|name| !name.is_empty());
            Role::User
        }),
    };
    let calls_tools = fields.contains_key("tool_calls") || fields.contains_key("function_call");
    let (text, image_caption) = content(fields.remove("content"), place, warnings);
    let time = time(&mut fields, place, warnings);
    if text.is_empty() && image_caption.is_none() {
        // A bare tool call says nothing to anybody; this is no fault of the file.
        if !calls_tools {
            warnings.add(
                place,
                "neither text nor a picture's caption; the message was left out",
            );
        }
        return None;
    }
    Some(Draft {
        role,
        name,
        text,
        image_caption,
        time,
    })
}

/// Text and caption of a message's content: text, a list of parts, or nothing.
fn content(value: Option<Value>, place: &str, warnings: &mut Warnings) -> (String, Option<String>) {
    let parts = match value {
        None | Some(Value::Null) => return (String::new(), None),
        Some(Value::String(text)) => return (clean_text(text), None),
        Some(Value::Array(parts)) => parts,
        Some(part @ Value::Object(_)) => vec![part],
        Some(other) => {
            warnings.add(
                place,
                format!(
                    "`content` is {}, not text or parts; it was ignored",
                    type_name(&other)
                ),
            );
            return (String::new(), None);
        }
    };
    let (mut texts, mut captions) = (Vec::new(), Vec::new());
    for part in parts {
        let mut part = match part {
            Value::String(text) => {
                texts.push(clean_text(text));
                continue;
            }
            other => match object(other, place, warnings) {
                Some(part) => part,
                None => continue,
            },
        };
        let sort = take_text(&mut part, "type", place, warnings).unwrap_or_default();
        let text = take_text(&mut part, "text", place, warnings);
        let caption = take_text(&mut part, "caption", place, warnings)
            .or_else(|| take_text(&mut part, "alt", place, warnings));
        match (sort.as_str(), text, caption) {
            ("text" | "input_text" | "output_text" | "", Some(text), _) => texts.push(text),
            (_, _, Some(caption)) => captions.push(caption),
            (sort, ..) => {
                let shown = super::detect::visible_start(sort, 40);
                warnings.add(
                    place,
                    format!(
                        "a content part of type `{shown}` holds no text or caption; it was left out"
                    ),
                );
            }
        }
    }
    texts.retain(|text| !text.is_empty());
    captions.retain(|caption| !caption.is_empty());
    (
        texts.join("\n"),
        (!captions.is_empty()).then(|| captions.join("; ")),
    )
}

/// The time in `timestamp`, `created_at` or `time`: ISO text, or seconds or milliseconds since 1970.
fn time(fields: &mut Object, place: &str, warnings: &mut Warnings) -> Option<Moment> {
    let keys = ["timestamp", "created_at", "time"];
    let (key, value) = keys
        .into_iter()
        .find_map(|key| Some((key, fields.remove(key)?)))?;
    let moment = match &value {
        Value::Null => return None,
        Value::Number(number) => number.as_f64().and_then(epoch),
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(number) if text.trim().len() > 8 => epoch(number),
            _ => iso_or_date(text),
        },
        _ => None,
    };
    if moment.is_none() {
        let message = format!(
            "`{key}` is neither like `2024-03-04T18:20:00` nor seconds since 1970; the time stays unknown"
        );
        warnings.add(place, message);
    }
    moment
}
