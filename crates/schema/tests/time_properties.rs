//! What holds for every time value, limit, zone and time expression.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod time_fuzz;

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
};
use mem_schema::clean::Mode;
use mem_schema::moment::Moment;
use mem_schema::time::evidence::{Evidence, Said};
use mem_schema::time::limit::{TimeLimit, TimeLimits, TimeSource};
use mem_schema::time::resolve::{Language, Options, resolve};
use mem_schema::time::rewrite::rewrite;
use mem_schema::time::value::{Point, TimeValue, is_normal};
use mem_schema::time::zone::Zone;
use proptest::prelude::*;

/// A point of the given form, 0 for years to 3 for minutes.
fn point_of(form: u8, year: i16, month: i8, day: i8, minute: i16) -> Point {
    match form {
        0 => Point::year(year),
        1 => Point::month(year, month),
        2 => Point::day(year, month, day),
        _ => {
            let (hour, minute) = ((minute / 60) as i8, (minute % 60) as i8);
            Point::minute(DateTime::constant(year, month, day, hour, minute, 0, 0))
        }
    }
    .unwrap()
}

fn parts() -> impl Strategy<Value = (i16, i8, i8, i16)> {
    // Half of the years lie close together, so that values meet.
    let year = prop_oneof![1..=9999i16, 2023..=2024i16];
    (year, 1..=12i8, 1..=28i8, 0..1440i16)
}

fn point() -> impl Strategy<Value = Point> {
    (0..4u8, parts()).prop_map(|(form, (y, m, d, t))| point_of(form, y, m, d, t))
}

fn range() -> impl Strategy<Value = TimeValue> {
    (0..4u8, parts(), parts()).prop_map(|(form, a, b)| {
        let [a, b] = [a, b].map(|(y, m, d, t)| point_of(form, y, m, d, t));
        TimeValue::range(a.min(b), a.max(b)).unwrap()
    })
}

fn value() -> impl Strategy<Value = TimeValue> {
    let bounds = prop_oneof![
        (point(), point()).prop_map(|(from, until)| format!("from {from} until {until}")),
        point().prop_map(|from| format!("since {from}")),
        point().prop_map(|until| format!("until {until}")),
        point().prop_map(|within| format!("in {within}")),
    ];
    let bounded =
        bounds.prop_map(|bounds| TimeValue::recurrence(&format!("every Friday {bounds}")).unwrap());
    let words = "(every|cada|毎|매|每|كل) ?[a-zé월مप]{1,9}( [0-9a-zA-Z월،]{1,9}){0,6}";
    let words = words.prop_filter_map("not a recurrence", |text| TimeValue::recurrence(&text).ok());
    prop_oneof![
        1 => Just(TimeValue::Empty),
        4 => point().prop_map(TimeValue::Point),
        4 => range(),
        1 => bounded,
        1 => words,
    ]
}

/// Texts close to times, where a reader might slip.
fn almost() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[0-9]{1,5}",
        "[-/:T .+Z]",
        "(on|before|after|around|between|and|every|each|from|until|in) ",
        "[٠-٩０-９०-९年毎매]",
        Just("2024-02-29".to_owned()),
        Just("9999-12-31".to_owned()),
        Just("0001-01-01".to_owned()),
        Just("23:59:59.999999".to_owned()),
        Just("W53-7".to_owned()),
        Just("+25:59".to_owned()),
    ];
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
}

fn zone() -> impl Strategy<Value = Zone> {
    prop_oneof![
        Just("Asia/Seoul"),
        Just("America/New_York"),
        Just("Asia/Kathmandu"),
        Just("Pacific/Apia"),
        Just("Australia/Lord_Howe"),
        Just("+05:30"),
        Just("-03:30"),
    ]
    .prop_map(|name| name.parse().unwrap())
}

/// Instants from 1800 to 2100, in microseconds since 1970.
fn instant() -> impl Strategy<Value = Timestamp> {
    (-5_364_000_000_000_000..4_102_000_000_000_000i64)
        .prop_map(|micros| Timestamp::from_microsecond(micros).unwrap())
}

