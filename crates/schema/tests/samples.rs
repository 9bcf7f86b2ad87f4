//! The transcripts of the quick start are read as the data card describes them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use mem_schema::readers::{Format, read_file};
use mem_schema::transcript::Kind;

fn check(name: &str, format: Format, kind: Kind, turns: &[usize]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/samples");
    let read = read_file(&folder.join(name), None).unwrap();
    assert_eq!((read.format, read.warnings), (format, vec![]));
    let [transcript] = &read.transcripts[..] else {
        panic!("{name} holds one conversation");
    };
    assert_eq!(transcript.kind, kind);
    let lengths = transcript.sessions.iter().map(|s| s.turns.len());
    assert_eq!(lengths.collect::<Vec<_>>(), turns);
}

#[test]
fn samples_are_read_without_warnings() {
    check("dialogue.txt", Format::Plain, Kind::Dialogue, &[9, 9]);
    check("assistant-ko.jsonl", Format::Chat, Kind::Assistant, &[8, 6]);
}
