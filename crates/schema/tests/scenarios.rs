//! Every scenario that ships, through windows, targets, grammar and back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use llguidance::{
    Matcher, ParserFactory,
    api::TopLevelGrammar,
    toktrie::{ApproximateTokEnv, TokEnv},
};
use mem_schema::{
    extraction::{Drops, read_reply},
    readers::read_file,
    record::{RECORD_SCHEMA, Record},
    reply_schema::reply_schema,
    scenario::{Scenario, Split},
    target::target_reply,
    window::{Segmentation, Window, windows},
};
use serde_json::{Value, json};

const SEGMENTATIONS: [(usize, usize); 3] = [(25, 5), (15, 3), (10, 2)];

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
}

fn scenarios() -> Vec<Scenario> {
    files()
        .iter()
        .map(|file| Scenario::from_path(file).unwrap())
        .collect()
}

/// Training reads scenarios with their labels, extraction through the readers: the windows must be the same.
#[test]
fn training_and_extraction_read_the_same_transcript() {
    for file in files() {
        let read = read_file(&file, None).unwrap();
        assert_eq!(
            read.transcripts,
            [Scenario::from_path(&file).unwrap().transcript]
        );
    }
}

fn cut(scenario: &Scenario, (window, overlap): (usize, usize)) -> Vec<Window> {
    windows(
        &scenario.transcript,
        &Segmentation {
            window,
            overlap,
            captions: true,
        },
    )
}

/// A grammar over single bytes.
struct Grammar(Matcher);

impl Grammar {
    fn new(schema: Value) -> Self {
        let env: TokEnv = ApproximateTokEnv::single_byte_env();
        let mut factory = ParserFactory::new_simple(&env).unwrap();
        factory.quiet();
        Self(Matcher::new(
            factory.create_parser(TopLevelGrammar::from_json_schema(schema)),
        ))
    }

    /// Bytes of `text` that the grammar takes, and whether it may end there.
    fn take(&mut self, text: &str) -> (usize, bool) {
        let tokens: Vec<u32> = text.bytes().map(u32::from).collect();
        let taken = self.0.try_consume_tokens(&tokens).unwrap();
        let ends = self.0.is_accepting().unwrap();
        self.0.reset().unwrap();
        (taken, ends)
    }

    fn check(&mut self, text: &str) {
        let (taken, ends) = self.take(text);
        assert!(
            taken == text.len() && ends,
            "refused after `{}`",
            &text[..text.floor_char_boundary(taken)]
        );
    }
}

#[test]
fn the_split_is_fair() {
    let all = scenarios();
    assert_eq!(all.len(), 140);
    let dev: Vec<_> = all
        .iter()
        .filter(|scenario| scenario.split() == Split::Dev)
        .collect();
    let share = dev.len() as f64 / all.len() as f64;
    assert!((0.12..=0.18).contains(&share), "{share}");
    let korean = dev
        .iter()
        .filter(|scenario| scenario.transcript.language.as_deref() == Some("ko"));
    assert!(korean.count() >= 2);
}

#[test]
fn every_target_holds_every_label_and_satisfies_the_reply_schema() {
    for scenario in &scenarios() {
        for segmentation in SEGMENTATIONS {
            let mut memories = 0;
            for window in cut(scenario, segmentation) {
                let target = target_reply(scenario, &window);
                assert_eq!(
                    target.left_out, 0,
                    "{} window {}",
                    scenario.transcript.id, window.index
                );
                memories += target.memories;
                Grammar::new(reply_schema(&window)).check(&target.text);
            }
            assert_eq!(
                memories,
                scenario.records.len(),
                "{}",
                scenario.transcript.id
            );
        }
    }
}