/// Whatever is asked of a text, it answers.
fn read_all(text: &str) {
    assert_eq!(text.parse::<TimeValue>().is_ok(), is_normal(text));
    if let Ok(value) = text.parse::<TimeValue>() {
        assert_eq!(value.to_string(), text);
        assert!(value.span().is_none_or(|(first, last)| first <= last));
    }
    for mode in [Mode::Default, Mode::Compat] {
        let limits = TimeLimits::read([text, "on 2024-02-29"], mode);
        let given = usize::from(!text.trim().is_empty());
        assert!(limits.readable().count() + limits.unreadable().count() > given);
        let score = limits.score(text, text, TimeSource::Any).score;
        assert!((0.0..=1.0).contains(&score));
    }
    if let Ok(zone) = text.parse::<Zone>() {
        assert_eq!(zone.to_string().parse::<Zone>().unwrap(), zone);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn printing_and_reading_agree(value in value()) {
        let text = value.to_string();
        prop_assert!(is_normal(&text), "{text}");
        prop_assert_eq!(&text.parse::<TimeValue>().unwrap(), &value);
        let json = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(serde_json::from_str::<TimeValue>(&json).unwrap(), value);
    }

    #[test]
    fn values_order_by_span(a in value(), b in value(), c in value()) {
        let by_span = a.span().cmp(&b.span());
        prop_assert!(by_span.is_eq() || a.cmp(&b) == by_span);
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
        let mut sorted = [a, b, c];
        sorted.sort();
        prop_assert!(sorted[0] <= sorted[1] && sorted[1] <= sorted[2] && sorted[0] <= sorted[2]);
        prop_assert!(sorted.iter().all(|value| value.span().is_none_or(|span| span.0 <= span.1)));
    }

    #[test]
    fn a_range_spans_from_its_first_point_to_its_last(a in point(), b in point()) {
        match TimeValue::range(a, b) {
            Ok(range) => {
                prop_assert!(a <= b);
                prop_assert_eq!(range.span(), Some((a.first(), b.last())));
                prop_assert!(range.overlaps(&a.into()) && range.overlaps(&b.into()));
            }
            Err(_) => prop_assert!(a > b || a.to_string().len() != b.to_string().len()),
        }
    }

    #[test]
    fn overlap_is_symmetric(a in value(), b in value()) {
        prop_assert_eq!(a.overlaps(&b), b.overlaps(&a));
        prop_assert_eq!(a.overlaps(&a), a.span().is_some());
        let shared = a.span().zip(b.span()).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
        prop_assert_eq!(a.overlaps(&b), shared.is_some_and(|(first, last)| first <= last));
    }

    #[test]
    fn points_step_there_and_back(point in point(), count in -5000..5000i64) {
        if let Some(shifted) = point.shift(count) {
            prop_assert_eq!(shifted.shift(-count), Some(point));
            prop_assert_eq!(shifted.cmp(&point), count.cmp(&0));
        }
        if let Some(next) = point.next() {
            let gap = next.first().duration_since(point.last());
            prop_assert_eq!(gap.as_micros(), 1);
            prop_assert_eq!(next.previous(), Some(point));
        }
    }

    #[test]
    fn a_limit_on_a_value_is_met_by_it(value in value(), other in value()) {
        let text = value.to_string();
        if text.is_empty() || matches!(value, TimeValue::Recurrence(_)) {
            prop_assert!(TimeLimit::read(&text, Mode::Default).is_err());
        } else {
            let meets = |word: &str, time: &str| {
                let limit = format!("{word}  {text} ");
                let limits = TimeLimits::read([limit.as_str()], Mode::Default);
                limits.score(time, "", TimeSource::Any).matched
            };
            for (word, met) in [("", true), ("on", true), ("Around", true), ("before", false), ("after", false)] {
                prop_assert_eq!(meets(word, &text), met, "{}", word);
            }
            let other = other.to_string();
            let sides = ["before", "on", "after"].map(|word| meets(word, &other));
            prop_assert!(sides.iter().filter(|side| **side).count() <= 1);
        }
    }

    #[test]
    fn converting_keeps_the_instant(instant in instant(), a in zone(), b in zone()) {
        let there = a.at(instant);
        prop_assert_eq!(there.instant(), Some(instant));
        prop_assert_eq!(b.convert(&there), Some(b.at(instant)));
        prop_assert_eq!(there.to_string().parse::<Moment>().unwrap(), there);
        let (first, last) = a.day_span(there.date()).unwrap();
        prop_assert!(first <= instant && instant <= last);
    }

    #[test]
    fn no_text_panics(text in any::<String>(), almost in almost()) {
        read_all(&text);
        read_all(&almost);
    }
}

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

/// CI reads fewer texts than `examples/time_fuzz.rs` does.
#[test]
fn no_words_of_tables_panic() {
    let mut source = time_fuzz::Bytes(1);
    let mut bytes = Vec::new();
    for _ in 0..200_000 {
        source.next(12, &mut bytes);
        time_fuzz::case(&bytes).check();
    }
}

/// What words say is allowed, and any of it can be written in its place or not at all.
#[test]
fn no_words_of_tables_panic_as_evidence() {
    let mut source = time_fuzz::Bytes(3);
    let mut bytes = Vec::new();
    for _ in 0..1000 {
        source.next(24, &mut bytes);
        let case = time_fuzz::case(&bytes);
        let said = Said::read(&case.text, case.anchor, &case.options);
        let values: Vec<_> = said
            .found
            .iter()
            .flat_map(|of| of.candidates.clone())
            .collect();
        let evidence = Evidence::of(&[said], &case.options);
        for old in values {
            assert_eq!(
                evidence.origin(&old).is_none(),
                old.is_empty(),
                "{} {old}",
                case.text
            );
            for allowed in evidence.allowed().iter().take(20) {
                rewrite(
                    &case.text,
                    &old,
                    &allowed.value,
                    case.anchor.as_ref(),
                    &case.options,
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn whatever_is_read_stands_in_order_in_the_text(
        text in any::<String>(),
        printed in "\\PC{0,40}",
        bytes in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        for text in [text, printed] {
            let head = bytes.first_chunk::<4>().copied().unwrap_or_default();
            let mut raw = vec![head[0], head[1], 0, head[3]];
            raw.extend(text.as_bytes());
            time_fuzz::case(&raw).check();
        }
        time_fuzz::case(&bytes).check();
    }
}
