//! What survives failures, interruptions and kills.

use std::sync::atomic::Ordering;

use super::*;

#[test]
fn a_run_killed_anywhere_ends_with_the_same_bytes() {
    let place = Place::new();
    let (partial, kept) = (place.path("out.jsonl.partial"), place.path("kept"));
    let keep = |call, _: &Request<'_>| {
        if call == 0 {
            fs::hard_link(&partial, &kept).unwrap();
        }
        None
    };
    place.run(BOTH, &Fake::answering(&keep)).unwrap();
    let whole = place.read("out.jsonl");
    let journal = fs::read(&kept).unwrap();
    assert_eq!(
        journal.split_inclusive(|byte| *byte == b'\n').count(),
        5,
        "a header and four windows"
    );

    let mut start = 0;
    for (line, bytes) in journal.split_inclusive(|byte| *byte == b'\n').enumerate() {
        // What a kill leaves: whole lines and any part of the next one.
        for length in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            fs::write(&partial, &journal[..start + length]).unwrap();
            fs::remove_file(place.path("out.jsonl")).unwrap();
            assert_resumes(&place, line.saturating_sub(1), &whole);
        }
        start += bytes.len();
    }
    // Killed after the last window, before the file took its name.
    fs::write(&partial, &journal).unwrap();
    assert_resumes(&place, 4, &whole);
}

fn assert_resumes(place: &Place, done: usize, whole: &str) {
    let fake = Fake::default();
    let (summary, _) = place.run(&format!("{BOTH} --resume"), &fake).unwrap();
    assert_eq!(place.read("out.jsonl"), whole);
    assert_eq!(
        (summary.windows.resumed, fake.calls.get()),
        (done, 4 - done)
    );
    assert!(!place.path("out.jsonl.partial").exists());
}

#[test]
fn a_failed_window_is_reported_and_tried_again() {
    let place = Place::new();
    place.run(BOTH, &Fake::default()).unwrap();
    let whole = place.read("out.jsonl");
    let fail = |call, _: &Request<'_>| (call == 1).then(|| Err(io::Error::other("no more memory")));
    let (summary, _) = place.run(BOTH, &Fake::answering(&fail)).unwrap();
    insta::assert_snapshot!(place.summary(summary.clone()), @"
    2 transcripts, 4 windows: 3 done, 1 failed
    3 records
    300 tokens in, 60 out, 120.0 a second; 1.0 s
    failed: ada window 1: no more memory
    written: out.jsonl
    kept: 3 windows in `out.jsonl.partial`; run again with `--resume` for the rest
    ");
    assert_eq!(summary.exit_code(), 1);
    assert_eq!(place.read("out.jsonl").lines().count(), 3);

    let fake = Fake::default();
    let (summary, _) = place.run(&format!("{BOTH} --resume"), &fake).unwrap();
    assert_eq!((summary.exit_code(), fake.calls.get()), (0, 1));
    assert_eq!(place.read("out.jsonl"), whole);
    assert!(!place.path("out.jsonl.partial").exists());
}

#[test]
fn an_interrupted_run_keeps_its_windows_and_leaves_the_output_alone() {
    let place = Place::new();
    place.run(BOTH, &Fake::default()).unwrap();
    let whole = place.read("out.jsonl");
    fs::write(place.path("out.jsonl"), "from before").unwrap();
    let stop = AtomicBool::new(false);
    let interrupt = |call, request: &Request<'_>| {
        (call == 2).then(|| {
            stop.store(true, Ordering::Relaxed);
            assert!(
                request.stop.as_ref().unwrap()("{"),
                "the reply ends at once"
            );
            Ok(reply("{", Finish::Stopped))
        })
    };
    let (summary, _) = place
        .run_until(BOTH, &Fake::answering(&interrupt), &stop)
        .unwrap();
    insta::assert_snapshot!(place.summary(summary.clone()), @"
    2 transcripts, 4 windows: 2 done, 2 left
    2 records
    200 tokens in, 40 out, 80.0 a second; 1.0 s
    kept: 2 windows in `out.jsonl.partial`; run again with `--resume` for the rest
    ");
    assert_eq!(summary.exit_code(), 130);
    assert_eq!(place.read("out.jsonl"), "from before");
    assert_resumes(&place, 2, &whole);
}

#[test]
fn of_windows_in_work_together_those_that_ended_are_kept() {
    let place = Place::new();
    place.run(BOTH, &Fake::default()).unwrap();
    let whole = place.read("out.jsonl");
    let stop = AtomicBool::new(false);
    let interrupt = |call, request: &Request<'_>| {
        (call == 1).then(|| {
            stop.store(true, Ordering::Relaxed);
            assert!(
                request.stop.as_ref().unwrap()("{"),
                "the reply ends at once"
            );
            Ok(reply("{", Finish::Stopped))
        })
    };
    let fake = || Fake {
        together: 3,
        ..Fake::answering(&interrupt)
    };
    let (summary, _) = place.run_until(BOTH, &fake(), &stop).unwrap();
    // The third window was done, the second stopped; the first had its whole reply when it was asked to stop.
    assert_eq!((summary.windows.done, summary.exit_code()), (2, 130));
    assert_resumes(&place, 2, &whole);

    stop.store(false, Ordering::Relaxed);
    let (_, stdout) = place.run_until("ada.txt ben.txt", &fake(), &stop).unwrap();
    let lines: Vec<_> = whole.lines().collect();
    assert_eq!(stdout.lines().collect::<Vec<_>>(), [lines[0], lines[2]]);
}

