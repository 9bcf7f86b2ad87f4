//! Reading a parsed query (DimMem specification, sections 6.1 and 6.3).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    clean::{Mode, clean, trim},
    reply::read_object,
    time::limit::TimeLimits,
};

/// A question taken apart for retrieval.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParsedQuery {
    /// The question as one statement of what to find.
    pub query_anchor: String,
    /// The answer lies in what the assistant said.
    pub need_assistant_context: bool,
    /// Memory types to look among; empty for all.
    pub target_memory_type: Vec<String>,
    /// Entities and topics.
    pub keywords: Vec<String>,
    /// `on|before|after|around TIME` or `between START and END`, `""` without a limit.
    pub time: String,
    /// Place that limits the search, or `""`.
    pub location: String,
    /// Dimension that answers the question; `""` when it needs counting, comparing or inferring.
    pub answer_dim: String,
}

impl ParsedQuery {
    /// Reads a reply to the query prompt; `None` when it holds no JSON object, which is a failed try.
    pub fn read(reply: &str) -> Option<Self> {
        read_object(reply).map(|fields| Self::normalise(&fields, Mode::Default))
    }

    /// Query for a question whose parse failed: the question itself, nothing else.
    pub fn fallback(question: &str) -> Self {
        Self {
            query_anchor: trim(question).to_owned(),
            ..Self::default()
        }
    }

    /// Cleans the fields of a reply.
    pub fn normalise(fields: &Map<String, Value>, mode: Mode) -> Self {
        let dimension = fields.get("dimension").and_then(Value::as_object);
        let inner = |key| {
            dimension
                .and_then(|fields| fields.get(key))
                .unwrap_or(&Value::Null)
        };
        let outer = |key| fields.get(key).unwrap_or(&Value::Null);
        Self {
            query_anchor: clean(outer("query_anchor"), mode),
            need_assistant_context: is_true(outer("need_assistant_context"), mode),
            target_memory_type: distinct(inner("target_memory_type"), mode),
            keywords: distinct(inner("keywords"), mode),
            time: clean(inner("time"), mode),
            location: clean(inner("location"), mode),
            answer_dim: clean(outer("answer_dim"), mode).to_lowercase(),
        }
    }

    /// The limit that [`ParsedQuery::time`] sets. What cannot be read is among its
    /// [`TimeLimits::unreadable`] ones and has to be told, since it is met by no record.
    pub fn time_limits(&self, mode: Mode) -> TimeLimits {
        TimeLimits::read([self.time.as_str()], mode)
    }

    /// Text for keyword search: the anchor, then the keywords.
    pub fn bm25_text(&self) -> String {
        let parts = std::iter::once(&self.query_anchor).chain(&self.keywords);
        parts
            .filter(|part| !part.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// Cleaned elements of a list or one bare text; of those equal but for case the first stays.
fn distinct(value: &Value, mode: Mode) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in crate::clean::clean_keywords(value, mode) {
        if !kept
            .iter()
            .any(|other| other.to_lowercase() == text.to_lowercase())
        {
            kept.push(text);
        }
    }
    kept
}

/// Whether `value` counts as true; the texts `false`, `no` and `0` do not, except in the reference.
fn is_true(value: &Value, mode: Mode) -> bool {
    match (value, mode) {
        (Value::String(text), Mode::Default) => {
            !["", "false", "no", "0"].contains(&trim(text).to_lowercase().as_str())
        }
        (Value::String(text), Mode::Compat) => !text.is_empty(),
        (Value::Array(items), _) => !items.is_empty(),
        (Value::Object(fields), _) => !fields.is_empty(),
        _ => !clean(value, mode).is_empty(),
    }
}
