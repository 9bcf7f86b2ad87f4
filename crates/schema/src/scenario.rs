//! Labelled conversations for training and evaluation (`datasets/`, one JSON file each).

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    labels::{Label, Question, Relation, Synthesis, Update},
    transcript::{Kind, Moment, Role, Session, Transcript, Turn},
};

/// A conversation written and labelled in full.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The conversation; its id is the `scenario_id`.
    pub transcript: Transcript,
    /// Memories worth keeping, in the order of the file.
    pub records: Vec<Label>,
    /// How people and events bear on each other.
    pub relations: Vec<Relation>,
    /// What ties sessions together.
    pub syntheses: Vec<Synthesis>,
    /// Decisions on records that look alike.
    pub updates: Vec<Update>,
    /// Questions with their answers.
    pub questions: Vec<Question>,
}

/// Why a scenario file was refused.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// It could not be read.
    #[error("scenario `{}` could not be read", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is not a scenario.
    #[error("`{}` is not a scenario file; `scenario_id`, `kind`, `sessions` and the label lists are expected", file.display())]
    Format {
        /// The file.
        file: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// A record is malformed.
    #[error("`{}`: record `{record}` is malformed", file.display())]
    Record {
        /// The file.
        file: PathBuf,
        /// Its `record_id`, or its position.
        record: String,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// A record names a turn that is not there.
    #[error("`{}`: record `{record}` names turn `{turn}`, which is in no session", file.display())]
    UnknownTurn {
        /// The file.
        file: PathBuf,
        /// Its `record_id`.
        record: String,
        /// The turn.
        turn: String,
    },
    /// Two turns have one identifier.
    #[error("`{}`: turn id `{turn}` is used twice; labels could mean either turn", file.display())]
    DuplicateTurn {
        /// The file.
        file: PathBuf,
        /// The identifier.
        turn: String,
    },
}

impl Scenario {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When it cannot be read or is malformed.
    pub fn from_path(file: &Path) -> Result<Self, ScenarioError> {
        let text = fs::read_to_string(file).map_err(|source| ScenarioError::Read {
            file: file.to_owned(),
            source,
        })?;
        Self::parse(file, &text)
    }

    /// Reads the `text` of a scenario file; `file` is what errors name.
    ///
    /// # Errors
    /// When it is malformed: not JSON, keys missing or unknown, or labels that name turns which do not exist.
    pub fn parse(file: &Path, text: &str) -> Result<Self, ScenarioError> {
        let raw: RawScenario =
            serde_json::from_str(text).map_err(|source| ScenarioError::Format {
                file: file.to_owned(),
                source,
            })?;
        let records = raw.records.iter().enumerate().map(|(position, value)| {
            Label::deserialize(value).map_err(|source| {
                let id = value.get("record_id").and_then(Value::as_str);
                let record = id.map_or_else(|| format!("number {}", position + 1), str::to_owned);
                ScenarioError::Record {
                    file: file.to_owned(),
                    record,
                    source,
                }
            })
        });
        let records = records.collect::<Result<_, _>>()?;
        let scenario = Self {
            transcript: Transcript {
                id: raw.scenario_id,
                kind: raw.kind,
                language: Some(raw.language),
                participants: raw.participants,
                sessions: raw
                    .sessions
                    .into_iter()
                    .map(|session| session.convert(raw.kind))
                    .collect(),
            },
            records,
            relations: raw.relations,
            syntheses: raw.syntheses,
            updates: raw.updates,
            questions: raw.questions,
        };
        scenario.check_turns(file)?;
        Ok(scenario)
    }

    /// Which part of the data the scenario belongs to.
    pub fn split(&self) -> Split {
        Split::of(&self.transcript.id)
    }

    fn check_turns(&self, file: &Path) -> Result<(), ScenarioError> {
        let mut turns = HashSet::new();
        for turn in self
            .transcript
            .sessions
            .iter()
            .flat_map(|session| &session.turns)
        {
            if !turns.insert(turn.id.as_str()) {
                return Err(ScenarioError::DuplicateTurn {
                    file: file.to_owned(),
                    turn: turn.id.clone(),
                });
            }
        }
        for record in &self.records {
            let named = std::iter::once(&record.source_turn).chain(&record.evidence);
            if let Some(turn) = named
                .into_iter()
                .find(|turn| !turns.contains(turn.as_str()))
            {
                return Err(ScenarioError::UnknownTurn {
                    file: file.to_owned(),
                    record: record.record_id.clone(),
                    turn: turn.clone(),
                });
            }
        }
        Ok(())
    }
}

/// Part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// For training.
    Train,
    /// For measuring, never trained on.
    Dev,
}

