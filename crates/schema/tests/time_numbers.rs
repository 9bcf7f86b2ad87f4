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

#[test]
fn versions_telephones_addresses_and_names_are_no_times() {
    let mut wrong = Vec::new();
    for (code, text) in [
        ("en", "Support is there 24/7 for you."),
        ("de", "Der Dienst läuft 24/7."),
        ("es", "Atienden 24/7."),
        ("fr", "Le service répond 24/7."),
        ("pt", "O suporte atende 24/7."),
        ("ko", "24/7 운영합니다"),
        ("en", "We run v2024.3.1 in production."),
        ("ko", "우리는 v2024.3.1 버전만 썼다"),
        ("en", "Upgrade to version 2024.3.1 first."),
        ("en", "The suite says 12/24 passed."),
        ("en", "It has a ratio of 1/2 in it."),
        ("en", "Call 02-2024-1010 please."),
        ("ko", "전화는 02-2024-1010 으로"),
        ("en", "Call 555-2024 please."),
        ("en", "It cost 1999 won there."),
        ("en", "I own 2000 shares of it."),
        ("en", "A crowd of 2000 people cheered."),
        ("en", "See page 2019 of it."),
        ("en", "He sleeps in room 1984 there."),
        ("en", "It ran Windows 2000 well."),
        ("en", "We live at 2015 Main Street."),
        ("en", "I think the Sun is hot."),
        ("en", "August is my brother."),
        ("ko", "3월드컵 경기장에서 만나"),
        ("ko", "3월의 라이온을 읽었다"),
        ("ko", "나는 1일 1식을 한다"),
        ("ja", "薬は1日1個です"),
        ("ja", "一月堂で会った"),
    ] {
        let got = found(code, text);
        if !got.is_empty() {
            wrong.push(format!("{text}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn years_and_days_beside_such_words_are_read() {
    for (code, text, expected) in [
        (
            "en",
            "In 2020 people stayed home.",
            &[("In 2020", "2020")][..],
        ),
        (
            "en",
            "The team in 1999 won the cup.",
            &[("in 1999", "1999")],
        ),
        (
            "en",
            "In 2015 Main Street was closed.",
            &[("In 2015", "2015")],
        ),
        ("en", "In 2019 shares fell.", &[("In 2019", "2019")]),
        (
            "en",
            "It ran from 2019-2021.",
            &[("from 2019-2021", "2019/2021")],
        ),
        (
            "en",
            "See you Sun at noon.",
            &[("Sun at noon", "2024-05-12T12:00")],
        ),
        ("en", "We arrive in August.", &[("in August", "2024-08")]),
        ("es", "Llegan el 24/7.", &[("el 24/7", "2024-07-24")]),
        ("ko", "3월의 날씨가 좋았다", &[("3월", "2024-03")]),
        ("ja", "1日に会った", &[("1日", "2024-05-01")]),
    ] {
        let got = found(code, text);
        let got: Vec<(&str, &str)> = got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(got, expected, "{text}");
    }
}
