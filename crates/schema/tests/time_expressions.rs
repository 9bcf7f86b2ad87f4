//! Time expressions against test data: labelled scenarios, cases from memory systems.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod time_data;

use mem_schema::{
    moment::Moment,
    time::resolve::{Options, resolve},
};
use time_data::{percent, read};

/// Languages with the share of labelled times that words of time alone give, in per cent: what is reached, so that it
/// does not get worse. Most that are missed were said in another session, or are the session's own day without a word.
const BARS: &[(&str, f64)] = &[
    ("en", 69.0),
    ("ko", 75.0),
    ("ja", 74.0),
    ("zh", 72.0),
    ("ar", 72.0),
    ("hi", 79.0),
    ("de", 75.0),
    ("es", 75.0),
    ("fr", 87.0),
    ("pt", 71.0),
];

fn candidates(text: &str, at: &str) -> Vec<Vec<String>> {
    let at: Moment = at.parse().unwrap();
    resolve(text, Some(&at), &Options::default())
        .into_iter()
        .map(|found| found.candidates.iter().map(ToString::to_string).collect())
        .collect()
}

/// Labelled times that the evidence must allow, in per cent: of English ones, of those of all languages.
const ALLOWED_ENGLISH: f64 = 90.0;
const ALLOWED: f64 = 85.0;

#[test]
fn labelled_times_are_among_the_candidates() {
    let mut all = [0; 3];
    for &(code, bar) in BARS {
        let labelled = time_data::labelled(code, &read(code));
        let said = labelled.iter().filter(|of| of.is_said()).count();
        let allowed = labelled.iter().filter(|of| of.origin().is_some()).count();
        let share = percent(said, labelled.len());
        let all_share = percent(allowed, labelled.len());
        println!(
            "{code}: of {}, by words alone {said} ({share:.1} %), with all that evidence allows {allowed} ({all_share:.1} %)",
            labelled.len()
        );
        assert!(
            code != "en" || all_share >= ALLOWED_ENGLISH,
            "English: {all_share:.1} %"
        );
        assert!(
            share >= bar,
            "{code}: {share:.1} % of the labelled times, below {bar} %"
        );
        for (sum, part) in all.iter_mut().zip([labelled.len(), said, allowed]) {
            *sum += part;
        }
    }
    let [labelled, said, allowed] = all;
    println!(
        "all: of {labelled}, by words alone {said} ({:.1} %), with all that evidence allows {allowed} ({:.1} %)",
        percent(said, labelled),
        percent(allowed, labelled)
    );
    assert!(percent(allowed, labelled) >= ALLOWED);
}

/// By how much a label is moved: name, days, months, and the share of moved labels that may be allowed, in per cent. A
/// year is more than the others because "in October" can mean the one before and the one ahead.
const MOVES: &[(&str, i64, i64, f64)] = &[
    ("day", 1, 0, 8.0),
    ("week", 7, 0, 10.5),
    ("month", 0, 1, 9.5),
    ("year", 0, 12, 18.5),
];

#[test]
fn times_moved_away_are_refused() {
    let labelled: Vec<_> = BARS
        .iter()
        .flat_map(|&(code, ..)| time_data::labelled(code, &read(code)))
        .collect();
    for &(unit, days, months, bar) in MOVES {
        let moved = labelled.iter().flat_map(|of| {
            let values = [-1, 1].map(|sign| time_data::moved(&of.time, sign * days, sign * months));
            values
                .into_iter()
                .flatten()
                .map(|value| of.evidence.origin(&value))
        });
        let origins: Vec<_> = moved.collect();
        let allowed = origins.iter().filter(|origin| origin.is_some()).count();
        let share = percent(allowed, origins.len());
        println!(
            "moved by one {unit}: {allowed} of {} allowed ({share:.1} %)",
            origins.len()
        );
        assert!(
            share <= bar,
            "{share:.1} % of the labels moved by one {unit} are allowed"
        );
    }
}

