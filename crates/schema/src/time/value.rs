//! The time of a memory in its normal forms: a point, a range of two equal forms, a recurrence in words.

use std::{cmp::Ordering, fmt, str::FromStr, sync::LazyLock};

use jiff::{
    Span, ToSpan,
    civil::{Date, DateTime, Time},
};
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// First words of a recurrence that are followed by a blank.
const RECURRENCE_WORDS: &str = "every|each|cada|jeden|jedes|jede|chaque|tous|toutes|todos|todas|todo|toda|ogni|كل|hər|her|har|हर";
/// Beginnings of a recurrence that need no blank.
const RECURRENCE_PREFIXES: &str = "daily|매|毎|每|kaum|каж|หลังทุก";
/// Characters of a recurrence behind its first word, blanks not counted.
const RECURRENCE_CHARS: usize = 80;
/// Years that have a normal form.
const YEARS: std::ops::RangeInclusive<i16> = 1..=9999;
/// Last instant of a day; time is told to the microsecond.
pub(super) const LAST_OF_DAY: Time = Time::constant(23, 59, 59, 999_999_000);
/// Last instant that time values reach, `9999-12-31T23:59:59.999999`.
pub const LAST: DateTime = Date::constant(9999, 12, 31).to_datetime(LAST_OF_DAY);
/// First instant that time values reach, `0001-01-01T00:00:00`.
pub const FIRST: DateTime = DateTime::constant(1, 1, 1, 0, 0, 0, 0);

/// A calendar year, month, day or minute of local time.
///
/// Its text is `YYYY`, `YYYY-MM`, `YYYY-MM-DD` or `YYYY-MM-DDTHH:MM`. Points order by their first instant, those
/// with the same one by their last: a day comes before the month that it begins. The functions that make a point
/// check it; a variant written by hand with a month 13 or a year 0 is pressed into the calendar wherever it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// A year, 1 to 9999.
    Year(i16),
    /// A month.
    Month {
        /// 1 to 9999.
        year: i16,
        /// 1 to 12.
        month: i8,
    },
    /// A day.
    Day(Date),
    /// A minute; seconds are zero.
    Minute(DateTime),
}

/// A recurrence in plain words that begin with *every* in their language, bounds included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recurrence {
    text: String,
}

/// When something held, happened, is planned or recurs.
///
/// The text forms are those of [`Point`], `A/B` of two points of the same form, the words of a [`Recurrence`], and
/// `""` where no time is known. Build ranges with [`TimeValue::range`], which checks them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeValue {
    /// No time is known.
    #[default]
    Empty,
    /// One year, month, day or minute.
    Point(Point),
    /// From the first instant of one point to the last of another of the same form.
    Range(Point, Point),
    /// Something that comes again and again.
    Recurrence(Recurrence),
}

/// Why a text or a pair of points is no time value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeValueError {
    /// The text has no normal form.
    #[error(
        "`{0}` is no time: write YYYY, YYYY-MM, YYYY-MM-DD, YYYY-MM-DDTHH:MM, a range A/B of two of these, or words \
         that begin with `every`"
    )]
    Form(String),
    /// A year, month, day or minute that the calendar from 0001 to 9999 does not have.
    #[error("`{0}` is not in the calendar")]
    Calendar(String),
    /// The ends of a range have different forms.
    #[error("the range `{0}/{1}` has two forms: write both ends as years, months, days or minutes")]
    Mixed(Point, Point),
    /// A range ends before it begins.
    #[error("the range `{0}/{1}` runs backwards: write the earlier end first")]
    Backwards(Point, Point),
}

impl Point {
    /// A year.
    ///
    /// # Errors
    /// Outside 1 to 9999.
    pub fn year(year: i16) -> Result<Self, TimeValueError> {
        if YEARS.contains(&year) {
            Ok(Self::Year(year))
        } else {
            Err(TimeValueError::Calendar(format!("{year:04}")))
        }
    }

    /// A month.
    ///
    /// # Errors
    /// When the year lies outside 1 to 9999 or the month outside 1 to 12.
    pub fn month(year: i16, month: i8) -> Result<Self, TimeValueError> {
        if YEARS.contains(&year) && (1..=12).contains(&month) {
            Ok(Self::Month { year, month })
        } else {
            Err(TimeValueError::Calendar(format!("{year:04}-{month:02}")))
        }
    }

