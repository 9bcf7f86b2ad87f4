//! Which format a text has, and its content split accordingly.

use std::path::Path;

use serde_json::Value;

use super::Format;
use super::chat::Conversation;
use super::fields::Object;
use super::plain::{Lines, Rows, is_of_line, rows};
use super::warnings::Warnings;
use crate::error::ReadError;

/// Content of a file, sorted by format; readers turn it into transcripts.
pub(super) enum Input<'a> {
    Scenario(Vec<Value>),
    Locomo(Vec<Value>),
    Longmemeval(Vec<Value>),
    Chat(Vec<Conversation>),
    Plain(Lines<'a>),
    /// KakaoTalk's table, a sort of plain text.
    Rows(Rows),
}

impl Input<'_> {
    pub(super) fn format(&self) -> Format {
        match self {
            Self::Scenario(_) => Format::Scenario,
            Self::Locomo(_) => Format::Locomo,
            Self::Longmemeval(_) => Format::Longmemeval,
            Self::Chat(_) => Format::Chat,
            Self::Plain(_) | Self::Rows(_) => Format::Plain,
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
            let lines = plain(path, text)?;
            if let Input::Plain(lines) = &lines
                && lines.turns() == 0
            {
                let problem = "no line is like `[2024-03-04 18:20] Mina: Hello` or `Mina: Hello`";
                return Err(not_plain(path, problem));
            }
            Ok(lines)
        }
        Some(format) => json(path, text, Some(format), warnings),
        None => {
            // `[` opens a JSON list as well as the time of a line of chat.
            let first_line = text.trim_start().lines().next().unwrap_or_default();
            let maybe_json = first_line.starts_with(['{', '[']) && !Lines::is_timed(first_line);
            if maybe_json && opens_json(text) {
                return json(path, text, None, warnings);
            }
            let lines = plain(path, text)?;
            let fits = match &lines {
                Input::Plain(lines) => lines.look_like_a_transcript(),
                _ => true,
            };
            if fits {
                Ok(lines)
            } else if let Some((format, lines)) = json_lines(text, None) {
                Ok(by_lines(format, lines, warnings))
            } else {
                Err(unknown(path, text))
            }
        }
    }
}

/// Splits a text into lines, or KakaoTalk's table into rows.
fn plain<'a>(path: &Path, text: &'a str) -> Result<Input<'a>, ReadError> {
    if let Some(rows) = rows(text) {
        Ok(Input::Rows(rows))
    } else if is_of_line(text) {
        let problem = "it looks like an export of LINE, which is not read: write `[18:20] Mina: Hello` \
             for `18:20`, `Mina` and `Hello` with tabs between them, and dates as `# 2024-03-04`";
        Err(not_plain(path, problem))
    } else {
        Ok(Input::Plain(Lines::scan(text)))
    }
}

fn not_plain(path: &Path, problem: &str) -> ReadError {
    ReadError::Shape {
        path: path.to_owned(),
        format: Format::Plain,
        problem: problem.to_owned(),
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
            if let Some((format, lines)) = json_lines(text, format) {
                return Ok(by_lines(format, lines, warnings));
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
    } else if is_conversation(item) || has("role") || is_named_message(item) {
        Some(Format::Chat)
    } else {
        None
    }
}

/// Whether an item is a message of Discord or Telegram or written like one.
fn is_named_message(item: &Object) -> bool {
    let is_name = |key: &str| {
        let name = item.get(key);
        name.is_some_and(|name| name.is_string() || name.is_object())
    };
    let is_said = |key: &str| {
        let said = item.get(key);
        said.is_some_and(|said| said.is_string() || said.is_array())
    };
    ["author", "from", "sender"].iter().any(|key| is_name(key))
        && ["content", "text"].iter().any(|key| is_said(key))
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
                    Format::Chat | Format::Plain => {
                        "`role`, a sender with text, or a list of `messages`"
                    }
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

/// Conversations of a JSON list: each object with `messages` is one, single messages together are one, or one for
/// every conversation that they name.
fn by_items(items: Vec<Value>) -> Vec<Conversation> {
    let places = (1..).map(|n| (format!("conversation {n}"), format!("message {n}")));
    conversations(places.zip(items))
}

fn conversations(items: impl Iterator<Item = ((String, String), Value)>) -> Vec<Conversation> {
    let mut conversations = Vec::new();
    let mut single = Vec::new();
    for ((place, message_place), item) in items {
        match item {
            Value::Object(fields) if is_conversation(&fields) => {
                conversations.push(Conversation::from_object(fields, place));
            }
            message => single.push((message_place, message)),
        }
    }
    conversations.splice(0..0, Conversation::from_messages(single));
    conversations
}

/// What a line that is not blank holds, with its 1-based number.
type JsonLine = (usize, Result<Value, serde_json::Error>);

/// The lines of JSONL and the format that they have; `None` if this is none: lines are one JSON object each, apart
/// from broken ones.
fn json_lines(text: &str, wanted: Option<Format>) -> Option<(Format, Vec<JsonLine>)> {
    let visible = || text.lines().filter(|line| !line.trim().is_empty());
    let lines: Vec<JsonLine> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
        .map(|(index, line)| (index + 1, serde_json::from_str(line)))
        .collect();
    let tells = |(_, item): &JsonLine| telling(item.as_ref().ok()?);
    let format = wanted.or_else(|| lines.iter().find_map(tells))?;
    let is_good = |line: &JsonLine| tells(line) == Some(format);
    let good = lines.iter().filter(|line| is_good(line)).count();
    // Lines of one JSON text that is cut short may be objects, too.
    let is_whole = |line: &str| {
        line.trim_start().starts_with('{') && !line.trim_end().ends_with(['{', '[', ','])
    };
    let plausible =
        lines.first().is_some_and(is_good) || good * 2 >= lines.len() || visible().all(is_whole);
    (lines.len() > 1 && good > 0 && plausible).then_some((format, lines))
}

fn by_lines<'a>(format: Format, lines: Vec<JsonLine>, warnings: &mut Warnings) -> Input<'a> {
    let mut items = Vec::new();
    for (number, item) in lines {
        match item {
            Ok(item) => items.push((number, item)),
            Err(error) => {
                let message = format!(
                    "not valid JSON at column {}; the line was left out",
                    error.column()
                );
                warnings.lose(format_args!("line {number}"), message);
            }
        }
    }
    let values = |items: Vec<(usize, Value)>| items.into_iter().map(|(_, item)| item).collect();
    match format {
        Format::Scenario => Input::Scenario(values(items)),
        Format::Locomo => Input::Locomo(values(items)),
        Format::Longmemeval => Input::Longmemeval(values(items)),
        Format::Chat | Format::Plain => {
            let place = |number| format!("line {number}");
            let items = items.into_iter();
            Input::Chat(conversations(
                items.map(|(number, item)| ((place(number), place(number)), item)),
            ))
        }
    }
}
