//! Which lines of a plain text begin a turn, and which belong to one.

use mem_schema::readers::Format;
use mem_schema::transcript::Kind;
use reader_support::{one, outline, read, read_as, refusal, warnings};

mod reader_support;

#[test]
fn a_timetable_in_a_message_makes_no_speakers() {
    let text = "User: plan my day\nAssistant: Sure\n8:00 AM - Breakfast: oats\n9:00 gym: legs\nUser: thanks\n";
    let plan = one(text);
    assert_eq!(plan.kind, Kind::Assistant);
    assert_eq!(
        outline(&plan),
        "S1 -\n  S1:1 - user: plan my day\n  S1:2 - assistant: Sure\n8:00 AM - Breakfast: oats\n9:00 gym: legs\n  \
         S1:3 - user: thanks"
    );
    let late = format!("{}{text}", "User: hi\nAssistant: ho\n".repeat(15));
    assert_eq!(one(&late).sessions[0].turns.len(), 33);
    let named = "Mina: my day\n8:00 Breakfast: oats\n9:00 gym: legs\n10:00 work: desk\nJonas: ok\nMina: bye\n";
    assert_eq!(one(named).participants, ["Mina", "Jonas"]);
    // A line above the turns may look like a speaker's.
    let titled = "Topic: dogs\n[18:20] Mina: hi\n[18:21] Jonas: ho\n";
    assert_eq!(one(titled).participants, ["Mina", "Jonas"]);
}

