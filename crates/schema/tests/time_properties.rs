//! What holds for every time value, limit, zone and time expression.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod time_fuzz;

use jiff::{Timestamp, civil::DateTime};
use mem_schema::clean::Mode;
use mem_schema::moment::Moment;
use mem_schema::time::evidence::{Evidence, Said};
use mem_schema::time::limit::{TimeLimit, TimeLimits, TimeSource};
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
