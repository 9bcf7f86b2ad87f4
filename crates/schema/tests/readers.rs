//! What each reader makes of ordinary and odd files.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use std::path::Path;

use mem_schema::readers::{Format, ReadError, make_ids_unique, read_file};
use mem_schema::transcript::{Kind, Role};
use reader_support::{one, outline, read, read_as, warnings};

mod reader_support;

#[test]
fn formats_have_names() {
    for format in Format::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
    }
    let error = "csv".parse::<Format>().unwrap_err().to_string();
    assert!(
        error.starts_with("`csv` is no transcript format: choose"),
        "{error}"
    );
}

#[test]
fn scenario() {
    let text = r#"{"scenario_id": "family-003", "kind": "dialogue", "language": "ko", "participants": ["미나", "Jonas"],
        "sessions": [{"session_id": "S1", "start": "2024-03-04T18:20:00", "turns": [
            {"turn_id": "S1:1", "speaker": "미나", "text": " 안녕 ", "image_caption": "개"},
            {"turn_id": "S1:2", "speaker": "Jonas", "text": "hi"}]}],
        "records": [{"odd": true}]}"#;
    let read = read(text);
    assert_eq!(
        (read.format, &read.warnings[..]),
        (Format::Scenario, &[][..])
    );
    let transcript = &read.transcripts[0];
    assert_eq!(transcript.id, "family-003");
    assert_eq!(transcript.kind, Kind::Dialogue);
    assert_eq!(transcript.language.as_deref(), Some("ko"));
    assert_eq!(transcript.participants, ["미나", "Jonas"]);
    assert_eq!(
        outline(transcript),
        "S1 2024-03-04T18:20:00\n  S1:1 - 미나: 안녕 (개)\n  S1:2 - Jonas: hi"
    );
}

#[test]
fn scenario_with_an_assistant_has_roles() {
    let text = r#"{"scenario_id": "a", "kind": "assistant", "participants": ["user", "assistant"],
        "sessions": [{"session_id": "S1", "start": "2024-03-04T18:20:00", "turns": [
            {"turn_id": "S1:1", "speaker": "user", "text": "hi"},
            {"turn_id": "S1:2", "speaker": "assistant", "text": "hello"}]}]}"#;
    let transcript = one(text);
    assert_eq!(transcript.kind, Kind::Assistant);
    let roles: Vec<_> = transcript.sessions[0]
        .turns
        .iter()
        .map(|turn| turn.role)
        .collect();
    assert_eq!(roles, [Role::User, Role::Assistant]);
}

#[test]
fn scenario_with_gaps_and_wrong_types() {
    let text = r#"{"kind": "opera", "language": ["en"], "sessions": [
        {"start": "noon", "turns": [{"text": "hi"}, 7, {"turn_id": "x", "speaker": "Ada", "text": {"a": 1}},
            {"turn_id": "x", "speaker": "Ada", "text": 12}, {"turn_id": "x", "speaker": "Ada", "text": true}]},
        {"session_id": "S1", "turns": [{"turn_id": "y", "speaker": "Ada", "text": "end"}]},
        {"session_id": "S3", "turns": "none"}, "S4", {"session_id": "S5", "turns": []}]}"#;
    let read = read(text);
    assert_eq!(read.transcripts[0].id, "talk");
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 -\n  S1:1 - unknown: hi\n  x - Ada: 12\n  x~2 - Ada: true\nS1~2 -\n  y - Ada: end"
    );
    insta::assert_snapshot!(warnings(&read).join("\n"));
}

#[test]
fn locomo_follows_section_2_1() {
    let text = r#"[{"sample_id": "conv-1", "qa": [], "conversation": {"speaker_a": "Ann", "speaker_b": "Bo",
        "session_10_date_time": "1:56 pm on 8 May, 2023",
        "session_10": [{"speaker": "Ann", "dia_id": "D10:1", "text": "later "}],
        "session_2_date_time": "12:05 am on 1 January, 2023",
        "session_2": [{"speaker": "Bo", "dia_id": "D2:1", "text": "", "blip_caption": "a dog", "img_url": ["u"]}],
        "session_3": [{"speaker": "Bo", "dia_id": "D3:1", "text": "no date"}],
        "session_4_date_time": "some day", "session_4": [{"speaker": "Bo", "text": "odd date"}],
        "session_5_date_time": "1:56 pm on 8 May, 2023", "session_5": [],
        "session_11_date_time": "1:56 pm on 9 May, 2023"}}]"#;
    let read = read(text);
    assert_eq!(read.format, Format::Locomo);
    assert_eq!(read.transcripts[0].id, "conv-1");
    assert_eq!(read.transcripts[0].participants, ["Ann", "Bo"]);
    assert_eq!(
        outline(&read.transcripts[0]),
        "session_2 2023-01-01T00:05:00\n  D2:1 - Bo:  (a dog)\nsession_4 -\n  D4:1 - Bo: odd date\n\
         session_10 2023-05-08T13:56:00\n  D10:1 - Ann: later"
    );
    insta::assert_snapshot!(warnings(&read).join("\n"));
}

