//! Parts that are counted: the second week of a month, the last Monday, a decade.

use jiff::civil::Date;

use super::{
    actions::{all, one},
    calendar::{self, Val},
    chart::Filled,
    compose::put_together,
    length::Length,
    names::{Slot, Unit},
    slots::Slots,
    when::{Context, Reading},
};

/// The weekend of a date: its Saturday and Sunday, longer when the date is the Friday or Monday beside it.
pub(super) fn weekend_of(date: jiff::civil::Date) -> Option<Val> {
    match calendar::weekday(date) {
        1 => Val::days(calendar::plus_days(date, -2)?, date),
        4 => Val::days(date, calendar::plus_days(date, 3)?),
        5 => Val::days(date, calendar::plus_days(date, 2)?),
        _ => calendar::weekend(date),
    }
}

pub(super) fn week_number(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
    let number = slots
        .number(Slot::N)
        .or(slots.value(Slot::Ordinal).map(i64::from))?;
    if !(1..=53).contains(&number) {
        return None;
    }
    let of = |year: i16| {
        let fourth = jiff::civil::Date::new(year, 1, 4).ok()?;
        calendar::week(calendar::plus_days(fourth, (number - 1) * 7)?)
    };
    let years = match slots.dates().next() {
        Some(date) => date.readings(context),
        None => match slots.number(Slot::Year) {
            Some(year) => one(Val::year(i16::try_from(year).ok()?)?),
            None => one(Val::year(context.today()?.year())?),
        },
    };
    all(years, |reading| of(reading.val.as_year()?))
}

/// The nth unit, weekday or length in a date.
pub(super) fn nth(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
    let nth = i64::from(
        slots
            .value(Slot::Ordinal)
            .or(slots.number(Slot::N).and_then(|n| i32::try_from(n).ok()))?,
    );
    let rest: Vec<Filled> = slots
        .0
        .iter()
        .filter(|(slot, _)| matches!(slot, Slot::Date | Slot::Month | Slot::Year | Slot::Relative))
        .cloned()
        .collect();
    let when = put_together(&Slots(&rest), context, false)?;
    let weekday = slots.value(Slot::Weekday);
    let unit = slots.unit();
    let length = slots.length();
    all(when.readings(context), |reading| {
        let of = reading.val;
        let (first, last) = (of.first(), of.last());
        if let Some(length) = length {
            // Weeks, months and years are whole ones.
            let whole = matches!(
                length.unit,
                Unit::Week | Unit::Month | Unit::Quarter | Unit::Year
            ) && Length::new(length.count, length.unit) == Some(length);
            return match (whole, nth < 0) {
                (true, true) => Val::join(
                    &nth_unit(first, last, length.unit, -length.count)?,
                    &nth_unit(first, last, length.unit, -1)?,
                ),
                (true, false) => Val::join(
                    &nth_unit(first, last, length.unit, 1)?,
                    &nth_unit(first, last, length.unit, length.count)?,
                ),
                (false, true) => Val::days(calendar::plus_days(length.from(last, -1)?, 1)?, last),
                (false, false) => {
                    Val::days(first, calendar::plus_days(length.from(first, 1)?, -1)?)
                }
            };
        }
        if let Some(weekday) = weekday {
            let days = i64::from(weekday);
            let date = if nth > 0 {
                let more = (days - i64::from(calendar::weekday(first))).rem_euclid(7);
                calendar::plus_days(first, more + (nth - 1) * 7)?
            } else {
                let back = (i64::from(calendar::weekday(last)) - days).rem_euclid(7);
                calendar::plus_days(last, -back + (nth + 1) * 7)?
            };
            return (first..=last).contains(&date).then(|| Val::day(date));
        }
        let val = nth_unit(first, last, unit?, nth)?;
        // There is no first week of a day.
        (val.first() <= last && val.last() >= first && val.length() <= of.length()).then_some(val)
    })
}

/// The nth unit of the days from `first` to `last`, counted from the end when it is negative.
pub(super) fn nth_unit(first: Date, last: Date, unit: Unit, nth: i64) -> Option<Val> {
    match unit {
        Unit::Week => {
            // The first week is the one that holds the first Thursday, the last the one of the last.
            let week = if nth > 0 {
                let middle = (4 - i64::from(calendar::weekday(first))).rem_euclid(7);
                calendar::plus_days(first, middle + (nth - 1) * 7)?
            } else {
                let middle = (i64::from(calendar::weekday(last)) - 4).rem_euclid(7);
                calendar::plus_days(last, -middle + (nth + 1) * 7)?
            };
            calendar::week(week)
        }
        Unit::Weekend => {
            let saturday = if nth > 0 {
                let more = (6 - i64::from(calendar::weekday(first))).rem_euclid(7);
                calendar::plus_days(first, more + (nth - 1) * 7)?
            } else {
                let back = (i64::from(calendar::weekday(last)) - 6).rem_euclid(7);
                calendar::plus_days(last, -back + (nth + 1) * 7)?
            };
            calendar::weekend(saturday)
        }
        Unit::Fortnight if nth == -1 => Val::days(calendar::plus_days(last, -13)?, last),
        Unit::Fortnight if nth == 1 => Val::days(first, calendar::plus_days(first, 13)?),
        _ if nth > 0 => calendar::unit_at(first, unit, nth - 1),
        _ => calendar::unit_at(last, unit, nth + 1),
    }
}

pub(super) fn decade(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
    if let Some(year) = slots.number(Slot::Year) {
        let first = i16::try_from(year).ok()?;
        return (first % 10 == 0).then(|| Val::years(first, first + 9).map(one))?;
    }
    let two = slots.number(Slot::Yy).or(slots.number(Slot::N))?;
    if two % 10 != 0 || !(0..100).contains(&two) {
        return None;
    }
    let now = context.today().map_or(2025, |today| today.year());
    let century = now / 100 * 100;
    let first = century + i16::try_from(two).ok()?;
    // The latest decade that has begun.
    let first = if first > now { first - 100 } else { first };
    Some(one(Val::years(first, first + 9)?))
}
