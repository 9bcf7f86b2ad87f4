//! Exports of messengers, as text and as JSON.

use mem_schema::readers::Format;
use mem_schema::transcript::{Kind, Role};
use reader_support::{one, outline, read, refusal, warnings};

mod reader_support;

const TWO_TURNS: &str = "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n  \
    S1:2 2024-03-04T18:21:00 Jonas: ho";

#[test]
fn kakaotalk_as_a_table() {
    let text = "Date,User,Message\n2024-03-04 18:20:11,\"Mina\",\"Hello: a\"\n\
        2024-03-04 18:20:40,\"요나스, 회사\",\"둘째 \"\"줄\"\"\n이어서\"\n2024-03-04 18:21:00,\"Mina\",\"사진\"\n\
        2024-03-04 18:22:00,\"요나스, 회사\",\"요나스, 회사님이 나갔습니다.\"\n";
    let read = read(text);
    assert_eq!(read.format, Format::Plain);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:11\n  S1:1 2024-03-04T18:20:11 Mina: Hello: a\n  \
         S1:2 2024-03-04T18:20:40 요나스, 회사: 둘째 \"줄\"\n이어서"
    );
    assert_eq!((read.lost, read.placeholders), (0, 1));
    let cut = format!("{text}2024-03-04 18:23:00\n2024-03-04 18:24:00,Mina,\"half");
    let cut = reader_support::read(&cut);
    assert_eq!(cut.lost, 2);
    assert_eq!(
        warnings(&cut)[0],
        "line 7: not a date, a user and a message; the row was left out"
    );
    assert_eq!(cut.transcripts[0].sessions[0].turns[2].text, "half");
}

#[test]
fn kakaotalk_with_messages_that_begin_on_the_next_line() {
    let text = "--------------- 2024년 3월 4일 월요일 ---------------\n[요나스] [오후 6:19] 응\n\
        [미나] [오후 6:20] \n둘째 줄\n2024-05-01\n[요나스] [오후 13:21] 그래\n";
    assert_eq!(
        outline(&one(text)),
        "S1 2024-03-04T18:19:00\n  S1:1 2024-03-04T18:19:00 요나스: 응\n  \
         S1:2 2024-03-04T18:20:00 미나: 둘째 줄\n2024-05-01\n\
         S2 2024-03-04T13:21:00\n  S2:1 2024-03-04T13:21:00 요나스: 그래"
    );
}

#[test]
fn kakaotalk_notices_end_a_message() {
    let text = "--------------- 2024년 3월 4일 월요일 ---------------\n[미나] [오후 6:20] 안녕\n\
        요나스님이 들어왔습니다.\n운영정책을 위반한 메시지로 신고 접수 시 카카오톡 이용에 제한이 있을 수 있습니다.\n\
        누구의 말인지 모를 줄\n[요나스] [오후 6:21] 응\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 미나: 안녕\n  S1:2 2024-03-04T18:21:00 요나스: 응"
    );
    assert_eq!(read.lost, 1);
    assert!(
        warnings(&read)[1].starts_with("line 5: "),
        "{:?}",
        read.warnings
    );
}

#[test]
fn a_day_on_the_telephone_may_begin_with_a_notice() {
    let text = "2024년 3월 4일 오후 6:20\n2024년 3월 4일 오후 6:20, Mina : hi\n2024년 3월 4일 오후 6:21, Jonas : ho\n\
        2024년 3월 5일 오전 9:00\n2024년 3월 5일 오전 9:00, 요나스님이 나갔습니다.\n";
    let read = read(text);
    assert_eq!(outline(&read.transcripts[0]), TWO_TURNS);
    assert_eq!(read.lost, 0);
}

#[test]
fn english_exports_of_kakaotalk() {
    let desktop = "--------------- Monday, March 4, 2024 ---------------\n[Mina] [6:20 PM] hi\n[Jonas] [6:21 PM] ho\n";
    assert_eq!(outline(&one(desktop)), TWO_TURNS);
    let telephone = "March 4, 2024, 6:20 PM\nMarch 4, 2024, 6:20 PM, Mina : hi\nMarch 4, 2024, 6:21 PM, Jonas : ho\n\
        March 4, 2024, 6:22 PM, Jonas : Photo\n";
    let read = read(telephone);
    assert_eq!(outline(&read.transcripts[0]), TWO_TURNS);
    assert_eq!((read.lost, read.placeholders), (0, 1));
}