    /// A day.
    ///
    /// # Errors
    /// When the calendar has no such day or the year lies outside 1 to 9999.
    pub fn day(year: i16, month: i8, day: i8) -> Result<Self, TimeValueError> {
        match Date::new(year, month, day) {
            Ok(date) if YEARS.contains(&year) => Ok(Self::Day(date)),
            _ => Err(TimeValueError::Calendar(format!(
                "{year:04}-{month:02}-{day:02}"
            ))),
        }
    }

    /// The minute that holds `time`.
    ///
    /// # Errors
    /// When the year lies outside 1 to 9999.
    pub fn minute(time: DateTime) -> Result<Self, TimeValueError> {
        if YEARS.contains(&time.year()) {
            Ok(Self::Minute(whole_minute(time)))
        } else {
            Err(TimeValueError::Calendar(time.to_string()))
        }
    }

    /// First and last instant, the last to the microsecond.
    pub fn span(&self) -> (DateTime, DateTime) {
        let (first, last) = match *self {
            Self::Year(year) => {
                let year = in_calendar(year);
                (first_of(year, 1), last_of(year, 12))
            }
            Self::Month { year, month } => {
                let (year, month) = (in_calendar(year), month.clamp(1, 12));
                (first_of(year, month), last_of(year, month))
            }
            Self::Day(date) => (
                date.to_datetime(Time::midnight()),
                date.to_datetime(LAST_OF_DAY),
            ),
            Self::Minute(time) => {
                let first = whole_minute(time);
                let rest = 59.seconds().microseconds(999_999);
                (first, first.saturating_add(rest))
            }
        };
        (first.clamp(FIRST, LAST), last.clamp(FIRST, LAST))
    }

    /// First and last day, as [`Self::span`] has them.
    pub(super) fn days(&self) -> (Date, Date) {
        let (first, last) = match *self {
            Self::Day(date) => (date, date),
            Self::Minute(time) => (time.date(), time.date()),
            Self::Year(_) | Self::Month { .. } => {
                let (first, last) = self.span();
                (first.date(), last.date())
            }
        };
        let within = |date: Date| date.clamp(FIRST.date(), LAST.date());
        (within(first), within(last))
    }

    /// First instant.
    pub fn first(&self) -> DateTime {
        self.span().0
    }

    /// Last instant, to the microsecond.
    pub fn last(&self) -> DateTime {
        self.span().1
    }

    /// The point of the same form `count` years, months, days or minutes later (earlier when negative); `None`
    /// outside the calendar.
    pub fn shift(&self, count: i64) -> Option<Self> {
        let span = Span::new();
        match *self {
            Self::Year(year) => {
                let year = i64::from(year).checked_add(count)?;
                Self::year(i16::try_from(year).ok()?).ok()
            }
            Self::Month { year, month } => {
                let months = (i64::from(year) * 12 + i64::from(month) - 1).checked_add(count)?;
                let year = i16::try_from(months.div_euclid(12)).ok()?;
                let month = i8::try_from(months.rem_euclid(12) + 1).ok()?;
                Self::month(year, month).ok()
            }
            Self::Day(date) => {
                let date = date.checked_add(span.try_days(count).ok()?).ok()?;
                YEARS.contains(&date.year()).then_some(Self::Day(date))
            }
            Self::Minute(time) => {
                let time = time.checked_add(span.try_minutes(count).ok()?).ok()?;
                Self::minute(time).ok()
            }
        }
    }

    /// The next year, month, day or minute; `None` at the end of the calendar.
    pub fn next(&self) -> Option<Self> {
        self.shift(1)
    }

    /// The year, month, day or minute before; `None` at the beginning of the calendar.
    pub fn previous(&self) -> Option<Self> {
        self.shift(-1)
    }

    /// Whether both are years, or months, or days, or minutes.
    pub fn same_form(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether `other` lies in this point, ends included: a day in its month, a minute in its day.
    pub fn contains(&self, other: &Self) -> bool {
        self.first() <= other.first() && other.last() <= self.last()
    }

    /// What tells two points apart that cover the same instants, which only ones written by hand do.
    fn parts(&self) -> (u8, i16, i8, DateTime) {
        match *self {
            Self::Minute(time) => (0, 0, 0, time),
            Self::Day(date) => (1, 0, 0, date.into()),
            Self::Month { year, month } => (2, year, month, FIRST),
            Self::Year(year) => (3, year, 0, FIRST),
        }
    }
}

fn in_calendar(year: i16) -> i16 {
    year.clamp(*YEARS.start(), *YEARS.end())
}

fn first_of(year: i16, month: i8) -> DateTime {
    Date::new(year, month, 1)
        .unwrap_or(FIRST.date())
        .to_datetime(Time::midnight())
}

fn last_of(year: i16, month: i8) -> DateTime {
    first_of(year, month)
        .date()
        .last_of_month()
        .to_datetime(LAST_OF_DAY)
}

fn whole_minute(time: DateTime) -> DateTime {
    time.date().at(time.hour(), time.minute(), 0, 0)
}

impl Ord for Point {
    fn cmp(&self, other: &Self) -> Ordering {
        let spans = self.span().cmp(&other.span());
        spans.then_with(|| self.parts().cmp(&other.parts()))
    }
}

impl PartialOrd for Point {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.first();
        let (year, month, day) = (time.year(), time.month(), time.day());
        match self {
            Self::Year(_) => write!(f, "{year:04}"),
            Self::Month { .. } => write!(f, "{year:04}-{month:02}"),
            Self::Day(_) => write!(f, "{year:04}-{month:02}-{day:02}"),
            Self::Minute(_) => {
                let (hour, minute) = (time.hour(), time.minute());
                write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}")
            }
        }
    }
}

