//! Early, middle and late.

use jiff::civil::Date;

use super::{
    calendar::{self, Val},
    names::Portion,
    when::Reading,
};
use crate::time::value::Point;

/// A portion of a reading.
pub(super) fn portion_of(reading: &Reading, portion: Portion, today: Option<Date>) -> Reading {
    let val = reading.val;
    let (first, last) = (val.first(), val.last());
    let days = |from: i64, to: i64| {
        Val::days(
            calendar::plus_days(first, from)?,
            calendar::plus_days(first, to)?,
        )
    };
    let late_days = |from: i64| {
        // What is left of the week or month that is running.
        let from = calendar::plus_days(first, from)?;
        let from = match today {
            Some(today) if today > from && today <= last => today,
            _ => from,
        };
        Val::days(from, last)
    };
    let found = if let Some(year) = val.as_year() {
        let (month, count) = match portion {
            Portion::Early => (1, 4),
            Portion::Middle => (5, 4),
            Portion::Late | Portion::Later | Portion::SecondHalf => (7, 6),
            Portion::FirstHalf => (1, 6),
        };
        Val::months(year, month, count)
    } else if val.as_month().is_some() {
        match portion {
            Portion::Early | Portion::FirstHalf => days(0, 14),
            Portion::Middle => days(9, 19),
            Portion::Late | Portion::SecondHalf => days(15, val.length() - 1),
            Portion::Later => late_days(15),
        }
    } else if val.is_day() {
        match portion {
            Portion::Late | Portion::Later => {
                Point::minute(last.at(23, 59, 0, 0)).ok().map(Val::point)
            }
            _ => Some(val),
        }
    } else if val.length() == 7 {
        match portion {
            Portion::Early | Portion::FirstHalf => days(0, 2),
            Portion::Middle => days(2, 3),
            Portion::Late | Portion::SecondHalf => days(3, 6),
            Portion::Later => late_days(3),
        }
    } else if let (Point::Year(from), Point::Year(to)) = (val.from, val.to) {
        let third = (to - from + 1) / 3;
        match portion {
            Portion::Early => Val::years(from, from + third),
            Portion::Middle => Val::years(from + third + 1, to - third),
            Portion::Late | Portion::Later => Val::years(to - third + 1, to),
            Portion::FirstHalf => Val::years(from, from + (to - from) / 2),
            Portion::SecondHalf => Val::years(from + (to - from) / 2 + 1, to),
        }
    } else {
        let length = val.length();
        match portion {
            Portion::Early => days(0, length / 3),
            Portion::Middle => days(length / 3, length * 2 / 3),
            Portion::Late | Portion::Later => days(length * 2 / 3, length - 1),
            Portion::FirstHalf => days(0, length / 2 - 1),
            Portion::SecondHalf => days(length / 2, length - 1),
        }
    };
    Reading {
        val: found.unwrap_or(val),
        whole: Some(val),
        ..*reading
    }
}
