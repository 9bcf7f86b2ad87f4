//! The check of times on labelled records: what becomes of right times and of wrong ones.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod time_data;

use mem_schema::{
    labels::Label,
    moment::Moment,
    record::{RECORD_VERSION, Record, Source},
    scenario::Scenario,
    time::{
        check::TimeChecked,
        resolve::Options,
        rewrite::rewrite,
        value::{Point, TimeValue},
    },
    time_check::{TimeCounts, check_times},
    window::{Segmentation, Window, windows},
};

/// What is made of a right time: name, and every wrong one.
type Wrong = (&'static str, fn(&TimeValue) -> Vec<TimeValue>);

const WRONG: &[Wrong] = &[
    ("moved by one day", |time| both_ways(time, 1, 0)),
    ("moved by one week", |time| both_ways(time, 7, 0)),
    ("moved by one month", |time| both_ways(time, 0, 1)),
    ("moved by one year", |time| both_ways(time, 0, 12)),
    ("month and day exchanged", exchanged),
];
/// Right times that may be "repaired", in per cent.
const HARMED: f64 = 0.5;
/// Repairs of wrong times that must be right, and those whose content must be as it was, in per cent.
const REPAIRED_RIGHT: f64 = 97.0;
const RESTORED: f64 = 95.0;
/// Wrong times that may pass, and that must be repaired, in per cent of all kinds together.
const PASSED: f64 = 12.0;
const REPAIRED: f64 = 6.0;

fn both_ways(time: &TimeValue, days: i64, months: i64) -> Vec<TimeValue> {
    let moved = [-1, 1].map(|sign| time_data::moved(time, sign * days, sign * months));
    moved.into_iter().flatten().collect()
}

fn exchanged(time: &TimeValue) -> Vec<TimeValue> {
    match time {
        TimeValue::Point(Point::Day(date)) if date.day() != date.month() => {
            let point = Point::day(date.year(), date.day(), date.month());
            point.ok().map(TimeValue::Point).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// The whole conversation at once, so that every turn of the evidence is in sight.
fn whole(scenario: &Scenario) -> Window {
    let all = Segmentation {
        window: usize::MAX,
        overlap: 0,
        captions: true,
    };
    windows(&scenario.transcript, &all).remove(0)
}

fn record(label: &Label, window: &Window) -> Record {
    let source = window
        .messages
        .iter()
        .find(|of| of.turn_id == label.source_turn)
        .unwrap();
    let needed = window
        .messages
        .iter()
        .filter(|of| of.turn_id == label.source_turn || label.evidence.contains(&of.turn_id));
    Record {
        version: RECORD_VERSION,
        id: label.record_id.clone(),
        content: label.content.clone(),
        dimension: label.dimension.clone(),
        source: Source {
            transcript: window.transcript_id.clone(),
            session: source.session_id.clone(),
            turn: source.turn_id.clone(),
            window: 0,
        },
        source_speaker: label.source_speaker.clone(),
        source_time: source
            .time
            .map_or_else(String::new, |time| time.to_string()),
        evidence: needed.map(|of| of.turn_id.clone()).collect(),
        time_checked: TimeChecked::Unverified,
    }
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole as f64
}

/// A wrong record, the label, whether the content names the wrong time too.
struct Case<'a> {
    wrong: Record,
    label: &'a Label,
    named: bool,
}

fn cases<'a>(scenario: &'a Scenario, window: &Window, of: &Wrong) -> Vec<Case<'a>> {
    let mut cases = Vec::new();
    for label in scenario
        .records
        .iter()
        .filter(|label| !label.dimension.time.is_empty())
    {
        let time: TimeValue = label.dimension.time.parse().unwrap();
        for value in of.1(&time) {
            let mut wrong = record(label, window);
            let at: Option<Moment> = wrong.source_time.parse().ok();
            let content = rewrite(
                &wrong.content,
                &time,
                &value,
                at.as_ref(),
                &Options::default(),
            );
            let named = content.is_some();
            wrong.content = content.unwrap_or(wrong.content);
            wrong.dimension.time = value.to_string();
            cases.push(Case {
                wrong,
                label,
                named,
            });
        }
    }
    cases
}

#[test]
fn right_times_are_left_alone() {
    let mut counts = TimeCounts::default();
    let mut empty = 0;
    for scenario in time_data::scenarios("") {
        let window = whole(&scenario);
        let records = || scenario.records.iter().map(|label| record(label, &window));
        let mut checked: Vec<_> = records().collect();
        check_times(&mut checked, &window);
        for (before, after) in records().zip(&checked) {
            let same = (&before.content, &before.dimension) == (&after.content, &after.dimension);
            assert_eq!(same, after.time_checked != TimeChecked::Repaired);
            if before.dimension.time.is_empty() {
                assert_eq!(after.time_checked, TimeChecked::Agreed);
                empty += 1;
            } else if !same {
                println!(
                    "{} {}: {} became {}",
                    after.source.transcript, after.id, before.dimension.time, after.dimension.time
                );
            }
        }
        counts += TimeCounts::of(&checked);
    }
    let (total, share) = (counts.total(), percent(counts.repaired, counts.total()));
    println!(
        "right times: {counts:?} of {total}, wrongly repaired {share:.2} %; {empty} empty ones"
    );
    assert!(
        share < HARMED,
        "{share:.2} % of the right times are changed"
    );
}

#[test]
fn wrong_times_are_repaired_or_flagged() {
    // A third of the conversations, to take less time.
    let scenarios: Vec<_> = time_data::scenarios("").into_iter().step_by(3).collect();
    let windows: Vec<_> = scenarios.iter().map(whole).collect();
    let (mut all, mut passed, mut right, mut repaired, mut named, mut restored) =
        (0, 0, 0, 0, 0, 0);
    for kind in WRONG {
        let mut counts = TimeCounts::default();
        let mut right_here = 0;
        for (scenario, window) in scenarios.iter().zip(&windows) {
            let cases = cases(scenario, window, kind);
            let mut records: Vec<_> = cases.iter().map(|case| case.wrong.clone()).collect();
            check_times(&mut records, window);
            counts += TimeCounts::of(&records);
            for (case, record) in cases.iter().zip(&records) {
                if record.time_checked != TimeChecked::Repaired {
                    assert_eq!(
                        (&record.content, &record.dimension),
                        (&case.wrong.content, &case.wrong.dimension)
                    );
                } else if record.dimension.time == case.label.dimension.time {
                    right_here += 1;
                    named += usize::from(case.named);
                    restored += usize::from(case.named && record.content == case.label.content);
                }
            }
        }
        println!(
            "{}, {}: repaired right {right_here}, wrong {}, flagged {}, passed {}",
            kind.0,
            counts.total(),
            counts.repaired - right_here,
            counts.unverified,
            counts.agreed
        );
        all += counts.total();
        passed += counts.agreed;
        repaired += counts.repaired;
        right += right_here;
    }
    let shares = [
        (repaired, all),
        (right, repaired),
        (restored, named),
        (passed, all),
    ];
    let [repaired, right, restored, passed] = shares.map(|(part, whole)| percent(part, whole));
    println!(
        "of {all} wrong times {repaired:.1} % repaired, {right:.1} % of these right; of {named} contents with a wrong date \
         {restored:.1} % restored; {passed:.1} % of the wrong times passed"
    );
    assert!(
        repaired >= REPAIRED && right >= REPAIRED_RIGHT && restored >= RESTORED && passed <= PASSED
    );
}
