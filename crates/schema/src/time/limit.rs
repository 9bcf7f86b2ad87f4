//! Time limits of a query and how far a record meets them (DimMem specification, section 8.3).
//!
//! Times are compared as local times: an offset is kept in what is read and dropped in comparing, never converted.
//! A date and time is an instant here, where [`super::value`] takes it for the minute.

use std::{borrow::Cow, fmt};

use jiff::{
    Span, ToSpan,
    civil::{Date, DateTime, ISOWeekDate},
};
use serde::{Serialize, Serializer};

use super::value::{FIRST, LAST, Point};
use crate::{
    clean::{Mode, trim},
    moment::Moment,
};

/// How finely a time is told, finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Granularity {
    /// An instant.
    Datetime,
    /// A day.
    Day,
    /// A month.
    Month,
    /// A year.
    Year,
}

/// What a limit asks of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitMode {
    /// Shares an instant with the limit's time.
    On,
    /// Is over before the limit's time begins.
    Before,
    /// Begins when the limit's time is over.
    After,
    /// Shares an instant with the limit's time, widened on both sides by [`Granularity`]: 1 day (instant), 3 days
    /// (day), 31 days (month), 366 days (year).
    Around,
    /// Shares an instant with what lies from the first time to the second.
    Between,
}

/// A time as a limit or a record gives it: first and last instant, to the microsecond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeSpan {
    /// First instant.
    pub start: Moment,
    /// Last instant.
    pub end: Moment,
    /// The coarser of its two ends.
    pub granularity: Granularity,
    /// The words that were read.
    pub raw: String,
}

/// One limit that was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TimeLimit {
    /// What is asked.
    pub mode: LimitMode,
    /// First instant that is kept, for `after` the last one that is not; `None` for `before`.
    pub start: Option<Moment>,
    /// Last instant that is kept, for `before` the first one that is not; `None` for `after`.
    pub end: Option<Moment>,
    /// The coarser of its times.
    pub granularity: Granularity,
    /// The words that were read.
    pub raw: String,
}

/// Words that limit the time in a way that cannot be read.
///
/// Never to be taken for "no limit": it counts as a limit that nothing meets, and the person is to be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{words}` is no time limit: write `on|before|after|around TIME` or `between TIME and TIME`, TIME being YYYY, \
     YYYY-MM, YYYY-MM-DD, an ISO 8601 date and time, or a range A/B"
)]
pub struct UnreadableLimit {
    /// The words, without blanks around.
    pub words: String,
}

/// Which times of a record can meet a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSource {
    /// Its own time and the time of its source turn.
    #[default]
    Any,
    /// The time of its source turn only when its own cannot be read.
    DimensionFirst,
}

/// The limits of one query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimeLimits {
    limits: Vec<Result<TimeLimit, UnreadableLimit>>,
    mode: Mode,
}

/// How far a record meets the limits of a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TimeMatch {
    /// Share of the limits that are met, unreadable ones counted, 0 to 1.
    pub score: f64,
    /// Whether any is met.
    pub matched: bool,
    /// Mode of the first readable limit; `""` in JSON where there is none or the record has no time.
    #[serde(serialize_with = "mode_or_blank")]
    pub mode: Option<LimitMode>,
    /// The words of the limits that are met.
    pub matched_constraints: Vec<String>,
    /// The times of the record; empty without a limit.
    pub record_time_spans: Vec<TimeSpan>,
}

impl Granularity {
    /// By how much `around` widens a time of this granularity.
    fn margin(self) -> Span {
        match self {
            Self::Datetime => 1.day(),
            Self::Day => 3.days(),
            Self::Month => 31.days(),
            Self::Year => 366.days(),
        }
    }
}

impl fmt::Display for LimitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::On => "on",
            Self::Before => "before",
            Self::After => "after",
            Self::Around => "around",
            Self::Between => "between",
        })
    }
}

