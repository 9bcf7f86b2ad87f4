//! What is known of a date while it is put together, and what it can mean.

use jiff::civil::{Date, DateTime};

use super::{calendar::Val, clock::Clock, names::Season};
use crate::time::value::Point;

/// What resolving needs to know besides the words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    /// Wall-clock time of the message.
    pub(super) anchor: Option<DateTime>,
    /// Whether seasons are those of the southern half.
    pub(super) south: bool,
}

impl Context {
    pub(super) fn today(&self) -> Option<Date> {
        self.anchor.map(|time| time.date())
    }

    pub(super) fn at(&self, date: Date) -> Self {
        Self {
            anchor: Some(date.at(12, 0, 0, 0)),
            ..*self
        }
    }
}

/// Where a reading lies, as far as the words leave it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The words leave nothing open.
    Sure,
    /// The reading for the past tense.
    Past,
    /// The reading for the future tense.
    Future,
}

/// One meaning of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) val: Val,
    pub(super) side: Side,
    /// The exact day that a week, month or year was counted to ("three months ago").
    pub(super) exact: Option<Date>,
    /// The whole of which `val` is a portion ("early March").
    pub(super) whole: Option<Val>,
}

impl Reading {
    pub(super) fn sure(val: Val) -> Self {
        Self::of(val, Side::Sure)
    }

    pub(super) fn of(val: Val, side: Side) -> Self {
        Self {
            val,
            side,
            exact: None,
            whole: None,
        }
    }
}

/// A date as far as it is put together.
#[derive(Clone, Debug, Default)]
pub(super) struct When {
    /// Readings of what is already worked out; `Some` and empty when that needs a message time that is not known.
    pub(super) base: Option<Vec<Reading>>,
    pub(super) year: Option<i16>,
    pub(super) month: Option<i8>,
    pub(super) day: Option<i8>,
    /// 1 is Monday.
    pub(super) weekday: Option<i8>,
    pub(super) holiday: Option<i32>,
    pub(super) season: Option<Season>,
    /// 1 to 4.
    pub(super) quarter: Option<i8>,
    /// 1 or 2.
    pub(super) half: Option<i8>,
    /// Steps from this one, of a weekday, month, season or holiday.
    pub(super) relative: Option<i32>,
    /// Side that the words ask for ("since", "by").
    pub(super) side: Option<Side>,
    pub(super) clock: Clock,
    /// Whether it was worked out from days of a month alone, and so may be of a month named before.
    pub(super) floats: bool,
}

/// `a` or `b`; an error when both are there and differ.
pub(super) fn either<T: PartialEq>(a: Option<T>, b: Option<T>) -> Result<Option<T>, ()> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(()),
        (a, b) => Ok(a.or(b)),
    }
}

impl When {
    /// One that is already worked out.
    pub(super) fn known(readings: Vec<Reading>) -> Self {
        Self {
            base: Some(readings),
            ..Self::default()
        }
    }

    /// One that was said and has no date: no calendar holds it, or nobody knows it.
    pub(super) fn lost() -> Self {
        Self::known(Vec::new())
    }

