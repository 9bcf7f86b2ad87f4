//! Tests of time values.

use jiff::civil::{Date, DateTime};
use regex::Regex;

use super::*;

fn value(text: &str) -> TimeValue {
    text.parse().unwrap()
}

fn point(text: &str) -> Point {
    text.parse().unwrap()
}

fn span(text: &str) -> Option<(String, String)> {
    let (first, last) = value(text).span()?;
    Some((first.to_string(), last.to_string()))
}

#[test]
fn normal_forms_are_known_and_printed_as_read() {
    let good = [
        "",
        "0001",
        "9999-12-31T23:59",
        "2024",
        "2024-02",
        "2024-02-29",
        "2024-02-29T07:05",
        "2024/2025",
        "2024/2024",
        "2024-06/2024-08",
        "2024-05-06/2024-05-12",
        "2024-05-06T10:00/2024-05-06T12:30",
        "every other Friday",
        "매주 목요일",
        "매 2주마다 목요일",
        "毎月1日",
        "每天六点半，2023年12月4日起",
        "jeden ersten Mittwoch im Monat",
        "हर दिन सुबह",
        "كل سبت مساءً",
        "daily",
    ];
    let pattern = Regex::new(&pattern()).unwrap();
    for time in good {
        assert!(is_normal(time) && pattern.is_match(time), "{time}");
        assert_eq!(value(time).to_string(), time);
        let json = serde_json::to_string(&value(time)).unwrap();
        assert_eq!(
            serde_json::from_str::<TimeValue>(&json).unwrap(),
            value(time)
        );
    }
}