#[test]
fn longmemeval_makes_turns_unique() {
    let text = r#"[{"question_id": "q_abs", "haystack_session_ids": ["s", "s"],
        "haystack_dates": ["2023/06/25 (Sun) 13:22", "2023/06/26 (Mon) 13:22", null],
        "haystack_sessions": [[{"role": "user", "content": "a", "has_answer": true}, {"role": "assistant", "content": "b"}],
            [{"role": "USER", "content": "c"}], [{"role": "narrator", "content": "d"}], [{"role": "user", "content": "e"}]]}]"#;
    let read = read(text);
    assert_eq!(read.format, Format::Longmemeval);
    assert_eq!(read.transcripts[0].id, "q_abs");
    assert_eq!(read.transcripts[0].kind, Kind::Assistant);
    assert_eq!(
        outline(&read.transcripts[0]),
        "s 2023-06-25T13:22:00\n  s:1 - user: a\n  s:2 - assistant: b\n\
         s~2 2023-06-26T13:22:00\n  s~2:1 - user: c\nsession_0002 -\n  session_0002:1 - tool: d"
    );
    insta::assert_snapshot!(warnings(&read).join("\n"));
}

#[test]
fn chat_as_list_object_and_lines() {
    let messages = [
        r#"{"role": "system", "content": "Be kind."}"#,
        r#"{"role": "user", "content": "hi", "timestamp": "2024-03-04T18:20:00+09:00"}"#,
        r#"{"role": "assistant", "content": [{"type": "text", "text": "a"}, "b"], "timestamp": 1709544060}"#,
        r#"{"role": "user", "content": "later", "timestamp": 1709564460500}"#,
    ];
    let expected = "S1 -\n  S1:1 - system: Be kind.\n  S1:2 2024-03-04T18:20:00+09:00 user: hi\n  \
         S1:3 2024-03-04T09:21:00+00:00 assistant: a\nb\n\
         S2 2024-03-04T15:01:00.500000+00:00\n  S2:1 2024-03-04T15:01:00.500000+00:00 user: later";
    let list = format!("[{}]", messages.join(","));
    for text in [
        list.clone(),
        format!("{{\"messages\": {list}}}"),
        messages.join("\n"),
        format!("{}\r\n\r\n", messages.join("\r\n")),
    ] {
        let transcript = one(&text);
        assert_eq!(outline(&transcript), expected, "{text}");
        assert_eq!(
            (transcript.kind, transcript.id.as_str()),
            (Kind::Assistant, "talk")
        );
        assert_eq!(transcript.participants, ["user", "assistant"]);
    }
}

#[test]
fn chat_of_several_conversations() {
    let a = r#"{"id": "a", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]}"#;
    let b = r#"{"messages": [{"role": "user", "name": "Mina", "content": "hi"}, {"role": "user", "name": "Jonas", "content": "ho"}]}"#;
    for text in [format!("{a}\n{b}\n{a}"), format!("[{a},{b},{a}]")] {
        let read = read(&text);
        let seen: Vec<_> = read
            .transcripts
            .iter()
            .map(|t| (t.id.as_str(), t.kind))
            .collect();
        let expected = [
            ("a", Kind::Assistant),
            ("talk-2", Kind::Dialogue),
            ("a~2", Kind::Assistant),
        ];
        assert_eq!(seen, expected);
        assert_eq!(read.transcripts[1].participants, ["Mina", "Jonas"]);
        assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
    }
}

