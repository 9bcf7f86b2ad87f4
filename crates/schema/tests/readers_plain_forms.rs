//! Plain texts whose lines are not all of one form: headers, headings, notices and speakers who are written otherwise.

use mem_schema::readers::Format;
use reader_support::{one, outline, read, read_as, refusal, warnings};

mod reader_support;

/// The speakers of all turns.
fn speakers(text: &str) -> Vec<String> {
    let transcript = one(text);
    let turns = transcript.sessions.into_iter().flat_map(|s| s.turns);
    turns.map(|turn| turn.speaker).collect()
}

#[test]
fn headers_that_recur_are_no_speakers() {
    let text = "Channel: general\n[2024-03-04 18:20] Mina: hi\n[2024-03-04 18:21] Jonas: ho\nChannel: random\n\
        [2024-03-05 18:20] Mina: up?\n";
    let channels = one(text);
    assert_eq!(channels.participants, ["Mina", "Jonas"]);
    assert_eq!(
        channels.sessions[1].turns[0].time.map(|t| t.to_string()),
        Some("2024-03-05T18:20:00".to_owned())
    );
    let export = "저장한 날짜 : 2024-03-04 18:30\n--------------- 2024년 3월 4일 월요일 ---------------\n\
        [미나] [오후 6:20] 안녕\n[요나스] [오후 6:21] 응\n";
    assert_eq!(
        speakers(&format!("{export}{export}")),
        ["미나", "요나스", "미나", "요나스"]
    );
    let english = export.replace("저장한 날짜", "Date Saved");
    assert_eq!(speakers(&format!("{english}{english}")).len(), 4);
    let noted = "Notes: trip\n[2024-03-04 18:20] Mina: hi\nHotel: Sun\nTrain: ten\nBudget: low\n\
        [2024-03-04 18:21] Jonas: ho\n";
    assert_eq!(
        outline(&one(noted)),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\nHotel: Sun\nTrain: ten\nBudget: low\n  \
         S1:2 2024-03-04T18:21:00 Jonas: ho"
    );
    let two_heads = "Channel: a\nTopic: b\n[18:20] Mina: hi\n[18:21] Jonas: ho\nChannel: c\nTopic: d\n\
        [18:22] Mina: up?\n[18:23] Jonas: yes\n";
    assert_eq!(speakers(two_heads), ["Mina", "Jonas", "Mina", "Jonas"]);
}

#[test]
fn a_time_among_untimed_turns_makes_no_speaker() {
    for text in [
        "Mina: hi\n2024-05-01 10:00 dentist: bring the card\nJonas: ok\n",
        "Mina: my day\n8:00 Breakfast: oats\n9:00 gym: legs\nJonas: ok\n",
    ] {
        assert_eq!(speakers(text), ["Mina", "Jonas"], "{text}");
    }
    let quoted = "User: what is this?\n[2024-03-04 18:20] Mina: hi\nAssistant: A log\nUser: ok\n";
    assert_eq!(speakers(quoted), ["user", "assistant", "user"]);
}

#[test]
fn headings_above_notices_date_a_log() {
    let expected = "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n\
        S2 2024-03-05T09:05:00\n  S2:1 2024-03-05T09:05:00 Jonas: I got the job today";
    for (between, lost) in [
        ("# 2024-03-05\n[09:00] Tom joined\n", 0),
        ("--- 2024-03-05 ---\n[09:00] Tom joined\n", 0),
        ("\n2024-03-05\n[09:00] Tom joined\n", 0),
        ("# 2024-03-05\n---\n", 0),
        ("---\n2024-03-05\n---\n", 0),
        ("2024-03-05\n", 0),
        ("# 2024-03-05\n(morning)\n", 1),
    ] {
        let text = format!(
            "# 2024-03-04\n[18:20] Mina: hi\n{between}[09:05] Jonas: I got the job today\n"
        );
        let read = read(&text);
        assert_eq!(outline(&read.transcripts[0]), expected, "{between}");
        assert_eq!(read.lost, lost, "{between}");
    }
    let told = "# 2024-03-04\n[18:20] Mina: the dates are\n\n2024-05-01\n2024-05-08\nplease confirm\n\
        [18:21] Jonas: ok\n";
    let told = one(told);
    assert_eq!(
        told.sessions[0].turns[0].text,
        "the dates are\n\n2024-05-01\n2024-05-08\nplease confirm"
    );
    assert_eq!(
        told.sessions[0].turns[1].time.map(|t| t.to_string()),
        Some("2024-03-04T18:21:00".to_owned())
    );
}

