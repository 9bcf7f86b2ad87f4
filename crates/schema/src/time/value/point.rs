//! One point of time: a year, month, day or minute.

use std::{cmp::Ordering, fmt, str::FromStr};

use jiff::{
    Span,
    civil::{Date, DateTime, Time},
};

use super::{TimeValueError, cut};

/// Years that have a normal form.
const YEARS: std::ops::RangeInclusive<i16> = 1..=9999;

/// Last instant of a day; time is told to the microsecond.
const LAST_OF_DAY: Time = Time::constant(23, 59, 59, 999_999_000);

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
            Self::Minute(time) => {
                let last = time.date().at(time.hour(), time.minute(), 59, 999_999_000);
                (whole_minute(time), last)
            }
            Self::Year(_) | Self::Month { .. } | Self::Day(_) => {
                let (first, last) = self.days();
                (
                    first.to_datetime(Time::midnight()),
                    last.to_datetime(LAST_OF_DAY),
                )
            }
        };
        (first.clamp(FIRST, LAST), last.clamp(FIRST, LAST))
    }

    /// First and last day, as [`Self::span`] has them.
    #[inline]
    pub(in crate::time) fn days(&self) -> (Date, Date) {
        let within = |date: Date| match date.year() {
            1..=9999 => date,
            _ => date.clamp(FIRST.date(), LAST.date()),
        };
        match *self {
            Self::Day(date) => (within(date), within(date)),
            Self::Minute(time) => (within(time.date()), within(time.date())),
            Self::Year(year) => {
                let year = in_calendar(year);
                (first_day(year, 1), first_day(year, 12).last_of_month())
            }
            Self::Month { year, month } => {
                let first = first_day(in_calendar(year), month.clamp(1, 12));
                (first, first.last_of_month())
            }
        }
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

fn first_day(year: i16, month: i8) -> Date {
    Date::new(year, month, 1).unwrap_or(FIRST.date())
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
