//! Which format a text has, and its content split accordingly.

use std::path::Path;

use serde_json::Value;

use super::Format;
use super::chat::Conversation;
use super::fields::Object;
use super::plain::Lines;
use super::warnings::Warnings;
use crate::error::ReadError;

/// Content of a file, sorted by format; readers turn it into transcripts.
pub(super) enum Input<'a> {
    Scenario(Vec<Value>),
    Locomo(Vec<Value>),
    Longmemeval(Vec<Value>),
    Chat(Vec<Conversation>),
    Plain(Lines<'a>),
}

impl Input<'_> {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Scenario(_) => Format::Scenario,
            Self::Locomo(_) => Format::Locomo,
            Self::Longmemeval(_) => Format::Longmemeval,
            Self::Chat(_) => Format::Chat,
            Self::Plain(_) => Format::Plain,
        }
    }
}

/// Sorts `text`, which holds more than white space, into the format asked for or the one that it has.
pub(super) fn detect<'a>(
    path: &Path,
    text: &'a str,
    format: Option<Format>,
    warnings: &mut Warnings,
) -> Result<Input<'a>, ReadError> {
    match format {
        Some(Format::Plain) => {
            let lines = Lines::scan(text);
            if lines.turns() == 0 {
                let problem =
                    "no line is like `[2024-03-04 18:20] Mina: Hello` or `Mina: Hello`".to_owned();
                return Err(ReadError::Shape {
                    path: path.to_owned(),
                    format: Format::Plain,
                    problem,
                });
            }
            Ok(Input::Plain(lines))
        }
        Some(format) => json(path, text, Some(format), warnings),
        None => {
            // `[` opens a JSON list as well as the time of a line of chat.
            let first_line = text.trim_start().lines().next().unwrap_or_default();
            let maybe_json = first_line.starts_with(['{', '[']) && !Lines::is_timed(first_line);
            if maybe_json && opens_json(text) {
                return json(path, text, None, warnings);
            }
            let lines = Lines::scan(text);
            if lines.look_like_a_transcript() {
                Ok(Input::Plain(lines))
            } else if let Some(lines) = json_lines(text) {
                Ok(Input::Chat(by_lines(lines, warnings)))
            } else {
                Err(unknown(path, text))
            }
        }
    }
}

/// Whether the first two visible characters can open a JSON object or list.
fn opens_json(text: &str) -> bool {
    let mut visible = text.chars().filter(|c| !c.is_whitespace());
    match (visible.next(), visible.next()) {
        (Some('{'), next) => matches!(next, None | Some('"' | '}')),
        (Some('['), next) => matches!(next, None | Some('{' | '[' | '"' | ']')),
        _ => false,
    }
}

fn unknown(path: &Path, text: &str) -> ReadError {
    ReadError::Unknown {
        path: path.to_owned(),
        seen: visible_start(text, 60),
    }
}

/// The first `count` characters on one line, with control and formatting characters escaped.
pub(super) fn visible_start(text: &str, count: usize) -> String {
    let text = text.trim_start();
    let mut start: String = text
        .chars()
        .take(count)
        .collect::<String>()
        .escape_debug()
        .collect();
    start = start.replace("\\\"", "\"").replace("\\'", "'");
    if text.chars().nth(count).is_some() {
        start.push('…');
    }
    start
}

fn json<'a>(
    path: &Path,
    text: &'a str,
    format: Option<Format>,
    warnings: &mut Warnings,
) -> Result<Input<'a>, ReadError> {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => sort(path, text, value, format),
        Err(source) => {
            if matches!(format, None | Some(Format::Chat))
                && let Some(lines) = json_lines(text)
            {
                return Ok(Input::Chat(by_lines(lines, warnings)));
            }
            let (line, column) = (source.line(), source.column());
            Err(ReadError::Json {
                path: path.to_owned(),
                line,
                column,
                source,
            })
        }
    }
}

