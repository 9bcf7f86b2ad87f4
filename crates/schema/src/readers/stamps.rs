//! Dates and times as people's files write them.

use std::{str::FromStr, sync::LazyLock};

use jiff::civil::{Date, DateTime, Time};
use regex::{Captures, Regex};

use crate::{time::zone, transcript::Moment};

/// A number of seconds or milliseconds since 1970 as UTC. From 10^11 on (the year 5138 in seconds, 1973
/// in milliseconds) it counts as milliseconds.
pub(super) fn epoch(number: f64) -> Option<Moment> {
    let seconds = if number.abs() >= 1e11 {
        number / 1000.0
    } else {
        number
    };
    Moment::from_epoch_seconds(seconds)
}

/// An ISO date and time; a date alone stands for its beginning.
pub(super) fn iso_or_date(text: &str) -> Option<Moment> {
    let moment = text.parse().ok();
    moment.or_else(|| {
        let (year, month, day) = parts(text.trim(), '-')?;
        Some(Moment::local(
            date(year, month, day)?.to_datetime(Time::midnight()),
        ))
    })
}

fn parts(text: &str, separator: char) -> Option<(&str, &str, &str)> {
    let (year, rest) = text.split_once(separator)?;
    let (month, day) = rest.split_once(separator)?;
    Some((year, month, day))
}

/// A time at the head of a line. What is written like one and cannot be (`2024-02-30 18:20`) is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stamp {
    /// Date and time.
    Full(Option<Moment>),
    /// Two numbers that are day and month in an order that the file has to tell, and year and time.
    DayMonth {
        first: i8,
        second: i8,
        year: i16,
        time: Option<Time>,
    },
    /// Time of day; the date stands on a line above.
    Clock(Option<Time>),
}

const CLOCK: &str = concat!(
    r"(?:(?P<half>오전|오후|午前|午後|上午|下午|凌晨|清晨|早上|中午|傍晚|晚上)\s*)?",
    r"(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,6})\d*)?)?",
    r"(?:\s?(?P<ampm>[AaPp]\.?\s?[Mm]\b\.?|[صم]\b))?"
);

const YMD: &str =
    r"(?P<y>\d{4})\s?[-/.년年]\s?(?P<mo>\d{1,2})\s?[-/.월月]\s?(?P<d>\d{1,2})(?:일|日|\.)?";

const ENGLISH: &str = concat!(
    r"(?:[A-Z][a-z]{2,5}day, )?(?P<english>(?:January|February|March|April|May|June|July|August|September|",
    r"October|November|December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{1,2}, \d{4})"
);

/// What may stand between date and time.
const BETWEEN: &str = r"(?:T|\]\s?\[|[,،]?\s+(?:(?:à|às|um|at)\s+)?)";

/// What follows the time.
const REST: &str = r"(?P<rest>\].*|[\s,،|-].*|)$";

fn pattern(parts: &[&str]) -> Regex {
    // The patterns are constants of this file, compiled by its tests.
    #[allow(clippy::expect_used)]
    Regex::new(&parts.concat()).expect("constant patterns compile")
}

static FULL: LazyLock<Regex> = LazyLock::new(|| {
    let offset = r"(?:\s?(?P<off>Z|[+-]\d{2}:?\d{2}\b))?";
    pattern(&[
        r"^\[?(?:", YMD, "|", ENGLISH, ")", BETWEEN, CLOCK, offset, REST,
    ])
});

static DAY_MONTH: LazyLock<Regex> = LazyLock::new(|| {
    let point = r"[\x{200e}\x{200f}]?[/.-][\x{200e}\x{200f}]?";
    let (first, second) = (r"^\[?(?P<a>\d{1,2})", r"(?P<b>\d{1,2})");
    let year = r"(?P<y>\d{4}|\d{2})";
    pattern(&[first, point, second, point, year, BETWEEN, CLOCK, REST])
});

static CLOCK_ONLY: LazyLock<Regex> =
    LazyLock::new(|| pattern(&[r"^\[?", CLOCK, r"(?P<rest>\].*|[\s,|-].*)$"]));

static KAKAO: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[
        r"^\[(?P<name>.{1,60}?)\] \[",
        CLOCK,
        r"\](?: (?P<rest>.*))?$",
    ])
});

static KAKAO_OF_TELEPHONE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[
        "^(?:",
        YMD,
        "|",
        ENGLISH,
        r"),?\s+",
        CLOCK,
        r", .{1,60}? : ",
    ])
});

static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[r"^(?:#{1,6}|-{3,}|={3,}|\*{3,})\s*(?P<inner>.{1,80}?)\s*[-=*#]*$"])
});

static DATE_INSIDE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&[YMD, "(?:", BETWEEN, CLOCK, ")?"]));

static DATE_ALONE: LazyLock<Regex> = LazyLock::new(|| {
    let weekday = concat!(
        r"(?:,?\s*[(（]?(?:[월화수목금토일](?:요일)?|[月火水木金土日](?:曜日?)?|",
        r"(?:星期|周|週)[一二三四五六日]|[A-Z][a-z]{2,8})[)）]?)?"
    );
    pattern(&["^", YMD, weekday, "(?:", BETWEEN, CLOCK, ")?$"])
});

