//! Chat messages with `role` and `content`, from a JSON list, an object with `messages`, or JSONL; also the keys of
//! Discord's and Telegram's exports.
//!
//! A pause of more than four hours begins a new session; so does another `session_id`.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::Source;
use super::fields::{
    Object, clean_name, clean_text, object, role_of, role_word, take_content, take_text, type_name,
};
use super::message_ids::{by_session, named_id};
use super::sittings::Sittings;
use super::stamps::{epoch, iso_or_date};
use super::warnings::Warnings;
use crate::transcript::{Kind, Moment, Role, Transcript, Turn};

/// Where the name of who speaks may stand.
const NAMES: [&str; 4] = ["name", "author", "from", "sender"];

/// Types of messages that the program wrote: of Telegram and of Discord.
const NOTICES: [&str; 8] = [
    "service",
    "GuildMemberJoin",
    "RecipientAdd",
    "RecipientRemove",
    "ChannelNameChange",
    "ChannelIconChange",
    "ChannelPinnedMessage",
    "Call",
];

/// Types of content parts that stand for something to see or hear.
const PICTURES: [&str; 10] = [
    "image",
    "image_url",
    "input_image",
    "audio",
    "input_audio",
    "video",
    "video_url",
    "file",
    "input_file",
    "document",
];

/// Types of content parts that nobody says to anybody.
const WORKINGS: [&str; 5] = [
    "tool_use",
    "tool_result",
    "thinking",
    "redacted_thinking",
    "reasoning",
];

/// Where messages without text name what they show.
const ATTACHMENTS: [&str; 7] = [
    "attachments",
    "stickers",
    "embeds",
    "photo",
    "file",
    "media_type",
    "location_information",
];

/// Messages of one conversation, each with its place in the file.
pub(super) struct Conversation {
    /// Fields beside `messages`.
    fields: Object,
    /// Place of the conversation; `None` if the file is one list of messages.
    place: Option<String>,
    messages: Vec<(String, Value)>,
}

