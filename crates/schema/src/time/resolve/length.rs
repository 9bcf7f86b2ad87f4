//! A length of time: three weeks, a year and a half.

use super::{calendar, names::Unit};

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) months: i64,
    pub(super) days: i64,
    pub(super) workdays: i64,
    pub(super) minutes: i64,
    /// Its finest unit.
    pub(super) unit: Unit,
    /// How many of that unit.
    pub(super) count: i64,
}

impl Length {
    /// `count` units; `None` when that is more than the calendar holds.
    pub(super) fn new(count: i64, unit: Unit) -> Option<Self> {
        if count.unsigned_abs() > 10_000_000 {
            return None;
        }
        let mut out = Self {
            months: 0,
            days: 0,
            workdays: 0,
            minutes: 0,
            unit,
            count,
        };
        match unit {
            Unit::Second => out.minutes = count / 60,
            Unit::Minute => out.minutes = count,
            Unit::Hour => out.minutes = count * 60,
            Unit::Day => out.days = count,
            Unit::Workday => out.workdays = count,
            Unit::Weekend | Unit::Week | Unit::Workweek => out.days = count * 7,
            Unit::Fortnight => out.days = count * 14,
            Unit::Month => out.months = count,
            Unit::Quarter => out.months = count * 3,
            Unit::Half => out.months = count * 6,
            Unit::Year => out.months = count * 12,
            Unit::Decade => out.months = count * 120,
            Unit::Century => out.months = count * 1200,
        }
        Some(out)
    }

    /// Both together.
    pub(super) fn plus(&self, other: &Self) -> Self {
        let finer = if other.unit < self.unit { other } else { self };
        Self {
            months: self.months + other.months,
            days: self.days + other.days,
            workdays: self.workdays + other.workdays,
            minutes: self.minutes + other.minutes,
            ..*finer
        }
    }

    /// `date` and the length more, `sign` times.
    pub(super) fn from(&self, date: jiff::civil::Date, sign: i64) -> Option<jiff::civil::Date> {
        let date = calendar::plus_months(date, sign * self.months)?;
        let date = calendar::plus_days(date, sign * self.days)?;
        calendar::plus_workdays(date, sign * self.workdays)
    }
}
