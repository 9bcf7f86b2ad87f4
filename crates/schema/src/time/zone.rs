//! Time zones: an instant seen in another place, and the day it falls on there.
//!
//! Offsets are converted, never relabelled: 18:20 at `+09:00` is 09:20 at `+00:00`, not 18:20. The rules of the named
//! zones are compiled in (IANA time zone database), so that every machine gives the same answer offline.

use std::{fmt, str::FromStr, sync::LazyLock};

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time},
    fmt::temporal::Pieces,
    tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::moment::Moment;

/// A fixed offset from UTC or a place of the IANA time zone database.
///
/// Its text is `+05:30`, `UTC`, or the name as the database spells it: `Asia/Seoul`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// A text that names no zone.
#[derive(Debug, thiserror::Error)]
#[error(
    "`{0}` is no time zone: write an offset like `+09:00`, or a name of the IANA database like `Asia/Seoul`"
)]
pub struct ZoneError(String);

/// How often the clocks of a zone show a local time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occurrence {
    /// Once.
    Once,
    /// Twice, since clocks are set back. The earlier of the two is taken.
    Twice,
    /// Never, since clocks are set forward. It is taken as if they had not been: as much later on the new clock as
    /// was skipped.
    Never,
}

impl Zone {
    /// Coordinated universal time.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// The wall-clock time of an instant in this zone, with its offset.
    pub fn at(&self, instant: Timestamp) -> Moment {
        Moment::at_offset(instant, self.0.to_offset(instant))
    }

    /// The same instant on the clocks of this zone; `None` when the offset of `moment` is not known, so that nobody
    /// can say which instant it is, and at the ends of the calendar.
    pub fn convert(&self, moment: &Moment) -> Option<Moment> {
        Some(self.at(moment.instant()?))
    }

    /// The day that an instant falls on in this zone; `None` as for [`Zone::convert`].
    pub fn day_of(&self, moment: &Moment) -> Option<Date> {
        self.convert(moment).map(|moment| moment.date())
    }

    /// The moment at which the clocks of this zone show `local`, and how often they do.
    ///
    /// What is shown twice is the earlier one; what is never shown moves forward by what is skipped, so that its
    /// local time differs from `local`. `None` at the ends of the calendar.
    pub fn locate(&self, local: DateTime) -> Option<(Moment, Occurrence)> {
        let occurrence = match self.0.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { .. } => Occurrence::Once,
            AmbiguousOffset::Fold { .. } => Occurrence::Twice,
            AmbiguousOffset::Gap { .. } => Occurrence::Never,
        };
        let instant = self.0.to_timestamp(local).ok()?;
        Some((self.at(instant), occurrence))
    }

    /// First and last instant of a day in this zone, the last to the microsecond; `None` for a day that the zone
    /// skips (Samoa has no 30 December 2011) and at the ends of the calendar.
    pub fn day_span(&self, day: Date) -> Option<(Timestamp, Timestamp)> {
        let begin = |day: Date| {
            let instant = self
                .0
                .to_timestamp(day.to_datetime(Time::midnight()))
                .ok()?;
            Some((instant, self.at(instant).date()))
        };
        let (first, date) = begin(day)?;
        if date != day {
            return None;
        }
        let (next, _) = begin(day.tomorrow().ok()?)?;
        let last = next.as_microsecond().checked_sub(1)?;
        Some((first, Timestamp::from_microsecond(last).ok()?))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.iana_name() {
            Some(name) => f.write_str(name),
            None => match self.0.to_fixed_offset() {
                Ok(offset) => crate::moment::write_offset(offset, f),
                Err(_) => f.write_str("UTC"), // a zone is a name or an offset, see `from_str`
            },
        }
    }
}

impl FromStr for Zone {
    type Err = ZoneError;

    /// Reads `Z`, `UTC`, `+09:00`, `+0900`, `+09` or a name of the database, whose case does not matter.
    ///
    /// # Errors
    /// When the database has no such name; abbreviations such as `KST` mean different zones and are none of them.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);
        let text = text.trim();
        let refuse = || ZoneError(text.chars().take(60).collect());
        if ["z", "utc"].contains(&text.to_ascii_lowercase().as_str()) {
            return Ok(Self::utc());
        }
        if text.starts_with(['+', '-']) {
            let offset = offset(text).ok_or_else(refuse)?;
            return Ok(Self(TimeZone::fixed(offset)));
        }
        DATABASE.get(text).map(Self).map_err(|_| refuse())
    }
}

/// The offset that `text` writes: `Z`, `+09:00`, `+0900` or `+09`, seconds too.
pub(crate) fn offset(text: &str) -> Option<Offset> {
    let moment = format!("2000-01-01T00:00{text}");
    let pieces = Pieces::parse(&moment).ok()?;
    pieces
        .time_zone_annotation()
        .is_none()
        .then(|| pieces.to_numeric_offset())?
}

impl Serialize for Zone {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(name: &str) -> Zone {
        name.parse().unwrap()
    }

    fn convert(moment: &str, to: &str) -> String {
        let moment: Moment = moment.parse().unwrap();
        zone(to).convert(&moment).unwrap().to_string()
    }

    fn locate(local: &str, name: &str) -> (String, Occurrence) {
        let (moment, occurrence) = zone(name).locate(local.parse().unwrap()).unwrap();
        (moment.to_string(), occurrence)
    }