/// The format that an item's fields tell.
fn telling(item: &Value) -> Option<Format> {
    let item = item.as_object()?;
    let has = |key| item.contains_key(key);
    if has("haystack_sessions") {
        Some(Format::Longmemeval)
    } else if item.get("conversation").is_some_and(Value::is_object) {
        Some(Format::Locomo)
    } else if has("scenario_id") || item.get("sessions").is_some_and(Value::is_array) {
        Some(Format::Scenario)
    } else if is_conversation(item) || has("role") {
        Some(Format::Chat)
    } else {
        None
    }
}

fn is_conversation(item: &Object) -> bool {
    item.get("messages").is_some_and(Value::is_array)
}

fn sort<'a>(
    path: &Path,
    text: &str,
    value: Value,
    format: Option<Format>,
) -> Result<Input<'a>, ReadError> {
    let items = match value {
        Value::Array(items) => items,
        object @ Value::Object(_) => vec![object],
        _ => return Err(unknown(path, text)),
    };
    let told = items.iter().find_map(|item| match format {
        Some(wanted) => telling(item).filter(|told| *told == wanted),
        None => telling(item),
    });
    match told {
        Some(Format::Scenario) => Ok(Input::Scenario(items)),
        Some(Format::Locomo) => Ok(Input::Locomo(items)),
        Some(Format::Longmemeval) => Ok(Input::Longmemeval(items)),
        Some(Format::Chat) => Ok(Input::Chat(by_items(items))),
        Some(Format::Plain) | None => match format {
            None => Err(unknown(path, text)),
            Some(format) => {
                let field = match format {
                    Format::Scenario => "`sessions`",
                    Format::Locomo => "`conversation`",
                    Format::Longmemeval => "`haystack_sessions`",
                    Format::Chat | Format::Plain => "`role` or a list of `messages`",
                };
                let problem = format!("no object in it has {field}");
                Err(ReadError::Shape {
                    path: path.to_owned(),
                    format,
                    problem,
                })
            }
        },
    }
}

/// Conversations of a JSON list: each object with `messages` is one, single messages together are one.
fn by_items(items: Vec<Value>) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    let mut single = Vec::new();
    for (index, item) in items.into_iter().enumerate() {
        match item {
            Value::Object(fields) if is_conversation(&fields) => {
                conversations.push(Conversation::from_object(
                    fields,
                    format!("conversation {}", index + 1),
                ));
            }
            message => single.push((format!("message {}", index + 1), message)),
        }
    }
    if !single.is_empty() {
        conversations.insert(0, Conversation::from_messages(single));
    }
    conversations
}

/// What each line that is not blank holds, with its 1-based number; `None` if this is no JSONL: lines are
/// one JSON object each, apart from a minority of broken ones.
fn json_lines(text: &str) -> Option<Vec<(usize, Result<Value, serde_json::Error>)>> {
    let lines = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty());
    let lines: Vec<_> = lines
        .map(|(index, line)| (index + 1, serde_json::from_str::<Value>(line)))
        .collect();
    let good = lines
        .iter()
        .filter(|(_, item)| {
            item.as_ref()
                .is_ok_and(|item| telling(item) == Some(Format::Chat))
        })
        .count();
    (lines.len() > 1 && good * 2 >= lines.len()).then_some(lines)
}

fn by_lines(
    lines: Vec<(usize, Result<Value, serde_json::Error>)>,
    warnings: &mut Warnings,
) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    let mut single = Vec::new();
    for (number, item) in lines {
        let place = format!("line {number}");
        match item {
            Ok(Value::Object(fields)) if is_conversation(&fields) => {
                conversations.push(Conversation::from_object(fields, place));
            }
            Ok(message) => single.push((place, message)),
            Err(error) => {
                let message = format!(
                    "not valid JSON at column {}; the line was left out",
                    error.column()
                );
                warnings.lose(place, message);
            }
        }
    }
    if !single.is_empty() {
        conversations.insert(0, Conversation::from_messages(single));
    }
    conversations
}