impl Split {
    /// The part that a scenario belongs to, by its id alone, so that it never changes when files are added.
    ///
    /// About 15 % are dev: those for which the upper half of the 64-bit FNV-1a hash of the id leaves less than 15 when
    /// divided by 100. (The lower half mixes the last characters of such short texts too little.)
    pub fn of(scenario_id: &str) -> Self {
        let hash = scenario_id
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        if (hash >> 32) % 100 < 15 {
            Self::Dev
        } else {
            Self::Train
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScenario {
    scenario_id: String,
    kind: Kind,
    language: String,
    participants: Vec<String>,
    sessions: Vec<RawSession>,
    records: Vec<Value>,
    relations: Vec<Relation>,
    syntheses: Vec<Synthesis>,
    updates: Vec<Update>,
    questions: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSession {
    session_id: String,
    start: Moment,
    turns: Vec<RawTurn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTurn {
    turn_id: String,
    speaker: String,
    text: String,
    image_caption: Option<String>,
}

impl RawSession {
    fn convert(self, kind: Kind) -> Session {
        let turn = |turn: RawTurn| Turn {
            role: match (kind, turn.speaker.as_str()) {
                (Kind::Assistant, "assistant") => Role::Assistant,
                _ => Role::User,
            },
            id: turn.turn_id,
            speaker: turn.speaker,
            text: turn.text,
            image_caption: turn.image_caption,
            time: None,
        };
        Session {
            id: self.session_id,
            start: Some(self.start),
            turns: self.turns.into_iter().map(turn).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"scenario_id":"s-1","kind":"assistant","language":"en","participants":["user","assistant"],
        "sessions":[{"session_id":"S1","start":"2024-03-04T18:20:00","turns":[
            {"turn_id":"S1:1","speaker":"user","text":"I moved to Ghent."},
            {"turn_id":"S1:2","speaker":"assistant","text":"Nice!"}]}],
        "records":[{"record_id":"r1","source_turn":"S1:1","source_speaker":"user","content":"The user moved to Ghent.",
            "dimension":{"memory_type":"episodic","time":"","location":"Ghent","reason":"","purpose":"","keywords":["Ghent"]},
            "evidence":["S1:1"],"supersedes":[]}],
        "relations":[],"syntheses":[],"updates":[],"questions":[]}"#;

    fn message(text: &str) -> String {
        Scenario::parse(Path::new("s-1.json"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_scenario_is_a_transcript_with_labels() {
        let scenario = Scenario::parse(Path::new("s-1.json"), SMALL).unwrap();
        let turns = &scenario.transcript.sessions[0].turns;
        assert_eq!(
            [turns[0].role, turns[1].role],
            [Role::User, Role::Assistant]
        );
        assert_eq!(scenario.records[0].dimension.location, "Ghent");
    }

    #[test]
    fn errors_name_the_file_and_the_record() {
        assert_eq!(
            message(&SMALL.replace(r#""evidence":["S1:1"]"#, r#""evidence":["S1:9"]"#)),
            "`s-1.json`: record `r1` names turn `S1:9`, which is in no session"
        );
        assert_eq!(
            message(&SMALL.replace(r#""reason":"","#, "")),
            "`s-1.json`: record `r1` is malformed"
        );
        assert_eq!(
            message(&SMALL.replace("S1:2", "S1:1")),
            "`s-1.json`: turn id `S1:1` is used twice; labels could mean either turn"
        );
        assert!(message("{}").starts_with("`s-1.json` is not a scenario file"));
        let missing = Scenario::from_path(Path::new("no-such.json")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "scenario `no-such.json` could not be read"
        );
    }

    #[test]
    fn the_split_is_fixed() {
        let dev = [
            "ko-assistant-001",
            "ko-dialogue-003",
            "dialogue-003",
            "hard-004",
            "zh-assistant-003",
        ];
        assert!(dev.into_iter().all(|id| Split::of(id) == Split::Dev));
        assert!(
            ["dialogue-001", "ko-dialogue-001", "hard-001"]
                .into_iter()
                .all(|id| Split::of(id) == Split::Train)
        );
    }
}