    #[test]
    fn offsets_are_converted_not_relabelled() {
        for (moment, to, expected) in [
            (
                "2024-03-04T18:20:00+09:00",
                "Z",
                "2024-03-04T09:20:00+00:00",
            ),
            (
                "2024-03-04T18:20:00Z",
                "Asia/Seoul",
                "2024-03-05T03:20:00+09:00",
            ),
            (
                "2024-03-04T18:20:00Z",
                "+05:30",
                "2024-03-04T23:50:00+05:30",
            ),
            (
                "2024-03-04T18:20:00.5Z",
                "-0330",
                "2024-03-04T14:50:00.500000-03:30",
            ),
            (
                "2024-03-04T18:20:00+09:00",
                "Asia/Kathmandu",
                "2024-03-04T15:05:00+05:45",
            ),
            (
                "2024-03-10T06:59:00Z",
                "America/New_York",
                "2024-03-10T01:59:00-05:00",
            ),
            (
                "2024-03-10T07:00:00Z",
                "America/New_York",
                "2024-03-10T03:00:00-04:00",
            ),
            (
                "2011-12-30T09:59:59Z",
                "Pacific/Apia",
                "2011-12-29T23:59:59-10:00",
            ),
            (
                "2011-12-30T10:00:00Z",
                "Pacific/Apia",
                "2011-12-31T00:00:00+14:00",
            ),
        ] {
            assert_eq!(convert(moment, to), expected, "{moment} {to}");
        }
    }

    #[test]
    fn a_moment_without_an_offset_is_not_converted() {
        let moment: Moment = "2024-03-04T18:20:00".parse().unwrap();
        assert_eq!(zone("Asia/Seoul").convert(&moment), None);
        assert_eq!(zone("Asia/Seoul").day_of(&moment), None);
    }

    #[test]
    fn the_day_is_that_of_the_place() {
        let moment: Moment = "2024-03-04T23:30:00-05:00".parse().unwrap();
        let day = |name: &str| zone(name).day_of(&moment).unwrap().to_string();
        assert_eq!(day("America/New_York"), "2024-03-04");
        assert_eq!(day("Asia/Seoul"), "2024-03-05");
        assert_eq!(day("Pacific/Apia"), "2024-03-05");
    }

    #[test]
    fn a_time_shown_twice_is_the_earlier_one() {
        let (moment, occurrence) = locate("2024-11-03T01:30:00", "America/New_York");
        assert_eq!(moment, "2024-11-03T01:30:00-04:00");
        assert_eq!(occurrence, Occurrence::Twice);
        let once = locate("2024-11-03T02:00:00", "America/New_York");
        assert_eq!(once, ("2024-11-03T02:00:00-05:00".into(), Occurrence::Once));
    }

    #[test]
    fn a_time_never_shown_moves_on_by_what_is_skipped() {
        let (moment, occurrence) = locate("2024-03-10T02:30:00", "America/New_York");
        assert_eq!(moment, "2024-03-10T03:30:00-04:00");
        assert_eq!(occurrence, Occurrence::Never);
        let (moment, occurrence) = locate("2011-12-30T12:00:00", "Pacific/Apia");
        assert_eq!(moment, "2011-12-31T12:00:00+14:00");
        assert_eq!(occurrence, Occurrence::Never);
    }

    #[test]
    fn days_are_as_long_as_their_place_makes_them() {
        let hours = |day: &str, name: &str| {
            let (first, last) = zone(name).day_span(day.parse().unwrap())?;
            Some((last.as_microsecond() + 1 - first.as_microsecond()) / 3_600_000_000)
        };
        assert_eq!(hours("2024-03-10", "America/New_York"), Some(23));
        assert_eq!(hours("2024-11-03", "America/New_York"), Some(25));
        assert_eq!(hours("2024-03-10", "Asia/Seoul"), Some(24));
        assert_eq!(hours("2011-12-29", "Pacific/Apia"), Some(24));
        assert_eq!(hours("2011-12-30", "Pacific/Apia"), None);
        assert_eq!(hours("2011-12-31", "Pacific/Apia"), Some(24));
        let (first, last) = zone("+05:30")
            .day_span("2024-03-04".parse().unwrap())
            .unwrap();
        assert_eq!(first.to_string(), "2024-03-03T18:30:00Z");
        assert_eq!(last.to_string(), "2024-03-04T18:29:59.999999Z");
    }

    #[test]
    fn ends_of_the_calendar_do_not_panic() {
        let first = Moment::local(DateTime::MIN);
        let last = Moment::local(DateTime::MAX);
        for moment in [first, last] {
            for offset in ["+14:00", "-12:00", "Z", "Asia/Kathmandu"] {
                let there = zone(offset);
                let known = Moment {
                    offset: Some(jiff::tz::offset(1)),
                    ..moment
                };
                // No answer or one that is the same instant; what matters is that it returns.
                for found in [
                    there.convert(&known),
                    there.locate(moment.local).map(|at| at.0),
                ] {
                    assert!(found.is_none_or(|found| found.offset.is_some()));
                }
                let _ = there.day_span(moment.date());
            }
        }
    }

    #[test]
    fn zones_are_read_and_written() {
        for (given, written) in [
            ("asia/seoul", "Asia/Seoul"),
            ("+0530", "+05:30"),
            ("+09", "+09:00"),
            ("-03:30", "-03:30"),
            ("z", "UTC"),
            (" UTC ", "UTC"),
            ("+00:00", "UTC"),
        ] {
            assert_eq!(zone(given).to_string(), written, "{given}");
            assert_eq!(zone(written).to_string(), written, "{written}");
        }
        let json = serde_json::to_string(&zone("Asia/Seoul")).unwrap();
        assert_eq!(json, "\"Asia/Seoul\"");
        assert_eq!(
            serde_json::from_str::<Zone>(&json).unwrap(),
            zone("Asia/Seoul")
        );
        for text in [
            "",
            "KST",
            "Asia/Soul",
            "+25:00:00:00",
            "+",
            "+99:00",
            "+09:00[Asia/Seoul]",
            "서울",
        ] {
            let error = text.parse::<Zone>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is no time zone")),
                "{error}"
            );
        }
    }
}
