//! Sentences with dates against the values of the data (`tests/dates/README.md`).

mod time_data;

use mem_schema::time::value::TimeValue;
use time_data::{percent, read};

/// Languages with the share of sentences that must be right by the data where `LABELLING.md` does not disagree, and the
/// share by the data alone that is reached, so that it does not get worse; in per cent.
const BARS: &[(&str, f64, f64)] = &[
    ("en", 95.0, 77.0),
    ("ko", 88.0, 73.0),
    ("ja", 88.0, 73.0),
    ("zh", 88.0, 74.0),
    ("ar", 88.0, 84.0),
    ("hi", 88.0, 74.0),
    ("de", 88.0, 88.0),
    ("es", 88.0, 69.0),
    ("fr", 88.0, 85.0),
    ("pt", 88.0, 79.0),
];
const BAR_OF_ALL: f64 = 91.0;

#[test]
fn sentences_with_dates_are_resolved() {
    let (mut right, mut all) = (0, 0);
    let mut below = Vec::new();
    for &(code, bar, strict_bar) in BARS {
        let outcomes = time_data::sentences(code, &read(code));
        let hits = outcomes.iter().filter(|of| of.is_hit()).count();
        let strict = outcomes.iter().filter(|of| of.is_strict_hit()).count();
        let count = outcomes.len();
        let (share, strict_share) = (percent(hits, count), percent(strict, count));
        println!(
            "{code}: {hits} of {count} ({share:.1} %), by the data alone {strict} ({strict_share:.1} %)"
        );
        if share < bar || strict_share < strict_bar {
            below.push(code);
        }
        right += hits;
        all += count;
    }
    println!("all: {right} of {all} ({:.1} %)", percent(right, all));
    assert!(below.is_empty(), "below their bars: {below:?}");
    assert!(percent(right, all) >= BAR_OF_ALL, "all languages together");
}

#[test]
fn a_disagreement_is_about_one_sentence_and_says_another_value() {
    for &(code, ..) in BARS {
        let lines = time_data::plain_lines(code);
        for of in time_data::disagreements(code) {
            let about: Vec<_> = lines.iter().filter(|line| of.is_about(line)).collect();
            assert!(!about.is_empty(), "{code}: no sentence `{}`", of.input);
            assert!(
                !of.ours.is_empty() && !of.reason.is_empty(),
                "{code}: {}",
                of.input
            );
            for ours in &of.ours {
                assert!(
                    ours.parse::<TimeValue>()
                        .is_ok_and(|value| &value.to_string() == ours),
                    "{code}: `{ours}` of `{}` is no value",
                    of.input
                );
                assert!(
                    about.iter().all(|line| !line.expect_any.contains(ours)),
                    "{code}: `{ours}` is the value of `{}`",
                    of.input
                );
            }
        }
    }
}
