//! Calendar arithmetic on points and pairs of points.

use jiff::{
    Span, ToSpan,
    civil::{Date, DateTime},
};

use super::names::{Season, Unit};
use crate::time::value::{Point, TimeValue};

/// A point (both ends equal) or a range of two points of the same form, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Val {
    pub(super) from: Point,
    pub(super) to: Point,
}

impl Val {
    /// One point.
    pub(super) fn point(point: Point) -> Self {
        Self {
            from: point,
            to: point,
        }
    }

    /// One day.
    pub(super) fn day(date: Date) -> Self {
        Self::point(Point::Day(date))
    }

    /// From one day to another; `None` backwards.
    pub(super) fn days(from: Date, to: Date) -> Option<Self> {
        (from <= to).then_some(Self {
            from: Point::Day(from),
            to: Point::Day(to),
        })
    }

    /// One month.
    pub(super) fn month(year: i16, month: i8) -> Option<Self> {
        Point::month(year, month).ok().map(Self::point)
    }

    /// From one month, `count` months long.
    pub(super) fn months(year: i16, month: i8, count: i64) -> Option<Self> {
        let from = Point::month(year, month).ok()?;
        Some(Self {
            from,
            to: from.shift(count - 1)?,
        })
    }

    /// One year.
    pub(super) fn year(year: i16) -> Option<Self> {
        Point::year(year).ok().map(Self::point)
    }

    /// From one year to another.
    pub(super) fn years(from: i16, to: i16) -> Option<Self> {
        Some(Self {
            from: Point::year(from).ok()?,
            to: Point::year(to).ok()?,
        })
    }

    /// First day.
    pub(super) fn first(&self) -> Date {
        self.from.days().0
    }

    /// Last day.
    pub(super) fn last(&self) -> Date {
        self.to.days().1
    }

    /// Whether it is one day or a part of one.
    pub(super) fn is_day(&self) -> bool {
        self.first() == self.last()
    }

    /// Whether both ends are days that time values reach.
    pub(super) fn is_in_calendar(&self) -> bool {
        let is_in = |point: Point| match point {
            Point::Day(date) => (1..=9999).contains(&date.year()),
            // Those were checked when they were made.
            Point::Year(_) | Point::Month { .. } | Point::Minute(_) => true,
        };
        is_in(self.from) && is_in(self.to)
    }

    /// Days that it covers.
    pub(super) fn length(&self) -> i64 {
        days_between(self.first(), self.last()) + 1
    }

    /// The year, where it is one.
    pub(super) fn as_year(&self) -> Option<i16> {
        match (self.from, self.to) {
            (Point::Year(year), Point::Year(to)) if year == to => Some(year),
            _ => None,
        }
    }

    /// The year and month, where it is one.
    pub(super) fn as_month(&self) -> Option<(i16, i8)> {
        match (self.from, self.to) {
            (Point::Month { year, month }, to) if to == self.from => Some((year, month)),
            _ => None,
        }
    }

    /// As a time value.
    pub(super) fn value(&self) -> TimeValue {
        if self.from == self.to {
            TimeValue::Point(self.from)
        } else {
            TimeValue::range(self.from, self.to).unwrap_or_default()
        }
    }

    /// From the beginning of `a` to the end of `b`, in the coarser form that both can take; `None` backwards.
    pub(super) fn join(a: &Self, b: &Self) -> Option<Self> {
        let rank = |point: &Point| match point {
            Point::Year(_) => 0,
            Point::Month { .. } => 1,
            Point::Day(_) => 2,
            Point::Minute(_) => 3,
        };
        // "From 3 May until now": a time of day on one side only does not count.
        let finest = match (rank(&a.from), rank(&b.to)) {
            (3, 3) => 3,
            (a, b) => a.max(b).min(2),
        };
        let (from, to) = match finest {
            0 => (a.from, b.to),
            1 => {
                let (first, last) = (a.first(), b.last());
                (
                    Point::month(first.year(), first.month()).ok()?,
                    Point::month(last.year(), last.month()).ok()?,
                )
            }
            2 => (Point::Day(a.first()), Point::Day(b.last())),
            _ => (
                Point::minute(a.from.first()).ok()?,
                Point::minute(b.to.last()).ok()?,
            ),
        };
        (from <= to).then_some(Self { from, to })
    }
}

/// `date` and `days` more.
pub(super) fn plus_days(date: Date, days: i64) -> Option<Date> {
    // Within a month nothing needs to be counted.
    let day = i64::from(date.day()).saturating_add(days);
    if let (1..=28, Ok(day), 1..=9999) = (day, i8::try_from(day), date.year()) {
        return Date::new(date.year(), date.month(), day).ok();
    }
    let date = date.checked_add(Span::new().try_days(days).ok()?).ok()?;
    (1..=9999).contains(&date.year()).then_some(date)
}

