//! Inputs that cannot be read or hold nothing of what was asked for, and files that are in the way.

use super::*;

#[test]
fn what_is_not_found_may_be_in_an_input_that_was_skipped() {
    let place = Place::new();
    insta::assert_snapshot!(place.refusal("ada.txt missing.json --transcript conv-1"), @"
    no input holds a transcript `conv-1`; there are `ada`
      warning: skipped: cannot read `missing.json`: check the name and the permissions: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(place.refusal("ada.txt missing.json --sessions 2"), @"
    there are no messages to extract from
      warning: skipped: cannot read `missing.json`: check the name and the permissions: No such file or directory (os error 2)
      hint: check `--transcript` and `--sessions`
    ");
}

#[test]
fn of_many_transcripts_a_few_are_named() {
    let place = Place::new();
    let talks: Vec<_> = (1..=13)
        .map(|n| format!(r#"{{"id": "t{n}", "messages": [{{"role": "user", "content": "hi"}}]}}"#))
        .collect();
    fs::write(place.path("many.json"), format!("[{}]", talks.join(","))).unwrap();
    insta::assert_snapshot!(place.refusal("many.json --transcript eve"), @"no input holds a transcript `eve`; there are `t1`, `t2`, `t3`, `t4`, `t5`, `t6`, `t7`, `t8`, `t9`, `t10`, and 3 more");
}

#[test]
fn a_folder_is_no_input() {
    let place = Place::new();
    fs::create_dir(place.path("talks.txt")).unwrap();
    insta::assert_snapshot!(place.refusal("talks.txt"), @"
    no input could be read:
      `talks.txt` is a folder: name the files in it
    ");
}

#[test]
fn the_bank_counts_transcripts_that_sessions_leave() {
    let place = Place::new();
    let days = (1..=2).map(|day| format!("[2024-03-0{day} 18:20] Mina: day {day}\n"));
    fs::write(place.path("eve.txt"), days.collect::<String>()).unwrap();
    let line = "ada.txt eve.txt --layout dimmem --out bank.json";
    let (summary, _) = place
        .run(&format!("{line} --sessions 2"), &Fake::default())
        .unwrap();
    assert_eq!((summary.transcripts, summary.records), (1, 1));
    assert!(place.refusal(line).contains("and 2 were selected"));
}

#[test]
fn a_file_of_the_user_beside_the_output_stays() {
    let place = Place::new();
    fs::write(place.path("out.jsonl.new"), "mine").unwrap();
    let (summary, _) = place.run(BOTH, &Fake::default()).unwrap();
    assert_eq!((summary.exit_code(), summary.records), (0, 4));
    assert_eq!(place.read("out.jsonl").lines().count(), 4);
    assert_eq!(place.read("out.jsonl.new"), "mine");
    assert_eq!(
        place.names(),
        ["ada.txt", "ben.txt", "out.jsonl", "out.jsonl.new"]
    );
}

/// Shows windows to a reader who leaves after the first line.
struct Leaving;

impl io::Write for Leaving {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn who_reads_one_window_still_learns_what_is_missing() {
    let place = Place::new();
    let line = place.line("ada.txt missing.txt");
    let problems = super::super::show(&line.input, false, None, &mut Leaving).unwrap();
    assert!(problems.lose_something());
}