/// Splits a line into the time at its head and what follows, separators left out.
pub(super) fn stamp(line: &str) -> Option<(Stamp, &str)> {
    let (stamp, found) = if let Some(found) = FULL.captures(line) {
        (Stamp::Full(moment(&found)), found)
    } else if let Some(found) = DAY_MONTH.captures(line) {
        let year = group(&found, "y").and_then(number)?;
        let stamp = Stamp::DayMonth {
            first: group(&found, "a").and_then(number)?,
            second: group(&found, "b").and_then(number)?,
            year: if year < 100 { 2000 + year } else { year },
            time: clock(&found),
        };
        (stamp, found)
    } else {
        let found = CLOCK_ONLY.captures(line)?;
        let time = clock(&found);
        // `24:05` is a time that some write; `28:26` is a score or a verse.
        let maybe = |name, last: i8| group(&found, name).and_then(number) <= Some(last);
        if time.is_none() && !(maybe("h", 24) && maybe("m", 59)) {
            return None;
        }
        (Stamp::Clock(time), found)
    };
    let rest = found.name("rest").map_or("", |rest| rest.as_str());
    let separators =
        |c: char| c.is_whitespace() || matches!(c, ']' | ',' | '،' | '-' | '–' | '—' | '|');
    Some((stamp, rest.trim_start_matches(separators)))
}

/// Splits a line of a KakaoTalk export, `[미나] [오후 6:20] …`, into name, time and text.
pub(super) fn kakao(line: &str) -> Option<(&str, Option<Time>, &str)> {
    let found = KAKAO.captures(line)?;
    let name = found.name("name")?.as_str();
    let text = found.name("rest").map_or("", |rest| rest.as_str());
    // `[2024-03-04] [18:20] …` begins with a date.
    (!DATE_ALONE.is_match(name)).then(|| (name, clock(&found), text))
}

/// Whether a line is of a KakaoTalk export from a telephone, `2024년 3월 4일 오후 6:20, 미나 : …`; only KakaoTalk has a
/// blank before the colon.
pub(super) fn is_kakao_of_telephone(line: &str) -> bool {
    KAKAO_OF_TELEPHONE.is_match(line)
}

/// The date of a line that is a heading (`# 2024-03-04`, `--- 2024년 3월 4일 월요일 ---`) or a date alone.
pub(super) fn heading(line: &str) -> Option<Moment> {
    let line = line.trim();
    if let Some(found) = DATE_ALONE.captures(line) {
        return moment(&found);
    }
    let heading = HEADING.captures(line)?;
    let inner = heading.name("inner")?.as_str();
    match DATE_INSIDE.captures(inner) {
        Some(found) => moment(&found),
        None => Some(Moment::local(
            english_date(inner)?.to_datetime(Time::midnight()),
        )),
    }
}

fn english_date(text: &str) -> Option<Date> {
    let forms = [
        "%A, %B %d, %Y",
        "%B %d, %Y",
        "%b %d, %Y",
        "%A, %d %B %Y",
        "%d %B %Y",
    ];
    let mut dates = forms.into_iter();
    dates.find_map(|form| Date::strptime(form, text).ok())
}

fn group<'a>(found: &Captures<'a>, name: &str) -> Option<&'a str> {
    found.name(name).map(|group| group.as_str())
}

/// A number in the digits of any script that exports are written in.
fn number<T: FromStr>(text: &str) -> Option<T> {
    ascii_digits(text).parse().ok()
}

fn ascii_digits(text: &str) -> String {
    let fold = |c: char| {
        let zeros = ['٠', '۰', '०', '０'].into_iter();
        let digit = zeros.filter_map(|zero| u32::from(c).checked_sub(u32::from(zero)));
        let mut digit = digit.filter_map(|digit| char::from_digit(digit, 10));
        digit.next().unwrap_or(c)
    };
    text.chars().map(fold).collect()
}

fn date(year: &str, month: &str, day: &str) -> Option<Date> {
    Date::new(number(year)?, number(month)?, number(day)?).ok()
}

/// Date and time of a match; a date alone stands for its beginning.
fn moment(found: &Captures<'_>) -> Option<Moment> {
    let date = match group(found, "english") {
        Some(text) => english_date(text)?,
        None => date(group(found, "y")?, group(found, "mo")?, group(found, "d")?)?,
    };
    let time = if group(found, "h").is_some() {
        clock(found)?
    } else {
        Time::midnight()
    };
    let offset = match group(found, "off") {
        None => None,
        Some(text) => Some(zone::offset(&ascii_digits(text))?),
    };
    Some(Moment {
        local: DateTime::from_parts(date, time),
        offset,
    })
}

