//! What is known of a date while it is put together, and what it can mean.

use jiff::civil::{Date, DateTime};

use super::{
    calendar::{self, Val},
    holidays,
    names::{Part, Portion, Season},
};
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

    fn at(&self, date: Date) -> Self {
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

/// A time of day, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) hour: Option<i8>,
    pub(super) minute: Option<i8>,
    pub(super) pm: Option<bool>,
    pub(super) part: Option<Part>,
    /// Whether the hour was said as one of 24.
    pub(super) full: bool,
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
}

/// `a` or `b`; an error when both are there and differ.
fn either<T: PartialEq>(a: Option<T>, b: Option<T>) -> Result<Option<T>, ()> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err(()),
        (a, b) => Ok(a.or(b)),
    }
}

impl Clock {
    /// Both together; `None` when they contradict each other.
    pub(super) fn merge(self, other: Self) -> Option<Self> {
        let merged = || -> Result<Self, ()> {
            Ok(Self {
                hour: either(self.hour, other.hour)?,
                minute: either(self.minute, other.minute)?,
                pm: either(self.pm, other.pm)?,
                part: self.part.or(other.part),
                full: self.full || other.full,
            })
        };
        merged().ok()
    }

    /// Hours and minutes that it may mean, the likelier first.
    fn times(&self) -> Vec<(i8, i8)> {
        let minute = self.minute.unwrap_or(0);
        let Some(hour) = self.hour else {
            return match self.part {
                Some(Part::Noon) => vec![(12, 0)],
                Some(Part::Midnight) => vec![(0, 0)],
                _ => Vec::new(),
            };
        };
        if !(0..=24).contains(&hour) || !(0..=59).contains(&minute) {
            return Vec::new();
        }
        if hour == 0 || hour > 12 {
            return vec![(hour % 24, minute)];
        }
        let (am, pm) = ((hour % 12, minute), (hour % 12 + 12, minute));
        match (self.pm, self.part) {
            (Some(false), _) => vec![am],
            (Some(true), _) => vec![pm],
            (None, Some(Part::Dawn | Part::Morning | Part::Midnight)) => {
                vec![if hour == 12 && self.part == Some(Part::Morning) {
                    pm
                } else {
                    am
                }]
            }
            (None, Some(Part::Afternoon | Part::Evening)) => {
                vec![if hour == 12 && self.part == Some(Part::Evening) {
                    am
                } else {
                    pm
                }]
            }
            (None, Some(Part::Noon)) => vec![if hour == 11 { am } else { pm }],
            (None, Some(Part::Night)) => vec![if (6..12).contains(&hour) { pm } else { am }],
            (None, None) if self.full => vec![(hour, minute)],
            (None, None) if (7..12).contains(&hour) => vec![am, pm],
            (None, None) => vec![pm, am],
        }
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

    /// Whether nothing but a time of day is known.
    pub(super) fn is_clock(&self) -> bool {
        self.base.is_none() && !self.has_day_parts() && self.year.is_none()
    }

    /// Whether the words leave nothing open.
    pub(super) fn is_sure(&self, context: &Context) -> bool {
        self.readings(context)
            .iter()
            .all(|reading| reading.side == Side::Sure)
    }

    /// Whether anything finer than a year is open to be looked up.
    fn has_day_parts(&self) -> bool {
        self.month.is_some()
            || self.day.is_some()
            || self.weekday.is_some()
            || self.holiday.is_some()
            || self.season.is_some()
            || self.quarter.is_some()
            || self.half.is_some()
    }

    /// Both together; `None` when they contradict each other.
    pub(super) fn merge(&self, other: &Self) -> Option<Self> {
        let (base, more) = match (&self.base, &other.base) {
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
                (Some(inside), None)
            }
            (Some(_), None) => (self.base.clone(), other.base.clone()),
            (None, _) => (other.base.clone(), None),
        };
        debug_assert!(more.is_none());
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
            })
        };
        merged().ok()
    }

    /// What it may mean, the likeliest first. Empty when that needs a message time that is not known, or when there
    /// is no such date.
    pub(super) fn readings(&self, context: &Context) -> Vec<Reading> {
        let mut out = match &self.base {
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

    /// The parts looked up inside what is already worked out.
    fn inside(&self, base: &Reading, context: &Context) -> Vec<Reading> {
        let keep = |val: Val| {
            vec![Reading {
                val,
                exact: None,
                whole: None,
                ..*base
            }]
        };
        let mut val = base.val;
        if let Some(year) = self.year {
            match val.as_year() {
                Some(of) if of == year => {}
                _ if val.first().year() == year => {}
                _ => return Vec::new(),
            }
        }
        if let Some(month) = self.month {
            let found = (val.first().year()..=val.last().year()).find_map(|year| {
                let found = Val::month(year, month)?;
                (found.first() <= val.last() && found.last() >= val.first()).then_some(found)
            });
            match found {
                Some(found) if val.length() > 31 => val = found,
                Some(_) => {}
                None => return Vec::new(),
            }
        }
        if let Some(holiday) = self.holiday {
            let found = (val.first().year()..=val.last().year())
                .flat_map(|year| holidays::days(holiday, year))
                .find(|of| (val.first()..=val.last()).contains(&of.first()));
            match found {
                Some(of) => return keep(of),
                None => return Vec::new(),
            }
        }
        let year = val.first().year();
        if let Some(season) = self.season {
            return calendar::season(year, season, context.south).map_or(Vec::new(), keep);
        }
        if let Some(quarter) = self.quarter {
            return Val::months(year, quarter * 3 - 2, 3).map_or(Vec::new(), keep);
        }
        if let Some(half) = self.half {
            return Val::months(year, half * 6 - 5, 6).map_or(Vec::new(), keep);
        }
        if let Some(day) = self.day {
            let found = days_of(&val).find(|date| {
                date.day() == day && self.weekday.is_none_or(|of| calendar::weekday(*date) == of)
            });
            return found.map_or(Vec::new(), |date| keep(Val::day(date)));
        }
        if let Some(weekday) = self.weekday {
            let from = match base.exact {
                Some(exact) if val.length() > 7 => exact,
                _ => val.first(),
            };
            let more = (weekday - calendar::weekday(from)).rem_euclid(7);
            return calendar::plus_days(from, more.into())
                .map_or(Vec::new(), |date| keep(Val::day(date)));
        }
        if val == base.val {
            vec![*base]
        } else {
            keep(val)
        }
    }

    /// Without anything that is already worked out.
    fn free(&self, context: &Context) -> Vec<Reading> {
        if let Some(year) = self.year {
            let Some(whole) = Val::year(year) else {
                return Vec::new();
            };
            return if self.has_day_parts() {
                self.inside(&Reading::sure(whole), context)
            } else {
                vec![Reading::sure(whole)]
            };
        }
        let Some(today) = context.today() else {
            return Vec::new();
        };
        if !self.has_day_parts() {
            return match self.clock == Clock::default() {
                true => Vec::new(),
                false => vec![Reading::sure(Val::day(today))],
            };
        }
        let (past, future) = self.around(today, context);
        if let Some(relative) = self.relative {
            let one = self.stepped(relative, past, future, today, context);
            return one.map(Reading::sure).into_iter().collect();
        }
        let mut both = match (past, future) {
            (Some(past), Some(future)) if past == future => vec![Reading::sure(past)],
            (past, future) => {
                let mut both: Vec<Reading> = [(future, Side::Future), (past, Side::Past)]
                    .into_iter()
                    .filter_map(|(val, side)| Some(Reading::of(val?, side)))
                    .collect();
                // Of two dates without tense the nearer one is likelier; of weekdays the coming one.
                if self.weekday.is_none() || self.day.is_some() {
                    both.sort_by_key(|reading| {
                        let first = calendar::days_between(today, reading.val.first());
                        let last = calendar::days_between(today, reading.val.last());
                        if first <= 0 && last >= 0 {
                            0
                        } else {
                            first.abs().min(last.abs())
                        }
                    });
                }
                both
            }
        };
        if self.holiday.is_some() {
            // "At Christmas" may be any day around it: the month comes last.
            for reading in &mut both {
                let first = reading.val.first();
                reading.whole = Val::month(first.year(), first.month());
            }
        }
        both
    }

    /// The latest that has begun before today, and the first that has not ended yet.
    fn around(&self, today: Date, context: &Context) -> (Option<Val>, Option<Val>) {
        let year = today.year();
        let from_list = |vals: &mut dyn Iterator<Item = Val>| {
            let (mut past, mut future): (Option<Val>, Option<Val>) = (None, None);
            for val in vals {
                let first = val.first();
                if first < today && past.is_none_or(|of| of.first() <= first) {
                    past = Some(val);
                }
                if val.last() >= today && future.is_none_or(|of| first < of.first()) {
                    future = Some(val);
                }
            }
            (past, future)
        };
        if let Some(holiday) = self.holiday {
            let years = year - 2..=year + 2;
            return from_list(&mut years.flat_map(|year| holidays::days(holiday, year)));
        }
        if let Some(season) = self.season {
            let years = year - 2..=year + 2;
            return from_list(
                &mut years.filter_map(|year| calendar::season(year, season, context.south)),
            );
        }
        if let Some(quarter) = self.quarter {
            return from_list(
                &mut (year - 2..=year + 2).filter_map(|year| Val::months(year, quarter * 3 - 2, 3)),
            );
        }
        if let Some(half) = self.half {
            return from_list(
                &mut (year - 2..=year + 2).filter_map(|year| Val::months(year, half * 6 - 5, 6)),
            );
        }
        match (self.month, self.day) {
            (Some(month), Some(day)) => from_list(
                &mut (year - 8..=year + 8)
                    .filter_map(|year| Date::new(year, month, day).ok())
                    .map(Val::day),
            ),
            (Some(month), None) => {
                from_list(&mut (year - 2..=year + 2).filter_map(|year| Val::month(year, month)))
            }
            (None, Some(day)) => {
                let reach = if self.weekday.is_some() { 48 } else { 3 };
                let this = Point::month(year, today.month()).ok();
                let months = (-reach..=reach).filter_map(|step| this?.shift(step));
                let days = months.filter_map(|month| {
                    let first = month.first().date();
                    let date = Date::new(first.year(), first.month(), day).ok()?;
                    let fits = self.weekday.is_none_or(|of| calendar::weekday(date) == of);
                    fits.then_some(Val::day(date))
                });
                from_list(&mut days.into_iter())
            }
            (None, None) => {
                let Some(weekday) = self.weekday else {
                    return (None, None);
                };
                let back = (calendar::weekday(today) - weekday - 1).rem_euclid(7) + 1;
                let on = (weekday - calendar::weekday(today) - 1).rem_euclid(7) + 1;
                (
                    calendar::plus_days(today, -i64::from(back)).map(Val::day),
                    calendar::plus_days(today, on.into()).map(Val::day),
                )
            }
        }
    }

    /// The one that is `relative` steps from this one.
    fn stepped(
        &self,
        relative: i32,
        past: Option<Val>,
        future: Option<Val>,
        today: Date,
        context: &Context,
    ) -> Option<Val> {
        let steps = i64::from(relative);
        if let (Some(weekday), None) = (self.weekday, self.month.or(self.day)) {
            // "Next Friday" is that of the following week, "last Friday" the latest before today.
            return match relative {
                0 => future,
                -1 => past,
                steps => {
                    let monday = calendar::monday(today);
                    let days = i64::from(steps) * 7 + i64::from(weekday) - 1;
                    calendar::plus_days(monday, days).map(Val::day)
                }
            };
        }
        if self.month.is_some() && self.day.is_some() {
            let year = i16::try_from(i64::from(today.year()) + steps).ok()?;
            return Date::new(year, self.month?, self.day?).ok().map(Val::day);
        }
        // Last: the latest that is over; next: the first that has not begun; this: the one of this year.
        let year_of = |val: Val, years: i64| {
            let at = calendar::plus_months(val.first(), years * 12)?;
            let moved = Self {
                relative: None,
                ..self.clone()
            };
            let (_, future) = moved.around(at, &context.at(at));
            future
        };
        match relative {
            0 => {
                let holds_today = |val: &Val| val.first() <= today && val.last() >= today;
                if let Some(now) = future.filter(holds_today) {
                    return Some(now);
                }
                [future, past]
                    .into_iter()
                    .flatten()
                    .find(|val| val.first().year() == today.year())
                    .or(future)
            }
            steps if steps < 0 => {
                let last = past
                    .filter(|val| val.last() < today)
                    .or_else(|| year_of(past?, -1))?;
                if steps == -1 {
                    Some(last)
                } else {
                    year_of(last, i64::from(steps) + 1)
                }
            }
            steps => {
                let next = future
                    .filter(|val| val.first() > today)
                    .or_else(|| year_of(future?, 1))?;
                if steps == 1 {
                    Some(next)
                } else {
                    year_of(next, i64::from(steps) - 1)
                }
            }
        }
    }
}

fn holds(outer: &Reading, inner: &Reading) -> bool {
    outer.val.first() <= inner.val.first() && inner.val.last() <= outer.val.last()
}

/// The days of a value, at most 400.
fn days_of(val: &Val) -> impl Iterator<Item = Date> {
    let last = val.last();
    std::iter::successors(Some(val.first()), |date| calendar::plus_days(*date, 1))
        .take_while(move |date| *date <= last)
        .take(400)
}

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