impl FromStr for Point {
    type Err = TimeValueError;

    /// Reads exactly the four forms, in ASCII digits, without blanks around.
    ///
    /// # Errors
    /// When the text has another form or names what the calendar lacks.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = || TimeValueError::Form(cut(text));
        let bytes = text.as_bytes();
        let is_form = matches!(bytes.len(), 4 | 7 | 10 | 16)
            && bytes.iter().enumerate().all(|(at, byte)| match at {
                4 | 7 => *byte == b'-',
                10 => *byte == b'T',
                13 => *byte == b':',
                _ => byte.is_ascii_digit(),
            });
        if !is_form {
            return Err(form());
        }
        // Only ASCII digits are left: two or four of them fit the integer types.
        let year = text[..4].parse().map_err(|_| form())?;
        let pair = |at: usize| text[at..at + 2].parse::<i8>().map_err(|_| form());
        let point = match bytes.len() {
            4 => Self::year(year),
            7 => Self::month(year, pair(5)?),
            10 => Self::day(year, pair(5)?, pair(8)?),
            _ => {
                let date = Date::new(year, pair(5)?, pair(8)?);
                let time = Time::new(pair(11)?, pair(14)?, 0, 0);
                match (date, time) {
                    (Ok(date), Ok(time)) => Self::minute(date.to_datetime(time)),
                    _ => Err(form()),
                }
            }
        };
        point.map_err(|_| TimeValueError::Calendar(text.to_owned()))
    }
}

impl Recurrence {
    /// A recurrence in words.
    ///
    /// # Errors
    /// When the words do not begin with *every* in one of our languages, hold blanks other than single ones, or
    /// are longer than 80 characters.
    pub fn new(words: &str) -> Result<Self, TimeValueError> {
        static PATTERN: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(&format!("^({})$", recurrence_pattern())).ok());
        if PATTERN
            .as_ref()
            .is_some_and(|words_of| words_of.is_match(words))
        {
            Ok(Self {
                text: words.to_owned(),
            })
        } else {
            Err(TimeValueError::Form(cut(words)))
        }
    }

    /// The words as they were given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the recurrence begins and ends, as far as its words say so in normal forms.
    ///
    /// Read are `from A`, `since A`, `until B`, `to B`, `in A` (begins and ends in it) and `A/B`, A and B points.
    /// Dates written out in words ("from July 2020", "2023年12月4日起") need the tables of a language and give
    /// `None` here. A point without one of those words before it, and ends in the wrong order, bound nothing.
    pub fn bounds(&self) -> (Option<Point>, Option<Point>) {
        let (mut from, mut until) = (None, None);
        let mut before = "";
        for word in self.text.split(' ') {
            let word = word.trim_matches([',', '.', ';']);
            match (before, word.parse::<TimeValue>()) {
                ("from" | "since", Ok(TimeValue::Point(point))) => from = Some(point),
                ("until" | "to", Ok(TimeValue::Point(point))) => until = Some(point),
                ("in", Ok(TimeValue::Point(point))) => (from, until) = (Some(point), Some(point)),
                (_, Ok(TimeValue::Range(first, last))) => {
                    (from, until) = (Some(first), Some(last));
                }
                _ => {}
            }
            before = word;
        }
        match (from, until) {
            (Some(first), Some(last)) if first.first() > last.last() => (None, None),
            bounds => bounds,
        }
    }
}

impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl TimeValue {
    /// The range from `from` to `to`, both included.
    ///
    /// # Errors
    /// When the two have different forms or the range runs backwards.
    pub fn range(from: Point, to: Point) -> Result<Self, TimeValueError> {
        if !from.same_form(&to) {
            Err(TimeValueError::Mixed(from, to))
        } else if from > to {
            Err(TimeValueError::Backwards(from, to))
        } else {
            Ok(Self::Range(from, to))
        }
    }

    /// The recurrence in these words.
    ///
    /// # Errors
    /// As [`Recurrence::new`].
    pub fn recurrence(words: &str) -> Result<Self, TimeValueError> {
        Recurrence::new(words).map(Self::Recurrence)
    }

    /// First and last instant, the last to the microsecond.
    ///
    /// `None` for no time and for a recurrence whose words give no bound; a recurrence with one bound reaches to
    /// the end of the calendar ([`FIRST`], [`LAST`]) on the other side.
    pub fn span(&self) -> Option<(DateTime, DateTime)> {
        match self {
            Self::Empty => None,
            Self::Point(point) => Some(point.span()),
            Self::Range(from, to) => Some((from.first(), to.last())),
            Self::Recurrence(recurrence) => match recurrence.bounds() {
                (None, None) => None,
                (from, until) => Some((
                    from.map_or(FIRST, |point| point.first()),
                    until.map_or(LAST, |point| point.last()),
                )),
            },
        }
    }

    /// Whether the two share an instant; what has no span shares none.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.span(), other.span()) {
            (Some(one), Some(two)) => one.0 <= two.1 && two.0 <= one.1,
            _ => false,
        }
    }

    /// Whether no time is known.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl Ord for TimeValue {
    /// By first instant, then by last; what has no span comes first; what covers the same instants is told apart
    /// by its text.
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |value: &Self| match value {
            Self::Empty => (0, None),
            Self::Point(point) => (1, Some((*point, *point))),
            Self::Range(from, to) => (2, Some((*from, *to))),
            Self::Recurrence(_) => (3, None),
        };
        let words = |value: &Self| match value {
            Self::Recurrence(recurrence) => recurrence.text.clone(),
            _ => String::new(),
        };
        self.span()
            .cmp(&other.span())
            .then_with(|| parts(self).cmp(&parts(other)))
            .then_with(|| words(self).cmp(&words(other)))
    }
}

impl PartialOrd for TimeValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<Point> for TimeValue {
    fn from(point: Point) -> Self {
        Self::Point(point)
    }
}

impl fmt::Display for TimeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Point(point) => point.fmt(f),
            Self::Range(from, to) => write!(f, "{from}/{to}"),
            Self::Recurrence(recurrence) => recurrence.fmt(f),
        }
    }
}

impl FromStr for TimeValue {
    type Err = TimeValueError;

    /// Reads a normal form, exactly: blanks around it, days that do not exist and ranges that run backwards are
    /// refused.
    ///
    /// # Errors
    /// When the text has no normal form; the error says what is wrong.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::Empty);
        }
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Self::recurrence(text);
        }
        match text.split_once('/') {
            Some((from, to)) => Self::range(from.parse()?, to.parse()?),
            None => text.parse().map(Self::Point),
        }
    }
}

impl Serialize for TimeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Regular expression, anchored, of every normal form, `""` included.
///
/// `YYYY`, `YYYY-MM`, `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM`, `A/B` of two equal forms, or a recurrence that begins with
/// *every* in one of our languages. That A lies before B, that there is no year 0000 and how many days a month has
/// is more than the expression says; [`is_normal`] knows.
pub fn pattern() -> String {
    let year = "[0-9]{4}";
    let month = "-(0[1-9]|1[0-2])";
    let day = "-(0[1-9]|[12][0-9]|3[01])";
    let minute = "T([01][0-9]|2[0-3]):[0-5][0-9]";
    let forms = [
        year.to_owned(),
        format!("{year}{month}"),
        format!("{year}{month}{day}"),
        format!("{year}{month}{day}{minute}"),
    ];
    let spans = forms.map(|form| format!("{form}(/{form})?")).join("|");
    format!("^(|{spans}|{})$", recurrence_pattern())
}

/// Regular expression, not anchored, of a recurrence.
fn recurrence_pattern() -> String {
    let words = RECURRENCE_CHARS - 1;
    format!(
        "({RECURRENCE_WORDS}) \\S( ?\\S){{0,{words}}}|({RECURRENCE_PREFIXES})( ?\\S){{0,{words}}}"
    )
}

/// Whether `time` is written in a normal form: it has one exactly when it reads as a [`TimeValue`].
pub fn is_normal(time: &str) -> bool {
    time.parse::<TimeValue>().is_ok()
}

/// The beginning of `text`, short enough for a message.
fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
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
}
