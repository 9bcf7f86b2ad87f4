//! Dates and times as people's files write them.

use std::sync::LazyLock;

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

/// A time at the head of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Stamp {
    /// Date and time.
    Full(Moment),
    /// Two numbers that are day and month in an order that the file has to tell, and year and time.
    DayMonth {
        first: i8,
        second: i8,
        year: i16,
        time: Time,
    },
    /// Time of day; the date stands on a line above.
    Clock(Time),
}

const CLOCK: &str = r"(?:(?P<half>오전|오후|午前|午後|上午|下午)\s*)?(?P<h>\d{1,2}):(?P<m>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,6})\d*)?)?(?:\s?(?P<ampm>[AaPp]\.?\s?[Mm]\b\.?))?";

const YMD: &str = r"(?P<y>\d{4})\s?[-/.년]\s?(?P<mo>\d{1,2})\s?[-/.월]\s?(?P<d>\d{1,2})(?:일|\.)?";

fn pattern(parts: &[&str]) -> Regex {
    // The patterns are constants of this file, compiled by its tests.
    #[allow(clippy::expect_used)]
    Regex::new(&parts.concat()).expect("constant patterns compile")
}

static FULL: LazyLock<Regex> = LazyLock::new(|| {
    let offset = r"(?:\s?(?P<off>Z|[+-]\d{2}:?\d{2}\b))?";
    pattern(&[
        r"^\[?",
        YMD,
        r"(?:T|,?\s+)",
        CLOCK,
        offset,
        r"(?P<rest>\].*|[\s,|-].*|)$",
    ])
});

static DAY_MONTH: LazyLock<Regex> = LazyLock::new(|| {
    let date = r"^\[?(?P<a>\d{1,2})[/.-](?P<b>\d{1,2})[/.-](?P<y>\d{4}|\d{2})";
    pattern(&[date, r",?\s+", CLOCK, r"(?P<rest>\].*|[\s,|-].*|)$"])
});

static CLOCK_ONLY: LazyLock<Regex> =
    LazyLock::new(|| pattern(&[r"^\[?", CLOCK, r"(?P<rest>\].*|[\s,|-].*)$"]));

static KAKAO: LazyLock<Regex> =
    LazyLock::new(|| pattern(&[r"^\[(?P<name>.{1,60}?)\] \[", CLOCK, r"\] (?P<rest>.*)$"]));

static KAKAO_OF_TELEPHONE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&["^", YMD, r",?\s+", CLOCK, r", .{1,60}? : "]));

static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    pattern(&[r"^(?:#{1,6}|-{3,}|={3,}|\*{3,})\s*(?P<inner>.{1,80}?)\s*[-=*#]*$"])
});

static DATE_INSIDE: LazyLock<Regex> =
    LazyLock::new(|| pattern(&[YMD, r"(?:(?:T|,?\s+)", CLOCK, ")?"]));

static DATE_ALONE: LazyLock<Regex> = LazyLock::new(|| {
    let weekday = r"(?:,?\s*\(?(?:[월화수목금토일](?:요일)?|[A-Z][a-z]{2,8})\)?)?";
    pattern(&["^", YMD, weekday, r"(?:(?:T|,?\s+)", CLOCK, ")?$"])
});

/// Splits a line into the time at its head and what follows, separators left out.
pub(super) fn stamp(line: &str) -> Option<(Stamp, &str)> {
    let (stamp, found) = if let Some(found) = FULL.captures(line) {
        (Stamp::Full(moment(&found)?), found)
    } else if let Some(found) = DAY_MONTH.captures(line) {
        let number = |name| found.name(name)?.as_str().parse::<i16>().ok();
        let year = number("y")?;
        let stamp = Stamp::DayMonth {
            first: number("a")?.try_into().ok()?,
            second: number("b")?.try_into().ok()?,
            year: if year < 100 { 2000 + year } else { year },
            time: clock(&found)?,
        };
        (stamp, found)
    } else {
        let found = CLOCK_ONLY.captures(line)?;
        (Stamp::Clock(clock(&found)?), found)
    };
    let rest = found.name("rest").map_or("", |rest| rest.as_str());
    let separators = |c: char| c.is_whitespace() || matches!(c, ']' | ',' | '-' | '–' | '—' | '|');
    Some((stamp, rest.trim_start_matches(separators)))
}

/// Splits a line of a KakaoTalk export, `[미나] [오후 6:20] …`, into name, time and text.
pub(super) fn kakao(line: &str) -> Option<(&str, Time, &str)> {
    let found = KAKAO.captures(line)?;
    let time = clock(&found)?;
    Some((
        found.name("name")?.as_str(),
        time,
        found.name("rest")?.as_str(),
    ))
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
        None => english_date(inner),
    }
}

fn english_date(text: &str) -> Option<Moment> {
    let forms = ["%A, %B %d, %Y", "%B %d, %Y", "%A, %d %B %Y", "%d %B %Y"];
    let date = forms
        .into_iter()
        .find_map(|form| Date::strptime(form, text).ok())?;
    Some(Moment::local(date.to_datetime(Time::midnight())))
}

fn date(year: &str, month: &str, day: &str) -> Option<Date> {
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

/// Date and time of a match; a date alone stands for its beginning.
fn moment(found: &Captures<'_>) -> Option<Moment> {
    let group = |name| found.name(name).map(|group| group.as_str());
    let date = date(group("y")?, group("mo")?, group("d")?)?;
    let time = if group("h").is_some() {
        clock(found)?
    } else {
        Time::midnight()
    };
    let offset = match group("off") {
        None => None,
        Some(text) => Some(zone::offset(text)?),
    };
    Some(Moment {
        local: DateTime::from_parts(date, time),
        offset,
    })
}

fn clock(found: &Captures<'_>) -> Option<Time> {
    let number = |name| {
        found
            .name(name)
            .map_or(Some(0), |group| group.as_str().parse::<i8>().ok())
    };
    let mut hour = number("h")?;
    let after_noon = match (found.name("half"), found.name("ampm")) {
        (Some(half), _) => Some(matches!(half.as_str(), "오후" | "午後" | "下午")),
        (None, Some(ampm)) => Some(ampm.as_str().starts_with(['P', 'p'])),
        (None, None) => None,
    };
    if let Some(after_noon) = after_noon {
        if hour > 12 {
            return None;
        }
        hour = hour % 12 + if after_noon { 12 } else { 0 };
    }
    let nanos = found
        .name("f")
        .and_then(|f| format!("{:0<9}", f.as_str()).parse().ok());
    Time::new(hour, number("m")?, number("s")?, nanos.unwrap_or(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(line: &str) -> Option<(String, &str)> {
        match stamp(line)? {
            (Stamp::Full(moment), rest) => Some((moment.to_string(), rest)),
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
        for line in [
            "2024-02-30 18:20 Mina: hi",
            "2024-03-04 25:20 Mina: hi",
            "2024-03-04 18:20x: hi",
        ] {
            assert_eq!(full(line), None, "{line}");
        }
    }

    #[test]
    fn dates_with_the_year_last_stay_open() {
        let time = jiff::civil::time(18, 20, 0, 0);
        let expected = Stamp::DayMonth {
            first: 4,
            second: 3,
            year: 2024,
            time,
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
            Some(("미나", time, "안녕: 하이"))
        );
        assert_eq!(
            kakao("[Mina [work]] [6:20 PM] hi"),
            Some(("Mina [work]", time, "hi"))
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
