//! Bytes as they come: encodings, damage, size. Nothing here may panic.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use std::path::Path;

use mem_schema::readers::{Format, ReadError, ReadTranscripts, read_bytes, read_file};

const PLAIN: &str = "[2024-03-04 18:20] 미나: 안녕\n[2024-03-04 18:21] Jonas: hello\n";

const SAMPLES: [&str; 8] = [
    r#"{"scenario_id": "s", "kind": "dialogue", "language": "en", "participants": ["A", "B"], "sessions": [{"session_id": "S1", "start": "2024-03-04T18:20:00", "turns": [{"turn_id": "S1:1", "speaker": "A", "text": "안녕"}, {"turn_id": "S1:2", "speaker": "B", "text": "hi", "image_caption": "dog"}]}]}"#,
    r#"[{"sample_id": "c", "conversation": {"speaker_a": "A", "speaker_b": "B", "session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "hi"}]}}]"#,
    r#"[{"question_id": "q", "haystack_session_ids": ["s"], "haystack_dates": ["2023/06/25 (Sun) 13:22"], "haystack_sessions": [[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]]}]"#,
    "{\"role\": \"user\", \"content\": \"hi\", \"timestamp\": 1709544060}\n{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"é\"}]}\n{\"role\": \"user\", \"content\": \"bye\"}\n",
    "[2024-03-04 18:20] 미나: 안녕\n[2024-03-04 18:21] Jonas: hello\nmore\n\n2024-03-05 09:00 Mina: bye\n",
    "--------------- 2024년 3월 4일 월요일 ---------------\n[미나] [오후 6:20] 안녕\n[요나스] [오후 6:21] 사진\n",
    "04/03/2024, 18:20 - Mina: hi\n04/13/24, 6:21 PM - Jonas: hello\n",
    "# 2024-03-04\n**Mina:** hi\nJonas: hello\n\nMina: bye\n---\nJonas: end\n",
];

fn read(bytes: impl Into<Vec<u8>>) -> Result<ReadTranscripts, ReadError> {
    read_bytes(Path::new("talk.txt"), bytes.into(), None)
}

fn texts(read: &ReadTranscripts) -> Vec<&str> {
    let sessions = read
        .transcripts
        .iter()
        .flat_map(|transcript| &transcript.sessions);
    sessions
        .flat_map(|session| &session.turns)
        .map(|turn| turn.text.as_str())
        .collect()
}

fn utf16(text: &str, little_endian: bool) -> Vec<u8> {
    let bytes = |unit: u16| {
        if little_endian {
            unit.to_le_bytes()
        } else {
            unit.to_be_bytes()
        }
    };
    text.encode_utf16().flat_map(bytes).collect()
}

#[test]
fn byte_order_marks_and_utf16() {
    let chat = r#"[{"role": "user", "content": "안녕"}]"#;
    for text in [PLAIN, chat] {
        let expected = read(text).unwrap();
        let marked = format!("\u{feff}{text}");
        for bytes in [
            marked.as_bytes().to_vec(),
            utf16(&marked, true),
            utf16(&marked, false),
            utf16(text, true),
            utf16(text, false),
        ] {
            assert_eq!(read(bytes).unwrap(), expected);
        }
    }
    let mut odd = utf16(&format!("\u{feff}{PLAIN}"), true);
    odd.push(b'x');
    assert_eq!(read(odd).unwrap().warnings.len(), 1);
    let utf32: Vec<u8> = format!("\u{feff}{PLAIN}")
        .chars()
        .flat_map(|c| (c as u32).to_le_bytes())
        .collect();
    let message = read(utf32).unwrap_err().to_string();
    assert_eq!(message, "`talk.txt` is UTF-32 text: save it as UTF-8");
}

#[test]
fn line_ends_and_nul() {
    let expected = read(PLAIN).unwrap();
    assert_eq!(read(PLAIN.replace('\n', "\r\n")).unwrap(), expected);
    assert_eq!(read(PLAIN.replace('\n', "\r")).unwrap(), expected);
    let damaged = read(PLAIN.replace("hello", "he\0l\0lo")).unwrap();
    assert_eq!(damaged.transcripts, expected.transcripts);
    assert_eq!(damaged.warnings[0].location, "line 2");
    assert_eq!(
        damaged.warnings[0].message,
        "NUL characters were removed: 2"
    );
    let escaped = read(r#"[{"role": "user", "content": "a\u0000b\r\nc"}]"#).unwrap();
    assert_eq!(texts(&escaped), ["ab\nc"]);
}

#[test]
fn bytes_that_are_not_utf8() {
    let mut bytes = PLAIN.as_bytes().to_vec();
    let last = bytes.len() - 2;
    bytes[last] = 0xFF;
    let damaged = read(bytes).unwrap();
    assert_eq!(texts(&damaged), ["안녕", "hell\u{fffd}"]);
    assert_eq!(damaged.warnings[0].location, "line 2");
    // "안녕하세요" in CP949, the older Korean encoding.
    let cp949 = b"[2024-03-04 18:20] Mina: \xbe\xc8\xb3\xe7\xc7\xcf\xbc\xbc\xbf\xe4";
    let message = read(cp949.to_vec()).unwrap_err().to_string();
    assert!(
        message.contains("save it as UTF-8; for older Korean text: `iconv -f CP949"),
        "{message}"
    );
}

#[test]
fn empty_files_and_files_without_words() {
    for text in ["", " \n\t\r\n", "\u{feff}", "\0\0"] {
        assert!(
            matches!(read(text), Err(ReadError::Empty { .. })),
            "{text:?}"
        );
    }
    let silent = r#"{"scenario_id": "s", "kind": "dialogue", "sessions": [{"session_id": "S1", "turns": []}]}"#;
    let error = read(silent).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`talk.txt`, read as `scenario`, holds no turn with text; the first problem is at transcript `s`, \
         session `S1`: the session is empty; it was left out"
    );
    let missing = read_file(Path::new("no/such/file.json"), None).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "cannot read `no/such/file.json`: check the name and the permissions"
    );
}