#[test]
fn stamps_of_many_languages() {
    for lines in [
        [
            "04/03/2024، 18:20 - Mina: hi",
            "04/03/2024، 18:21 - Jonas: ho",
        ],
        [
            "٠٤/٠٣/٢٠٢٤، ٦:٢٠ م - Mina: hi",
            "٠٤/٠٣/٢٠٢٤، ٦:٢١ م - Jonas: ho",
        ],
        [
            "\u{200f}4\u{200f}/3\u{200f}/2024, 18:20 - Mina: hi",
            "\u{200f}4\u{200f}/3\u{200f}/2024, 18:21 - Jonas: ho",
        ],
        [
            "2024年3月4日 18:20 Mina: hi",
            "2024年3月4日 18:21 Jonas: ho",
        ],
        [
            "2024年3月4日 晚上6:20 Mina: hi",
            "2024年3月4日 晚上6:21 Jonas: ho",
        ],
        ["२०२४/०३/०४ १८:२० Mina: hi", "२०२४/०३/०४ १८:२१ Jonas: ho"],
        [
            "04/03/2024 à 18:20 - Mina: hi",
            "04/03/2024 à 18:21 - Jonas: ho",
        ],
        [
            "04/03/2024 às 18:20 - Mina: hi",
            "04/03/2024 às 18:21 - Jonas: ho",
        ],
        [
            "[2024-03-04] [18:20] Mina: hi",
            "[2024-03-04] [18:21] Jonas: ho",
        ],
    ] {
        assert_eq!(outline(&one(&lines.join("\n"))), TWO_TURNS, "{lines:?}");
    }
}

#[test]
fn whatsapp_marks_and_events_are_not_said() {
    let text = "04/03/2024, 18:20 - Mina: hi \u{200e}<This message was edited>\n\
        04/03/2024, 18:21 - Jonas: \u{200e}Missed voice call\n\
        04/03/2024, 18:21 - Jonas: location: https://maps.google.com/?q=52.09,5.12\n\
        04/03/2024, 18:21 - Jonas: ho\n";
    let read = read(text);
    assert_eq!(outline(&read.transcripts[0]), TWO_TURNS);
    assert_eq!((read.lost, read.placeholders), (0, 2));
}

#[test]
fn discord_names_people_under_author() {
    let text = r#"{"guild": {"name": "Home"}, "messages": [
        {"id": "1", "type": "Default", "timestamp": "2024-03-04T18:20:00", "content": "hi", "author": {"id": "7", "name": "Mina"}},
        {"id": "2", "type": "GuildMemberJoin", "timestamp": "2024-03-04T18:20:30", "content": "Joined the server.", "author": {"name": "Jonas"}},
        {"id": "3", "type": "Default", "timestamp": "2024-03-04T18:20:40", "content": "", "attachments": [{"url": "a.png"}], "author": {"name": "Jonas"}},
        {"id": "4", "type": "Reply", "timestamp": "2024-03-04T18:21:00", "content": "ho", "author": {"name": "Jonas"}}]}"#;
    let read = read(text);
    assert_eq!(outline(&read.transcripts[0]), TWO_TURNS);
    assert_eq!(read.transcripts[0].kind, Kind::Dialogue);
    assert_eq!(read.transcripts[0].participants, ["Mina", "Jonas"]);
    assert_eq!((read.lost, read.placeholders), (0, 1));
    assert_eq!(
        warnings(&read),
        ["conversation 1, message 2: a notice of the program (`GuildMemberJoin`); left out"]
    );
    for key in ["from", "sender"] {
        let text = format!(
            r#"{{"messages": [{{"{key}": "Mina", "content": "hi", "time": "2024-03-04T18:20:00"}},
            {{"{key}": {{"name": "Jonas"}}, "content": "ho", "time": "2024-03-04T18:21:00"}}]}}"#
        );
        assert_eq!(outline(&one(&text)), TWO_TURNS);
    }
}

