//! All slots of a date, or of a time of day, put together.

use std::rc::Rc;

use super::{
    actions::{EITHER_WAY, one},
    calendar::{self, Val},
    chart::Sem,
    clock::Clock,
    length::Length,
    names::{Action, Part, Season, Slot, Unit},
    slots::{Slots, named, small},
    when::{Context, Reading, Side, When},
};

pub(super) fn half_length(slots: &Slots<'_>) -> Option<Length> {
    let half = |unit: Unit| match unit {
        Unit::Hour => Length::new(30, Unit::Minute),
        Unit::Day => Length::new(12, Unit::Hour),
        Unit::Month => Length::new(15, Unit::Day),
        Unit::Year => Length::new(6, Unit::Month),
        Unit::Decade => Length::new(5, Unit::Year),
        Unit::Century => Length::new(5, Unit::Decade),
        Unit::Minute => Length::new(30, Unit::Second),
        Unit::Week => Length::new(3, Unit::Day),
        _ => None,
    };
    match slots.length() {
        Some(length) => Some(length.plus(&half(length.unit)?)),
        None => {
            let half = half(slots.unit()?)?;
            match slots.number(Slot::N) {
                Some(count) => Some(Length::new(count, slots.unit()?)?.plus(&half)),
                None => Some(half),
            }
        }
    }
}

/// The time of day of all slots of one.
pub(super) fn clock(action: Action, slots: &Slots<'_>) -> Option<Clock> {
    let mut clock = Clock::default();
    for sem in slots.all(Slot::Time) {
        if let Sem::When(when) = sem {
            clock = clock.merge(when.clock)?;
        }
    }
    let part = match slots.value(Slot::Part) {
        Some(value) => Some(named(Part::ALL, value)?),
        None => None,
    };
    clock = clock.merge(Clock {
        hour: slots.number(Slot::Hour).and_then(small),
        minute: slots.number(Slot::Minute).and_then(small),
        pm: slots.value(Slot::AmPm).map(|value| value == 1),
        part,
        full: false,
    })?;
    let minutes = match action {
        Action::HalfPast => 30,
        Action::HalfTo => -30,
        Action::MinutesPast => slots.number(Slot::N).unwrap_or(15),
        Action::MinutesTo => -slots.number(Slot::N).unwrap_or(15),
        _ => return Some(clock),
    };
    if !(-59..=59).contains(&minutes) {
        return None;
    }
    let hour = i64::from(clock.hour?);
    let total = hour * 60 + minutes;
    // Before one o'clock it is past twelve, not past zero.
    let total = if total < 60 && hour <= 12 && hour > 0 {
        total + 720
    } else {
        total
    };
    clock.hour = small(total.rem_euclid(1440) / 60);
    clock.minute = small(total.rem_euclid(60));
    Some(clock)
}

/// Two digits of a year: the nearer century, with what lies ahead at most thirty years.
pub(super) fn full_year(two: i64, context: &Context) -> Option<i16> {
    let now = context
        .today()
        .map_or(2025, |today| i64::from(today.year()));
    let year = now / 100 * 100 + two;
    let year = if year > now + 30 { year - 100 } else { year };
    i16::try_from(year).ok()
}

