//! Sorting chat messages by the identifiers that they name.

use std::collections::HashMap;

use serde_json::Value;

/// The identifier at `key`, text or a number.
pub(super) fn named_id(message: &Value, key: &str) -> Option<String> {
    match message.get(key)? {
        Value::String(id) if !id.trim().is_empty() => Some(id.trim().to_owned()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Puts messages of one session together, in the order of the sessions' first messages, each with the number of its
/// session. A message that names none belongs to that of the message before.
pub(super) fn by_session(messages: Vec<(String, Value)>) -> Vec<(usize, String, Value)> {
    let mut known: HashMap<String, usize> = HashMap::new();
    let mut current = 0;
    let mut numbered: Vec<_> = messages
        .into_iter()
        .map(|(place, message)| {
            if let Some(id) = named_id(&message, "session_id") {
                let next = known.len() + 1;
                current = *known.entry(id).or_insert(next);
            }
            (current, place, message)
        })
        .collect();
    numbered.sort_by_key(|(session, ..)| *session);
    numbered
}
