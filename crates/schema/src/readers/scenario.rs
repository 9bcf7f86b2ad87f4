//! Our scenario files. Labels beside the conversation are not read here.

use serde_json::Value;

use super::Source;
use super::fields::{Object, clean_name, object, role_of, take_list, take_text, turn};
use crate::transcript::{Kind, Role, Session, Transcript};

pub(super) fn read(items: Vec<Value>, source: &mut Source<'_>) -> Vec<Transcript> {
    let count = items.len();
    let scenarios = items.into_iter().enumerate();
    scenarios
        .filter_map(|(index, item)| {
            let place = format!("scenario {}", index + 1);
            let mut scenario = object(item, &place, source.warnings)?;
            let id = take_text(&mut scenario, "scenario_id", &place, source.warnings)
                .filter(|id| !id.is_empty())
                .unwrap_or_else(|| match count {
                    1 => source.stem.to_owned(),
                    _ => format!("{}-{}", source.stem, index + 1),
                });
            Some(transcript(id, scenario, source))
        })
        .collect()
}

fn transcript(id: String, mut scenario: Object, source: &mut Source<'_>) -> Transcript {
    let place = format!("scenario `{id}`");
    let sessions =
        take_list(&mut scenario, "sessions", &place, source.warnings).unwrap_or_default();
    let sessions: Vec<_> = sessions
        .into_iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let place = format!("{place}, session {}", index + 1);
            let fields = object(item, &place, source.warnings)?;
            Some(session(index, fields, &place, source))
        })
        .collect();
    let mut speakers: Vec<String> = Vec::new();
    for turn in sessions.iter().flat_map(|session| &session.turns) {
        if !speakers.contains(&turn.speaker) {
            speakers.push(turn.speaker.clone());
        }
    }
    let kind = kind(&mut scenario, &speakers, &place, source);
    let participants = participants(&mut scenario).unwrap_or(speakers);
    let language = take_text(&mut scenario, "language", &place, source.warnings);
    let mut transcript = Transcript {
        id,
        kind,
        language,
        participants,
        sessions,
    };
    if kind == Kind::Assistant {
        for turn in transcript
            .sessions
            .iter_mut()
            .flat_map(|session| &mut session.turns)
        {
            turn.role = role_of(&turn.speaker).unwrap_or(Role::User);
        }
    }
    transcript
}

/// The stated kind; without one, two speakers of whom one is an assistant make it kind assistant.
fn kind(scenario: &mut Object, speakers: &[String], place: &str, source: &mut Source<'_>) -> Kind {
    match take_text(scenario, "kind", place, source.warnings).as_deref() {
        Some("dialogue") => return Kind::Dialogue,
        Some("assistant") => return Kind::Assistant,
        Some(other) => {
            source.warnings.add(
                place,
                format!(
                    "`kind` is `{other}`, neither `dialogue` nor `assistant`; the speakers decide"
                ),
            );
        }
        None => {}
    }
    let roles: Vec<_> = speakers.iter().map(|speaker| role_of(speaker)).collect();
    let with_assistant =
        roles.contains(&Some(Role::Assistant)) && roles.iter().all(Option::is_some);
    if with_assistant {
        Kind::Assistant
    } else {
        Kind::Dialogue
    }
}

fn participants(scenario: &mut Object) -> Option<Vec<String>> {
    let Some(Value::Array(items)) = scenario.remove("participants") else {
        return None;
    };
    let names: Vec<_> = items
        .iter()
        .filter_map(Value::as_str)
        .map(clean_name)
        .collect();
    (!names.is_empty()).then_some(names)
}

fn session(index: usize, mut fields: Object, place: &str, source: &mut Source<'_>) -> Session {
    let id = take_text(&mut fields, "session_id", place, source.warnings)
        .filter(|id| !id.is_empty())
        .unwrap_or_else(|| {
            let id = format!("S{}", index + 1);
            source
                .warnings
                .add(place, format!("`session_id` is missing; now `{id}`"));
            id
        });
    let start = take_text(&mut fields, "start", place, source.warnings);
    let start = start.filter(|text| !text.is_empty()).and_then(|text| {
        let moment = super::stamps::iso_or_date(&text);
        if moment.is_none() {
            source.warnings.add(
                place,
                format!(
                    "`start` is `{}`, not like `2024-03-04T18:20:00`; the session stays undated",
                    short(&text)
                ),
            );
        }
        moment
    });
    let turns = take_list(&mut fields, "turns", place, source.warnings).unwrap_or_default();
    let turns = turns.into_iter().enumerate().filter_map(|(index, item)| {
        let place = format!("{place}, turn {}", index + 1);
        let fields = object(item, &place, source.warnings)?;
        let default_id = format!("{id}:{}", index + 1);
        Some(turn(
            ["turn_id", "image_caption"],
            default_id,
            fields,
            &place,
            source,
        ))
    });
    let turns = turns.collect();
    Session { id, start, turns }
}

/// The beginning of a text, safe to show.
fn short(text: &str) -> String {
    super::detect::visible_start(text, 40)
}
