//! Cutting transcripts into windows: specification section 3, without any reader.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use mem_schema::transcript::{Kind, Moment, Role, Session, Transcript, Turn};
use mem_schema::window::{
    LongTextCut, Segmentation, SegmentationError, WindowStyle, assistant_replies, resolve_overlap,
    shortened, windows,
};
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("golden/segmentation_helpers.json")).unwrap()
}

fn number(case: &Value, field: &str) -> usize {
    case[field].as_u64().unwrap() as usize
}

fn moment(text: &str) -> Option<Moment> {
    Some(text.parse().unwrap())
}

fn turn(id: &str, speaker: &str, text: &str) -> Turn {
    Turn {
        id: id.into(),
        speaker: speaker.into(),
        role: Role::User,
        text: text.into(),
        image_caption: None,
        time: None,
    }
}

fn session(id: &str, start: Option<Moment>, turns: Vec<Turn>) -> Session {
    Session {
        id: id.into(),
        start,
        turns,
    }
}

fn transcript(kind: Kind, sessions: Vec<Session>) -> Transcript {
    Transcript {
        id: "t".into(),
        kind,
        language: None,
        participants: Vec::new(),
        sessions,
    }
}

fn numbered(count: usize) -> Transcript {
    let turns = (1..=count).map(|n| turn(&format!("S:{n}"), "Mina", &format!("text {n}")));
    transcript(
        Kind::Dialogue,
        vec![session("S", moment("2024-03-04T18:20"), turns.collect())],
    )
}

#[test]
fn long_texts_are_cut_as_in_the_golden_cases() {
    let golden = golden();
    let cases = golden["truncate"].as_array().unwrap();
    assert_eq!(cases.len(), 8);
    for case in cases {
        for (variant, whole_if_no_parts) in [("longmemeval", true), ("locomo", false)] {
            let cut = LongTextCut {
                threshold: number(case, "threshold"),
                head: number(case, "head"),
                middle: number(case, "middle"),
                tail: number(case, "tail"),
                whole_if_no_parts,
            };
            assert_eq!(
                cut.apply(case["text"].as_str().unwrap()),
                case[variant],
                "{case}"
            );
        }
    }
}

#[test]
fn overlaps_resolve_as_in_the_golden_cases() {
    let golden = golden();
    let cases = golden["resolve_overlap"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let explicit = usize::try_from(case["overlap"].as_i64().unwrap()).ok();
        let ratio = case["ratio"].as_f64().unwrap();
        let resolved = resolve_overlap(number(case, "window_size"), explicit, ratio);
        assert_eq!(resolved, number(case, "resolved"), "{case}");
    }
    assert_eq!(resolve_overlap(0, Some(3), 0.2), 0);
    assert_eq!(resolve_overlap(10, None, f64::NAN), 0);
}

#[test]
fn every_message_is_new_in_exactly_one_window() {
    for count in [0, 1, 4, 5, 6, 9, 10, 11, 24, 25, 26, 45, 46, 99] {
        let transcript = numbered(count);
        for (window, overlap) in [(1, 0), (5, 0), (5, 4), (10, 3), (25, 5)] {
            let cut = Segmentation {
                window,
                overlap,
                captions: false,
            };
            let mut new = Vec::new();
            for w in windows(&transcript, &cut) {
                assert!(w.messages.len() <= window);
                assert!(w.messages.len() > w.overlap_count, "{count} {cut:?}");
                assert!(w.messages.iter().map(|m| m.number).eq(1..=w.messages.len()));
                new.extend(
                    w.messages[w.extract_start() - 1..]
                        .iter()
                        .map(|m| m.global_index),
                );
            }
            assert!(
                new.iter().copied().eq(1..=count),
                "{count} {cut:?}: {new:?}"
            );
        }
    }
}

#[test]
fn impossible_segmentations_are_refused_or_clamped() {
    let cut = |window, overlap| Segmentation {
        window,
        overlap,
        captions: false,
    };
    assert_eq!(cut(0, 0).check(), Err(SegmentationError::EmptyWindow));
    let error = cut(5, 5).check().unwrap_err();
    assert_eq!(
        error.to_string(),
        "an overlap of 5 leaves nothing new in a window of 5 messages: choose an overlap of at most 4"
    );
    assert_eq!(cut(5, 4).check(), Ok(()));
    let transcript = numbered(7);
    assert_eq!(
        windows(&transcript, &cut(0, 9)),
        windows(&transcript, &cut(1, 0))
    );
    assert_eq!(
        windows(&transcript, &cut(3, 9)),
        windows(&transcript, &cut(3, 2))
    );
    assert_eq!(windows(&transcript, &cut(usize::MAX, 0)).len(), 1);
}