#[test]
fn targets_are_read_back_as_their_labels() {
    let mut lines = Grammar::new(record_schema());
    for scenario in &scenarios() {
        for window in cut(scenario, (15, 3)) {
            let target = target_reply(scenario, &window);
            let read = read_reply(&target.text, &window).unwrap();
            assert_eq!(
                (read.records.len(), read.drops, read.salvaged),
                (target.memories, Drops::default(), false)
            );
            for record in &read.records {
                let is_label = |label: &&mem_schema::labels::Label| {
                    label.content == record.content && label.source_turn == record.source.turn
                };
                let label = scenario.records.iter().find(is_label).unwrap();
                assert_eq!(record.dimension, label.dimension);
                assert_eq!(record.source_speaker, label.source_speaker);
                let shown = |turn: &&String| {
                    window
                        .messages
                        .iter()
                        .any(|message| message.turn_id == **turn)
                };
                assert_eq!(
                    record.evidence,
                    label
                        .evidence
                        .iter()
                        .filter(shown)
                        .cloned()
                        .collect::<Vec<_>>()
                );
                let line = serde_json::to_string(record).unwrap();
                lines.check(&line);
                assert_eq!(&serde_json::from_str::<Record>(&line).unwrap(), record);
            }
        }
    }
}

/// The published schema, with what llguidance needs to know about compact JSON.
fn record_schema() -> Value {
    let mut schema: Value = serde_json::from_str(RECORD_SCHEMA).unwrap();
    schema["x-guidance"] =
        json!({"whitespace_flexible": false, "item_separator": ",", "key_separator": ":"});
    schema
}

#[test]
fn the_record_schema_refuses_what_is_no_record() {
    let mut lines = Grammar::new(record_schema());
    let good = r#"{"version":2,"id":"w0000m000","content":"x","dimension":{"memory_type":"","time":"","location":"","reason":"","purpose":"","keywords":[]},"source":{"transcript":"t","session":"s","turn":"s:1","window":0},"source_speaker":"","source_time":"2024-03-04T18:20:00.500000+09:00","evidence":["s:1"],"time_checked":"agreed"}"#;
    lines.check(good);
    for (from, to) in [
        ("\"version\":2", "\"version\":1"),
        ("w0000m000", "w0m0"),
        ("\"content\":\"x\"", "\"content\":\"\""),
        ("\"memory_type\":\"\"", "\"memory_type\":\"event\""),
        ("\"window\":0", "\"window\":-1"),
        (",\"evidence\":[\"s:1\"]", ""),
        ("[\"s:1\"]", "[]"),
        ("\"agreed\"", "\"true\""),
        ("T18:20", " 18:20"),
        ("\"source_speaker\"", "\"mood\":1,\"source_speaker\""),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        let (taken, ends) = lines.take(&bad);
        assert!(taken < bad.len() || !ends, "{from} -> {to}");
    }
}

#[test]
fn the_reply_schema_refuses_what_would_harm() {
    let all = scenarios();
    let mut cuts = all.iter().flat_map(|scenario| cut(scenario, (10, 2)));
    let full = |window: &Window| window.overlap_count == 2 && window.messages.len() == 10;
    let window = &cuts.find(full).unwrap();
    let mut grammar = Grammar::new(reply_schema(window));
    let good = r#"{"memories":[{"source_id":3,"evidence":[1,10],"content":"미나는 \"Ghent\"로 갔다.","dimension":{"memory_type":"fact","time":"2024-03/2024-05","location":"","reason":"a b","purpose":"","keywords":["k w"]}}]}"#;
    grammar.check(good);
    grammar.check(r#"{"memories":[]}"#);
    let flood = format!("\"content\":\"{}\"", "a".repeat(401));
    for (from, to) in [
        ("\"source_id\":3", "\"source_id\":2"),
        ("\"source_id\":3", "\"source_id\":11"),
        ("[1,10]", "[0]"),
        ("[1,10]", "[]"),
        ("[1,10]", "[1,2,3,4,5,6,7]"),
        ("갔다", "갔  다"),
        ("갔다.\"", "갔다. \""),
        ("갔다", "갔\\n다"),
        ("갔다", "갔\\u0007다"),
        ("\"fact\"", "\"event\""),
        ("2024-03/2024-05", "2024-03/2024"),
        ("2024-03/2024-05", "May 2024"),
        ("\"location\":\"\",", ""),
        ("\"location\":\"\"", "\"location\":\" \""),
        ("[\"k w\"]", "[\"\"]"),
        ("{\"source_id\"", "{ \"source_id\""),
        ("}]}", "}]}\n"),
        ("\"content\":\"미나는 \\\"Ghent\\\"로 갔다.\"", &flood),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good, "{from}");
        assert!(grammar.take(&bad).0 < bad.len(), "{from} -> {to}");
    }
}
