//! Points of time as transcripts give them: wall-clock time, with the offset where it is known.

use std::fmt;
use std::str::FromStr;

use jiff::civil::{Date, DateTime, Weekday};
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A point of local time, with the offset from UTC where it is known. Never guessed; [`crate::time::zone`] converts it.
///
/// As text it is `2023-05-08T13:56:00[.500000][+09:00]`: six fraction digits only when they are not
/// all zero (DimMem specification, section 3), the offset only when it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Wall-clock time where it was said.
    pub local: DateTime,
    /// Offset from UTC, if the file gave one.
    pub offset: Option<Offset>,
}

/// A text that is no moment.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{text}` is not a date and time: write it like `2024-03-04T18:20:00` or `2024-03-04T18:20:00+09:00`"
)]
pub struct MomentError {
    /// What was given, cut to a readable length.
    pub text: String,
    /// What the date parser says; `None` when the date is fine and the time is missing.
    pub source: Option<jiff::Error>,
}

impl Moment {
    /// A moment whose offset is unknown.
    pub fn local(local: DateTime) -> Self {
        Self {
            local,
            offset: None,
        }
    }

    /// The UTC wall-clock time of a Unix timestamp in seconds, with offset `+00:00`; `None` outside
    /// the years that dates can hold.
    pub fn from_epoch_seconds(seconds: f64) -> Option<Self> {
        if !seconds.is_finite() || seconds.abs() > 1e12 {
            return None;
        }
        let micros = (seconds * 1e6).round() as i64;
        let instant = Timestamp::from_microsecond(micros).ok()?;
        Some(Self::at_offset(instant, Offset::UTC))
    }

    /// The wall-clock time of an instant at an offset.
    pub fn at_offset(instant: Timestamp, offset: Offset) -> Self {
        Self {
            local: offset.to_datetime(instant),
            offset: Some(offset),
        }
    }

    /// The instant; `None` when the offset is not known or dates do not reach so far.
    pub fn instant(&self) -> Option<Timestamp> {
        self.offset?.to_timestamp(self.local).ok()
    }

    /// The calendar day.
    pub fn date(&self) -> Date {
        self.local.date()
    }

    /// Three-letter English name of the weekday, `Mon` to `Sun`.
    pub fn weekday(&self) -> &'static str {
        match self.local.weekday() {
            Weekday::Monday => "Mon",
            Weekday::Tuesday => "Tue",
            Weekday::Wednesday => "Wed",
            Weekday::Thursday => "Thu",
            Weekday::Friday => "Fri",
            Weekday::Saturday => "Sat",
            Weekday::Sunday => "Sun",
        }
    }

    /// This moment and `milliseconds` more; stays at the last representable moment on overflow.
    pub fn plus_milliseconds(self, milliseconds: i64) -> Self {
        let local = self
            .local
            .saturating_add(SignedDuration::from_millis(milliseconds));
        Self {
            local,
            offset: self.offset,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = self.local;
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            t.year(),
            t.month(),
            t.day(),
            t.hour(),
            t.minute(),
            t.second()
        )?;
        let micros = t.subsec_nanosecond() / 1000;
        if micros != 0 {
            write!(f, ".{micros:06}")?;
        }
        self.offset.map_or(Ok(()), |offset| write_offset(offset, f))
    }
}