#[test]
fn truncated_json_names_line_and_column() {
    let text = "{\"messages\": [\n  {\"role\": \"user\", \"content\": \"hi\"},\n  {\"role\": \"user\", \"con";
    let error = read(text).unwrap_err();
    let message = error.to_string();
    assert!(
        message.starts_with("`talk.txt` is not valid JSON at line 3, column "),
        "{message}"
    );
    assert!(std::error::Error::source(&error).is_some());
    // The last line of a list cut short is valid JSON by itself; still this is no JSONL.
    let text = "{\"messages\": [\n{\"role\": \"user\", \"content\": \"a\"},\n{\"role\": \"user\", \"content\": \"b\"}";
    assert!(matches!(read(text), Err(ReadError::Json { line: 3, .. })));
}

#[test]
fn depth_bombs_are_errors() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = open.repeat(200_000);
        assert!(read(deep.clone()).is_err());
        assert!(read(format!("{deep}1{}", close.repeat(200_000))).is_err());
        let inside = format!("{{\"role\": \"user\", \"content\": {deep}");
        assert!(read(inside.clone()).is_err());
        let line = r#"{"role": "user", "content": "hi"}"#;
        assert_eq!(
            texts(&read(format!("{line}\n{inside}\n{line}")).unwrap()),
            ["hi", "hi"]
        );
    }
}

#[test]
fn very_long_lines() {
    let long = "말 ".repeat(20_000_000 / 4);
    let plain = read(format!("[2024-03-04 18:20] Mina: {long}\n")).unwrap();
    assert_eq!(texts(&plain), [long.trim()]);
    let lines = read(format!(
        "{{\"role\": \"user\", \"content\": \"{long}\"}}\n{{\"role\": \"user\", \"content\": \"b\"}}"
    ));
    assert_eq!(texts(&lines.unwrap()), [long.trim(), "b"]);
    for text in [
        "a".repeat(20_000_000),
        "[".repeat(20_000_000),
        "-".repeat(20_000_000),
        "2024-03-04 ".repeat(2_000_000),
    ] {
        assert!(read(text).is_err());
    }
}

#[test]
fn warnings_do_not_pile_up() {
    let mut text = "{\"role\": \"user\", \"content\": \"hi\"}\n".repeat(300);
    text.push_str(&"{\"role\": \n".repeat(250));
    let read = read(text).unwrap();
    assert_eq!(read.warnings.len(), 101);
    assert_eq!(
        read.warnings[100].message,
        "further warnings that are not shown: 150"
    );
    assert_eq!(texts(&read).len(), 300);
}

/// SplitMix64: enough randomness for damage, the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % end.max(1) as u64) as usize
    }

    fn damage(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        match self.below(5) {
            0 => bytes.truncate(self.below(bytes.len())),
            1 => {
                let at = self.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = self.below(256) as u8;
                }
            }
            2 => {
                let (at, from) = (self.below(bytes.len()), self.below(other.len()));
                let to = from + self.below(other.len() - from);
                bytes.splice(at..at, other[from..to].iter().copied());
            }
            3 => {
                let from = self.below(bytes.len());
                let to = from + self.below(bytes.len() - from);
                bytes.drain(from..to);
            }
            _ => {
                let marks = [
                    "\0", "\u{feff}", "\n", ":", "[", "]", "{", "\"", "null", "1e999", "-1",
                    "\u{fffd}", "：",
                ];
                let at = self.below(bytes.len());
                bytes.splice(at..at, marks[self.below(marks.len())].bytes());
            }
        }
    }
}

#[test]
fn damaged_files_never_panic() {
    let formats = [None]
        .into_iter()
        .chain(Format::ALL.map(Some))
        .collect::<Vec<_>>();
    let mut random = Random(20_240_304);
    let mut outcomes = [0, 0];
    for round in 0..500 {
        for (index, sample) in SAMPLES.iter().enumerate() {
            let mut bytes = sample.as_bytes().to_vec();
            let other = SAMPLES[random.below(SAMPLES.len())].as_bytes();
            for _ in 0..=random.below(4) {
                random.damage(&mut bytes, other);
            }
            let format = formats[(round + index) % formats.len()];
            match read_bytes(Path::new("damaged"), bytes, format) {
                Ok(read) => {
                    outcomes[0] += 1;
                    for transcript in &read.transcripts {
                        assert!(
                            transcript
                                .sessions
                                .iter()
                                .all(|session| !session.turns.is_empty())
                        );
                        let turns = transcript
                            .sessions
                            .iter()
                            .flat_map(|session| &session.turns);
                        let ids: Vec<_> = turns.map(|turn| &turn.id).collect();
                        let distinct: std::collections::HashSet<_> = ids.iter().collect();
                        assert_eq!(distinct.len(), ids.len());
                    }
                }
                Err(error) => {
                    outcomes[1] += 1;
                    assert!(!error.to_string().contains('\0'));
                }
            }
        }
    }
    assert!(
        outcomes.iter().all(|count| *count > 200),
        "{outcomes:?}: the damage is too small or too great"
    );
}