#[test]
fn an_unfinished_run_is_neither_lost_nor_mixed_with_another() {
    let place = Place::new();
    let fail = |call, _: &Request<'_>| (call == 1).then(|| Err(io::Error::other("no more memory")));
    place.run(BOTH, &Fake::answering(&fail)).unwrap();
    let journal = place.read("out.jsonl.partial");
    insta::assert_snapshot!(place.refusal(BOTH), @"
    `out.jsonl.partial` holds an unfinished run with 3 windows done
      hint: add `--resume` to finish it, or delete that file to start afresh
    ");

    place.talk("ben.txt", 4);
    let changed = place.run(&format!("{BOTH} --resume --captions off"), &Fake::default());
    insta::assert_snapshot!(place.words(&changed.err().unwrap()), @"
    `out.jsonl.partial` belongs to a different run:
      captions was true, now false
      input 2 was `ben.txt` 6d92a0badce94703, now `ben.txt` f4a4fed7dbaab24b
    ");
    assert_eq!(place.read("out.jsonl.partial"), journal);

    fs::write(
        place.path("out.jsonl.partial"),
        journal.replacen("\"position\"", "position", 1),
    )
    .unwrap();
    insta::assert_snapshot!(place.refusal(&format!("{BOTH} --resume")), @"
    line 2 of `out.jsonl.partial` cannot be read: key must be a string at line 1 column 2
      hint: if that file is a run's, delete it to start afresh; if it is not, give `--out` another name
    ");
}

#[test]
fn two_runs_cannot_write_one_output() {
    let place = Place::new();
    let _job = place.prepare(BOTH).unwrap();
    insta::assert_snapshot!(place.refusal(BOTH), @"
    `out.jsonl.partial` is in use by another run
      hint: wait for it to end, or give `--out` another name
    ");
}

#[test]
fn a_full_disk_is_told_and_what_is_done_is_kept() {
    let place = Place::new();
    let partial = place.path("out.jsonl.partial");
    let ends = |line: &str| {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").ok()?;
        let mut job = place.prepare(line).unwrap();
        job.begin("fake").unwrap();
        job.journal_to(full);
        let fake = Fake::default();
        let ran = job.run(|| Ok(&fake), &AtomicBool::new(false), &mut Vec::new());
        assert_eq!(fake.calls.get(), 1);
        assert!(!place.path("out.jsonl").exists());
        let error = ran.err().unwrap();
        let hint = error.downcast_ref::<Error>().and_then(Error::hint).unwrap();
        Some((place.words(&error), hint))
    };
    let Some((said, hint)) = ends(BOTH) else {
        return;
    };
    insta::assert_snapshot!(said, @"cannot keep the journal `out.jsonl.partial`: No space left on device (os error 28)");
    assert!(hint.starts_with("nothing is done yet"), "{hint}");
    assert!(!partial.exists());

    let fail = |call, _: &Request<'_>| (call == 1).then(|| Err(io::Error::other("no more memory")));
    place.run(BOTH, &Fake::answering(&fail)).unwrap();
    fs::remove_file(place.path("out.jsonl")).unwrap();
    let kept = fs::read(&partial).unwrap();
    let (again, hint) = ends(&format!("{BOTH} --resume")).unwrap();
    assert_eq!(again, said);
    assert!(hint.starts_with("what is done is kept"), "{hint}");
    assert_eq!(fs::read(&partial).unwrap(), kept);
}

#[test]
fn a_raised_limit_redoes_what_was_cut_off() {
    let place = Place::new();
    let cut = |call, request: &Request<'_>| {
        let memory = memories(&[&last_message(request)]);
        match call {
            1 => Some(Ok(reply(r#"{"memories":[{"sour"#, Finish::Length))),
            2 => Some(Ok(reply(&memory.replace("]}", ",{"), Finish::Length))),
            _ => None,
        }
    };
    let (summary, _) = place
        .run(
            &format!("{BOTH} --max-new-tokens 20"),
            &Fake::answering(&cut),
        )
        .unwrap();
    assert_eq!((summary.windows.failed, summary.windows.salvaged), (1, 1));
    let fake = Fake::default();
    let (summary, _) = place
        .run(
            &format!("{BOTH} --max-new-tokens 20 --resume"),
            &Fake::answering(&cut),
        )
        .unwrap();
    assert_eq!(
        (summary.windows.resumed, summary.exit_code()),
        (3, 1),
        "the same limit keeps what was salvaged, and its end is still missing"
    );
    insta::assert_snapshot!(place.summary(summary), @"
    2 transcripts, 4 windows: 4 done, 3 from the run before, 1 cut off and salvaged
    4 records
    400 tokens in, 80 out, 160.0 a second; 1.0 s
    written: out.jsonl
    kept: 4 windows in `out.jsonl.partial`; run again with `--resume` and a higher `--max-new-tokens` for what was cut off
    ");

    let (summary, _) = place
        .run(&format!("{BOTH} --max-new-tokens 40 --resume"), &fake)
        .unwrap();
    assert_eq!(
        (
            summary.windows.resumed,
            summary.windows.salvaged,
            fake.calls.get()
        ),
        (3, 0, 1)
    );
    assert_eq!(summary.exit_code(), 0);
    assert!(!place.path("out.jsonl.partial").exists());

    fs::remove_file(place.path("out.jsonl")).unwrap();
    place
        .run(
            &format!("{BOTH} --max-new-tokens 20"),
            &Fake::answering(&cut),
        )
        .unwrap();
    let fake = Fake::default();
    let (summary, _) = place
        .run(&format!("{BOTH} --max-new-tokens 40 --resume"), &fake)
        .unwrap();
    assert_eq!(
        (
            summary.windows.resumed,
            summary.windows.salvaged,
            fake.calls.get()
        ),
        (2, 0, 2)
    );
}

#[test]
fn a_run_whose_model_does_not_load_leaves_nothing() {
    let place = Place::new();
    let mut job = place.prepare(BOTH).unwrap();
    job.begin("fake").unwrap();
    let load = || Err::<Fake<'_>, _>(anyhow::anyhow!("no such weights"));
    let ran = job.run(load, &AtomicBool::new(false), &mut Vec::new());
    assert_eq!(ran.err().unwrap().to_string(), "no such weights");
    assert_eq!(place.names(), ["ada.txt", "ben.txt"]);
}
