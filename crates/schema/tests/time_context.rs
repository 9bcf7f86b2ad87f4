//! What a phrase means by what stands around it: the end of a sentence, a month named before, a rhythm.

use mem_schema::{
    moment::Moment,
    time::resolve::{Found, Language, Options, RecurrenceCore, resolve},
};

fn found(code: &str, text: &str) -> Vec<Found> {
    let at: Moment = "2024-10-09T10:00:00".parse().expect("a moment");
    let options = Options {
        language: Language::from_code(code),
        ..Options::default()
    };
    resolve(text, Some(&at), &options)
}

fn candidates(of: &Found) -> Vec<String> {
    of.candidates.iter().map(ToString::to_string).collect()
}

fn rhythm(text: &str) -> RecurrenceCore {
    let found = found("en", text);
    let rhythm = found.into_iter().find_map(|of| of.rhythm);
    rhythm.unwrap_or_else(|| panic!("{text} has no rhythm"))
}

#[test]
fn no_phrase_goes_on_behind_a_sentence() {
    for (text, expected) in [
        (
            "We moved in 2006. On Thursday we met.",
            &["2006", "2024-10-03"][..],
        ),
        (
            "It was the last day of April. Six weeks passed.",
            &["2024-04-30"],
        ),
        (
            "He came last weekend. tues he left again",
            &["2024-10-05/2024-10-06", "2024-10-08"],
        ),
        (
            "We met on Oct. 5 and on Sept. 3, 2023.",
            &["2024-10-05", "2023-09-03"],
        ),
    ] {
        // "Six weeks" is seen too, and has no date.
        let got: Vec<String> = found("en", text)
            .iter()
            .filter_map(|of| candidates(of).first().cloned())
            .collect();
        assert_eq!(got, expected, "{text}");
    }
}

#[test]
fn a_number_behind_a_weekday_is_no_day_of_the_month() {
    for text in [
        "Dinner this Saturday, 4 booked already.",
        "I called on Saturday six times.",
        "On Saturday, first call at the clinic.",
    ] {
        let found = found("en", text);
        let days: Vec<String> = found[0]
            .candidates
            .iter()
            .map(ToString::to_string)
            .collect();
        assert!(days.contains(&"2024-10-12".to_owned()), "{text}: {days:?}");
    }
    assert_eq!(
        candidates(&found("en", "The feast is on Saturday the 19th.")[0])[0],
        "2024-10-19"
    );
}

#[test]
fn days_of_a_month_may_be_of_the_month_named_before() {
    for (code, text, expected) in [
        (
            "en",
            "We fly on 14 July and she stays till the 24th.",
            "2025-07-24",
        ),
        (
            "de",
            "Im Juli fahren wir los, vom 7. bis 17. wollen wir unterwegs sein.",
            "2025-07-07/2025-07-17",
        ),
    ] {
        let found = found(code, text);
        let last = found.last().expect("a phrase");
        assert!(
            candidates(last).contains(&expected.to_owned()),
            "{text}: {last:?}"
        );
        assert!(!last.sure, "{text}");
    }
}

#[test]
fn a_length_says_when_it_began_as_a_last_resort() {
    for (text, expected) in [
        ("She has taught for 26 years.", "1998"),
        ("The kitten is ten weeks old.", "2024-07-29/2024-08-04"),
    ] {
        let found = found("en", text);
        assert_eq!(candidates(&found[0]), [expected], "{text}");
    }
    assert!(!found("en", "The kitten is ten weeks old.")[0].sure);
}

#[test]
fn the_same_rhythm_is_the_same_in_other_words() {
    for (text, other) in [
        ("every month on the 28th", "the 28th of each month"),
        ("the first of each month", "every month on the 1st"),
        (
            "every month on the first Tuesday",
            "the first Tuesday of every month",
        ),
        ("every first Thursday", "every first Thursday of the month"),
        ("every second Tuesday at ten", "every other Tuesday"),
        (
            "Thursday to Saturday nights",
            "every Thursday, Friday and Saturday night",
        ),
    ] {
        assert_eq!(rhythm(text), rhythm(other), "{text}");
    }
    assert_eq!(
        rhythm("every Tuesday to Saturday").weekdays,
        [2, 3, 4, 5, 6]
    );
    assert_ne!(
        rhythm("every month on the 28th"),
        rhythm("every month on the 27th")
    );
    let words = candidates(&found("en", "Rent is due the 5th of every month.")[0]);
    assert_eq!(words, ["every month on day 5"]);
}