#[test]
fn texts_of_both_styles() {
    let mut late = turn("A:3", "Jonas", "two\n9 Mina: lines");
    late.time = moment("2024-03-05T00:10:00+09:00");
    let mut photo = turn("B:1", "Mina", "");
    photo.image_caption = Some("a dog".into());
    let silent = turn("B:2", "Mina", "");
    let transcript = transcript(
        Kind::Dialogue,
        vec![
            session(
                "A",
                moment("2024-03-04T18:20"),
                vec![
                    turn("A:1", "Mina", "hi"),
                    turn("A:2", "Jonas", "hello"),
                    late,
                ],
            ),
            session("B", None, vec![photo, silent]),
        ],
    );
    let cut = |captions| Segmentation {
        window: 9,
        overlap: 0,
        captions,
    };
    let window = &windows(&transcript, &cut(true))[0];
    assert_eq!(
        window.text(WindowStyle::Reference),
        "[2024-03-04T18:20:00, Mon] 1.Mina: hi\n\
         [2024-03-04T18:20:00.500000, Mon] 2.Jonas: hello\n\
         [2024-03-05T00:10:00+09:00, Tue] 3.Jonas: two\n9 Mina: lines\n\
         4.Mina: [image: a dog]"
    );
    assert_eq!(
        window.text(WindowStyle::Compact),
        "[2024-03-04 Mon 18:20]\n1 Mina: hi\n2 Jonas: hello\n\
         [2024-03-05 Tue 00:10]\n3 Jonas: two\n  9 Mina: lines\n\
         [date unknown]\n4 Mina: [image: a dog]"
    );
    let without = &windows(&transcript, &cut(false))[0];
    assert_eq!(without.messages[3].text, "");
    assert_eq!(
        without.messages.len(),
        4,
        "the turn with neither text nor picture is no message"
    );
}

#[test]
fn wholly_undated_transcripts_have_no_headers() {
    let turns = vec![turn("1", "Mina", "hi"), turn("2", "Jonas", "hello")];
    let transcript = transcript(Kind::Dialogue, vec![session("A", None, turns)]);
    let window = &windows(&transcript, &Segmentation::LOCOMO)[0];
    assert_eq!(
        window.text(WindowStyle::Compact),
        "1 Mina: hi\n2 Jonas: hello"
    );
    assert_eq!(
        window.text(WindowStyle::Reference),
        "1.Mina: hi\n2.Jonas: hello"
    );
}

#[test]
fn with_an_assistant_only_the_user_is_shown_and_replies_are_kept_aside() {
    let reply = |id: &str, role| Turn {
        role,
        ..turn(id, "assistant", &format!("reply {id}"))
    };
    // Both sessions have one name on purpose: replies are found by position.
    let sessions = vec![
        session(
            "A",
            None,
            vec![
                reply("0", Role::System),
                turn("1", "Ada", "q1"),
                reply("2", Role::Assistant),
                turn("3", "Ada", "q2"),
                reply("4", Role::Tool),
            ],
        ),
        session(
            "A",
            None,
            vec![turn("5", "Ada", "q3"), reply("6", Role::Assistant)],
        ),
    ];
    let transcript = transcript(Kind::Assistant, sessions);
    let cut = Segmentation {
        window: 2,
        overlap: 1,
        captions: false,
    };
    let windows = windows(&transcript, &cut);
    assert_eq!(windows.len(), 2);
    assert_eq!(
        windows[0].text(WindowStyle::Reference),
        "1.User: q1\n2.User: q2"
    );
    assert_eq!(
        windows[1].text(WindowStyle::Compact),
        "1 user: q2\n2 user: q3"
    );
    let replies: Vec<_> = windows
        .iter()
        .flat_map(|w| assistant_replies(&transcript, w))
        .collect();
    let seen: Vec<_> = replies
        .iter()
        .map(|r| (r.uid.as_str(), r.text.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            ("w0000u01", "reply 2"),
            ("w0000u02", ""),
            ("w0001u01", ""),
            ("w0001u02", "reply 6")
        ]
    );
}

#[test]
fn captions_are_cut_with_the_text() {
    let mut photo = turn("S1:1", "Mina", "look");
    photo.image_caption = Some("가".repeat(100_000));
    let talk = transcript(
        Kind::Dialogue,
        vec![session(
            "S1",
            None,
            vec![photo, turn("S1:2", "Jonas", "ok")],
        )],
    );
    let cut = |captions| Segmentation {
        window: 10,
        overlap: 2,
        captions,
    };
    let with = windows(&talk, &cut(true));
    // 500 characters of the beginning, 200 of the middle and 300 of the end, with `\n...\n` twice between them.
    let text = &with[0].messages[0].text;
    assert_eq!(text.chars().count(), 1010);
    assert!(text.starts_with("look [image: 가") && text.ends_with("가]"));
    assert_eq!((shortened(&talk, true), shortened(&talk, false)), (1, 0));
    assert_eq!(windows(&talk, &cut(false))[0].messages[0].text, "look");
}
