//! Times that lie a length away, and ranges.

use std::rc::Rc;

use jiff::civil::DateTime;

use super::{
    actions::{all, one},
    calendar::{self, Val},
    chart::Filled,
    compose::put_together,
    length::Length,
    names::{Slot, Unit},
    slots::Slots,
    when::{Context, Reading, Side, When},
};
use crate::time::value::Point;

/// A length before or after now or a date; no reading where that lies beyond the calendar.
pub(super) fn moved(slots: &Slots<'_>, context: &Context, sign: i64) -> Option<Vec<Reading>> {
    let length = slots.span()?;
    let rest: Vec<Filled> = slots
        .0
        .iter()
        .filter(|(slot, _)| !matches!(slot, Slot::Length | Slot::N | Slot::Unit | Slot::Ordinal))
        .cloned()
        .collect();
    if !rest.is_empty() {
        let from = put_together(&Slots(&rest), context, false)?.readings(context);
        if slots.unit() == Some(Unit::Week) && slots.number(Slot::N).is_none() {
            // "The week before Christmas" is the calendar week before that of Christmas.
            return all(from, |reading| {
                calendar::week(calendar::plus_days(reading.val.first(), 7 * sign)?)
            });
        }
        let is_far = |of: &Reading| length.from(of.val.first(), sign).is_none();
        if !from.is_empty() && from.iter().all(is_far) {
            return Some(Vec::new());
        }
        let mut moved = all(from, |reading| shifted(&reading.val, &length, sign))?;
        for reading in moved
            .iter_mut()
            .filter(|of| length.months != 0 && of.val.is_day())
        {
            reading.exact = Some(reading.val.first());
        }
        return Some(moved);
    }
    let now = context.anchor?;
    let today = now.date();
    let Some(exact) = length.from(today, sign) else {
        return Some(Vec::new());
    };
    if length.minutes != 0 {
        let time = calendar::plus_minutes(exact.to_datetime(now.time()), sign * length.minutes)?;
        return Some(one(Val::point(Point::minute(time).ok()?)));
    }
    let val = match length.unit {
        Unit::Week | Unit::Fortnight | Unit::Workweek => calendar::week(exact)?,
        Unit::Weekend => calendar::unit_at(today, Unit::Weekend, sign * length.count)?,
        Unit::Month | Unit::Half => calendar::unit_at(exact, Unit::Month, 0)?,
        Unit::Quarter => calendar::unit_at(exact, Unit::Quarter, 0)?,
        Unit::Year | Unit::Decade | Unit::Century => calendar::unit_at(exact, Unit::Year, 0)?,
        Unit::Second => Val::point(Point::minute(now).ok()?),
        _ => Val::day(exact),
    };
    Some(vec![Reading {
        exact: (!val.is_day()).then_some(exact),
        // "Two weeks ago" may also be the very day.
        whole: (val.length() == 7).then_some(Val::day(exact)),
        ..Reading::sure(val)
    }])
}

/// A value moved by a length.
pub(super) fn shifted(val: &Val, length: &Length, sign: i64) -> Option<Val> {
    if let Point::Minute(time) = val.from {
        let date = length.from(time.date(), sign)?;
        let time = calendar::plus_minutes(date.to_datetime(time.time()), sign * length.minutes)?;
        return Some(Val::point(Point::minute(time).ok()?));
    }
    if let (Some(year), true) = (val.as_year(), length.months % 12 == 0 && length.days == 0) {
        return Val::year(i16::try_from(i64::from(year) + sign * length.months / 12).ok()?);
    }
    if let (Some(_), true) = (val.as_month(), length.days == 0 && length.workdays == 0) {
        return Some(Val::point(val.from.shift(sign * length.months)?));
    }
    let from = if sign < 0 { val.first() } else { val.last() };
    if val.is_day() {
        return length.from(from, sign).map(Val::day);
    }
    Val::days(
        length.from(val.first(), sign)?,
        length.from(val.last(), sign)?,
    )
}

/// The range of a length right before or after today; no reading where that lies beyond the calendar.
pub(super) fn beside(slots: &Slots<'_>, context: &Context, before: bool) -> Option<Vec<Reading>> {
    let length = slots.span()?;
    if slots.number(Slot::N) == Some(1) {
        return None;
    }
    let now = context.anchor?;
    let end = length.from(now.date(), if before { -1 } else { 1 });
    if end.is_none() || length.unit == Unit::Second {
        return Some(Vec::new());
    }
    span_beside(&length, now, before).map(one)
}