/// `date` and `months` more, pressed into the month.
pub(super) fn plus_months(date: Date, months: i64) -> Option<Date> {
    let date = date
        .checked_add(Span::new().try_months(months).ok()?)
        .ok()?;
    (1..=9999).contains(&date.year()).then_some(date)
}

/// `time` and `minutes` more.
pub(super) fn plus_minutes(time: DateTime, minutes: i64) -> Option<DateTime> {
    let time = time
        .checked_add(Span::new().try_minutes(minutes).ok()?)
        .ok()?;
    (1..=9999).contains(&time.year()).then_some(time)
}

/// `date` and as many working days (Monday to Friday) more, back when negative.
pub(super) fn plus_workdays(mut date: Date, count: i64) -> Option<Date> {
    let step = count.signum();
    for _ in 0..count.unsigned_abs().min(5000) {
        date = plus_days(date, step)?;
        while weekday(date) > 5 {
            date = plus_days(date, step)?;
        }
    }
    Some(date)
}

/// Days from `a` to `b`.
pub(super) fn days_between(a: Date, b: Date) -> i64 {
    day_number(b) - day_number(a)
}

/// Days from the first of the calendar.
fn day_number(date: Date) -> i64 {
    let years = i64::from(date.year()) - 1;
    let leap_days = years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    years * 365 + leap_days + i64::from(date.day_of_year())
}

/// 1 (Monday) to 7.
pub(super) fn weekday(date: Date) -> i8 {
    date.weekday().to_monday_one_offset()
}

/// The Monday of the week of `date`.
pub(super) fn monday(date: Date) -> Date {
    date.checked_sub(i64::from(weekday(date) - 1).days())
        .unwrap_or(date)
}

/// The Monday-to-Sunday week of `date`.
pub(super) fn week(date: Date) -> Option<Val> {
    let monday = monday(date);
    Val::days(monday, plus_days(monday, 6)?)
}

/// The Saturday and Sunday of the week of `date`.
pub(super) fn weekend(date: Date) -> Option<Val> {
    let monday = monday(date);
    Val::days(plus_days(monday, 5)?, plus_days(monday, 6)?)
}

/// The season that begins in `year`: three months, half a year later in the south.
pub(super) fn season(year: i16, season: Season, south: bool) -> Option<Val> {
    let month = match season {
        Season::Spring => 3,
        Season::Summer => 6,
        Season::Autumn => 9,
        Season::Winter => 12,
    };
    let month = if south { (month + 5) % 12 + 1 } else { month };
    Val::months(year, month, 3)
}

/// The unit `step` units from the one that holds `date`: last week is -1, this month 0.
pub(super) fn unit_at(date: Date, unit: Unit, step: i64) -> Option<Val> {
    let year = date.year();
    let in_years =
        |years: i64| -> Option<i16> { i16::try_from(i64::from(year).checked_add(years)?).ok() };
    match unit {
        Unit::Second | Unit::Minute | Unit::Hour => None,
        Unit::Day => plus_days(date, step).map(Val::day),
        Unit::Workday => plus_workdays(date, step).map(Val::day),
        Unit::Week => week(plus_days(date, step.checked_mul(7)?)?),
        Unit::Weekend => weekend(plus_days(date, step.checked_mul(7)?)?),
        Unit::Workweek => {
            let monday = monday(plus_days(date, step.checked_mul(7)?)?);
            Val::days(monday, plus_days(monday, 4)?)
        }
        Unit::Fortnight => {
            let monday = monday(plus_days(date, step.checked_mul(14)?)?);
            Val::days(monday, plus_days(monday, 13)?)
        }
        Unit::Month => {
            let first = Point::month(year, date.month()).ok()?;
            Some(Val::point(first.shift(step)?))
        }
        Unit::Quarter => {
            let first = Point::month(year, (date.month() - 1) / 3 * 3 + 1).ok()?;
            let from = first.shift(step.checked_mul(3)?)?;
            Some(Val {
                from,
                to: from.shift(2)?,
            })
        }
        Unit::Half => {
            let first = Point::month(year, (date.month() - 1) / 6 * 6 + 1).ok()?;
            let from = first.shift(step.checked_mul(6)?)?;
            Some(Val {
                from,
                to: from.shift(5)?,
            })
        }
        Unit::Year => Val::year(in_years(step)?),
        Unit::Decade => {
            let first = in_years(step.checked_mul(10)?)? / 10 * 10;
            Val::years(first, first + 9)
        }
        Unit::Century => {
            let first = in_years(step.checked_mul(100)?)? / 100 * 100;
            Val::years(first, first + 99)
        }
    }
}
