//! Phrases with the value that they have.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mem_schema::time::resolve::{Language, Options, resolve};

/// Checks that each sentence holds one expression with these words and these candidates.
fn check(at: &str, cases: &[(&str, &str, &str, &[&str])]) {
    let mut wrong = Vec::new();
    for (code, text, words, values) in cases {
        let options = Options {
            language: Some(Language::from_code(code).unwrap()),
            ..Options::default()
        };
        let found = resolve(text, Some(&at.parse().unwrap()), &options);
        let got: Vec<(String, Vec<String>)> = found
            .iter()
            .map(|of| {
                let values = of.candidates.iter().map(ToString::to_string);
                (of.words.clone(), values.collect())
            })
            .collect();
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        if got != [((*words).to_owned(), values)] {
            wrong.push(format!("{text}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Wednesday, 13 March 2024.
const AT: &str = "2024-03-13T10:00:00";

#[test]
fn a_week_more_or_less_than_a_weekday() {
    check(
        AT,
        &[
            (
                "en",
                "We met the Friday before last.",
                "the Friday before last",
                &["2024-03-01"],
            ),
            (
                "fr",
                "On se voit lundi en huit.",
                "lundi en huit",
                &["2024-03-25"],
            ),
            (
                "fr",
                "On se voit mardi en quinze.",
                "mardi en quinze",
                &["2024-04-02"],
            ),
            (
                "fr",
                "On se voit demain en huit.",
                "demain en huit",
                &["2024-03-21"],
            ),
        ],
    );
    // On a Saturday the last Friday was yesterday.
    let saturday = "2024-03-16T10:00:00";
    check(
        saturday,
        &[(
            "en",
            "We met the Friday before last.",
            "the Friday before last",
            &["2024-03-08"],
        )],
    );
}

#[test]
fn a_weekday_before_or_after_a_date() {
    check(
        AT,
        &[
            (
                "en",
                "We met on the Friday before Christmas.",
                "on the Friday before Christmas",
                &["2023-12-22", "2024-12-20"],
            ),
            (
                "en",
                "We meet on the Monday after Easter 2024.",
                "on the Monday after Easter 2024",
                &["2024-04-01"],
            ),
            (
                "en",
                "It was the Friday before 20 March 2020.",
                "the Friday before 20 March 2020",
                &["2020-03-13"],
            ),
            (
                "de",
                "Es war am Freitag vor dem 20. März 2020.",
                "am Freitag vor dem 20. März 2020",
                &["2020-03-13"],
            ),
            (
                "fr",
                "C'était le vendredi avant le 20 mars 2020.",
                "le vendredi avant le 20 mars 2020",
                &["2020-03-13"],
            ),
            (
                "es",
                "Fue el viernes antes del 20 de marzo de 2020.",
                "el viernes antes del 20 de marzo de 2020",
                &["2020-03-13"],
            ),
            (
                "pt",
                "Foi na sexta-feira depois do Natal de 2023.",
                "na sexta-feira depois do Natal de 2023",
                &["2023-12-29"],
            ),
        ],
    );
}

#[test]
fn hours_with_one_am_or_pm_are_both_of_it() {
    let both = ["2024-03-14T10:00/2024-03-14T11:00", "2024-03-14T10:00"];
    check(
        AT,
        &[
            ("en", "Call me 10-11am tomorrow.", "10-11am tomorrow", &both),
            ("en", "Call me tomorrow 10-11am.", "tomorrow 10-11am", &both),
            (
                "en",
                "Call me from 2 to 3pm tomorrow.",
                "from 2 to 3pm tomorrow",
                &["2024-03-14T14:00/2024-03-14T15:00", "2024-03-14T14:00"],
            ),
            (
                "en",
                "Call me 11-1pm tomorrow.",
                "11-1pm tomorrow",
                &["2024-03-14T11:00/2024-03-14T13:00", "2024-03-14T11:00"],
            ),
            (
                "en",
                "Call me 10-12pm tomorrow.",
                "10-12pm tomorrow",
                &["2024-03-14T10:00/2024-03-14T12:00", "2024-03-14T10:00"],
            ),
        ],
    );
}

#[test]
fn one_meaning_is_one_candidate() {
    check(
        AT,
        &[
            (
                "ko",
                "오늘부터 열흘간 쉰다",
                "오늘부터 열흘간",
                &["2024-03-13/2024-03-22"],
            ),
            (
                "ko",
                "내일부터 열흘 동안 쉰다",
                "내일부터 열흘 동안",
                &["2024-03-14/2024-03-23"],
            ),
            (
                "es",
                "Nos vemos pasado mañana.",
                "pasado mañana",
                &["2024-03-15"],
            ),
        ],
    );
}

#[test]
fn december_ends_what_january_begins() {
    check(
        AT,
        &[
            (
                "en",
                "We work from January to December.",
                "from January to December",
                &["2024-01/2024-12", "2024-01"],
            ),
            (
                "de",
                "Wir arbeiten von Januar bis Dezember.",
                "von Januar bis Dezember",
                &["2024-01/2024-12", "2024-01"],
            ),
            (
                "ko",
                "1월부터 12월까지 일한다",
                "1월부터 12월까지",
                &["2024-01/2024-12", "2024-01"],
            ),
        ],
    );
}