fn clock(found: &Captures<'_>) -> Option<Time> {
    let number = |name| group(found, name).map_or(Some(0), number::<i8>);
    let mut hour = number("h")?;
    let after_noon = match (group(found, "half"), group(found, "ampm")) {
        // 11:50 and 12:10 are both `中午`.
        (Some("中午"), _) => Some(hour != 11),
        (Some(half), _) => Some(matches!(half, "오후" | "午後" | "下午" | "傍晚" | "晚上")),
        (None, Some(word)) => Some(word.starts_with(['P', 'p', 'م'])),
        (None, None) => None,
    };
    // `오후 13:20` says the same twice.
    if let Some(after_noon) = after_noon.filter(|_| hour <= 12) {
        hour = hour % 12 + if after_noon { 12 } else { 0 };
    }
    let nanos = group(found, "f").and_then(|f| format!("{:0<9}", ascii_digits(f)).parse().ok());
    Time::new(hour, number("m")?, number("s")?, nanos.unwrap_or(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(line: &str) -> Option<(String, &str)> {
        match stamp(line)? {
            (Stamp::Full(Some(moment)), rest) => Some((moment.to_string(), rest)),
            _ => None,
        }
    }

    #[test]
    fn dates_with_the_year_first() {
        for (line, time) in [
            ("[2024-03-04 18:20] Mina: hi", "2024-03-04T18:20:00"),
            ("2024-03-04 18:20 Mina: hi", "2024-03-04T18:20:00"),
            ("2024-03-04 18:20:11 - Mina: hi", "2024-03-04T18:20:11"),
            ("2024/3/4 18:20 Mina: hi", "2024-03-04T18:20:00"),
            ("2024.03.04 18:20 | Mina: hi", "2024-03-04T18:20:00"),
            (
                "2024-03-04T18:20:11.25+09:00 Mina: hi",
                "2024-03-04T18:20:11.250000+09:00",
            ),
            (
                "[2024-03-04T18:20:11Z] Mina: hi",
                "2024-03-04T18:20:11+00:00",
            ),
            ("2024-03-04 6:20 PM - Mina: hi", "2024-03-04T18:20:00"),
            ("2024년 3월 4일 오후 6:20, Mina: hi", "2024-03-04T18:20:00"),
            ("2024. 3. 4. 오전 12:05, Mina: hi", "2024-03-04T00:05:00"),
        ] {
            assert_eq!(full(line), Some((time.to_owned(), "Mina: hi")), "{line}");
        }
        for line in ["2024-02-30 18:20 Mina: hi", "2024-03-04 25:20 Mina: hi"] {
            assert_eq!(stamp(line), Some((Stamp::Full(None), "Mina: hi")), "{line}");
        }
        assert_eq!(stamp("2024-03-04 18:20x: hi"), None);
    }

    #[test]
    fn dates_with_the_year_last_stay_open() {
        let time = jiff::civil::time(18, 20, 0, 0);
        let expected = Stamp::DayMonth {
            first: 4,
            second: 3,
            year: 2024,
            time: Some(time),
        };
        for line in [
            "04/03/2024, 18:20 - Mina: hi",
            "[04/03/2024, 18:20:00] Mina: hi",
            "4/3/24, 6:20\u{202f}PM - Mina: hi",
            "04.03.24, 18:20 - Mina: hi",
        ] {
            assert_eq!(stamp(line), Some((expected, "Mina: hi")), "{line}");
        }
    }

    #[test]
    fn kakao_lines_and_headings() {
        let time = jiff::civil::time(18, 20, 0, 0);
        assert_eq!(
            kakao("[미나] [오후 6:20] 안녕: 하이"),
            Some(("미나", Some(time), "안녕: 하이"))
        );
        assert_eq!(
            kakao("[Mina [work]] [6:20 PM] hi"),
            Some(("Mina [work]", Some(time), "hi"))
        );
        assert_eq!(kakao("[미나] 안녕"), None);
        for line in [
            "--------------- 2024년 3월 4일 월요일 ---------------",
            "--------------- Monday, March 4, 2024 ---------------",
            "# 2024-03-04",
            "## Session 3, 2024/03/04",
            "2024년 3월 4일 월요일",
            "2024-03-04",
        ] {
            assert_eq!(
                heading(line).map(|m| m.to_string()),
                Some("2024-03-04T00:00:00".into()),
                "{line}"
            );
        }
        let timed = heading("--- 2024-03-04 18:20 ---").map(|m| m.to_string());
        assert_eq!(timed, Some("2024-03-04T18:20:00".into()));
        for line in ["# Notes", "---", "2024-03-04 was fine", "Mina: 2024-03-04"] {
            assert_eq!(heading(line), None, "{line}");
        }
    }

    #[test]
    fn epochs_in_seconds_and_milliseconds() {
        let text = |number| epoch(number).map(|moment| moment.to_string());
        assert_eq!(
            text(1_709_576_400.0),
            Some("2024-03-04T18:20:00+00:00".into())
        );
        assert_eq!(
            text(1_709_576_400_000.0),
            Some("2024-03-04T18:20:00+00:00".into())
        );
        assert_eq!(text(f64::INFINITY), None);
    }
}