#[test]
fn a_dated_line_in_a_message_begins_no_turn() {
    let clocked = "# 2024-03-04\n[18:20] Mina: my list\n2024-05-01 10:00 dentist: bring the card\n[18:21] Jonas: ok\n";
    assert_eq!(
        outline(&one(clocked)),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: my list\n\
         2024-05-01 10:00 dentist: bring the card\n  S1:2 2024-03-04T18:21:00 Jonas: ok"
    );
    let dated = "[2024-03-04 18:20] Mina: my list\n2024-05-01 10:00 dentist\nbring the card\n[2024-03-04 18:21] Jonas: ok\n";
    let dated = read(dated);
    assert_eq!(
        outline(&dated.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: my list\n2024-05-01 10:00 dentist\nbring the card\n  \
         S1:2 2024-03-04T18:21:00 Jonas: ok"
    );
    assert_eq!((dated.lost, dated.warnings), (0, vec![]));
    // Written like the program's own lines it is told by the order of times.
    let unmarked = "2024-03-04 18:20 Mina: my list\n2024-05-01 10:00 dentist\nbring the card\n\
        2024-03-04 18:21 Jonas joined\n2024-03-04 18:22 Jonas: ok\n";
    let unmarked = read(unmarked);
    assert_eq!(
        outline(&unmarked.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: my list\n2024-05-01 10:00 dentist\n\
         bring the card\n  S1:2 2024-03-04T18:22:00 Jonas: ok"
    );
    assert_eq!(unmarked.lost, 0);
    // In the same brackets it says which day it is.
    let next_day =
        "# 2024-03-04\n[18:20] Mina: hi\n[2024-03-05 09:00] Mina: up?\n[09:05] Jonas: yes\n";
    assert_eq!(
        outline(&one(next_day)),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n\
         S2 2024-03-05T09:00:00\n  S2:1 2024-03-05T09:00:00 Mina: up?\n  S2:2 2024-03-05T09:05:00 Jonas: yes"
    );
}

#[test]
fn a_date_alone_in_a_message_is_part_of_it() {
    let dated = "[2024-03-04 18:20] Mina: the dates are\n2024-05-01\n2024-05-08\nplease confirm\n\
        [2024-03-04 18:21] Jonas: fine is\n2024-05-01\n[2024-03-04 18:22] Mina: good\n";
    let dated = read(dated);
    assert_eq!(
        outline(&dated.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: the dates are\n2024-05-01\n2024-05-08\n\
         please confirm\n  S1:2 2024-03-04T18:21:00 Jonas: fine is\n2024-05-01\n  S1:3 2024-03-04T18:22:00 Mina: good"
    );
    assert_eq!((dated.lost, dated.warnings), (0, vec![]));
    let over_turns =
        "# 2024-03-04\n[2024-03-04 18:20] Mina: hi\n\n# 2024-03-05\n[2024-03-05 09:00] Mina: bye\n";
    assert_eq!(one(over_turns).sessions[0].turns[0].text, "hi");

    let roles = read(
        "User: minutes?\nAssistant: Here\n## Meeting 2024-05-01\n- one\nUser: and the date?\n\
         Assistant: it is\n2024-05-01\nUser: thanks\n",
    );
    assert_eq!(
        outline(&roles.transcripts[0]),
        "S1 -\n  S1:1 - user: minutes?\n  S1:2 - assistant: Here\n## Meeting 2024-05-01\n- one\n  \
         S1:3 - user: and the date?\n  S1:4 - assistant: it is\n2024-05-01\n  S1:5 - user: thanks"
    );
    assert_eq!(roles.lost, 0);
    assert!(
        warnings(&roles)[0].starts_with("line 3: a date on a line of its own"),
        "{:?}",
        roles.warnings
    );
}

#[test]
fn headings_over_turns_still_date_them() {
    let text = "Mina: hi\nJonas: ho\n\n2024-03-05\nMina: up?\n# 2024-03-06\nJonas: still\n";
    assert_eq!(
        outline(&one(text)),
        "S1 -\n  S1:1 - Mina: hi\n  S1:2 - Jonas: ho\nS2 2024-03-05T00:00:00\n  S2:1 - Mina: up?\n\
         S3 2024-03-06T00:00:00\n  S3:1 - Jonas: still"
    );
    let clocked = "2024年3月4日\n18:20 美奈: はい\n2024年3月5日(火)\n09:00 美奈: おはよう\n";
    assert_eq!(
        outline(&one(clocked)),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 美奈: はい\n\
         S2 2024-03-05T09:00:00\n  S2:1 2024-03-05T09:00:00 美奈: おはよう"
    );
}

#[test]
fn logs_and_exports_of_other_programs_are_refused() {
    for text in [
        "[18:21] Tom has joined\n[18:22] Tom waves\n[18:23] note: x\n[18:24] Ann has left\n",
        "2024-03-04 18:20:11 started\n2024-03-04 18:20:12 config: read\n2024-03-04 18:20:13 listening\n\
         2024-03-04 18:20:14 request\n",
    ] {
        assert!(refusal(text).contains("is no transcript in a known format"));
    }
    for text in [
        "18:20\t美奈\tメモ: x\n18:21\tヨナス\tはい\n",
        "[LINE] 美奈とのトーク履歴\n保存日時：2024/03/04 18:30\n\n2024/03/04(月)\n18:20\t美奈\tこんにちは\n",
    ] {
        assert!(refusal(text).contains("it looks like an export of LINE"));
        let asked = read_as(text, Some(Format::Plain)).unwrap_err();
        assert!(asked.to_string().contains("an export of LINE"));
    }
}

#[test]
fn names_in_angle_brackets() {
    let text = "[18:20] <@Tom> note: x\n[18:21] * Ann waves\n[18:22] <Ann> ok\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 -\n  S1:1 - Tom: note: x\n  S1:2 - Ann: ok"
    );
    assert_eq!(read.lost, 0);
    assert!(warnings(&read)[0].starts_with("line 2: the line belongs to no speaker"));
}

#[test]
fn what_happened_in_a_group_is_nobodys_turn() {
    let text = "04/03/2024, 18:20 - Mina: hi\n04/03/2024, 18:21 - Mina changed the group name to \"Trip: May\"\n\
        04/03/2024, 18:22 - Jonas \"Jo\" Bell: nice\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n  \
         S1:2 2024-03-04T18:22:00 Jonas \"Jo\" Bell: nice"
    );
    assert_eq!(read.lost, 0);
}

#[test]
fn lines_that_belong_to_nobody_count_as_lost() {
    let text = "Chat of spring\n[2024-03-04 18:20] Mina: hi\n[2024-03-04 18:21] Jonas joined\nwith a friend\n\
        and a dog\n[2024-03-04 18:22] Jonas: hello\n[2024-03-04 18:23] Mina: hey\n";
    let read = read(text);
    assert_eq!(
        outline(&read.transcripts[0]),
        "S1 2024-03-04T18:20:00\n  S1:1 2024-03-04T18:20:00 Mina: hi\n  S1:2 2024-03-04T18:22:00 Jonas: hello\n  \
         S1:3 2024-03-04T18:23:00 Mina: hey"
    );
    assert_eq!(read.lost, 2);
    assert_eq!(
        warnings(&read)[1],
        "line 4: this line and 1 more belong to no speaker, after a line that ends what was said before; left out"
    );
}

#[test]
fn turns_at_times_that_cannot_be_keep_their_words() {
    for (line, name) in [
        ("2024-02-30 18:21 Tom: no such day", "Tom"),
        ("2024-03-04 25:21 Tom: no such hour", "Tom"),
        ("[2024-03-04 18:61] Tom: no such minute", "Tom"),
    ] {
        let text = format!("2024-03-04 18:20 Mina: hi\n{line}\n2024-03-04 18:22 Mina: bye\n");
        let read = read(&text);
        let turns = &read.transcripts[0].sessions[0].turns;
        let speakers: Vec<_> = turns.iter().map(|turn| turn.speaker.as_str()).collect();
        assert_eq!(speakers, ["Mina", name, "Mina"], "{line}");
        assert_eq!(turns[1].time, None);
        assert!(warnings(&read)[0].starts_with("line 2: a time of day without a date"));
    }
    let past_midnight = "# 2024-03-04\n23:50 Mina: still up\n24:05 Jonas: yes\n";
    assert_eq!(one(past_midnight).participants, ["Mina", "Jonas"]);
    // A verse is no time.
    let verse = "# 2024-03-04\n18:20 Mina: read this\n25:40 King: and\n18:21 Jonas: ok\n";
    assert_eq!(one(verse).participants, ["Mina", "Jonas"]);
}