fn span_beside(length: &Length, now: DateTime, before: bool) -> Option<Val> {
    let today = now.date();
    if length.minutes != 0 {
        let other = calendar::plus_minutes(
            now,
            if before {
                -length.minutes
            } else {
                length.minutes
            },
        )?;
        let (now, other) = (Point::minute(now).ok()?, Point::minute(other).ok()?);
        return Some(Val {
            from: now.min(other),
            to: now.max(other),
        });
    }
    if matches!(length.unit, Unit::Quarter | Unit::Decade | Unit::Century) {
        let (from, to) = if before {
            (-length.count, -1)
        } else {
            (1, length.count)
        };
        let from = calendar::unit_at(today, length.unit, from)?;
        return Val::join(&from, &calendar::unit_at(today, length.unit, to)?);
    }
    if before {
        Val::days(length.from(today, -1)?, calendar::plus_days(today, -1)?)
    } else {
        Val::days(calendar::plus_days(today, 1)?, length.from(today, 1)?)
    }
}

/// From the first date to the last.
pub(super) fn range(slots: &Slots<'_>, context: &Context, before: bool) -> Option<Vec<Reading>> {
    let dates: Vec<&Rc<When>> = slots.dates().collect();
    let (mut a, mut b) = match dates[..] {
        [a, b] => (When::clone(a), When::clone(b)),
        // "May 3 to 5": what is said once goes for both.
        _ => {
            let pairs = [
                Slot::D,
                Slot::Ordinal,
                Slot::Hour,
                Slot::Time,
                Slot::M,
                Slot::Month,
                Slot::Year,
                Slot::Weekday,
            ];
            let twice = pairs.into_iter().find(|slot| slots.all(*slot).count() == 2);
            let mixed = [[Slot::D, Slot::Ordinal], [Slot::Hour, Slot::Time]]
                .into_iter()
                .find(|pair| pair.iter().all(|slot| slots.all(*slot).count() == 1));
            let end = twice.map(|slot| [slot; 2]).or(mixed)?;
            let is_end = |slot: Slot| end.contains(&slot);
            let ends: Vec<usize> = (0..slots.0.len())
                .filter(|&at| is_end(slots.0[at].0))
                .collect();
            let side = |leave: usize| {
                let own: Vec<Filled> = slots
                    .0
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| *at != leave)
                    .map(|(_, filled)| filled.clone())
                    .collect();
                put_together(&Slots(&own), context, false)
            };
            (side(ends[1])?, side(ends[0])?)
        }
    };
    // A time of day counts for the day of the other end.
    if b.is_clock() && !a.is_clock() {
        let clock = b.clock;
        b = a.clone();
        b.clock = clock;
    } else if a.is_clock() && !b.is_clock() {
        let clock = a.clock;
        a = b.clone();
        a.clock = clock;
    }
    if a.clock.pm.is_none() && a.clock.part.is_none() {
        let on_face = |of: Option<i8>| of.map(|hour| hour % 12);
        if on_face(a.clock.hour) <= on_face(b.clock.hour) {
            (a.clock.pm, a.clock.part) = (b.clock.pm, b.clock.part);
        } else {
            // "11-1pm" begins before noon.
            a.clock.pm = b.clock.pm.map(|pm| !pm);
        }
    }
    if a.base.is_none() && b.base.is_none() {
        // "November to February 2017", "the 3rd to the 12th of September".
        if a.month.is_none() && a.day.is_some() && b.day.is_some() {
            a.month = b.month;
        }
        if b.month.is_none() && b.day.is_some() && a.month.is_some() {
            (b.month, b.year) = (a.month, a.year.or(b.year));
        }
        if a.year.is_none() && a.month.is_some() && a.relative.is_none() {
            a.year = match (
                b.year,
                (a.month, a.day.unwrap_or(1)) > (b.month, b.day.unwrap_or(31)),
            ) {
                (Some(year), true) => Some(year - 1),
                (year, _) => year,
            };
        }
    }
    if context.anchor.is_some() && (a.is_lost() || b.is_lost()) {
        return Some(Vec::new());
    }
    let starts = a.readings(context);
    let mut out = Vec::new();
    for start in &starts {
        let from = start
            .whole
            .filter(|whole| whole.first() == start.val.first())
            .unwrap_or(start.val);
        // The end is the first one after the beginning.
        let at = calendar::plus_days(from.first(), -1)?;
        let near = Context {
            anchor: Some(at.at(0, 0, 0, 0)),
            ..*context
        };
        let open = b.base.is_none() && b.year.is_none() && b.relative.is_none();
        let ends = if open {
            // The day before may lie in a December that is not the one after January.
            let mut ends = b.readings(&near);
            ends.extend(b.readings(&context.at(from.first())));
            ends
        } else {
            b.readings(context)
        };
        let end = ends
            .iter()
            .filter(|end| {
                end.val.to.last() >= from.from.first() && !(open && end.side == Side::Past)
            })
            .min_by_key(|end| end.val.to.last());
        let Some(end) = end else { continue };
        let last = match end.whole {
            // "Until the end of June" is all of June.
            Some(whole) if whole.last() == end.val.last() => whole,
            _ => end.val,
        };
        let Some(mut val) = Val::join(&from, &last) else {
            continue;
        };
        if before {
            let Some(to) = val.to.previous().filter(|to| *to >= val.from) else {
                continue;
            };
            val.to = to;
        }
        out.push(Reading {
            val,
            exact: None,
            // What is said may also be only that it begins then.
            whole: Some(from),
            ..*start
        });
    }
    // The one that is running now is meant, whatever the tense.
    if let Some(today) = context.today()
        && out.len() > 1
        && let Some(now) = out
            .iter()
            .find(|of| of.val.first() <= today && of.val.last() >= today)
    {
        out = vec![Reading {
            side: Side::Sure,
            ..*now
        }];
    }
    (!out.is_empty()).then_some(out)
}

