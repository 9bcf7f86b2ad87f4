//! Runs that go through, and what is refused before they start.

use super::*;

#[test]
fn records_come_in_input_order_one_a_line() {
    let place = Place::new();
    let (summary, stdout) = place.run(BOTH, &Fake::default()).unwrap();
    assert_eq!(stdout, "");
    assert_eq!(
        (summary.windows.done, summary.records, summary.exit_code()),
        (4, 4, 0)
    );
    let turns: Vec<_> = place
        .read("out.jsonl")
        .lines()
        .map(|line| {
            let record: mem_schema::record::Record = serde_json::from_str(line).unwrap();
            format!(
                "{} {} {}",
                record.source.transcript, record.source.turn, record.id
            )
        })
        .collect();
    insta::assert_snapshot!(turns.join("\n"), @"
    ada S1:3 w0000m000
    ada S1:5 w0001m000
    ada S1:7 w0002m000
    ben S1:3 w0000m000
    ");
    assert!(!place.path("out.jsonl.partial").exists());
    let (_, stdout) = place.run("ada.txt ben.txt", &Fake::default()).unwrap();
    assert_eq!(stdout, place.read("out.jsonl"));
}

/// A message that several windows show counts once, and one of exactly the threshold is whole.
#[test]
fn shortened_messages_are_counted() {
    let place = Place::new();
    let lines = [5, 8000, 8001, 5, 9000]
        .map(|length| format!("[2024-03-04 18:20] Mina: {}\n", "x".repeat(length)));
    fs::write(place.path("long.txt"), lines.concat()).unwrap();
    let (summary, _) = place.run("long.txt", &Fake::default()).unwrap();
    assert_eq!((summary.windows.total, summary.messages_shortened), (2, 2));
    assert!(
        summary.to_string().contains(
            "\nshortened: 2 messages of more than 8000 characters, to beginning, middle and end"
        ),
        "{summary}"
    );
    let (summary, _) = place.run("ada.txt", &Fake::default()).unwrap();
    assert!(!summary.to_string().contains("shortened"), "{summary}");
}

#[test]
fn what_stands_for_pictures_is_counted_and_not_shown() {
    let place = Place::new();
    let lines = ["사진", "이사했어", "사진 3장", "새 사진이야"]
        .map(|text| format!("[미나] [오후 6:20] {text}\n"));
    let kakao = format!(
        "--------------- 2024년 3월 4일 월요일 ---------------\n{}",
        lines.concat()
    );
    fs::write(place.path("kakao.txt"), kakao).unwrap();
    let (summary, _) = place.run("kakao.txt", &Fake::default()).unwrap();
    assert_eq!(
        (
            summary.windows.total,
            summary.placeholders,
            summary.exit_code()
        ),
        (1, 2, 0)
    );
    let said = "\nleft out: 2 messages that stood for pictures, files or deleted messages";
    assert!(summary.to_string().contains(said), "{summary}");
}

/// A line that is lost may hold a memory: the run is not complete.
#[test]
fn lines_that_are_lost_count() {
    let place = Place::new();
    let line = |text| format!("{{\"role\": \"user\", \"content\": \"{text}\"}}\n");
    let lines = [
        line("one"),
        "{\"role\": \"user\"\n".to_owned(),
        line("two"),
        line("three"),
    ];
    fs::write(place.path("chat.jsonl"), lines.concat()).unwrap();
    let (summary, _) = place.run("chat.jsonl", &Fake::default()).unwrap();
    assert_eq!(
        (summary.lost, summary.windows.failed, summary.exit_code()),
        (1, 0, 1)
    );
    let said = "\nleft out: 1 part that could not be understood";
    assert!(summary.to_string().contains(said), "{summary}");
}

/// One time agrees, one is put right, one is flagged; the record without a time is not counted.
#[test]
fn times_are_checked_and_counted() {
    let place = Place::new();
    let line = "[2024-03-14 10:00] Mina: We moved last Saturday.\n";
    fs::write(place.path("move.txt"), line).unwrap();
    let answer = |_, _: &Request<'_>| {
        let memory = |content: &str, time: &str| {
            format!(r#"{{"source_id":1,"content":"{content}","dimension":{{"time":"{time}"}}}}"#)
        };
        let all = [
            memory("Mina moved on 10 March 2024.", "2024-03-10"),
            memory("The flat is new.", "2024-03-09"),
            memory("Her sister was born in May.", "1999-05"),
            memory("There is a garden.", ""),
        ];
        let text = format!(r#"{{"memories":[{}]}}"#, all.join(","));
        Some(Ok(reply(&text, Finish::End)))
    };
    let (summary, stdout) = place.run("move.txt", &Fake::answering(&answer)).unwrap();
    let counts = "4 records, 3 with a time: 1 agreed, 1 repaired, 1 unverified\n";
    assert!(summary.to_string().contains(counts), "{summary}");
    let repaired = r#""content":"Mina moved on 9 March 2024.","dimension":{"memory_type":"","time":"2024-03-09""#;
    assert!(stdout.contains(repaired), "{stdout}");
    assert_eq!(stdout.matches(r#""time_checked":"agreed""#).count(), 2);
}

/// Standard output that counts its lines.
struct Lines(std::rc::Rc<Cell<usize>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        self.0.set(self.0.get() + lines);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn windows_that_end_in_any_order_come_out_in_input_order() {
    let place = Place::new();
    place.run(BOTH, &Fake::default()).unwrap();
    let whole = place.read("out.jsonl");
    for together in 2..=5 {
        let fake = || Fake {
            together,
            ..Fake::default()
        };
        let (summary, _) = place.run(BOTH, &fake()).unwrap();
        assert_eq!(
            (summary.exit_code(), place.read("out.jsonl")),
            (0, whole.clone())
        );
        let (_, stdout) = place.run("ada.txt ben.txt", &fake()).unwrap();
        assert_eq!(stdout, whole);
    }
}

#[test]
fn records_are_printed_as_soon_as_all_before_them_are() {
    let place = Place::new();
    let lines = std::rc::Rc::new(Cell::new(0));
    let seen = std::cell::RefCell::new(Vec::new());
    let look = |_, _: &Request<'_>| {
        seen.borrow_mut().push(lines.get());
        None
    };
    let fake = Fake {
        together: 3,
        ..Fake::answering(&look)
    };
    let mut job = place.prepare("ada.txt ben.txt").unwrap();
    job.begin("fake").unwrap();
    let mut stdout = Lines(lines.clone());
    let summary = job.run(|| Ok(&fake), &AtomicBool::new(false), &mut stdout);
    // Windows 2, 1 and 0 end first, then 3: what is printed when each of them is asked for.
    assert_eq!((seen.take(), lines.get()), (vec![0, 0, 0, 3], 4));
    let summary = summary.unwrap();
    assert!(summary.generating_seconds <= summary.seconds, "{summary:?}");
}

#[test]
fn where_every_window_fails_nothing_is_written() {
    let place = Place::new();
    fs::write(place.path("out.jsonl"), "from before").unwrap();
    let fail = |_, _: &Request<'_>| Some(Err(io::Error::other("no more memory")));
    let (summary, _) = place.run(BOTH, &Fake::answering(&fail)).unwrap();
    assert_eq!(summary.exit_code(), 2);
    assert_eq!(place.read("out.jsonl"), "from before");
    assert!(!place.path("out.jsonl.partial").exists());
}

#[test]
fn odd_replies_are_salvaged_counted_or_refused() {
    let place = Place::new();
    let answer = |call, request: &Request<'_>| {
        let memory = memories(&[&last_message(request)]);
        let cut = memory.replace("]}", r#",{"source_id":2,"content":"It wa"#);
        let twice = memory.replace(
            "]}",
            &format!(",{}", memory.trim_start_matches(r#"{"memories":["#)),
        );
        Some(Ok(match call {
            0 => reply(&cut, Finish::Length),
            1 => {
                assert!(request.stop.as_ref().unwrap()(&twice));
                reply(&twice, Finish::Stopped)
            }
            2 => reply(
                r#"{"memories":[{"source_id":1,"content":"From the overlap"}]}"#,
                Finish::End,
            ),
            _ => reply(r#"{"memories":[{"sour"#, Finish::Length),
        }))
    };
    let (summary, _) = place
        .run(
            &format!("{BOTH} --max-new-tokens 20"),
            &Fake::answering(&answer),
        )
        .unwrap();
    insta::assert_snapshot!(place.summary(summary), @"
    2 transcripts, 4 windows: 3 done, 1 failed, 1 cut off and salvaged, 1 stopped for repeats
    2 records; dropped 2: 1 in overlap, 1 duplicate
    400 tokens in, 80 out, 160.0 a second; 1.0 s
    failed: ben window 0: the reply was cut off after 20 tokens, before its first record was whole: raise `--max-new-tokens`
    written: out.jsonl
    kept: 3 windows in `out.jsonl.partial`; run again with `--resume` for the rest
    ");
}

#[test]
fn a_full_context_is_not_blamed_on_the_longest_reply() {
    let place = Place::new();
    let answer = |_, _: &Request<'_>| Some(Ok(reply(r#"{"memories":[{"sour"#, Finish::Length)));
    let (summary, _) = place.run(BOTH, &Fake::answering(&answer)).unwrap();
    let said = place.summary(summary);
    assert!(said.contains("it fills the model's context"), "{said}");
    assert!(said.contains("`--window`"), "{said}");
}

#[test]
fn what_cannot_run_is_told_before_the_model_is_loaded() {
    let place = Place::new();
    fs::write(place.path("empty.txt"), "").unwrap();
    let lines = [
        "ada.txt --out ada.txt",
        "ada.txt --out /dev/null",
        "ada.txt --out nowhere/out.jsonl",
        "ada.txt --resume",
        "empty.txt missing.txt",
        "ada.txt --transcript eve",
        "ada.txt --sessions 2",
        "ada.txt ben.txt --layout dimmem",
        "ada.txt --adapter nowhere",
    ];
    let refusals: Vec<_> = lines
        .iter()
        .map(|line| format!("{line}\n  {}", place.refusal(line)))
        .collect();
    insta::assert_snapshot!(refusals.join("\n"), @"
    ada.txt --out ada.txt
      `ada.txt` is an input and would be written
      hint: give `--out` another name
    ada.txt --out /dev/null
      `/dev/null` is not a regular file
      hint: name a file, or use `--out -` for standard output
    ada.txt --out nowhere/out.jsonl
      cannot write beside `nowhere/out.jsonl`: No such file or directory (os error 2)
      hint: create the folder, or choose one that you may write to
    ada.txt --resume
      `--resume` needs `--out FILE`: what went to standard output cannot be resumed
    empty.txt missing.txt
      no input could be read:
      `empty.txt` is empty
      cannot read `missing.txt`: check the name and the permissions: No such file or directory (os error 2)
    ada.txt --transcript eve
      no input holds a transcript `eve`; there are `ada`
    ada.txt --sessions 2
      there are no messages to extract from
      hint: check `--transcript` and `--sessions`
    ada.txt ben.txt --layout dimmem
      layout `dimmem` holds one conversation, and 2 were selected
      hint: choose one with `--transcript ID`
    ada.txt --adapter nowhere
      cannot read `nowhere`: No such file or directory (os error 2)
    ");
    assert_eq!(place.names(), ["ada.txt", "ben.txt", "empty.txt"]);
}

#[test]
fn files_on_the_way_to_the_output_are_never_taken_from_the_user() {
    let place = Place::new();
    fs::write(place.path("a.txt.partial"), "").unwrap();
    fs::copy(place.path("ada.txt"), place.path("a.txt.new")).unwrap();
    fs::copy(place.path("ada.txt"), place.path("b.txt.partial")).unwrap();
    let lines = [
        "a.txt.partial --out a.txt",
        "a.txt.new --out a.txt",
        "ben.txt --out b.txt",
    ];
    let refusals: Vec<_> = lines.iter().map(|line| place.refusal(line)).collect();
    insta::assert_snapshot!(refusals.join("\n"), @"
    `a.txt.partial` is an input and would be written
      hint: give `--out` another name
    `a.txt.new` is an input and would be written
      hint: give `--out` another name
    line 1 of `b.txt.partial` cannot be read: invalid type: integer `2024`, expected a map at line 1 column 5
      hint: if that file is a run's, delete it to start afresh; if it is not, give `--out` another name
    ");
    let left = [
        "a.txt.new",
        "a.txt.partial",
        "ada.txt",
        "b.txt.partial",
        "ben.txt",
    ];
    assert_eq!(place.names(), left);
    assert_eq!(place.read("b.txt.partial"), place.read("ada.txt"));
}

#[test]
fn an_unreadable_input_is_skipped_and_told() {
    let place = Place::new();
    let (summary, stdout) = place.run("missing.txt ben.txt", &Fake::default()).unwrap();
    assert_eq!(stdout.lines().count(), 1);
    assert_eq!(summary.exit_code(), 1);
    insta::assert_snapshot!(place.summary(summary), @"
    1 transcript, 1 window: 1 done
    1 record
    100 tokens in, 20 out, 40.0 a second; 1.0 s
    skipped: cannot read `missing.txt`: check the name and the permissions: No such file or directory (os error 2)
    ");
}

#[test]
fn the_bank_layout_holds_one_conversation() {
    let place = Place::new();
    place
        .run(
            "ada.txt ben.txt --transcript ben --layout dimmem --out bank.json",
            &Fake::default(),
        )
        .unwrap();
    insta::assert_snapshot!(place.read("bank.json"), @r#"
    {
      "source_record_dir": "ben",
      "memory_count": 1,
      "memories": [
        {
          "window_index": 0,
          "source_id": 3,
          "source_time": "2024-03-04T18:03:00",
          "source_speaker": "Mina",
          "memory_index": 0,
          "content": "It was said: sentence 3 of ben.txt",
          "dimension": {
            "memory_type": "fact",
            "time": "",
            "location": "",
            "reason": "",
            "purpose": "",
            "keywords": []
          }
        }
      ]
    }
    "#);
}

#[test]
fn transcripts_of_one_name_stay_apart() {
    let place = Place::new();
    fs::create_dir(place.path("again")).unwrap();
    place.talk("again/ben.txt", 3);
    let job = place.prepare("ben.txt again/ben.txt").unwrap();
    insta::assert_snapshot!(job.problems(), @"warning: another input holds a transcript `ben`; this one is called `ben~2`");
    let (summary, stdout) = place
        .run("ben.txt again/ben.txt", &Fake::default())
        .unwrap();
    assert_eq!(
        (
            summary.transcripts,
            stdout.matches("\"transcript\":\"ben~2\"").count()
        ),
        (2, 1)
    );
}

#[test]
fn windows_are_shown_without_a_model() {
    let place = Place::new();
    let line = place.line("ada.txt --window 4 --overlap 1 --instruction short");
    let mut text = Vec::new();
    let count = |messages: &[ChatMessage]| Ok(Fake::default().count_tokens(messages)?);
    super::super::show(&line.input, false, Some(&count), &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap(), @"
    # ada window 0: 4 messages, turns S1:1 to S1:4, 47 tokens
    ## system
    Extract the lasting memories in this conversation as JSON, in its language. Use names for people and dates for times.
    ## user
    [2024-03-04 Mon 18:01]
    1 Mina: sentence 1 of ada.txt
    2 Mina: sentence 2 of ada.txt
    3 Mina: sentence 3 of ada.txt
    4 Mina: sentence 4 of ada.txt

    # ada window 1: 4 messages, turns S1:4 to S1:7, 1 of them for context, 52 tokens
    ## system
    Extract the lasting memories in this conversation as JSON, in its language. Use names for people and dates for times.
    ## user
    Extract from message 2 on.
    [2024-03-04 Mon 18:04]
    1 Mina: sentence 4 of ada.txt
    2 Mina: sentence 5 of ada.txt
    3 Mina: sentence 6 of ada.txt
    4 Mina: sentence 7 of ada.txt
    ");

    let mut json = Vec::new();
    super::super::show(&line.input, true, None, &mut json).unwrap();
    let mut last: serde_json::Value =
        serde_json::from_str(String::from_utf8(json).unwrap().lines().last().unwrap()).unwrap();
    let schema = last.as_object_mut().unwrap().remove("schema").unwrap();
    assert_eq!(schema["properties"]["memories"]["type"], "array");
    insta::assert_snapshot!(last, @r#"{"transcript":"ada","window":1,"overlap":1,"messages":[{"number":1,"session":"S1","turn":"S1:4","speaker":"Mina","time":"2024-03-04T18:04:00"},{"number":2,"session":"S1","turn":"S1:5","speaker":"Mina","time":"2024-03-04T18:05:00"},{"number":3,"session":"S1","turn":"S1:6","speaker":"Mina","time":"2024-03-04T18:06:00"},{"number":4,"session":"S1","turn":"S1:7","speaker":"Mina","time":"2024-03-04T18:07:00"}],"prompt":[{"role":"system","content":"Extract the lasting memories in this conversation as JSON, in its language. Use names for people and dates for times."},{"role":"user","content":"Extract from message 2 on.\n[2024-03-04 Mon 18:04]\n1 Mina: sentence 4 of ada.txt\n2 Mina: sentence 5 of ada.txt\n3 Mina: sentence 6 of ada.txt\n4 Mina: sentence 7 of ada.txt"}]}"#);
}
