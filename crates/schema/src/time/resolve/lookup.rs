//! Dates looked up: in what is already worked out, or around today.

use jiff::civil::Date;

use super::{
    calendar::{self, Val},
    clock::Clock,
    holidays,
    when::{Context, Reading, Side, When},
};
use crate::time::value::Point;

impl When {
    /// The parts looked up inside what is already worked out.
    pub(super) fn inside(&self, base: &Reading, context: &Context) -> Vec<Reading> {
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
                .filter_map(|of| self.on_weekday(of))
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
            let found = days_of_month(&val, day)
                .find(|date| self.weekday.is_none_or(|of| calendar::weekday(*date) == of));
            return found.map_or(Vec::new(), |date| keep(Val::day(date)));
        }
        if let Some(weekday) = self.weekday {
            let from = match base.exact {
                Some(exact) if val.length() != 7 => exact,
                // "In three days, on Friday": that of the same week.
                _ if val.is_day() => calendar::monday(val.first()),
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
    pub(super) fn free(&self, context: &Context) -> Vec<Reading> {
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
                        let (first, last) = (reading.val.first(), reading.val.last());
                        if first > today {
                            calendar::days_between(today, first)
                        } else if last < today {
                            calendar::days_between(last, today)
                        } else {
                            0
                        }
                    });
                }
                // "Tuesday the 25th" is not one of months ahead when the last one was days ago.
                let is_near = |reading: &Reading| {
                    calendar::days_between(today, reading.val.first()).abs() <= 31
                };
                if self.weekday.is_some()
                    && self.day.is_some()
                    && self.month.is_none()
                    && both.iter().any(is_near)
                {
                    both.retain(is_near);
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

    /// Whether it names a day that its month does not have, or a holiday in a year of which nothing is known.
    pub(super) fn is_nowhere(&self, context: &Context) -> bool {
        let whole = Self {
            day: None,
            weekday: None,
            holiday: None,
            side: None,
            clock: Clock::default(),
            ..self.clone()
        };
        if let Some(holiday) = self.holiday {
            let mut years: Vec<i16> = whole
                .readings(context)
                .iter()
                .flat_map(|of| of.val.first().year()..=of.val.last().year())
                .collect();
            if let (true, Some(today)) = (years.is_empty(), context.today()) {
                years.extend(today.year() - 2..=today.year() + 2);
            }
            return years
                .iter()
                .any(|year| holidays::days(holiday, *year).is_empty());
        }
        let Some(day) = self.day else {
            return false;
        };
        let months = whole.readings(context);
        !months.is_empty()
            && months.iter().all(|of| of.val.as_month().is_some())
            && (self.relative.is_some() || months.iter().all(|of| of.val.last().day() < day))
    }

    /// The first day in `of` that is the weekday; all of it where none is said.
    pub(super) fn on_weekday(&self, of: Val) -> Option<Val> {
        let Some(weekday) = self.weekday else {
            return Some(of);
        };
        let day = days_of(&of).find(|date| calendar::weekday(*date) == weekday);
        day.map(Val::day)
    }

    /// The latest that has begun before today, and the first that has not ended yet.
    pub(super) fn around(&self, today: Date, context: &Context) -> (Option<Val>, Option<Val>) {
        let year = today.year();
        if let Some(holiday) = self.holiday {
            // Some come twice in a year, and some begin in the year before theirs.
            let (mut past, mut future): (Option<Val>, Option<Val>) = (None, None);
            let days = (year - 2..=year + 2).flat_map(|year| holidays::days(holiday, year));
            for val in days.filter_map(|of| self.on_weekday(of)) {
                let first = val.first();
                if first < today && past.is_none_or(|of| of.first() <= first) {
                    past = Some(val);
                }
                if val.last() >= today && future.is_none_or(|of| first < of.first()) {
                    future = Some(val);
                }
            }
            return (past, future);
        }
        if let Some(season) = self.season {
            return nearest(today, 2, |years| {
                calendar::season(year + years, season, context.south)
            });
        }
        if let Some(quarter) = self.quarter {
            return nearest(today, 2, |years| {
                Val::months(year + years, quarter * 3 - 2, 3)
            });
        }
        if let Some(half) = self.half {
            return nearest(today, 2, |years| Val::months(year + years, half * 6 - 5, 6));
        }
        match (self.month, self.day) {
            (Some(month), Some(day)) => {
                // Eight years may lie between two leap days.
                let reach = if (month, day) == (2, 29) { 8 } else { 1 };
                nearest(today, reach, |years| {
                    Date::new(year + years, month, day).ok().map(Val::day)
                })
            }
            (Some(month), None) => nearest(today, 2, |years| {
                self.on_weekday(Val::month(year + years, month)?)
            }),
            (None, Some(day)) => {
                let reach = if self.weekday.is_some() { 48 } else { 3 };
                let this = Point::month(year, today.month()).ok();
                nearest(today, reach, |months| {
                    let first = this?.shift(months.into())?.days().0;
                    let date = Date::new(first.year(), first.month(), day).ok()?;
                    let fits = self.weekday.is_none_or(|of| calendar::weekday(date) == of);
                    fits.then_some(Val::day(date))
                })
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
    pub(super) fn stepped(
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

/// Of what comes every year (or month) the latest that has begun before today, and the first that has not ended yet.
/// `at` tells the one that begins so many years from this one, of at most `reach`; none is longer than a year.
fn nearest(today: Date, reach: i16, at: impl Fn(i16) -> Option<Val>) -> (Option<Val>, Option<Val>) {
    let mut back = (-reach..=0).rev().filter_map(&at);
    let mut on = (-1..=reach).filter_map(&at);
    (
        back.find(|val| val.first() < today),
        on.find(|val| val.last() >= today),
    )
}

/// The days of a value, at most 400.
fn days_of(val: &Val) -> impl Iterator<Item = Date> {
    let last = val.last();
    std::iter::successors(Some(val.first()), |date| calendar::plus_days(*date, 1))
        .take_while(move |date| *date <= last)
        .take(400)
}

/// The days with this number in their month among the days of a value.
fn days_of_month(val: &Val, day: i8) -> impl Iterator<Item = Date> {
    let (first, last) = (val.first(), val.last());
    let months = i32::from(first.year()) * 12 + i32::from(first.month()) - 1;
    (months..months + 14)
        .map_while(move |months| {
            let year = i16::try_from(months / 12).ok()?;
            let month = i8::try_from(months % 12 + 1).ok()?;
            (year < last.year() || (year == last.year() && month <= last.month()))
                .then_some((year, month))
        })
        .filter_map(move |(year, month)| Date::new(year, month, day).ok())
        .filter(move |date| {
            (first..=last).contains(date) && calendar::days_between(first, *date) < 400
        })
}