/// From the beginning of a date to yesterday, or from today to its end; no reading where that is no day.
pub(super) fn running(slots: &Slots<'_>, context: &Context, so_far: bool) -> Option<Vec<Reading>> {
    let today = context.today()?;
    let when = put_together(slots, context, false)?;
    let running = all(when.readings(context), |reading| {
        if so_far {
            let yesterday = calendar::plus_days(today, -1)?;
            Val::days(reading.val.first(), yesterday.min(reading.val.last()))
        } else {
            Val::days(today.max(reading.val.first()), reading.val.last())
        }
    });
    Some(running.unwrap_or_default())
}

/// The last weekday before a date, or the first one after it.
pub(super) fn weekday_beside(
    slots: &Slots<'_>,
    context: &Context,
    before: bool,
) -> Option<Vec<Reading>> {
    let weekday = i8::try_from(slots.value(Slot::Weekday)?).ok()?;
    let rest: Vec<Filled> = slots
        .0
        .iter()
        .filter(|(slot, _)| *slot != Slot::Weekday)
        .cloned()
        .collect();
    let of = put_together(&Slots(&rest), context, false)?;
    if of.is_clock() {
        return None;
    }
    all(of.readings(context), |reading| {
        let days = |from: i8, to: i8| i64::from((to - from - 1).rem_euclid(7) + 1);
        let day = if before {
            let first = reading.val.first();
            calendar::plus_days(first, -days(weekday, calendar::weekday(first)))
        } else {
            let last = reading.val.last();
            calendar::plus_days(last, days(calendar::weekday(last), weekday))
        };
        day.map(Val::day)
    })
}

/// When that which has lasted a length began, in the form of its unit.
pub(super) fn began(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
    let length = slots.span()?;
    let today = context.today()?;
    let Some(exact) = length.from(today, -1) else {
        return Some(Vec::new());
    };
    let unit = match length.unit {
        Unit::Year | Unit::Decade | Unit::Century => Unit::Year,
        Unit::Month | Unit::Quarter | Unit::Half => Unit::Month,
        Unit::Week | Unit::Fortnight | Unit::Workweek => Unit::Week,
        Unit::Second | Unit::Minute | Unit::Hour => return moved(slots, context, -1),
        _ => Unit::Day,
    };
    Some(one(calendar::unit_at(exact, unit, 0)?))
}