#[test]
fn chat_lines_with_bad_ones_keep_the_rest() {
    for bad in 0..3 {
        let mut lines = [r#"{"role": "user", "content": "hi"}"#; 3];
        lines[bad] = r#"{"role": "user", "content": "#;
        let read = read(&lines.join("\n"));
        assert_eq!(read.transcripts[0].sessions[0].turns.len(), 2);
        let expected = format!("line {}: not valid JSON at column ", bad + 1);
        assert!(
            warnings(&read)[0].starts_with(&expected),
            "{:?}",
            read.warnings
        );
    }
}

#[test]
fn chat_with_gaps_and_wrong_types() {
    let text = r#"[{"role": "user", "content": null}, {"role": "user", "content": 7}, {"content": "who?"},
        {"role": "Mina", "content": "named by role"}, 3, {"role": "user", "content": "when", "timestamp": "soon"},
        {"role": "user", "content": [{"type": "image_url", "image_url": {}}, {"type": "text", "text": "look"}, 5]},
        {"role": "user", "content": [{"type": "image", "caption": "a dog"}], "timestamp": [1]},
        {"role": "assistant", "content": null, "tool_calls": []}, {"role": "tool", "content": "42"}]"#;
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 -\n  S1:1 - user: who?\n  S1:2 - Mina: named by role\n  S1:3 - user: when\n  S1:4 - user: look\n  \
         S1:5 - user:  (a dog)\n  S1:6 - tool: 42"
    );
    insta::assert_snapshot!(warnings(&read).join("\n"));
}

#[test]
fn plain_with_dates() {
    for text in [
        "[2024-03-04 18:20] Mina: hi\nsecond line\n\n[2024-03-04 18:21] Jonas: 10:30: fine\n[2024-03-05 09:00] Mina: bye\n",
        "2024/03/04 18:20 Mina: hi\nsecond line\n2024/03/04 18:21 Jonas: 10:30: fine\n2024/03/05 09:00 Mina: bye",
        "2024.03.04T18:20:00 - Mina: hi\r\nsecond line\r\n2024.03.04T18:21:00 - Jonas: 10:30: fine\r\n2024.03.05T09:00:00 - Mina: bye",
    ] {
        let read = read(text);
        assert_eq!(read.format, Format::Plain);
        assert_eq!(
            outline(&read.transcripts[0]),
            "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\nsecond line\n  \
             S1:2 2024-03-04T18:21:00 Jonas: 10:30: fine\n\
             S2 2024-03-05T09:00:00\n  S2:1 2024-03-05T09:00:00 Mina: bye"
        );
        assert_eq!(read.warnings, []);
        assert_eq!(read.transcripts[0].kind, Kind::Dialogue);
        assert_eq!(read.transcripts[0].participants, ["Mina", "Jonas"]);
    }
}

#[test]
fn plain_of_kakaotalk() {
    let text = "미나 님과 카카오톡 대화\n저장한 날짜 : 2024-03-06 10:00:00\n\n\
        --------------- 2024년 3월 4일 월요일 ---------------\n\
        [미나] [오후 6:20] 안녕\n이어서\n[요나스 [회사]] [오후 6:21] 사진: 3장\n요나스님이 나갔습니다.\n\
        --------------- 2024년 3월 5일 화요일 ---------------\n[미나] [오전 12:05] 잘자\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 미나: 안녕\n이어서\n  \
         S1:2 2024-03-04T18:21:00 요나스 [회사]: 사진: 3장\n\
         S2 2024-03-05T00:05:00\n  S2:1 2024-03-05T00:05:00 미나: 잘자"
    );
    insta::assert_snapshot!(warnings(&read).join("\n"));
    let mobile = "2024년 3월 4일 오후 6:19\n2024년 3월 4일 오후 6:20, 미나 : 안녕\n2024년 3월 4일 오후 6:21, 요나스 : 응\n";
    assert_eq!(
        outline(&one(mobile)),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 미나: 안녕\n  S1:2 2024-03-04T18:21:00 요나스: 응"
    );
}