impl TimeSpan {
    /// Reads a time; `None` where the text is none.
    ///
    /// Beyond `YYYY`, `YYYY-MM`, `YYYY-MM-DD` and ISO 8601 dates and times: `A/B` of two of these that do not run
    /// backwards (the reference does not know it), the compact and the week form of ISO 8601, which are midnights,
    /// and the digits of other scripts.
    pub fn read(text: &str, mode: Mode) -> Option<Self> {
        let raw = trim(text);
        let text = ascii_digits(raw);
        let ((start, end), granularity) = match text.split_once('/') {
            Some((from, to)) if mode == Mode::Default => {
                let (from, to) = (ends(from)?, ends(to)?);
                if from.0.0.local > to.0.1.local {
                    return None;
                }
                ((from.0.0, to.0.1), from.1.max(to.1))
            }
            _ => ends(&text)?,
        };
        Some(Self {
            start,
            end,
            granularity,
            raw: raw.to_owned(),
        })
    }

    /// Reads the time of a source turn: an instant; a date alone is its midnight.
    fn read_instant(text: &str) -> Option<Self> {
        let raw = trim(text);
        let time = instant(&ascii_digits(raw))?;
        Some(Self {
            start: time,
            end: time,
            granularity: Granularity::Datetime,
            raw: raw.to_owned(),
        })
    }
}

impl TimeLimit {
    /// Reads a limit: `on|before|after|around TIME`, `between TIME and TIME` or a bare time, which means `on`.
    ///
    /// Case does not matter; a reversed `between` is kept. [`Mode::Compat`] does not know `A/B`, as the reference does not; where the reference
    /// aborts the query (month 13, year 0, `around` at an end of the calendar), it reads as by default.
    ///
    /// # Errors
    /// When the words have another form, or there are none.
    pub fn read(text: &str, mode: Mode) -> Result<Self, UnreadableLimit> {
        Self::parse(trim(text), mode).ok_or_else(|| UnreadableLimit {
            words: trim(text).to_owned(),
        })
    }

    fn parse(text: &str, mode: Mode) -> Option<Self> {
        let words: Vec<_> = text.split_whitespace().collect();
        let (keyword, rest) = words.split_first()?;
        let limit = |mode, start, end, granularity| {
            Some(Self {
                mode,
                start,
                end,
                granularity,
                raw: text.to_owned(),
            })
        };
        let keyword = keyword.to_ascii_lowercase();
        if keyword == "between" {
            // The first `and` with words before it: the left side is the shortest possible.
            let is_and = |word: &&str| word.eq_ignore_ascii_case("and");
            let and = 1 + rest.iter().skip(1).position(is_and)?;
            let from = TimeSpan::read(&rest[..and].join(" "), mode)?;
            let to = TimeSpan::read(&rest[and + 1..].join(" "), mode)?;
            let granularity = from.granularity.max(to.granularity);
            return limit(
                LimitMode::Between,
                Some(from.start),
                Some(to.end),
                granularity,
            );
        }
        let asked = match keyword.as_str() {
            "on" => LimitMode::On,
            "before" => LimitMode::Before,
            "after" => LimitMode::After,
            "around" => LimitMode::Around,
            _ => {
                let span = TimeSpan::read(text, mode)?;
                return limit(
                    LimitMode::On,
                    Some(span.start),
                    Some(span.end),
                    span.granularity,
                );
            }
        };
        let span = TimeSpan::read(&rest.join(" "), mode)?;
        let (start, end) = match asked {
            LimitMode::Before => (None, Some(span.start)),
            LimitMode::After => (Some(span.end), None),
            LimitMode::Around => {
                let margin = span.granularity.margin();
                let moved = |moment: Moment, by: Span| {
                    let local = moment.local.saturating_add(by).clamp(FIRST, LAST);
                    Some(Moment { local, ..moment })
                };
                (moved(span.start, margin.negate()), moved(span.end, margin))
            }
            LimitMode::On | LimitMode::Between => (Some(span.start), Some(span.end)),
        };
        limit(asked, start, end, span.granularity)
    }

    /// Whether `span` meets the limit. A reversed `between` is met by nothing.
    pub fn admits(&self, span: &TimeSpan) -> bool {
        let reaches_start = |start: &Moment| match self.mode {
            LimitMode::After => span.start.local > start.local,
            _ => span.end.local >= start.local,
        };
        let reaches_end = |end: &Moment| match self.mode {
            LimitMode::Before => span.end.local < end.local,
            _ => span.start.local <= end.local,
        };
        let in_order = match (&self.start, &self.end) {
            (Some(start), Some(end)) => start.local <= end.local,
            _ => true,
        };
        in_order
            && self.start.as_ref().is_none_or(reaches_start)
            && self.end.as_ref().is_none_or(reaches_end)
    }
}

