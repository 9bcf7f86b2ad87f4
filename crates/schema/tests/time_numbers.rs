//! Numbers that look like times and are none, and times that look like numbers.

use mem_schema::{
    moment::Moment,
    time::resolve::{Language, Options, resolve},
};

/// Words and first candidate of all that is found.
fn found(code: &str, text: &str) -> Vec<(String, String)> {
    let at: Moment = "2024-05-08T10:00:00".parse().expect("a moment");
    let options = Options {
        language: Language::from_code(code),
        ..Options::default()
    };
    resolve(text, Some(&at), &options)
        .into_iter()
        .map(|of| {
            let first = of.candidates.first().map(ToString::to_string);
            (of.words, first.unwrap_or_default())
        })
        .collect()
}

#[test]
fn money_shares_decimals_and_thousands_are_no_times() {
    for (code, text) in [
        ("en", "My savings account pays interest at 24.9% a pop."),
        ("en", "The shop sold the piano at 2,650 in the end."),
        (
            "en",
            "It stands at 5 euros, by 20 dollars more than before.",
        ),
        ("en", "I weigh 176 and bench 4,200 lbs."),
        ("en", "The rate was at 24 per cent."),
        ("de", "Die Aktie ist um 15% gefallen, dann um 20 Euro."),
        ("de", "Das Brot wurde um 3,5 Prozent teurer."),
        ("es", "La tasa subió a las 24,9."),
        ("fr", "Le prix est monté à 15 euros."),
    ] {
        assert_eq!(found(code, text), [], "{text}");
    }
}

#[test]
fn times_beside_numbers_are_read() {
    for (code, text, expected) in [
        (
            "en",
            "I got 200 next month.",
            &[("next month", "2024-06")][..],
        ),
        (
            "en",
            "We paid 4,200 CAD last week.",
            &[("last week", "2024-04-29/2024-05-05")],
        ),
        (
            "en",
            "Rent is 2,060 a month.",
            &[("2,060 a month", "every month")],
        ),
        (
            "en",
            "In May 2020 $500 went missing.",
            &[("In May 2020", "2020-05")],
        ),
        (
            "en",
            "We were closed the 3 next weeks.",
            &[("3 next weeks", "2024-05-09/2024-05-29")],
        ),
        (
            "en",
            "Signed on May 3,2024 by both.",
            &[("on May 3,2024", "2024-05-03")],
        ),
        (
            "de",
            "Wir kommen am 3.6. um 10.30 Uhr.",
            &[("am 3.6. um 10.30 Uhr", "2024-06-03T10:30")],
        ),
        (
            "ko",
            "5월 17,18일에 쉬어요.",
            &[("5월 17,18일", "2024-05-17/2024-05-18")],
        ),
    ] {
        let got = found(code, text);
        let got: Vec<(&str, &str)> = got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(got, expected, "{text}");
    }
}
