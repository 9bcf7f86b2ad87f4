//! What is seen and has no date is returned with all its words and no value.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mem_schema::time::resolve::{Found, Language, Options, resolve};

fn found(code: &str, text: &str, at: &str) -> Vec<Found> {
    let options = Options {
        language: Some(Language::from_code(code).unwrap()),
        ..Options::default()
    };
    resolve(text, Some(&at.parse().unwrap()), &options)
}

/// Checks that the words are one expression of the text, and the only one, without a value.
fn is_unresolved(code: &str, text: &str, words: &str, at: &str) {
    let found = found(code, text, at);
    let seen: Vec<_> = found
        .iter()
        .map(|of| (of.words.as_str(), of.candidates.len()))
        .collect();
    assert_eq!(seen, [(words, 0)], "{code} {text} on {at}");
}

/// Sentences with a date that no calendar has, and its words.
const NOWHERE: &[(&str, &str, &str)] = &[
    ("en", "We met on 29 February 2023.", "on 29 February 2023"),
    ("en", "We met on February 30.", "on February 30"),
    (
        "en",
        "We met on February 30th, 2024.",
        "on February 30th, 2024",
    ),
    ("en", "It is due 2023-02-29 at noon.", "2023-02-29 at noon"),
    ("en", "It is due 31/04/2024.", "31/04/2024"),
    ("en", "It is due 04/31/2024.", "04/31/2024"),
    ("en", "It is due 2024-13-05.", "2024-13-05"),
    ("en", "We met on 32 May 2024.", "on 32 May 2024"),
    ("en", "It was Friday, February 30.", "Friday, February 30"),
    (
        "en",
        "We met on the 31st of last month.",
        "on the 31st of last month",
    ),
    (
        "en",
        "We were away from 30 February to 5 March.",
        "from 30 February to 5 March",
    ),
    ("ko", "2023년 2월 29일에 만났다", "2023년 2월 29일"),
    ("ko", "2월 30일에 만났다", "2월 30일"),
    ("ko", "2023년 13월 5일에 만났다", "2023년 13월 5일"),
    ("ko", "마감은 2023-02-29", "2023-02-29"),
    ("ja", "2023年2月29日だった", "2023年2月29日"),
    ("ja", "4月31日だった", "4月31日"),
    ("ja", "2023年13月5日だった", "2023年13月5日"),
    ("zh", "2023年2月29日见面", "2023年2月29日"),
    ("zh", "二〇二三年二月三十日见面", "二〇二三年二月三十日"),
    ("zh", "4月31号见面", "4月31号"),
    (
        "de",
        "Am 31. April 2024 war es so weit.",
        "Am 31. April 2024",
    ),
    ("de", "Am 31.04.2024 war es so weit.", "Am 31.04.2024"),
    ("de", "Am 30. Februar war es so weit.", "Am 30. Februar"),
    (
        "es",
        "El 31 de abril de 2024 nos vimos.",
        "El 31 de abril de 2024",
    ),
    ("es", "El 30 de febrero nos vimos.", "El 30 de febrero"),
    ("fr", "Le 31 avril 2024, on s'est vus.", "Le 31 avril 2024"),
    ("fr", "Le 30 février, on s'est vus.", "Le 30 février"),
    (
        "pt",
        "A gente se viu em 31 de abril de 2024.",
        "em 31 de abril de 2024",
    ),
    (
        "pt",
        "A gente se viu em 30 de fevereiro.",
        "em 30 de fevereiro",
    ),
    ("ar", "التقينا في 31 أبريل 2024", "في 31 أبريل 2024"),
    ("ar", "التقينا في 30 فبراير", "في 30 فبراير"),
    ("hi", "हम 31 अप्रैल 2024 को मिले", "31 अप्रैल 2024"),
    ("hi", "हम 30 फ़रवरी को मिले", "30 फ़रवरी"),
];

#[test]
fn a_date_that_no_calendar_has_is_one_expression() {
    for (code, text, words) in NOWHERE {
        is_unresolved(code, text, words, "2024-07-15T10:00:00");
        let undated = resolve(
            text,
            None,
            &Options {
                language: Language::from_code(code),
                ..Options::default()
            },
        );
        let values: Vec<_> = undated.iter().flat_map(|of| &of.candidates).collect();
        assert!(
            !undated.is_empty() && values.is_empty(),
            "{text}: {undated:?}"
        );
    }
}