impl Conversation {
    /// Sorts messages that stand for themselves by the conversation that they name; those that name none are one.
    pub(super) fn from_messages(messages: Vec<(String, Value)>) -> Vec<Self> {
        let mut conversations: Vec<Self> = Vec::new();
        let mut known: HashMap<Option<String>, usize> = HashMap::new();
        for (place, message) in messages {
            let id = named_id(&message, "conversation_id");
            let index = *known.entry(id.clone()).or_insert_with(|| {
                let mut fields = Object::new();
                let place = id.as_ref().map(|id| format!("conversation `{id}`"));
                fields.extend(id.map(|id| ("id".to_owned(), id.into())));
                conversations.push(Self {
                    fields,
                    place,
                    messages: Vec::new(),
                });
                conversations.len() - 1
            });
            conversations[index].messages.push((place, message));
        }
        conversations
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

/// Whether all who are named where no `role` stands are `user`, `assistant` and the like; else a `Model` among them is a
/// person.
fn names_are_roles(messages: &[(String, Value)]) -> bool {
    let word = |value: &Value| {
        let value = value.get("name").unwrap_or(value);
        value.as_str().map(str::to_owned)
    };
    let mut unsaid = messages
        .iter()
        .filter(|(_, message)| !has_role(message.get("role")));
    unsaid.all(|(_, message)| {
        let mut names = NAMES.iter().filter_map(|key| word(message.get(*key)?));
        names.next().is_none_or(|name| role_of(&name).is_some())
    })
}

fn has_role(role: Option<&Value>) -> bool {
    role.is_some_and(|role| !role.is_null())
}

/// A message before it is known what kind of conversation it belongs to.
struct Draft {
    /// Number of the session that the message names.
    session: usize,
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
        .filter_map(|(index, conversation)| {
            let default_id = if several {
                format!("{}-{}", source.stem, index + 1)
            } else {
                source.stem.to_owned()
            };
            transcript(default_id, conversation, source)
        })
        .collect()
}

fn transcript(
    default_id: String,
    conversation: Conversation,
    source: &mut Source<'_>,
) -> Option<Transcript> {
    let Conversation {
        mut fields,
        place,
        messages,
    } = conversation;
    let place = place.unwrap_or_else(|| "whole file".to_owned());
    let has = |keys: &[&str]| {
        let mut messages = messages.iter();
        messages.any(|(_, message)| {
            keys.iter()
                .any(|key| message.get(key).is_some_and(|value| !value.is_null()))
        })
    };
    let with_roles = has(&["role"]);
    if !messages.is_empty() && !with_roles && !has(&NAMES) {
        let message = "no message has `role`, nor a name under `name`, `author`, `from` or `sender`: who speaks is \
                       unknown, and the conversation was left out";
        source.warnings.lose_many(messages.len(), &place, message);
        return None;
    }
    let mut id = None;
    for key in ["id", "conversation_id", "session_id"] {
        id = id.or_else(|| {
            take_text(&mut fields, key, &place, source.warnings).filter(|id| !id.is_empty())
        });
    }
    let start = time(&mut fields, &place, source.warnings);
    let names_are_roles = names_are_roles(&messages);
    let drafts: Vec<_> = by_session(messages)
        .into_iter()
        .filter_map(|(session, place, item)| {
            let draft = draft(item, [with_roles, names_are_roles], &place, source)?;
            Some(Draft { session, ..draft })
        })
        .collect();
    let users = drafts.iter().filter(|draft| draft.role == Role::User);
    let names: HashSet<_> = users.filter_map(|draft| draft.name.as_deref()).collect();
    let with_assistant = drafts.iter().any(|draft| draft.role == Role::Assistant);
    // Several people are kept apart, also where an assistant takes part.
    let kind = if names.len() > 1 || (!names.is_empty() && !with_assistant) {
        Kind::Dialogue
    } else {
        Kind::Assistant
    };
    let mut participants: Vec<String> = Vec::new();
    let mut sittings = Sittings::default();
    if start.is_some() {
        sittings.open(start);
    }
    let mut last_session = None;
    for Draft {
        session,
        role,
        name,
        text,
        image_caption,
        time,
    } in drafts
    {
        if last_session
            .replace(session)
            .is_some_and(|last| last != session)
        {
            sittings.open(None);
        }
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
    Some(Transcript {
        id: id.unwrap_or(default_id),
        kind,
        language: None,
        participants,
        sessions: sittings.finish(),
    })
}

/// Reads one message; what has neither role nor name nor content is left out with a warning.
fn draft(
    item: Value,
    [with_roles, names_are_roles]: [bool; 2],
    place: &str,
    source: &mut Source<'_>,
) -> Option<Draft> {
    let mut fields = object(item, place, source.warnings)?;
    if let Some(Value::String(sort)) = fields.get("type")
        && NOTICES.contains(&sort.as_str())
        && !has_role(fields.get("role"))
    {
        let message = format!("a notice of the program (`{sort}`); left out");
        source.warnings.add(place, message);
        return None;
    }
    let mut name = name(&mut fields, place, source.warnings);
    let mut word = take_content(&mut fields, "role", place, source.warnings);
    // `"sender": "assistant"` says what `role` would.
    if names_are_roles
        && word.is_none()
        && name.as_deref().is_some_and(|name| role_of(name).is_some())
    {
        word = name.take();
    }
    let role = match word.as_deref() {
        None => {
            let reason = if name.is_some() {
                "the person named speaks"
            } else {
                "taken for the user's"
            };
            if with_roles || name.is_none() {
                let message = format!("`role` is missing; {reason}");
                source.warnings.add(place, message);
            }
            Role::User
        }
        Some(word) => role_of(word).unwrap_or_else(|| {
            let shown = super::detect::visible_start(word, 40);
            source.warnings.add(
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
    let says_nothing = !["content", "text"]
        .iter()
        .any(|key| fields.contains_key(*key));
    let (text, image_caption) = content(&mut fields, place, source);
    let time = time(&mut fields, place, source.warnings);
    if text.is_empty() && image_caption.is_none() {
        let attached = |key: &&str| match fields.get(*key) {
            None | Some(Value::Null) => false,
            Some(Value::Array(items)) => !items.is_empty(),
            Some(_) => true,
        };
        if ATTACHMENTS.iter().any(attached) {
            source.placeholders += 1;
        } else if says_nothing && !calls_tools {
            let message = "neither `content` nor `text`; the message was left out";
            source.warnings.lose(place, message);
        } else if !calls_tools {
            // A bare tool call says nothing to anybody; this is no fault of the file.
            source.warnings.add(
                place,
                "neither text nor a picture's caption; the message was left out",
            );
        }
        return None;
    }
    Some(Draft {
        session: 0,
        role,
        name,
        text,
        image_caption,
        time,
    })
}

/// The speaker's name: text, or an object that holds it. Beside `role`, `author` and the like are names only where
/// they are objects: `"author": "gpt-4o"` names a program.
fn name(fields: &mut Object, place: &str, warnings: &mut Warnings) -> Option<String> {
    let has_role = has_role(fields.get("role"));
    NAMES.into_iter().find_map(|key| {
        let name = match fields.get_mut(key) {
            Some(Value::Object(person)) => {
                let mut keys = ["name", "username", "nickname", "display_name"].into_iter();
                keys.find_map(|key| take_text(person, key, place, warnings))
            }
            Some(_) if key == "name" || !has_role => take_content(fields, key, place, warnings),
            _ => None,
        };
        let name = clean_name(&name?);
        (!name.is_empty()).then_some(name)
    })
}

/// Text and caption of a message: its `content` or, where that is missing or empty, its `text`; each is text, a list of
/// parts, or nothing.
fn content(fields: &mut Object, place: &str, source: &mut Source<'_>) -> (String, Option<String>) {
    let is_filled = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => !parts.is_empty(),
        _ => true,
    };
    let value = fields.remove("content").filter(is_filled);
    let parts = match value {
        None => return (running_text(fields, place, source.warnings), None),
        Some(Value::String(text)) => return (clean_text(text), None),
        Some(Value::Array(parts)) => parts,
        Some(part @ Value::Object(_)) => vec![part],
        Some(other) => {
            let message = format!(
                "`content` is {}, not text or parts; it was ignored",
                type_name(&other)
            );
            source.warnings.lose(place, message);
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
            other => match object(other, place, source.warnings) {
                Some(part) => part,
                None => continue,
            },
        };
        let warnings = &mut *source.warnings;
        let sort = take_text(&mut part, "type", place, warnings).unwrap_or_default();
        let text = take_text(&mut part, "text", place, warnings);
        let caption = take_text(&mut part, "caption", place, warnings)
            .or_else(|| take_text(&mut part, "alt", place, warnings));
        match (sort.as_str(), text, caption) {
            ("text" | "input_text" | "output_text" | "", Some(text), _) => texts.push(text),
            (_, _, Some(caption)) => captions.push(caption),
            (sort, ..) => {
                let shown = super::detect::visible_start(sort, 40);
                let message = format!(
                    "a content part of type `{shown}` holds no text or caption; it was left out"
                );
                if PICTURES.contains(&sort) {
                    source.placeholders += 1;
                    warnings.add(place, message);
                } else if WORKINGS.contains(&sort) {
                    warnings.add(place, message);
                } else {
                    warnings.lose(place, message);
                }
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

/// The text at `text`; Telegram makes a list of it where words are links or bold.
fn running_text(fields: &mut Object, place: &str, warnings: &mut Warnings) -> String {
    let parts = match fields.remove("text") {
        Some(Value::Array(parts)) => parts,
        Some(other) => vec![other],
        None => Vec::new(),
    };
    let mut whole = String::new();
    for part in parts {
        match part {
            Value::Null => {}
            Value::String(text) => whole.push_str(&text),
            other => {
                let Some(part) = object(other, place, warnings) else {
                    continue;
                };
                match part.get("text") {
                    Some(Value::String(text)) => whole.push_str(text),
                    _ => warnings.lose(place, "a part of `text` holds no text; it was left out"),
                }
            }
        }
    }
    clean_text(whole)
}

/// The time in `timestamp`, `created_at`, `time` or `date`: ISO text, or seconds or milliseconds since 1970.
fn time(fields: &mut Object, place: &str, warnings: &mut Warnings) -> Option<Moment> {
    let keys = ["timestamp", "created_at", "time", "date"];
    let (key, value) = keys.into_iter().find_map(|key| {
        let value = fields.remove(key).filter(|value| !value.is_null())?;
        Some((key, value))
    })?;
    let moment = match &value {
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