    /// Whether it was said and has no date, with a message time or for want of one.
    pub(super) fn is_lost(&self) -> bool {
        self.base.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether nothing but a time of day is known.
    pub(super) fn is_clock(&self) -> bool {
        self.base.is_none() && !self.has_day_parts() && self.year.is_none()
    }

    /// Whether nothing but the day of a month is known ("until the 24th", "from the 3rd to the 5th").
    pub(super) fn is_day_of_month(&self) -> bool {
        let is_open = self.base.is_none() && self.month.is_none() && self.year.is_none();
        self.floats || (self.day.is_some() && is_open)
    }

    /// Whether the words leave nothing open.
    pub(super) fn is_sure(&self, context: &Context) -> bool {
        self.readings(context)
            .iter()
            .all(|reading| reading.side == Side::Sure)
    }

    /// Whether anything finer than a year is open to be looked up.
    pub(super) fn has_day_parts(&self) -> bool {
        self.month.is_some()
            || self.day.is_some()
            || self.weekday.is_some()
            || self.holiday.is_some()
            || self.season.is_some()
            || self.quarter.is_some()
            || self.half.is_some()
    }

    /// Both together; `None` when they contradict each other.
    pub(super) fn merge(self, other: &Self) -> Option<Self> {
        let base = match (self.base, &other.base) {
            (Some(a), Some(b)) => {
                // Two worked-out dates go together when one lies in the other: "tomorrow, next week".
                let inside: Vec<Reading> = a
                    .iter()
                    .chain(b)
                    .filter(|reading| {
                        a.iter().any(|of| holds(of, reading))
                            && b.iter().any(|of| holds(of, reading))
                    })
                    .copied()
                    .collect();
                if inside.is_empty() {
                    return None;
                }
                Some(inside)
            }
            (Some(base), None) => Some(base),
            (None, base) => base.clone(),
        };
        let merged = || -> Result<Self, ()> {
            Ok(Self {
                base,
                year: either(self.year, other.year)?,
                month: either(self.month, other.month)?,
                day: either(self.day, other.day)?,
                weekday: either(self.weekday, other.weekday)?,
                holiday: either(self.holiday, other.holiday)?,
                season: either(self.season, other.season)?,
                quarter: either(self.quarter, other.quarter)?,
                half: either(self.half, other.half)?,
                relative: either(self.relative, other.relative)?,
                side: self.side.or(other.side),
                clock: self.clock.merge(other.clock).ok_or(())?,
                floats: self.floats || other.floats,
            })
        };
        merged().ok()
    }

    /// Whether there is such a date, where the message time is known.
    pub(super) fn has_readings(&self, context: &Context) -> bool {
        // Those need not be looked up that are around every day of the calendar.
        let is_open = self.base.is_none()
            && self.year.is_none()
            && self.relative.is_none()
            && self.holiday.is_none()
            && self.season.is_none()
            && self.quarter.or(self.half).is_none();
        let is_around = match (self.month, self.day, self.weekday) {
            (None, None, Some(_)) | (_, Some(1..=28), None) => true,
            (Some(_), None, None) => !self.clock.has_times(),
            _ => false,
        };
        (is_open && is_around) || !self.readings(context).is_empty()
    }

    /// What it may mean, the likeliest first. Empty when that needs a message time that is not known, or when there
    /// is no such date.
    pub(super) fn readings(&self, context: &Context) -> Vec<Reading> {
        let mut out = match &self.base {
            Some(base) if self.year.is_none() && !self.has_day_parts() => base.clone(),
            Some(base) => base
                .iter()
                .flat_map(|reading| self.inside(reading, context))
                .collect(),
            None => self.free(context),
        };
        // What is looked up around the first years may lie before them.
        out.retain(|reading| reading.val.is_in_calendar());
        if let Some(side) = self.side {
            let kept: Vec<Reading> = out
                .iter()
                .filter(|reading| reading.side == side)
                .map(|reading| Reading {
                    side: Side::Sure,
                    ..*reading
                })
                .collect();
            if !kept.is_empty() {
                out = kept;
            }
        }
        self.at_clock(out)
    }

    /// The time of day put to every reading that is one day.
    fn at_clock(&self, days: Vec<Reading>) -> Vec<Reading> {
        let times = self.clock.times();
        if times.is_empty() {
            return days;
        }
        let mut out = Vec::with_capacity(days.len() * times.len());
        for (hour, minute) in times {
            for reading in &days {
                let Reading { val, .. } = *reading;
                if !val.is_day() {
                    continue;
                }
                let point = Point::minute(val.first().at(hour, minute, 0, 0));
                if let Ok(point) = point {
                    out.push(Reading {
                        val: Val::point(point),
                        whole: None,
                        ..*reading
                    });
                }
            }
        }
        out
    }
}

fn holds(outer: &Reading, inner: &Reading) -> bool {
    outer.val.first() <= inner.val.first() && inner.val.last() <= outer.val.last()
}