#[test]
fn a_leap_day_without_a_year_is_in_the_nearest_year_that_has_it() {
    for (text, value) in [
        ("We met on 29 February.", "2020-02-29"),
        ("We will meet on 29 February.", "2024-02-29"),
    ] {
        let found = found("en", text, "2023-06-15T10:00:00");
        assert_eq!(found[0].candidates[0].to_string(), value, "{text}");
    }
    let text = "We met on 29 February last year.";
    is_unresolved(
        "en",
        text,
        "on 29 February last year",
        "2023-06-15T10:00:00",
    );
}

#[test]
fn what_lies_beyond_the_calendar_is_seen() {
    for (code, at, words) in [
        ("en", "9999-12-31T10:00:00", "next year"),
        ("en", "9999-12-31T10:00:00", "tomorrow"),
        ("en", "9999-12-31T10:00:00", "next week"),
        ("en", "9999-12-31T10:00:00", "in three days"),
        ("en", "0001-01-01T10:00:00", "yesterday"),
        ("en", "0001-01-01T10:00:00", "last year"),
        ("en", "0001-01-01T10:00:00", "last winter"),
        ("en", "0001-01-01T10:00:00", "last Friday"),
        ("en", "2024-06-15T10:00:00", "3000 years ago"),
        ("en", "2024-06-15T10:00:00", "the last 3000 years"),
        ("en", "2024-06-15T10:00:00", "Chinese new year 1850"),
        ("ko", "9999-12-31T10:00:00", "내년"),
        ("ko", "9999-12-31T10:00:00", "내일"),
        ("ko", "0001-01-01T10:00:00", "지난겨울"),
        ("ja", "9999-12-31T10:00:00", "来年"),
        ("ja", "9999-12-31T10:00:00", "明日"),
        ("ja", "0001-01-01T10:00:00", "去年の冬"),
        ("de", "9999-12-31T10:00:00", "nächstes Jahr"),
        ("de", "9999-12-31T10:00:00", "morgen"),
        ("de", "0001-01-01T10:00:00", "letzten Winter"),
    ] {
        is_unresolved(code, words, words, at);
    }
}

/// What is left of a week that is over, and what there has been of one that begins today.
#[test]
fn a_running_time_that_holds_no_day_is_seen() {
    for (text, at) in [
        ("the rest of last week", "2024-06-15T10:00:00"),
        ("so far this year", "2024-01-01T10:00:00"),
    ] {
        is_unresolved("en", text, text, at);
    }
}

/// A longer expression that begins inside a shorter one leaves standing what is before it.
#[test]
fn what_stands_before_a_longer_expression_is_kept() {
    let found = found("ja", "六月10:30から10:45まで", "2024-01-10T10:00:00");
    let words: Vec<_> = found.iter().map(|of| of.words.as_str()).collect();
    assert_eq!(words, ["六月", "10:30から10:45まで"]);
}

/// A length of time has no date, and is seen.
#[test]
fn mere_lengths_are_seen() {
    for (language, text, words) in [
        ("en", "It took three weeks.", "three weeks"),
        ("en", "We stayed for two hours.", "two hours"),
        ("de", "Es dauerte drei Wochen.", "drei Wochen"),
        ("es", "Duró tres semanas.", "tres semanas"),
        ("fr", "Ça a duré trois semaines.", "trois semaines"),
        ("pt", "Levou três semanas.", "três semanas"),
        ("ko", "세 시간 동안 기다렸어", "세 시간 동안"),
        ("ja", "三週間かかった", "三週間"),
        ("zh", "花了三个星期", "花了三个星期"),
        ("ar", "استغرق ثلاثة أسابيع", "استغرق ثلاثة أسابيع"),
        ("hi", "तीन हफ्ते लगे", "तीन हफ्ते लगे"),
    ] {
        is_unresolved(language, text, words, "2024-03-04T18:20:00");
    }
}
