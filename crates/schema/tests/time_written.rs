//! A sentence says the same with its relative date written out, in ten languages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod time_fuzz;

use jiff::civil::{Date, DateTime};
use mem_schema::moment::Moment;
use mem_schema::time::resolve::{Language, Options, resolve};
use mem_schema::time::value::{Point, TimeValue};

/// How a language writes what is counted from today, and dates; `{n}` is a number, `{name}` a month's name.
struct Speech {
    code: &'static str,
    /// Around the expression.
    sentence: &'static str,
    /// Days, months and years ago, and days, months and years from now.
    counted: [&'static str; 6],
    /// A day, a month, a year.
    dates: [&'static str; 3],
}

const SPEECH: [Speech; 10] = [
    Speech {
        code: "en",
        sentence: "My brother, Zoya and I: {}, at the lake.",
        counted: [
            "{n} days ago",
            "{n} months ago",
            "{n} years ago",
            "in {n} days",
            "in {n} months",
            "in {n} years",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "{year}"],
    },
    Speech {
        code: "ko",
        sentence: "우리 가족은 {} 호수에",
        counted: [
            "{n}일 전",
            "{n}개월 전",
            "{n}년 전",
            "{n}일 후",
            "{n}개월 후",
            "{n}년 후",
        ],
        dates: ["{year}년 {m}월 {d}일", "{year}년 {m}월", "{year}년"],
    },
    Speech {
        code: "ja",
        sentence: "家族と{}に湖で。",
        counted: [
            "{n}日前",
            "{n}か月前",
            "{n}年前",
            "{n}日後",
            "{n}か月後",
            "{n}年後",
        ],
        dates: ["{year}年{m}月{d}日", "{year}年{m}月", "{year}年"],
    },
    Speech {
        code: "zh",
        sentence: "我们一家{}在湖边。",
        counted: [
            "{n}天前",
            "{n}个月前",
            "{n}年前",
            "{n}天后",
            "{n}个月后",
            "{n}年后",
        ],
        dates: ["{year}年{m}月{d}日", "{year}年{m}月", "{year}年"],
    },
    Speech {
        code: "ar",
        sentence: "الرحلة مع العائلة {} عند البحيرة.",
        counted: [
            "قبل {n} أيام",
            "قبل {n} أشهر",
            "قبل {n} سنوات",
            "بعد {n} أيام",
            "بعد {n} أشهر",
            "بعد {n} سنوات",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "عام {year}"],
    },
    Speech {
        code: "hi",
        sentence: "हमारा परिवार {} झील पर।",
        counted: [
            "{n} दिन पहले",
            "{n} महीने पहले",
            "{n} साल पहले",
            "{n} दिन बाद",
            "{n} महीने बाद",
            "{n} साल बाद",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "{year}"],
    },
    Speech {
        code: "de",
        sentence: "Die Familie, {}, am See.",
        counted: [
            "vor {n} Tagen",
            "vor {n} Monaten",
            "vor {n} Jahren",
            "in {n} Tagen",
            "in {n} Monaten",
            "in {n} Jahren",
        ],
        dates: ["{d}. {name} {year}", "{name} {year}", "{year}"],
    },
    Speech {
        code: "es",
        sentence: "La familia, {}, junto al lago.",
        counted: [
            "hace {n} días",
            "hace {n} meses",
            "hace {n} años",
            "dentro de {n} días",
            "dentro de {n} meses",
            "dentro de {n} años",
        ],
        dates: ["{d} de {name} de {year}", "{name} de {year}", "{year}"],
    },
    Speech {
        code: "fr",
        sentence: "La famille, {}, près du lac.",
        counted: [
            "il y a {n} jours",
            "il y a {n} mois",
            "il y a {n} ans",
            "dans {n} jours",
            "dans {n} mois",
            "dans {n} ans",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "{year}"],
    },
    Speech {
        code: "pt",
        sentence: "A família, {}, perto do lago.",
        counted: [
            "há {n} dias",
            "há {n} meses",
            "há {n} anos",
            "daqui a {n} dias",
            "daqui a {n} meses",
            "daqui a {n} anos",
        ],
        dates: ["{d} de {name} de {year}", "{name} de {year}", "{year}"],
    },
];

/// First words of the lists of a section of a table.
fn first_words(code: &str, section: &str) -> Vec<(String, String)> {
    let file = format!("{}/time/{code}.toml", env!("CARGO_MANIFEST_DIR"));
    let table: toml::Table = std::fs::read_to_string(file).unwrap().parse().unwrap();
    let word = |(name, words): (&String, &toml::Value)| {
        (name.clone(), words[0].as_str().unwrap().to_owned())
    };
    table[section]
        .as_table()
        .unwrap()
        .iter()
        .map(word)
        .collect()
}

impl Speech {
    /// The date in words.
    fn write(&self, point: Point, months: &[String]) -> String {
        let form = match point {
            Point::Year(_) => self.dates[2],
            Point::Month { .. } => self.dates[1],
            _ => self.dates[0],
        };
        let date = point.first();
        form.replace("{d}", &date.day().to_string())
            .replace("{m}", &date.month().to_string())
            .replace("{name}", &months[date.month() as usize - 1])
            .replace("{year}", &date.year().to_string())
    }
}

#[test]
fn a_sentence_with_its_date_written_out_says_the_same() {
    let mut source = time_fuzz::Bytes(7);
    let mut random = |range: std::ops::Range<i64>| {
        let mut bytes = Vec::new();
        source.next(2, &mut bytes);
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        range.start + i64::from(number) % (range.end - range.start)
    };
    for speech in &SPEECH {
        let options = Options {
            language: Language::from_code(speech.code),
            ..Options::default()
        };
        let names = first_words(speech.code, "months");
        let months: Vec<String> = [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ]
        .iter()
        .map(|month| {
            names
                .iter()
                .find(|(name, _)| name == month)
                .unwrap()
                .1
                .clone()
        })
        .collect();
        let days = first_words(speech.code, "days");
        for _ in 0..300 {
            let date = Date::constant(2000, 1, 1)
                .checked_add(jiff::Span::new().days(random(0..12_000)))
                .unwrap();
            let at = Moment::local(date.at(14, 30, 0, 0));
            let n = random(3..10).to_string();
            let counted = speech.counted.map(|words| words.replace("{n}", &n));
            for words in counted.iter().chain(days.iter().map(|(_, words)| words)) {
                let first = |words: &str, at: &Moment| {
                    let text = speech.sentence.replace("{}", words);
                    let found = resolve(&text, Some(at), &options);
                    let [only] = &found[..] else {
                        panic!("one expression in {text}, not {found:?}");
                    };
                    only.candidates.first().cloned().unwrap_or_default()
                };
                let value = first(words, &at);
                let TimeValue::Point(point) = value else {
                    panic!("{words} on {at} is {value}");
                };
                let written = speech.write(point, &months);
                for said in [
                    at,
                    Moment::local(date.at(0, 0, 0, 0)),
                    Moment::local(DateTime::constant(2015, 6, 1, 9, 0, 0, 0)),
                ] {
                    assert_eq!(
                        first(&written, &said),
                        value,
                        "{words} on {at} is {written}"
                    );
                }
                // The normal form of a day is read in every language too.
                if matches!(point, Point::Day(_)) {
                    assert_eq!(first(&value.to_string(), &at), value, "{words} on {at}");
                }
            }
        }
    }
}
