//! Finding the JSON in a model's reply (DimMem specification, section 5.3).

use serde_json::{Deserializer, Map, Value};

use crate::clean::trim;

/// The memory rows of a reply, nothing checked yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Elements of the `memories` list, whatever they are.
    pub rows: Vec<Value>,
    /// The reply was cut off; only the rows before the cut are here.
    pub salvaged: bool,
}

/// Rows of a reply to the extraction prompt; `None` when it holds no memories list, which is a failed try.
///
/// Accepted: an object with a `memories` list, or a bare array of objects; after reasoning, inside a code fence, or
/// amid prose. Of a list that was cut off, every complete element is kept.
pub fn read_rows(text: &str) -> Option<Rows> {
    let text = answer_part(text)?;
    if let Some(rows) = serde_json::from_str(text).ok().and_then(rows_of) {
        return Some(Rows {
            rows,
            salvaged: false,
        });
    }
    if text == "[]" {
        return Some(Rows {
            rows: Vec::new(),
            salvaged: false,
        });
    }
    if let Some(rows) = values(text).find_map(rows_of) {
        return Some(Rows {
            rows,
            salvaged: false,
        });
    }
    let rows = complete_rows(text);
    (!rows.is_empty()).then_some(Rows {
        rows,
        salvaged: true,
    })
}

/// The first complete JSON object of a reply; `None` when there is none, which is a failed try.
pub fn read_object(text: &str) -> Option<Map<String, Value>> {
    values(answer_part(text)?).find_map(|value| match value {
        Value::Object(fields) => Some(fields),
        _ => None,
    })
}

/// Complete elements of a memories list whose end may be missing.
pub(crate) fn complete_rows(text: &str) -> Vec<Value> {
    let Some(mut rest) = list_body(text) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        let mut stream = Deserializer::from_str(rest).into_iter::<Value>();
        let Some(Ok(value)) = stream.next() else {
            return rows;
        };
        rest = rest.get(stream.byte_offset()..).unwrap_or_default();
        rows.push(value);
    }
}

/// `text` behind the reasoning and inside the code fence; `None` when the reasoning never ends.
fn answer_part(text: &str) -> Option<&str> {
    let mut text = trim(text);
    // A reply that begins as an answer may well speak of think tags inside its strings.
    if !text.starts_with(['{', '[', '`']) {
        match text.split_once("</think>") {
            Some((_, answer)) => text = trim(answer),
            None if text.starts_with("<think>") => return None,
            None => {}
        }
    }
    if let Some((_, inner)) = text
        .strip_prefix("```")
        .and_then(|fenced| fenced.split_once('\n'))
    {
        text = trim(inner);
        text = trim(text.strip_suffix("```").unwrap_or(text));
    }
    Some(text)
}

/// The memories list that `value` is or holds.
fn rows_of(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Object(mut fields) => match fields.remove("memories") {
            Some(Value::Array(rows)) => Some(rows),
            _ => None,
        },
        Value::Array(rows) if !rows.is_empty() && rows.iter().all(Value::is_object) => Some(rows),
        _ => None,
    }
}

/// Every complete object or array of `text`, in the order of their first characters.
fn values(text: &str) -> impl Iterator<Item = Value> {
    text.match_indices(['{', '['])
        .filter_map(move |(start, _)| {
            let rest = text.get(start..)?;
            Deserializer::from_str(rest).into_iter().next()?.ok()
        })
}

/// What follows the opening bracket of the memories list.
fn list_body(text: &str) -> Option<&str> {
    let after_key = text.split_once("\"memories\"").and_then(|(_, rest)| {
        rest.trim_start()
            .strip_prefix(':')?
            .trim_start()
            .strip_prefix('[')
    });
    after_key.or_else(|| {
        let (_, rest) = text.split_once('[')?;
        rest.trim_start().starts_with('{').then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Option<(usize, bool)> {
        read_rows(text).map(|found| (found.rows.len(), found.salvaged))
    }

    #[test]
    fn answers_are_found_wherever_they_stand() {
        assert_eq!(rows(r#"{"memories":[{"a":1}]}"#), Some((1, false)));
        assert_eq!(
            rows("Sure:\n```json\n{\"memories\":[{\"a\":1}]}\n```\nDone."),
            Some((1, false))
        );
        assert_eq!(
            rows(r#"{"result":{"memories":[{"a":1}]}}"#),
            Some((1, false))
        );
        assert_eq!(
            rows(r#"<think>{"memories":[]}</think>[{"a":1},{"b":2}]"#),
            Some((2, false))
        );
        assert_eq!(rows("[]"), Some((0, false)));
        assert_eq!(
            rows(r#"{"memories":[{"content":"the tag </think> ends it"}]}"#),
            Some((1, false))
        );
    }

    #[test]
    fn cut_replies_keep_their_complete_rows() {
        assert_eq!(
            rows(r#"{"memories":[{"a":1},{"b":{"c":2}},{"d":"#),
            Some((2, true))
        );
        assert_eq!(rows(r#"[{"a":1}, {"b":"#), Some((1, true)));
        assert_eq!(rows("```json\n{\"memories\": [ {\"a\":1}"), Some((1, true)));
    }

    #[test]
    fn replies_without_a_list_are_failed_tries() {
        for text in [
            "",
            "nothing",
            r#"{"items":[]}"#,
            r#"{"memories":[{"a":"#,
            "<think>{\"memories\":[]}",
            "{\"memories\":",
        ] {
            assert_eq!(rows(text), None, "{text}");
        }
    }

    #[test]
    fn floods_of_brackets_neither_hang_nor_overflow() {
        assert_eq!(rows(&"[".repeat(50_000)), None);
        assert_eq!(rows(&"{\"a\":".repeat(20_000)), None);
    }
}
