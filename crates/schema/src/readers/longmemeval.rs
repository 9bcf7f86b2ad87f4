//! LongMemEval (`longmemeval_s_cleaned.json`): specification section 2.2.

use jiff::civil::{Date, Time};
use serde_json::Value;

use super::Source;
use super::fields::{
    Object, clean_text, object, role_of, role_word, take_content, take_list, take_text, type_name,
};
use super::tidy::UniqueIds;
use crate::transcript::{Kind, Moment, Role, Session, Transcript, Turn};

/// The reference's name for the question in row `row` (0-based): `0007_` and the identifier with every run
/// of other characters than `A-Z a-z 0-9 _ -` turned into `_`.
pub fn sample_key(row: usize, question_id: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut slug = String::new();
    let mut before_allowed = true;
    for c in question_id.chars() {
        if allowed(c) {
            slug.push(c);
        } else if before_allowed {
            slug.push('_');
        }
        before_allowed = allowed(c);
    }
    let slug = slug.trim_matches('_');
    format!(
        "{row:04}_{}",
        if slug.is_empty() { "unknown" } else { slug }
    )
}

pub(super) fn read(items: Vec<Value>, source: &mut Source<'_>) -> Vec<Transcript> {
    let questions = items.into_iter().enumerate();
    questions
        .filter_map(|(row, item)| {
            let place = format!("question {}", row + 1);
            let mut question = object(item, &place, source.warnings)?;
            let id = take_text(&mut question, "question_id", &place, source.warnings)
                .filter(|id| !id.is_empty())
                .unwrap_or_else(|| {
                    let id = sample_key(row, "");
                    source
                        .warnings
                        .add(&place, format!("`question_id` is missing; now `{id}`"));
                    id
                });
            Some(transcript(id, question, source))
        })
        .collect()
}

fn transcript(id: String, mut question: Object, source: &mut Source<'_>) -> Transcript {
    let place = format!("question `{id}`");
    let ids = match question.remove("haystack_session_ids") {
        Some(Value::Array(ids)) => ids,
        _ => {
            let message = "`haystack_session_ids` is no list; sessions are numbered";
            source.warnings.add(&place, message);
            Vec::new()
        }
    };
    let mut list = |key| take_list(&mut question, key, &place, source.warnings).unwrap_or_default();
    let dates = list("haystack_dates");
    let haystack = list("haystack_sessions");
    let mut unique = UniqueIds::default();
    let mut sessions = Vec::with_capacity(haystack.len());
    for (index, turns) in haystack.into_iter().enumerate() {
        let place = format!("{place}, session {}", index + 1);
        let Some(date) = dates.get(index) else {
            source.warnings.lose(
                &place,
                "`haystack_dates` has no date for it; the session was skipped",
            );
            continue;
        };
        let Value::Array(turns) = turns else {
            source.warnings.lose(
                &place,
                format!(
                    "{} where a list of messages belongs; it was left out",
                    type_name(&turns)
                ),
            );
            continue;
        };
        let start = date.as_str().and_then(parse_date);
        if start.is_none() {
            source.warnings.add(
                &place,
                "its date is not like `2023/06/25 (Sun) 13:22`; the session stays undated",
            );
        }
        let given = ids
            .get(index)
            .and_then(Value::as_str)
            .filter(|id| !id.trim().is_empty());
        let mut id = given.map_or_else(|| format!("session_{index:04}"), |id| id.trim().to_owned());
        if let Some(new) = unique.rename(&id) {
            source.warnings.add(
                &place,
                format!("the identifier `{id}` occurs twice; now `{new}`"),
            );
            id = new;
        }
        let turns = turns.into_iter().enumerate().filter_map(|(n, item)| {
            let place = format!("{place}, message {}", n + 1);
            let fields = object(item, &place, source.warnings)?;
            Some(turn(format!("{id}:{}", n + 1), fields, &place, source))
        });
        let turns = turns.collect();
        sessions.push(Session { id, start, turns });
    }
    let participants = [Role::User, Role::Assistant]
        .map(|role| role_word(role).to_owned())
        .into();
    Transcript {
        id,
        kind: Kind::Assistant,
        language: None,
        participants,
        sessions,
    }
}

/// Reads one message; an unknown role is kept as a tool's, so that it is neither asked for memories nor
/// taken for the assistant's reply.
fn turn(id: String, mut fields: Object, place: &str, source: &mut Source<'_>) -> Turn {
    let word = take_text(&mut fields, "role", place, source.warnings)
        .or_else(|| take_text(&mut fields, "speaker", place, source.warnings));
    let role = word.as_deref().and_then(role_of).unwrap_or_else(|| {
        source.warnings.add(
            place,
            "the role is neither `user` nor `assistant`; the message is context only",
        );
        Role::Tool
    });
    let text = take_content(&mut fields, "content", place, source.warnings).unwrap_or_default();
    Turn {
        id,
        speaker: role_word(role).to_owned(),
        role,
        text: clean_text(text),
        image_caption: None,
        time: None,
    }
}

/// Reads `2023/06/25 (Sun) 13:22`; the weekday is not checked against the date.
fn parse_date(text: &str) -> Option<Moment> {
    let (date, rest) = text.trim().split_once('(')?;
    let (_weekday, time) = rest.split_once(')')?;
    let date = Date::strptime("%Y/%m/%d", date.trim()).ok()?;
    let time = Time::strptime("%H:%M", time.trim()).ok()?;
    Some(Moment::local(date.to_datetime(time)))
}

#[cfg(test)]
mod tests {
    use super::super::golden_dates;
    use super::*;

    #[test]
    fn dates_as_in_the_golden_cases() {
        let bad = [
            "",
            "2023/06/25 13:22",
            "2023/02/30 (Thu) 13:22",
            "2023/06/25 (Sun) 25:00",
        ];
        golden_dates::check("longmemeval", 3, parse_date, &bad);
    }

    #[test]
    fn sample_keys_are_safe_file_names() {
        assert_eq!(sample_key(0, "synth 2/odd?"), "0000_synth_2_odd");
        assert_eq!(
            sample_key(12, "gpt4_2655b836_abs"),
            "0012_gpt4_2655b836_abs"
        );
        assert_eq!(sample_key(3, "??"), "0003_unknown");
    }
}
