//! The reference's bank file (DimMem specification, section 1.4), for comparison runs.

use serde::Serialize;

use crate::{
    record::{Dimension, Record},
    transcript::Kind,
    window::Window,
};

/// `all_memories.json` of the reference: records without identifiers, in window order, then in reply order.
#[derive(Debug, Serialize)]
pub struct Bank<'a> {
    source_record_dir: &'a str,
    memory_count: usize,
    memories: Vec<BankMemory<'a>>,
}

/// One memory of the file.
#[derive(Debug, Serialize)]
struct BankMemory<'a> {
    window_index: usize,
    source_id: usize,
    source_time: &'a str,
    #[serde(flatten)]
    origin: Origin<'a>,
    memory_index: usize,
    content: &'a str,
    dimension: &'a Dimension,
}

/// What the reference says of a source, by kind of transcript.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Origin<'a> {
    Dialogue {
        source_speaker: &'a str,
    },
    Assistant {
        session_id: &'a str,
        session_local_user_index: usize,
    },
}

impl<'a> Bank<'a> {
    /// The bank of one transcript's `records`, which come from its `windows`. Records whose window or source turn is
    /// not among them are left out; `source_record_dir` is written as it is.
    pub fn new(source_record_dir: &'a str, windows: &'a [Window], records: &'a [Record]) -> Self {
        let of_window = |window: &'a Window| {
            let own = records.iter().filter(|record| {
                record.source.window == window.index
                    && record.source.transcript == window.transcript_id
            });
            let memories = own.filter_map(|record| bank_memory(window, record));
            memories
                .enumerate()
                .map(|(memory_index, memory)| BankMemory {
                    memory_index,
                    ..memory
                })
        };
        let memories: Vec<_> = windows.iter().flat_map(of_window).collect();
        Self {
            source_record_dir,
            memory_count: memories.len(),
            memories,
        }
    }

    /// The file's text: two blanks of indent, other scripts unescaped, a final newline.
    ///
    /// # Errors
    /// When serde cannot write a value; no field here can make it so.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

fn bank_memory<'a>(window: &'a Window, record: &'a Record) -> Option<BankMemory<'a>> {
    let source = window
        .messages
        .iter()
        .find(|message| message.turn_id == record.source.turn)?;
    let origin = match window.kind {
        Kind::Dialogue => Origin::Dialogue {
            source_speaker: &record.source_speaker,
        },
        Kind::Assistant => Origin::Assistant {
            session_id: &record.source.session,
            session_local_user_index: source.session_local_index,
        },
    };
    Some(BankMemory {
        window_index: window.index,
        source_id: source.number,
        source_time: &record.source_time,
        origin,
        memory_index: 0,
        content: &record.content,
        dimension: &record.dimension,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        extraction::read_reply,
        transcript::{Role, Session, Transcript, Turn},
        window::{Segmentation, windows},
    };

    fn transcript(kind: Kind) -> Transcript {
        let turn = |number: usize| Turn {
            id: format!("S1:{number}"),
            speaker: "user".to_owned(),
            role: Role::User,
            text: format!("Message {number}"),
            image_caption: None,
            time: None,
        };
        let start = "2024-03-04T18:20:00".parse().ok();
        Transcript {
            id: "t".to_owned(),
            kind,
            language: None,
            participants: vec!["user".to_owned()],
            sessions: vec![Session {
                id: "S1".to_owned(),
                start,
                turns: (1..=3).map(turn).collect(),
            }],
        }
    }

    fn bank(kind: Kind) -> String {
        let windows = windows(
            &transcript(kind),
            &Segmentation {
                window: 2,
                overlap: 1,
                captions: false,
            },
        );
        let reply = r#"{"memories":[{"source_id":2,"content":"미나는 고양이가 있다.","dimension":{"memory_type":"fact"}},{"source_id":2,"content":"Second."}]}"#;
        let read = windows
            .iter()
            .filter_map(|window| read_reply(reply, window));
        let records: Vec<_> = read.flat_map(|read| read.records).collect();
        Bank::new("out/t", &windows, &records).to_json().unwrap()
    }

    #[test]
    fn dialogues_give_the_speaker() {
        insta::assert_snapshot!(bank(Kind::Dialogue));
    }

    #[test]
    fn talks_with_an_assistant_give_the_place_in_the_session() {
        let bank: serde_json::Value = serde_json::from_str(&bank(Kind::Assistant)).unwrap();
        assert_eq!(bank["memory_count"], 4);
        let last = &bank["memories"][3];
        assert_eq!(last["session_local_user_index"], 3);
        assert_eq!(
            (
                &last["window_index"],
                &last["source_id"],
                &last["memory_index"]
            ),
            (&1.into(), &2.into(), &1.into())
        );
        assert!(last.get("source_speaker").is_none() && last.get("id").is_none());
    }
}