/// All slots of a date in one.
pub(super) fn put_together(slots: &Slots<'_>, context: &Context, weeks: bool) -> Option<When> {
    let mut when = When {
        clock: clock(Action::Time, slots)?,
        ..When::default()
    };
    if context.anchor.is_some() && slots.dates().any(|date| date.is_lost()) {
        return lost_with(slots);
    }
    for date in slots.dates() {
        when = when.merge(date)?;
    }
    let mut own = When {
        month: slots
            .value(Slot::Month)
            .or(slots.number(Slot::M).and_then(|m| i32::try_from(m).ok()))
            .and_then(|m| small(m.into())),
        weekday: slots.value(Slot::Weekday).and_then(|day| small(day.into())),
        holiday: slots.value(Slot::Holiday),
        ..When::default()
    };
    if let Some(season) = slots.value(Slot::Season) {
        own.season = Some(named(Season::ALL, season)?);
    }
    let day = slots
        .number(Slot::D)
        .or(slots.value(Slot::Ordinal).map(i64::from));
    if let Some(day) = day {
        if !(1..=31).contains(&day) {
            return None;
        }
        own.day = small(day);
    }
    if let Some(year) = slots.number(Slot::Year) {
        own.year = i16::try_from(year).ok();
    } else if let Some(two) = slots.number(Slot::Yy) {
        own.year = Some(full_year(two, context)?);
    } else if let (Some(era), Some(n)) = (slots.value(Slot::Era), slots.number(Slot::N)) {
        own.year = i16::try_from(i64::from(era) + n).ok();
    }
    if let (Some(month), Some(day)) = (own.month, own.day) {
        // A leap year has all days.
        if jiff::civil::Date::new(own.year.unwrap_or(2000), month, day).is_err() {
            return Some(When::lost());
        }
    }
    let relative = slots.value(Slot::Relative);
    let mut base = None;
    if let Some(day) = slots.value(Slot::Day) {
        base = Some(context.today().map(|today| {
            let at = |days: i32| calendar::plus_days(today, days.into()).map(Val::day);
            if day < EITHER_WAY {
                return at(day).map_or(Vec::new(), one);
            }
            let days = day - EITHER_WAY;
            let sides = [(at(days), Side::Future), (at(-days), Side::Past)];
            let reading = |(val, side)| Some(Reading::of(val?, side));
            sides.into_iter().filter_map(reading).collect()
        }));
    } else if let Some(unit) = slots.unit() {
        let steps = i64::from(relative.unwrap_or(0));
        // "The last second" is more often an ordinal.
        if unit == Unit::Second {
            return None;
        }
        if context.anchor.is_some() {
            let today = context.today()?;
            // No time is told for "the next hour".
            if matches!(unit, Unit::Minute | Unit::Hour) {
                return Some(When::lost());
            }
            let val = calendar::unit_at(today, unit, steps)?;
            base = Some(Some(
                if unit == Unit::Weekend && steps == 0 && val.first() > today {
                    // Said on a weekday the weekend is the coming one or the latest.
                    let past = calendar::unit_at(today, unit, -1)?;
                    vec![
                        Reading::of(val, Side::Future),
                        Reading::of(past, Side::Past),
                    ]
                } else {
                    one(val)
                },
            ));
        } else {
            base = Some(None);
        }
    } else if let Some(relative) = relative {
        let open = own.weekday.is_some()
            || own.month.is_some()
            || own.season.is_some()
            || own.holiday.is_some()
            || own.day.is_some();
        if open && weeks && own.weekday.is_some() {
            base = Some(context.today().map(|today| {
                calendar::unit_at(today, Unit::Week, relative.into()).map_or(Vec::new(), one)
            }));
        } else if open {
            own.relative = Some(relative);
        } else if let Some(part) = when.clock.part {
            // "Last night" is yesterday's, "this morning" today's.
            let _ = part;
            base = Some(context.today().map(|today| {
                calendar::plus_days(today, relative.into())
                    .map(Val::day)
                    .map_or(Vec::new(), one)
            }));
        } else if slots.dates().next().is_some() {
            own.relative = Some(relative);
        } else {
            return None;
        }
    }
    if let Some(base) = base {
        own.base = Some(base.unwrap_or_default());
    }
    let out = when.merge(&own)?;
    // Parts that do not go together ("May of last week") make no date.
    if context.anchor.is_some() && !out.is_clock() && !out.has_readings(context) {
        return out.is_nowhere(context).then(When::lost);
    }
    Some(out)
}

/// A date that does not exist with what the slots say besides; `None` where they name another date.
fn lost_with(slots: &Slots<'_>) -> Option<When> {
    let another = [Slot::Month, Slot::M, Slot::Day, Slot::Holiday, Slot::Season];
    let lost_or_clock = |date: &Rc<When>| date.is_lost() || date.is_clock();
    let alone = another.iter().all(|slot| slots.all(*slot).next().is_none())
        && slots.dates().filter(|date| date.is_lost()).count() == 1
        && slots.dates().all(lost_or_clock);
    alone.then(When::lost)
}
