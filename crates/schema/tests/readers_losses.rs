//! What is left out because of its type or a missing key counts as lost, so that no run ends as if all were there.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use mem_schema::readers::{Format, ReadError, make_ids_unique};
use mem_schema::transcript::Transcript;
use reader_support::{read, read_as, warnings};

mod reader_support;

#[test]
fn parts_of_the_wrong_type_are_lost() {
    let turn = r#"{"dia_id": "D1:1", "speaker": "A", "text": "hi"}"#;
    let locomo = |more: &str| {
        format!(
            r#"[{{"sample_id": "c", "conversation": {{"session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{turn}]{more}}}}}]"#
        )
    };
    let question = |dates: &str, sessions: &str| {
        format!(
            r#"[{{"question_id": "q", "haystack_dates": ["2023/06/25 (Sun) 13:22"{dates}],
            "haystack_sessions": [[{{"role": "user", "content": "a"}}]{sessions}]}}]"#
        )
    };
    let scenario = |more: &str| {
        format!(
            r#"{{"scenario_id": "s", "kind": "dialogue", "sessions": [{{"session_id": "S1",
            "turns": [{{"turn_id": "t", "speaker": "A", "text": "hi"}}]}}{more}]}}"#
        )
    };
    let chat = |more: &str| format!(r#"[{{"role": "user", "content": "hi"}}{more}]"#);
    let date = r#""2023/06/26 (Mon) 13:22""#;
    let message = r#"[{"role": "user", "content": "b"}]"#;
    for (text, lost) in [
        (locomo(""), 0),
        (locomo(r#", "session_3": 7"#), 1),
        (locomo(&format!(r#", "session_3": [{turn}]"#)), 1),
        (
            format!(
                "[{}, {{\"sample_id\": \"d\"}}]",
                &locomo("")[1..locomo("").len() - 1]
            ),
            1,
        ),
        (question("", ""), 0),
        (question("", &format!(", {message}")), 1),
        (question(&format!(", {date}"), ", 7"), 1),
        (
            question(
                &format!(", {date}"),
                r#", [{"role": "user", "content": {"a": 1}}]"#,
            ),
            1,
        ),
        (scenario(""), 0),
        (scenario(r#", {"session_id": "S2"}"#), 1),
        (scenario(r#", {"session_id": "S2", "turns": "none"}"#), 1),
        (
            scenario(
                r#", {"session_id": "S2", "turns": [{"turn_id": "u", "speaker": "A", "text": ["hi"]}]}"#,
            ),
            1,
        ),
        (chat(""), 0),
        (chat(r#", {"role": "user", "content": 7}"#), 1),
        (
            chat(r#", {"role": "user", "content": [{"type": "poem", "lines": 2}]}"#),
            1,
        ),
        (
            chat(r#", {"role": "user", "content": [{"type": "text", "text": {"a": 1}}]}"#),
            1,
        ),
        (
            chat(r#", {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}"#),
            0,
        ),
        (chat(r#", {"role": "user", "content": null}"#), 0),
    ] {
        let read = read(&text);
        assert_eq!(read.lost, lost, "{text}\n{:?}", read.warnings);
    }
}

#[test]
fn a_picture_among_parts_is_counted() {
    let text = r#"[{"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "look"}]},
        {"role": "assistant", "content": "nice"}]"#;
    assert_eq!(read(text).placeholders, 1);
}

#[test]
fn every_json_format_may_have_a_line_for_each_object() {
    let samples = [
        (
            Format::Scenario,
            r#"{"scenario_id": "s", "kind": "dialogue", "sessions": [{"session_id": "S1", "turns": [{"turn_id": "t", "speaker": "A", "text": "hi"}]}]}"#,
        ),
        (
            Format::Locomo,
            r#"{"sample_id": "c", "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "hi"}]}}"#,
        ),
        (
            Format::Longmemeval,
            r#"{"question_id": "q", "haystack_session_ids": ["s"], "haystack_dates": ["2023/06/25 (Sun) 13:22"], "haystack_sessions": [[{"role": "user", "content": "a"}]]}"#,
        ),
        (
            Format::Chat,
            r#"{"messages": [{"role": "user", "content": "a"}]}"#,
        ),
    ];
    for (format, line) in samples {
        for asked in [None, Some(format)] {
            let read = read_as(&format!("{line}\n{{\"cut\n{line}\n"), asked).unwrap();
            assert_eq!(
                (read.format, read.transcripts.len(), read.lost),
                (format, 2, 1)
            );
            assert!(
                warnings(&read)[0].starts_with("line 2: not valid JSON at column "),
                "{:?}",
                read.warnings
            );
        }
    }
}

#[test]
fn more_bad_lines_than_good_ones_leave_the_good_ones() {
    let good = r#"{"role": "user", "content": "hi"}"#;
    let bad = r#"{"role": "user", "content": "h"#;
    for lines in [[good, bad, bad, bad, good], [bad, bad, bad, good, good]] {
        let read = read(&lines.join("\n"));
        assert_eq!(read.transcripts[0].sessions[0].turns.len(), 2);
        assert_eq!(read.lost, 3);
    }
    // One list cut short is no JSONL.
    let cut = format!("[\n{good},\n{good},\n{good}");
    assert!(matches!(read_as(&cut, None), Err(ReadError::Json { .. })));
}

#[test]
fn many_equal_identifiers_get_names_in_one_pass() {
    let mut transcripts: Vec<Transcript> = (0..50_000)
        .map(|_| Transcript {
            id: "1".to_owned(),
            kind: mem_schema::transcript::Kind::Dialogue,
            language: None,
            participants: Vec::new(),
            sessions: Vec::new(),
        })
        .collect();
    transcripts[2].id = "1~2".to_owned();
    make_ids_unique(&mut transcripts);
    let ids = [0, 1, 2, 3, 49_999].map(|index| transcripts[index].id.as_str());
    assert_eq!(ids, ["1", "1~2", "1~2~2", "1~3", "1~49999"]);
}