#[test]
fn a_role_may_stand_where_a_name_would() {
    let text = r#"{"messages": [{"sender": "human", "text": "hi"}, {"sender": "assistant", "text": "ho"}]}"#;
    let transcript = one(text);
    assert_eq!(transcript.kind, Kind::Assistant);
    assert_eq!(transcript.participants, ["user", "assistant"]);
}

#[test]
fn telegram_names_people_under_from() {
    let text = r#"{"name": "Mina", "type": "personal_chat", "id": 42, "messages": [
        {"id": 1, "type": "service", "date": "2024-03-04T18:19:00", "actor": "Mina", "action": "phone_call", "text": ""},
        {"id": 2, "type": "message", "date": "2024-03-04T18:20:00", "from": "Mina", "text": [{"type": "bold", "text": "h"}, "i"]},
        {"id": 3, "type": "message", "date": "2024-03-04T18:21:00", "from": "Jonas", "text": "ho"}]}"#;
    let transcript = one(text);
    assert_eq!(outline(&transcript), TWO_TURNS);
    assert_eq!(transcript.id, "42");
    assert_eq!(transcript.kind, Kind::Dialogue);
}

#[test]
fn messages_of_nobody_are_refused() {
    let text = r#"{"messages": [{"content": "hi"}, {"content": "ho"}]}"#;
    let reason = refusal(text);
    assert!(
        reason.contains(
            "no message has `role`, nor a name under `name`, `author`, `from` or `sender`"
        ),
        "{reason}"
    );
    let one_of_two = format!(r#"[{text}, {{"messages": [{{"role": "user", "content": "hi"}}]}}]"#);
    let read = read(&one_of_two);
    assert_eq!((read.transcripts.len(), read.lost), (1, 2));
}

#[test]
fn several_people_and_an_assistant_keep_their_names() {
    let text = r#"[{"role": "user", "name": "Mina", "content": "hi"}, {"role": "assistant", "content": "yes?"},
        {"role": "user", "name": "Jonas", "content": "ho"}]"#;
    let transcript = one(text);
    assert_eq!(transcript.kind, Kind::Dialogue);
    assert_eq!(transcript.participants, ["Mina", "assistant", "Jonas"]);
    let roles: Vec<_> = transcript.sessions[0]
        .turns
        .iter()
        .map(|turn| turn.role)
        .collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
    let alone = r#"[{"role": "user", "name": "Mina", "content": "hi"},
        {"role": "assistant", "author": "gpt-4o", "content": "yes?"}, {"role": "user", "name": "Mina", "content": "ho"}]"#;
    assert_eq!(one(alone).kind, Kind::Assistant);
    assert_eq!(one(alone).participants, ["Mina", "assistant"]);
}

#[test]
fn lines_are_sorted_by_conversation() {
    let text = r#"{"conversation_id": "a", "role": "user", "content": "hi"}
        {"conversation_id": 7, "role": "user", "content": "one"}
        {"conversation_id": "a", "role": "assistant", "content": "ho"}
        {"role": "user", "content": "none"}"#;
    let read = read(text);
    let texts: Vec<_> = read
        .transcripts
        .iter()
        .map(|transcript| {
            let turns = transcript
                .sessions
                .iter()
                .flat_map(|session| &session.turns);
            let texts: Vec<_> = turns.map(|turn| turn.text.as_str()).collect();
            (transcript.id.as_str(), texts.join(" "))
        })
        .collect();
    let expected = [("a", "hi ho"), ("7", "one"), ("talk-3", "none")];
    assert_eq!(texts, expected.map(|(id, text)| (id, text.to_owned())));
}

