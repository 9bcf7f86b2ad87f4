//! Reading texts in tests, and their transcripts in a form that is easy to compare.

#![allow(dead_code)] // every test file uses some of it
#![allow(clippy::unwrap_used)]

use std::path::Path;

use mem_schema::readers::{Format, ReadError, ReadTranscripts, read_bytes};
use mem_schema::transcript::{Session, Transcript};

/// Reads `text` as `format`, or as what it looks like.
pub(crate) fn read_as(text: &str, format: Option<Format>) -> Result<ReadTranscripts, ReadError> {
    read_bytes(Path::new("talk.txt"), text.as_bytes().to_vec(), format)
}

/// Reads a text that is a transcript.
pub(crate) fn read(text: &str) -> ReadTranscripts {
    read_as(text, None).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The only transcript of a text.
pub(crate) fn one(text: &str) -> Transcript {
    let mut read = read(text);
    assert_eq!(read.transcripts.len(), 1);
    read.transcripts.remove(0)
}

/// The transcript in a form that is easy to compare.
pub(crate) fn outline(transcript: &Transcript) -> String {
    let time = |moment: Option<mem_schema::transcript::Moment>| {
        moment.map_or_else(|| "-".to_owned(), |moment| moment.to_string())
    };
    let session = |session: &Session| {
        let turns = session.turns.iter().map(|turn| {
            let caption = turn
                .image_caption
                .as_ref()
                .map_or_else(String::new, |c| format!(" ({c})"));
            format!(
                "\n  {} {} {}: {}{caption}",
                turn.id,
                time(turn.time),
                turn.speaker,
                turn.text
            )
        });
        format!(
            "{} {}{}",
            session.id,
            time(session.start),
            turns.collect::<String>()
        )
    };
    transcript
        .sessions
        .iter()
        .map(session)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Warnings with their places.
pub(crate) fn warnings(read: &ReadTranscripts) -> Vec<String> {
    read.warnings
        .iter()
        .map(|w| format!("{}: {}", w.location, w.message))
        .collect()
}

/// A text that is no transcript that can be read, and why.
pub(crate) fn refusal(text: &str) -> String {
    match read_as(text, None) {
        Ok(read) => panic!("read as {}: {:?}\n{text}", read.format, read.transcripts),
        Err(error) => error.to_string(),
    }
}