/// Writes `±HH:MM`, and `:SS` too where the offset has seconds, as those of local mean time have.
pub(crate) fn write_offset(offset: Offset, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let seconds = offset.seconds();
    let sign = if seconds < 0 { '-' } else { '+' };
    let seconds = seconds.abs();
    write!(f, "{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)?;
    match seconds % 60 {
        0 => Ok(()),
        rest => write!(f, ":{rest:02}"),
    }
}

impl FromStr for Moment {
    type Err = MomentError;

    /// Reads an ISO 8601 date and time; a space may stand for the `T`, seconds may be missing, the
    /// offset may be missing, `Z` or `±HH:MM`. Digits below a microsecond are dropped.
    ///
    /// # Errors
    /// When the text has another form, names a day that does not exist, or has no time of day.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let trimmed = text.trim();
        let refuse = |source| MomentError {
            text: trimmed.chars().take(60).collect(),
            source,
        };
        let pieces = Pieces::parse(trimmed).map_err(|error| refuse(Some(error)))?;
        let time = pieces.time().ok_or_else(|| refuse(None))?;
        let nanos = time.subsec_nanosecond();
        let time = time
            .with()
            .subsec_nanosecond(nanos - nanos % 1000)
            .build()
            .map_err(|error| refuse(Some(error)))?;
        Ok(Self {
            local: pieces.date().to_datetime(time),
            offset: pieces.to_numeric_offset(),
        })
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Moment {
        text.parse().unwrap()
    }

    #[test]
    fn reads_and_writes_iso() {
        for (given, written) in [
            ("2023-05-08T13:56:00", "2023-05-08T13:56:00"),
            ("2023-05-08T13:56", "2023-05-08T13:56:00"),
            (" 2023-05-08 13:56:07 ", "2023-05-08T13:56:07"),
            ("2023-05-08T13:56:00.5", "2023-05-08T13:56:00.500000"),
            ("2023-05-08T13:56:00.000000", "2023-05-08T13:56:00"),
            ("2023-05-08T13:56:00.000000999", "2023-05-08T13:56:00"),
            ("2023-05-08T13:56:00+09:00", "2023-05-08T13:56:00+09:00"),
            (
                "2023-05-08T13:56:00.25-03:30",
                "2023-05-08T13:56:00.250000-03:30",
            ),
            ("2023-05-08T13:56:00Z", "2023-05-08T13:56:00+00:00"),
            ("1900-01-01T12:00+08:27:52", "1900-01-01T12:00:00+08:27:52"),
            ("1880-01-01T12:00-00:00:36", "1880-01-01T12:00:00-00:00:36"),
        ] {
            assert_eq!(parse(given).to_string(), written, "{given}");
            assert_eq!(parse(written), parse(given), "{written}");
        }
    }

    #[test]
    fn an_offset_is_kept_not_applied() {
        let moment = parse("2024-03-04T18:20:00+09:00");
        assert_eq!(moment.local.hour(), 18);
        assert_eq!(moment.offset, Some(jiff::tz::offset(9)));
        assert_ne!(moment, parse("2024-03-04T18:20:00"));
    }

    #[test]
    fn refuses_what_is_no_date_and_time() {
        for text in [
            "",
            "2023-05-08",
            "2023-02-29T10:00",
            "yesterday",
            "13:56",
            "2023-05-08T25:00",
        ] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
        let message = "yesterday".parse::<Moment>().unwrap_err().to_string();
        assert!(
            message.starts_with("`yesterday` is not a date and time"),
            "{message}"
        );
    }

    #[test]
    fn names_weekdays() {
        let names: Vec<_> = (1..8)
            .map(|day| parse(&format!("2024-01-0{day}T00:00")).weekday())
            .collect();
        assert_eq!(names, ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]);
    }

    #[test]
    fn reads_epochs_as_utc() {
        let moment = Moment::from_epoch_seconds(1_709_576_400.25).unwrap();
        assert_eq!(moment.to_string(), "2024-03-04T18:20:00.250000+00:00");
        assert_eq!(Moment::from_epoch_seconds(f64::NAN), None);
        assert_eq!(Moment::from_epoch_seconds(1e300), None);
    }

    #[test]
    fn serde_goes_through_text() {
        let moment = parse("2023-05-08T13:56:00.5+09:00");
        let json = serde_json::to_string(&moment).unwrap();
        assert_eq!(json, "\"2023-05-08T13:56:00.500000+09:00\"");
        assert_eq!(serde_json::from_str::<Moment>(&json).unwrap(), moment);
        assert!(serde_json::from_str::<Moment>("\"noon\"").is_err());
    }

    #[test]
    fn adding_time_stops_at_the_end_of_the_calendar() {
        let end = Moment::local(DateTime::MAX);
        assert_eq!(end.plus_milliseconds(500), end);
        assert_eq!(
            parse("2023-12-31T23:59:59.5").plus_milliseconds(500),
            parse("2024-01-01T00:00")
        );
    }
}