#[test]
fn other_forms_are_not() {
    let bad = [
        "May 2023",
        "2024-13",
        "2024-2",
        "2024-05-06/2024-05",
        "2024-08/2024-06",
        "2024-02-29T24:00",
        "2024-02-29t10:00",
        "2024-02-29 10:00",
        "2024/",
        "/2024",
        "2024/2025/2026",
        "every",
        "every  Friday",
        "every day ",
        "yesterday",
        "2024-01-01\n",
        " 2024",
        "２０２４",
        "年年年年",
    ];
    let pattern = Regex::new(&pattern()).unwrap();
    for time in bad {
        assert!(!is_normal(time), "{time}");
        let backwards = time == "2024-08/2024-06"; // more than the pattern can say
        assert_eq!(pattern.is_match(time), backwards, "{time}");
    }
    for time in [
        "0000",
        "2023-02-29",
        "2024-04-31T10:00",
        "2024-02-30/2024-03-01",
    ] {
        assert!(!is_normal(time) && pattern.is_match(time), "{time}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let message = |text: &str| text.parse::<TimeValue>().unwrap_err().to_string();
    assert!(message("next week").starts_with("`next week` is no time: write YYYY, "));
    assert_eq!(message("2023-02-29"), "`2023-02-29` is not in the calendar");
    assert_eq!(
        message("2024-08/2024-06"),
        "the range `2024-08/2024-06` runs backwards: write the earlier end first"
    );
    assert!(message("2024/2024-06").starts_with("the range `2024/2024-06` has two forms"));
}

#[test]
fn a_recurrence_has_at_most_eighty_characters() {
    assert!(is_normal(&format!("every {}", "x ".repeat(80).trim())));
    assert!(!is_normal(&format!("every {}", "x ".repeat(81).trim())));
}

#[test]
fn spans_reach_from_the_first_to_the_last_instant() {
    let text = |first: &str, last: &str| Some((first.to_owned(), last.to_owned()));
    for (time, expected) in [
        (
            "2024",
            text("2024-01-01T00:00:00", "2024-12-31T23:59:59.999999"),
        ),
        (
            "2024-02",
            text("2024-02-01T00:00:00", "2024-02-29T23:59:59.999999"),
        ),
        (
            "2023-02-28",
            text("2023-02-28T00:00:00", "2023-02-28T23:59:59.999999"),
        ),
        (
            "2023-02-28T07:05",
            text("2023-02-28T07:05:00", "2023-02-28T07:05:59.999999"),
        ),
        (
            "2023-11/2024-02",
            text("2023-11-01T00:00:00", "2024-02-29T23:59:59.999999"),
        ),
        (
            "9999-12-31T23:59",
            text("9999-12-31T23:59:00", "9999-12-31T23:59:59.999999"),
        ),
        ("every Friday", None),
        ("", None),
    ] {
        assert_eq!(span(time), expected, "{time}");
    }
}

#[test]
fn a_recurrence_is_bounded_by_the_dates_it_names() {
    let bounds = |text: &str| {
        let bounds = Recurrence::new(text).unwrap().bounds();
        let text = |point: Option<Point>| point.map(|point| point.to_string());
        (text(bounds.0), text(bounds.1))
    };
    let some = |text: &str| Some(text.to_owned());
    for (words, expected) in [
        ("every Friday since 2023-03", (some("2023-03"), None)),
        ("every Friday until 2023-07-31", (None, some("2023-07-31"))),
        (
            "every Tuesday night from 2025-02-18 to 2025-05",
            (some("2025-02-18"), some("2025-05")),
        ),
        (
            "every Saturday night in 2024-10",
            (some("2024-10"), some("2024-10")),
        ),
        (
            "毎週土曜, 2020-01/2020-06",
            (some("2020-01"), some("2020-06")),
        ),
        ("every Wednesday from 18:30 to 19:30", (None, None)),
        ("every Friday from July 2020", (None, None)),
        ("every Friday from 2024 to 2023", (None, None)),
    ] {
        assert_eq!(bounds(words), expected, "{words}");
    }
    assert_eq!(
        span("every Friday since 2023-03"),
        Some((
            "2023-03-01T00:00:00".to_owned(),
            "9999-12-31T23:59:59.999999".to_owned()
        ))
    );
}

#[test]
fn points_step_by_their_own_unit() {
    for (from, count, to) in [
        ("2024", 1, Some("2025")),
        ("2024-11", 3, Some("2025-02")),
        ("2024-01", -1, Some("2023-12")),
        ("2024-02-28", 1, Some("2024-02-29")),
        ("2024-01-01", -1, Some("2023-12-31")),
        ("2024-02-29T23:59", 1, Some("2024-03-01T00:00")),
        ("9999", 1, None),
        ("0001-01", -1, None),
        ("9999-12-31", 1, None),
        ("0001-01-01", -1, None),
        ("9999-12-31T23:59", 1, None),
        ("2024-05-05", i64::MAX, None),
        ("2024-05", i64::MIN, None),
    ] {
        let shifted = point(from).shift(count).map(|point| point.to_string());
        assert_eq!(shifted.as_deref(), to, "{from} {count}");
    }
    assert_eq!(point("2024-12").next(), Some(point("2025-01")));
    assert_eq!(point("2025").previous(), Some(point("2024")));
}

#[test]
fn points_contain_what_lies_in_them() {
    assert!(point("2024-02").contains(&point("2024-02-29T23:59")));
    assert!(point("2024").contains(&point("2024")));
    assert!(!point("2024-02-29").contains(&point("2024-02")));
    assert!(!point("2024-02").contains(&point("2024-03-01")));
}

#[test]
fn values_order_by_first_then_last_instant() {
    let ordered = [
        "",
        "every Friday",
        "2023",
        "2024-01-01T00:00",
        "2024-01-01",
        "2024-01",
        "2024-01/2024-02",
        "2024",
        "2024-01-02",
        "2024-02",
    ];
    let mut sorted = ordered.map(value);
    sorted.reverse();
    sorted.sort();
    assert_eq!(sorted.map(|value| value.to_string()), ordered);
}

#[test]
fn overlap_needs_a_common_instant() {
    let overlap = |one: &str, two: &str| value(one).overlaps(&value(two));
    assert!(overlap("2024-02", "2024-02-29T23:59"));
    assert!(overlap("2024-05-06/2024-05-12", "2024-05-12"));
    assert!(overlap("every Friday since 2023-03", "2024"));
    assert!(!overlap("2024-02", "2024-03"));
    assert!(!overlap("every Friday", "2024"));
    assert!(!overlap("", ""));
}

#[test]
fn points_written_by_hand_do_not_panic() {
    let odd = [
        Point::Year(0),
        Point::Year(i16::MIN),
        Point::Month {
            year: i16::MAX,
            month: 77,
        },
        Point::Day(Date::MIN),
        Point::Minute(DateTime::MAX),
    ];
    for point in odd {
        assert!(point.first() <= point.last(), "{point:?}");
        assert!(is_normal(&point.to_string()), "{point:?}");
        assert_eq!(point.shift(i64::MAX), None);
        assert_eq!(point.cmp(&point), Ordering::Equal);
    }
}