#[test]
fn sessions_that_messages_name_are_sessions_of_one_conversation() {
    let text = r#"[{"session_id": "s1", "role": "user", "name": "Mina", "content": "hi"},
        {"session_id": 2, "role": "user", "name": "Jonas", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"session_id": "s1", "role": "assistant", "content": "ho"}]"#;
    let transcript = one(text);
    assert_eq!(
        outline(&transcript),
        "S1 -\n  S1:1 - Mina: hi\n  S1:2 - assistant: ho\nS2 -\n  S2:1 - Jonas: one\n  S2:2 - assistant: two"
    );
    assert_eq!(transcript.participants, ["Mina", "assistant", "Jonas"]);
    let both = r#"[{"conversation_id": "c", "session_id": "s1", "role": "user", "content": "hi"},
        {"conversation_id": "c", "session_id": "s2", "role": "user", "content": "ho"}]"#;
    let both = one(both);
    assert_eq!(both.id, "c");
    assert_eq!(
        outline(&both),
        "S1 -\n  S1:1 - user: hi\nS2 -\n  S2:1 - user: ho"
    );
}

#[test]
fn a_time_that_is_null_hides_no_other() {
    let text = r#"[{"role": "user", "content": "hi", "timestamp": null, "created_at": "2024-03-04T18:20:00"},
        {"role": "assistant", "content": "ho", "timestamp": "2024-03-04T18:21:00"}]"#;
    let times: Vec<_> = one(text).sessions[0]
        .turns
        .iter()
        .map(|turn| turn.time.map(|time| time.to_string()))
        .collect();
    let expected = ["2024-03-04T18:20:00", "2024-03-04T18:21:00"];
    assert_eq!(times, expected.map(|time| Some(time.to_owned())));
}

#[test]
fn messages_with_a_role_are_no_notices() {
    let text = r#"[{"role": "user", "type": "Call", "content": "I moved to Oslo"}]"#;
    assert_eq!(outline(&one(text)), "S1 -\n  S1:1 - user: I moved to Oslo");
}

#[test]
fn what_stands_under_unknown_keys_is_lost() {
    let text = r#"[{"role": "user", "content": "hi"}, {"role": "user", "message": "I moved to Oslo"},
        {"role": "assistant", "tool_calls": [{}]}, {"role": "user", "content": "", "text": "and I like it"}]"#;
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 -\n  S1:1 - user: hi\n  S1:2 - user: and I like it"
    );
    assert_eq!(read.lost, 1);
    assert_eq!(
        warnings(&read),
        ["message 2: neither `content` nor `text`; the message was left out"]
    );
}

#[test]
fn people_may_be_called_as_roles_are() {
    let text = r#"{"messages": [{"from": "Mina", "text": "hi"}, {"from": "Model", "text": "ho"},
        {"from": "Tool", "text": "hm"}]}"#;
    let transcript = one(text);
    assert_eq!(transcript.kind, Kind::Dialogue);
    assert_eq!(transcript.participants, ["Mina", "Model", "Tool"]);
    let turns = &transcript.sessions[0].turns;
    assert!(turns.iter().all(|turn| turn.role == Role::User));
}

#[test]
fn messages_with_senders_need_no_object_around_them() {
    let list = r#"[{"author": {"name": "Mina"}, "content": "hi", "timestamp": "2024-03-04T18:20:00"},
        {"author": {"name": "Jonas"}, "content": "ho", "timestamp": "2024-03-04T18:21:00"}]"#;
    assert_eq!(outline(&one(list)), TWO_TURNS);
    let lines = r#"{"from": "Mina", "text": "hi", "date": "2024-03-04T18:20:00"}
        {"from": "Jonas", "text": "ho", "date": "2024-03-04T18:21:00"}"#;
    assert_eq!(outline(&one(lines)), TWO_TURNS);
}

#[test]
fn messages_in_a_table_may_tell_who_came() {
    let text = "Date,User,Message\n2024-03-04 18:20:00,미나,\"오늘 면접 봤어.\n부장님이 들어왔습니다.\"\n\
        2024-03-04 18:21:00,미나,부장님이 들어왔습니다.\n2024-03-04 18:22:00,요나스,요나스님이 들어왔습니다.\n";
    let read = read(text);
    let texts: Vec<_> = read.transcripts[0].sessions[0]
        .turns
        .iter()
        .map(|turn| turn.text.as_str())
        .collect();
    assert_eq!(
        texts,
        [
            "오늘 면접 봤어.\n부장님이 들어왔습니다.",
            "부장님이 들어왔습니다."
        ]
    );
    assert_eq!(
        warnings(&read),
        ["whole file: who came and who went was left out: 1 rows"]
    );
}
