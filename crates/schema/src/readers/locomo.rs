//! LoCoMo (`locomo10.json`): specification section 2.1.

use jiff::civil::DateTime;
use serde_json::Value;

use super::Source;
use super::fields::{Object, clean_name, object, take_text, turn, type_name};
use crate::transcript::{Kind, Moment, Session, Transcript};

pub(super) fn read(items: Vec<Value>, source: &mut Source<'_>) -> Vec<Transcript> {
    let samples = items.into_iter().enumerate();
    samples
        .filter_map(|(index, item)| {
            let place = format!("sample {}", index + 1);
            let mut sample = object(item, &place, source.warnings)?;
            let id = take_text(&mut sample, "sample_id", &place, source.warnings)
                .filter(|id| !id.is_empty())
                .unwrap_or_else(|| {
                    let id = format!("{}-{}", source.stem, index + 1);
                    source
                        .warnings
                        .add(&place, format!("`sample_id` is missing; now `{id}`"));
                    id
                });
            let Some(conversation) = sample.remove("conversation") else {
                source
                    .warnings
                    .lose(&place, "`conversation` is missing; the sample was left out");
                return None;
            };
            let conversation = object(conversation, &place, source.warnings)?;
            Some(transcript(id, conversation, source))
        })
        .collect()
}

fn transcript(id: String, mut conversation: Object, source: &mut Source<'_>) -> Transcript {
    let place = format!("sample `{id}`");
    let participants = ["speaker_a", "speaker_b"]
        .into_iter()
        .filter_map(|key| take_text(&mut conversation, key, &place, source.warnings))
        .map(|name| clean_name(&name))
        .collect();
    // Dates without a session are normal: conv-26 has 35 dates and 19 sessions.
    let mut numbers: Vec<u64> = conversation
        .keys()
        .filter_map(|key| session_number(key))
        .collect();
    numbers.sort_unstable();
    let sessions = numbers
        .into_iter()
        .filter_map(|number| session(number, &mut conversation, &place, source))
        .collect();
    Transcript {
        id,
        kind: Kind::Dialogue,
        language: None,
        participants,
        sessions,
    }
}

fn session_number(key: &str) -> Option<u64> {
    let number = key.strip_prefix("session_")?.parse().ok()?;
    // `session_01` is not the key that this number is looked up by.
    (key == format!("session_{number}")).then_some(number)
}

fn session(
    number: u64,
    conversation: &mut Object,
    place: &str,
    source: &mut Source<'_>,
) -> Option<Session> {
    let id = format!("session_{number}");
    let place = format!("{place}, session `{id}`");
    let turns = match conversation.remove(&id)? {
        Value::Array(turns) => turns,
        other => {
            source.warnings.lose(
                &place,
                format!(
                    "{} where a list of turns belongs; it was left out",
                    type_name(&other)
                ),
            );
            return None;
        }
    };
    let date_key = format!("{id}_date_time");
    let Some(date) = take_text(conversation, &date_key, &place, source.warnings) else {
        source.warnings.lose(
            &place,
            format!("`{date_key}` is missing; the session was skipped"),
        );
        return None;
    };
    let start = parse_date(&date);
    if start.is_none() {
        source.warnings.add(
            &place,
            format!("`{date_key}` is not like `1:56 pm on 8 May, 2023`; the session stays undated"),
        );
    }
    let turns = turns.into_iter().enumerate().filter_map(|(index, item)| {
        let place = format!("{place}, turn {}", index + 1);
        let fields = object(item, &place, source.warnings)?;
        Some(turn(
            ["dia_id", "blip_caption"],
            format!("D{number}:{}", index + 1),
            fields,
            &place,
            source,
        ))
    });
    let turns = turns.collect();
    Some(Session { id, start, turns })
}

/// Reads `1:56 pm on 8 May, 2023`.
fn parse_date(text: &str) -> Option<Moment> {
    DateTime::strptime("%I:%M %p on %d %B, %Y", text.trim())
        .ok()
        .map(Moment::local)
}

#[cfg(test)]
mod tests {
    use super::super::golden_dates;
    use super::*;

    #[test]
    fn dates_as_in_the_golden_cases() {
        let bad = [
            "",
            "13:56 pm on 8 May, 2023",
            "1:56 pm on 31 June, 2023",
            "8 May, 2023",
        ];
        golden_dates::check("locomo", 5, parse_date, &bad);
    }
}