#[test]
fn plain_of_whatsapp() {
    let text = "04/03/2024, 18:19 - Messages and calls are end-to-end encrypted.\n\
        04/03/2024, 18:20 - Mina: hi\n\u{200e}[04/03/2024, 18:21:00] Jonas: hello\nthere\n";
    let read_day_first = read(text);
    assert_eq!(
        outline(&read_day_first.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n  \
         S1:2 2024-03-04T18:21:00 Jonas: hello\nthere"
    );
    insta::assert_snapshot!(warnings(&read_day_first).join("\n"));
    // One line that can only be month first decides for the file.
    let american = "3/4/24, 6:20 PM - Mina: hi\n3/13/24, 6:21 PM - Jonas: hello\n";
    let read_month_first = read(american);
    assert_eq!(read_month_first.warnings, []);
    let starts: Vec<_> = read_month_first.transcripts[0]
        .sessions
        .iter()
        .map(|session| session.start.unwrap().to_string())
        .collect();
    assert_eq!(starts, ["2024-03-04T18:20:00", "2024-03-13T18:21:00"]);
}

#[test]
fn what_stands_for_pictures_is_counted_and_not_said() {
    let kakao = "--------------- 2024년 3월 4일 월요일 ---------------\n[미나] [오후 6:20] 사진\n\
        [미나] [오후 6:20] 사진 2장\n[요나스] [오후 6:21] 사진 예쁘다\n[미나] [오후 6:22] 삭제된 메시지입니다.\n";
    let read_kakao = read(kakao);
    assert_eq!(
        outline(&read_kakao.transcripts[0]),
        "S1 2024-03-04T18:21:00\n  S1:1 2024-03-04T18:21:00 요나스: 사진 예쁘다"
    );
    assert_eq!((read_kakao.placeholders, read_kakao.warnings), (3, vec![]));
    let telephone =
        "2024. 3. 4. 오후 6:20, 미나 : 동영상\n2024. 3. 4. 오후 6:21, 요나스 : 동영상 봤어\n";
    assert_eq!(read(telephone).placeholders, 1);
    let whatsapp = "04/03/2024, 18:20 - Mina: <Media omitted>\nour new flat\n\
        04/03/2024, 18:21 - Jonas: \u{200e}image omitted\n04/03/2024, 18:22 - Jonas: 사진\n";
    let read_whatsapp = read(whatsapp);
    assert_eq!(
        outline(&read_whatsapp.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: our new flat\n  \
         S1:2 2024-03-04T18:22:00 Jonas: 사진"
    );
    assert_eq!(read_whatsapp.placeholders, 2);
    // Elsewhere these are words like others.
    for text in [
        "Mina: hi\nJonas: image omitted\nMina: 사진",
        r#"[{"role": "user", "content": "image omitted"}, {"role": "user", "content": "사진"}]"#,
    ] {
        assert_eq!(read(text).placeholders, 0);
    }
    let error = read_as("[미나] [오후 6:20] 사진\n", None).unwrap_err();
    assert!(matches!(error, ReadError::NoTurns { .. }), "{error}");
}

#[test]
fn plain_without_times() {
    let text = "Mina: hi\nJonas: hello\nmore\n\nstill more\n\nMina: next day\nJonas: yes\n---\nMina: again\n\
        # 2024-03-04 18:20\nJonas: dated";
    assert_eq!(
        outline(&one(text)),
        "S1 -\n  S1:1 - Mina: hi\n  S1:2 - Jonas: hello\nmore\n\nstill more\n\
         S2 -\n  S2:1 - Mina: next day\n  S2:2 - Jonas: yes\nS3 -\n  S3:1 - Mina: again\n\
         S4 2024-03-04T18:20:00\n  S4:1 - Jonas: dated"
    );
    let spaced = one("Mina: hi\n\nJonas: hello\n\nMina: bye");
    assert_eq!(
        spaced.sessions.len(),
        1,
        "blank lines between all turns separate nothing"
    );
}

#[test]
fn plain_of_an_assistant_keeps_markdown_in_its_turn() {
    for (user, assistant) in [
        ("User", "Assistant"),
        ("**Human:**", "**AI**"),
        ("사용자", "어시스턴트"),
    ] {
        let bare = |name: &str| {
            if name.ends_with(":**") {
                name.to_owned()
            } else {
                format!("{name}:")
            }
        };
        let text = format!(
            "{} hi\n\n{} Hello.\n\nNote: two points.\n\n---\n\n- one\n\n{} thanks\n",
            bare(user),
            bare(assistant),
            bare(user)
        );
        let transcript = one(&text);
        assert_eq!(transcript.kind, Kind::Assistant);
        assert_eq!(
            outline(&transcript),
            "S1 -\n  S1:1 - user: hi\n  S1:2 - assistant: Hello.\n\nNote: two points.\n\n---\n\n- one\n  \
             S1:3 - user: thanks"
        );
    }
}

#[test]
fn plain_times_of_day_need_a_date_above() {
    let dated = "# 2024-03-04\n[18:20] Mina: hi\n[18:25] Jonas: ho\n";
    assert_eq!(
        outline(&one(dated)),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n  S1:2 2024-03-04T18:25:00 Jonas: ho"
    );
    let undated = read("[18:20] Mina: hi\n[18:25] Jonas: ho\n");
    assert_eq!(
        outline(&undated.transcripts[0]),
        "S1 -\n  S1:1 - Mina: hi\n  S1:2 - Jonas: ho"
    );
    assert!(warnings(&undated)[0].starts_with("line 1: a time of day without a date"));
}

#[test]
fn what_is_no_transcript_is_refused_with_what_was_seen() {
    for text in [
        "It was a bright cold day in April, and the clocks were striking thirteen.\nHe said: nothing.\nThen: silence.",
        "name: memloom\nversion: 1\nlicense: Apache\nedition: 2024\n",
        "fn main() {\n    println!(\"a: b\");\n}\n",
        "a,b,c\n1,2,3\n",
        "# Title\n\nSome prose with https://example.org in it.\n",
        "{\"unrelated\": [1, 2, 3]}",
        "[1, 2, 3]",
        "[]",
        "{}",
        "[\"Mina: hi\"]",
        "42",
        "<html><body>Mina: hi</body></html>",
    ] {
        let error = read_as(text, None).unwrap_err();
        assert!(
            matches!(error, ReadError::Unknown { .. }),
            "{text}: {error}"
        );
    }
    let error = read_as(
        "It was\u{1b}[31m a \u{202e}bright \"cold\" day; it's\nApril, and the clocks were striking",
        None,
    );
    insta::assert_snapshot!(error.unwrap_err().to_string());
}

#[test]
fn a_format_asked_for_has_to_fit() {
    let chat = r#"[{"role": "user", "content": "hi"}]"#;
    for format in [Format::Scenario, Format::Locomo, Format::Longmemeval] {
        let error = read_as(chat, Some(format)).unwrap_err();
        assert!(matches!(error, ReadError::Shape { .. }), "{error}");
    }
    let error = read_as(chat, Some(Format::Plain)).unwrap_err().to_string();
    assert!(
        error.starts_with("`talk.txt` does not fit the format `plain`: no line is like"),
        "{error}"
    );
    let error = read_as("Mina: hi", Some(Format::Chat)).unwrap_err();
    assert!(matches!(error, ReadError::Json { line: 1, .. }), "{error}");
    // Asked for, a single line is enough.
    assert_eq!(
        read_as("Mina: hi", Some(Format::Plain))
            .unwrap()
            .transcripts
            .len(),
        1
    );
    assert!(read_as("Mina: hi", None).is_err());
}

#[test]
fn ids_can_be_made_unique_over_files() {
    let mut transcripts: Vec<_> = (0..3).map(|_| one("Mina: hi\nMina: ho")).collect();
    transcripts[1].id = "talk~2".into();
    assert_eq!(make_ids_unique(&mut transcripts), [(2, "talk".to_owned())]);
    let ids: Vec<_> = transcripts.iter().map(|t| t.id.as_str()).collect();
    assert_eq!(ids, ["talk", "talk~2", "talk~3"]);
}

#[test]
fn a_title_may_stand_above_plain_turns() {
    let read = read("# Talk about dogs\n\nUser: hi\nAssistant:\n\n- a\n- b\nUser: \n");
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 -\n  S1:1 - user: hi\n  S1:2 - assistant: - a\n- b"
    );
    insta::assert_snapshot!(warnings(&read).join("\n"));
}

#[test]
fn the_scenarios_that_ship_read_without_a_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let read = read_file(&path, None).unwrap();
        assert_eq!(read.format, Format::Scenario);
        assert_eq!(read.warnings, []);
        assert_eq!(
            read.transcripts[0].id,
            path.file_stem().unwrap().to_str().unwrap()
        );
        count += 1;
    }
    assert!(count >= 100, "{count}");
}

#[test]
fn a_notice_between_heading_and_turn_changes_nothing() {
    let text = "# 2024-03-04\nin the kitchen\nMina: hi\nJonas: ho\n";
    let read = read_as(text, Some(Format::Plain)).unwrap();
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T00:00:00\n  S1:1 - Mina: hi\n  S1:2 - Jonas: ho"
    );
}