#[test]
fn headings_date_untimed_turns_without_blank_lines() {
    let expected = "S1 2024-03-04T00:00:00\n  S1:1 - Mina: hi\n  S1:2 - Jonas: ho\n\
        S2 2024-03-05T00:00:00\n  S2:1 - Mina: up?\n  S2:2 - Jonas: yes";
    for heading in ["# 2024-03-05\n---\n", "2024-03-05\n", "# 2024-03-05\n\n"] {
        let text = format!("# 2024-03-04\nMina: hi\nJonas: ho\n{heading}Mina: up?\nJonas: yes\n");
        assert_eq!(outline(&one(&text)), expected, "{heading}");
    }
}

#[test]
fn new_speakers_may_be_written_otherwise() {
    let dated = "[2024-03-04 18:20] Mina: hi\n2024-03-04 18:21 Jonas: I moved to Oslo\n";
    assert_eq!(speakers(dated), ["Mina", "Jonas"]);
    assert_eq!(
        speakers("18:20 Mina: hi\n[18:22] Jonas: I moved\n"),
        ["Mina", "Jonas"]
    );
    let between = "[18:20] Mina: hi\n18:21 Jonas: I moved\n[18:22] Mina: ah\n";
    assert_eq!(speakers(between), ["Mina", "Jonas", "Mina"]);
    let mixed = "04/03/2024, 18:20 - Mina: hi\n[04/03/2024, 18:21:00] Jonas: ho\n";
    assert_eq!(speakers(mixed), ["Mina", "Jonas"]);
    // A plan is told, but not without a word about it.
    let plan = "[18:20] Mina: tonight\n18:30 gym: legs\n19:00 dinner: soup\n[18:22] Jonas: ok\n";
    let plan = read(plan);
    assert_eq!(
        plan.transcripts[0].sessions[0].turns[0].text,
        "tonight\n18:30 gym: legs\n19:00 dinner: soup"
    );
    assert!(
        warnings(&plan)
            .iter()
            .any(|warning| warning.starts_with("line 2: a time and a name, written otherwise")),
        "{:?}",
        plan.warnings
    );
}

#[test]
fn an_appointment_of_the_next_day_is_part_of_a_message() {
    let text = "2024-03-04 18:20 Mina: my list\n2024-03-05 10:00 dentist\n2024-03-06 10:00 gym\nbring the card\n\
        2024-03-04 18:21 Jonas: ok\n2024-03-04 18:22 Jonas left\n2024-03-04 18:23 Mina: bye\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: my list\n2024-03-05 10:00 dentist\n\
         2024-03-06 10:00 gym\nbring the card\n  S1:2 2024-03-04T18:21:00 Jonas: ok\n  \
         S1:3 2024-03-04T18:23:00 Mina: bye"
    );
    assert_eq!(read.lost, 0);
}

#[test]
fn tabs_in_a_message_make_no_export_of_line() {
    for text in [
        "Mina: plan\n9:30\tgym\tlegs\nJonas: thanks\n",
        "Mina: plan\n9:30\tgym\tlegs\n10:30\tlunch\trice\nJonas: thanks\n",
        "Mina: plan\nMina: 18:20\tgym\tlegs\nMina: 19:20\tgym\tlegs\nJonas: thanks\nJonas: bye\n",
    ] {
        for format in [None, Some(Format::Plain)] {
            let read = read_as(text, format).unwrap();
            assert_eq!(
                read.transcripts[0].participants,
                ["Mina", "Jonas"],
                "{text}"
            );
        }
    }
    let line = "午後6:20\t美奈\tこんにちは\n午後6:21\tヨナス\tはい\n";
    assert!(refusal(line).contains("it looks like an export of LINE"));
}

#[test]
fn a_name_with_one_quote_speaks() {
    let text = "[2024-03-04 18:20] Mina \"the cat: yes\n[2024-03-04 18:21] Jonas: ok\n\
        [2024-03-04 18:22] Mina \"the cat: I moved\n[2024-03-04 18:23] Jonas named the group \"Trip: May\"\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina \"the cat: yes\n  \
         S1:2 2024-03-04T18:21:00 Jonas: ok\n  S1:3 2024-03-04T18:22:00 Mina \"the cat: I moved"
    );
}

#[test]
fn what_people_write_of_polls_and_calls_stays() {
    let text = "[2024-03-04 18:20] Mina: Encuesta:\n[2024-03-04 18:21] Jonas: voice call, no answer\n\
        [2024-03-04 18:22] Mina: Poll:\n[2024-03-04 18:23] Jonas: <Media omitted>\n\
        [2024-03-04 18:24] Jonas: hm\n";
    let plain = read(text);
    assert_eq!(plain.transcripts[0].sessions[0].turns.len(), 4);
    assert_eq!(plain.placeholders, 1);
    let marked = read(&text.replace("Poll:", "\u{200e}Poll:"));
    assert_eq!(marked.placeholders, 4);
}