impl TimeLimits {
    /// Reads the limits of a query; blank ones are no limits and are left out.
    pub fn read<'a>(texts: impl IntoIterator<Item = &'a str>, mode: Mode) -> Self {
        let texts = texts.into_iter().filter(|text| !trim(text).is_empty());
        Self {
            limits: texts.map(|text| TimeLimit::read(text, mode)).collect(),
            mode,
        }
    }

    /// Whether the query does not limit the time. Limits that cannot be read are limits.
    pub fn is_empty(&self) -> bool {
        self.limits.is_empty()
    }

    /// The limits that could be read.
    pub fn readable(&self) -> impl Iterator<Item = &TimeLimit> {
        self.limits.iter().filter_map(|limit| limit.as_ref().ok())
    }

    /// The limits that could not be read. The caller must tell of them: nothing meets them.
    pub fn unreadable(&self) -> impl Iterator<Item = &UnreadableLimit> {
        self.limits.iter().filter_map(|limit| limit.as_ref().err())
    }

    /// How far a record meets the limits: `time` is its own time, `source_time` that of its source turn.
    ///
    /// A time that cannot be read is left out; a limit is met when any of the times meets it. Without a limit or
    /// without a time the score is 0.
    pub fn score(&self, time: &str, source_time: &str, source: TimeSource) -> TimeMatch {
        if self.limits.is_empty() {
            return TimeMatch::default();
        }
        let own = TimeSpan::read(time, self.mode);
        let turn = match (source, &own) {
            (TimeSource::DimensionFirst, Some(_)) => None,
            _ => TimeSpan::read_instant(source_time),
        };
        let spans: Vec<_> = own.into_iter().chain(turn).collect();
        if spans.is_empty() {
            return TimeMatch::default();
        }
        let met: Vec<_> = self
            .readable()
            .filter(|limit| spans.iter().any(|span| limit.admits(span)))
            .map(|limit| limit.raw.clone())
            .collect();
        TimeMatch {
            score: met.len() as f64 / self.limits.len() as f64,
            matched: !met.is_empty(),
            mode: self.readable().next().map(|limit| limit.mode),
            matched_constraints: met,
            record_time_spans: spans,
        }
    }
}

/// First and last instant of one time and how finely it is told.
fn ends(text: &str) -> Option<((Moment, Moment), Granularity)> {
    let text = trim(text);
    let granularity = match text.parse() {
        Ok(Point::Year(_)) => Granularity::Year,
        Ok(Point::Month { .. }) => Granularity::Month,
        Ok(Point::Day(_)) => Granularity::Day,
        Ok(Point::Minute(_)) | Err(_) => {
            return instant(text).map(|time| ((time, time), Granularity::Datetime));
        }
    };
    let (first, last) = text.parse::<Point>().ok()?.span();
    Some(((Moment::local(first), Moment::local(last)), granularity))
}

/// A date and time, or the midnight of a date in a form of ISO 8601: `2023-05-20`, `20230520`, `2023-W20-6`.
fn instant(text: &str) -> Option<Moment> {
    let moment = text.parse::<Moment>().ok().or_else(|| {
        let bytes = text.as_bytes();
        let date = match bytes.len() {
            10 if bytes[5] == b'W' => text.parse::<ISOWeekDate>().ok()?.date(),
            8 if bytes.iter().all(u8::is_ascii_digit) => text.parse::<Date>().ok()?,
            _ => match text.parse() {
                Ok(Point::Day(date)) => date,
                _ => return None,
            },
        };
        Some(Moment::local(DateTime::from(date)))
    })?;
    (FIRST..=LAST).contains(&moment.local).then_some(moment)
}

/// `text` with full-width, Arabic, Persian and Devanagari digits as ASCII ones.
fn ascii_digits(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    let zeros = ['０', '٠', '۰', '०'].map(u32::from);
    let digit = |c: char| {
        let value = zeros
            .iter()
            .filter_map(|zero| u32::from(c).checked_sub(*zero));
        value
            .filter(|value| *value < 10)
            .find_map(|value| char::from_digit(value, 10))
    };
    text.chars().map(|c| digit(c).unwrap_or(c)).collect()
}

fn mode_or_blank<S: Serializer>(
    mode: &Option<LimitMode>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match mode {
        Some(mode) => mode.serialize(serializer),
        None => serializer.serialize_str(""),
    }
}