#[test]
fn cases_from_memory_systems() {
    for (text, at, expected) in [
        (
            "Yesterday I finally had the rear wheel of my touring bike replaced at Kettle Lane Cycles.",
            "2022-11-06T18:20:00+00:00",
            &["2022-11-05"][..],
        ),
        (
            "They want to see it again in a month.",
            "2022-11-06T18:20:00",
            &["2022-12"],
        ),
        (
            "I handed in my notice at the bakery last Friday.",
            "2024-06-12T12:05:00",
            &["2024-06-07"],
        ),
        (
            "Last Friday was the day I quit the bakery.",
            "2024-06-14T08:30:00",
            &["2024-06-07"],
        ),
        (
            "Two weekends ago we camped by Lake Orrin.",
            "2024-10-17T20:10:00",
            &["2024-10-05/2024-10-06"],
        ),
        (
            "Freezing, and for the last three days I've been in bed with a cold.",
            "2024-10-17T20:10:00",
            &["2024-10-14/2024-10-16"],
        ),
        (
            "I signed the lease for the workshop on Monday. And on December 30 I passed my theory test!",
            "2026-01-02T09:45:00",
            &["2025-12-29", "2025-12-30"],
        ),
        (
            "Can't sleep. Yesterday I flew in from Hanoi and the interview at the aquarium is at nine this morning.",
            "2025-06-05T00:40:00+08:00",
            &["2025-06-04", "2025-06-05T09:00"],
        ),
        (
            "The vet operated on the cat on the 3rd. Her stitches come out on the 24th.",
            "2024-09-10T17:30:00",
            &["2024-09-03", "2024-09-24"],
        ),
        (
            "The kennel is booked for March 5, when we go skiing.",
            "2024-09-10T17:30:00",
            &["2025-03-05"],
        ),
        (
            "Last week he adopted a greyhound called Pixel.",
            "2025-03-20T13:00:00",
            &["2025-03-10/2025-03-16"],
        ),
        (
            "My sister Zoya arrives on 9 November.",
            "2025-11-03T08:00:00",
            &["2025-11-09"],
        ),
        (
            "Family moves to Ísafjörður — in May",
            "2025-01-05T10:01:00",
            &["2025-05"],
        ),
        (
            "My scanner broke on Sunday.",
            "2025-01-21T09:00:00",
            &["2025-01-19"],
        ),
        (
            "We moved on Saturday, so it's Tartu for me from now on.",
            "2025-10-14T18:00:00",
            &["2025-10-11"],
        ),
        (
            "我上周六开始学吹笛子，老师住在大理。",
            "2025-09-16T20:00:00+08:00",
            &["2025-09-13"],
        ),
        (
            "The course moves to room 12 on 24 November.",
            "2025-11-10T13:00:00",
            &["2025-11-24"],
        ),
    ] {
        let got = candidates(text, at);
        for value in expected {
            assert!(
                got.iter()
                    .any(|of| of.first().is_some_and(|first| first == value)),
                "{text}: want {value}, got {got:?}"
            );
        }
    }
}

#[test]
fn without_a_message_time_words_are_kept_and_absolute_dates_resolved() {
    let text = "Yesterday I repotted the fig tree. I bought it on 2 March 2025 in Ghent.";
    let found = resolve(text, None, &Options::default());
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        (found[0].words.as_str(), &found[0].candidates[..]),
        ("Yesterday", &[][..])
    );
    assert_eq!(found[1].candidates[0].to_string(), "2025-03-02");
    for relative in [
        "three weeks ago",
        "on Friday",
        "last summer",
        "in March",
        "next year",
        "now",
        "from May to July",
    ] {
        let found = resolve(relative, None, &Options::default());
        assert!(!found.is_empty(), "{relative} is dropped");
        assert!(
            found.iter().all(|of| of.candidates.is_empty()),
            "{relative}: {found:?}"
        );
    }
}

#[test]
fn a_date_says_the_same_written_out() {
    let at = "2024-03-14T10:00:00";
    for relative in [
        "yesterday",
        "last Friday",
        "two days ago",
        "on Monday",
        "tomorrow",
        "next Friday",
        "the day before yesterday",
    ] {
        let value = candidates(&format!("We met {relative}."), at)[0][0].clone();
        assert_eq!(
            candidates(&format!("We met on {value}."), at)[0],
            std::slice::from_ref(&value),
            "{relative}"
        );
        let date: jiff::civil::Date = value.parse().unwrap();
        let months = ["January", "February", "March", "April", "May"];
        let words = format!(
            "We met on {} {} {}.",
            date.day(),
            months[date.month() as usize - 1],
            date.year()
        );
        assert_eq!(candidates(&words, at)[0], [value], "{relative}");
    }
}

/// Eight times the text may take 24 times as long, not 64 times: other work on the machine is no quadratic growth.
#[test]
fn long_rows_of_time_words_take_linear_time() {
    let at: Moment = "2024-02-29T12:00:00".parse().unwrap();
    let row =
        "from the first of may to the second of june and 3 weeks after last friday 2 days ago ";
    let seconds = |times: usize| {
        let text = row.repeat(times);
        let tries = (0..5).map(|_| {
            let begun = std::time::Instant::now();
            assert!(resolve(&text, Some(&at), &Options::default()).len() >= times);
            begun.elapsed().as_secs_f64()
        });
        tries.fold(f64::INFINITY, f64::min)
    };
    let (short, long) = (seconds(40), seconds(320));
    assert!(long < 24.0 * short, "{short} s, {long} s");
}
