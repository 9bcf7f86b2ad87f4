//! What rules do with the slots of their patterns.

use std::rc::Rc;

use jiff::civil::Date;

use super::{
    calendar::{self, Val},
    chart::{Filled, Length, Sem},
    names::{Action, Class, Part, Portion, Season, Slot, Unit},
    table::Table,
    when::{Clock, Context, Reading, Side, When, portion_of},
};
use crate::time::value::Point;

/// Added to the value of a word for a day that lies as many days before as behind today, as the tense says.
pub(super) const EITHER_WAY: i32 = 1000;

/// Something that comes again.
#[derive(Clone, Debug)]
pub(super) struct Recur {
    /// The words to write.
    pub(super) words: String,
    /// What makes two recurrences the same whatever their words: step, ordinal, unit, weekdays.
    pub(super) core: Core,
    /// A date that bounds it ("every Tuesday since October").
    pub(super) date: Option<Rc<When>>,
}

/// The rhythm of a recurrence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Core {
    /// Every how many.
    pub step: i64,
    /// Which one of the month, where it is counted so.
    pub nth: Option<i32>,
    /// Of which unit, by its place in the list; `None` for weekdays and the like.
    pub(super) unit: Option<Unit>,
    /// Weekdays, 1 to 7, in order.
    pub weekdays: Vec<i32>,
    /// Months, parts of the day, seasons or holidays, by class and value.
    pub(super) others: Vec<(Class, i32)>,
}

/// The slots of a match, by name.
struct Slots<'a>(&'a [Filled]);

impl<'a> Slots<'a> {
    fn all(&self, slot: Slot) -> impl Iterator<Item = &'a Sem> {
        self.0
            .iter()
            .filter(move |(name, _)| *name == slot)
            .map(|(_, sem)| sem)
    }

    fn value(&self, slot: Slot) -> Option<i32> {
        self.all(slot).find_map(value_of)
    }

    fn number(&self, slot: Slot) -> Option<i64> {
        self.all(slot).find_map(|sem| match sem {
            Sem::Number(value, _) => Some(*value),
            _ => None,
        })
    }

    fn unit(&self) -> Option<Unit> {
        named(Unit::ALL, self.value(Slot::Unit)?)
    }

    fn length(&self) -> Option<Length> {
        self.all(Slot::Length).find_map(|sem| match sem {
            Sem::Length(length) => Some(*length),
            _ => None,
        })
    }

    fn dates(&self) -> impl Iterator<Item = &'a Rc<When>> {
        self.0.iter().filter_map(|(slot, sem)| match sem {
            Sem::When(when) if *slot == Slot::Date => Some(when),
            _ => None,
        })
    }

    /// Whether they name days of a month and nothing else.
    fn are_days(&self) -> bool {
        self.0.iter().all(|(slot, sem)| match (slot, sem) {
            (Slot::D | Slot::Ordinal | Slot::Set, _) => true,
            (Slot::Date, Sem::When(when)) => when.is_day_of_month(),
            _ => false,
        })
    }

    /// `{length}`, or `{n} {unit}`, or one `{unit}`.
    fn span(&self) -> Option<Length> {
        self.length().or_else(|| {
            let count = self
                .number(Slot::N)
                .or(self.value(Slot::Ordinal).map(i64::from));
            Length::new(count.unwrap_or(1), self.unit()?)
        })
    }
}

fn value_of(sem: &Sem) -> Option<i32> {
    match sem {
        Sem::Value(value) => Some(*value),
        Sem::Number(value, _) => i32::try_from(*value).ok(),
        _ => None,
    }
}

fn named<T: Copy>(all: &[T], value: i32) -> Option<T> {
    all.get(usize::try_from(value).ok()?).copied()
}

fn small(value: i64) -> Option<i8> {
    i8::try_from(value).ok()
}

/// Makes what the action makes; `None` when the slots do not go together.
pub(super) fn make(
    action: Action,
    filled: &[Filled],
    table: &Table,
    context: &Context,
    words: &str,
) -> Option<(Class, Sem)> {
    let slots = Slots(filled);
    let date = |when: When| Some((Class::Date, Sem::When(Rc::new(when))));
    let known = |readings: Option<Vec<Reading>>| {
        let readings = match readings {
            // Nothing can be told without a message time; a date that does not exist is no date.
            None if context.anchor.is_some() => return None,
            readings => readings.unwrap_or_default(),
        };
        Some((Class::Date, Sem::When(Rc::new(When::known(readings)))))
    };
    match action {
        Action::Number => {
            let numbers: Vec<&Sem> = slots.all(Slot::N).collect();
            let value = match numbers[..] {
                [Sem::Number(a, 0), Sem::Number(b, 0)]
                    if (10..=20).contains(a) && (10..=99).contains(b) =>
                {
                    a * 100 + b
                }
                [Sem::Number(value, _)] => *value,
                _ => return None,
            };
            Some((Class::Number, Sem::Number(value, 0)))
        }
        Action::Ordinal => {
            let value = i32::try_from(slots.number(Slot::N)?).ok()?;
            (value > 0).then_some((Class::Ordinal, Sem::Value(value)))
        }
        Action::Length => {
            let lengths: Vec<&Sem> = slots.all(Slot::Length).collect();
            let length = match lengths[..] {
                [Sem::Length(a), Sem::Length(b)] if a.unit != b.unit => a.plus(b),
                [] => Length::new(slots.number(Slot::N).unwrap_or(1), slots.unit()?)?,
                _ => return None,
            };
            Some((Class::Length, Sem::Length(length)))
        }
        Action::HalfLength => Some((Class::Length, Sem::Length(half_length(&slots)?))),
        Action::Time
        | Action::HalfPast
        | Action::HalfTo
        | Action::MinutesPast
        | Action::MinutesTo => {
            let clock = clock(action, &slots)?;
            let when = When {
                clock,
                ..When::default()
            };
            Some((Class::Time, Sem::When(Rc::new(when))))
        }
        Action::Date => date(put_together(&slots, context, false)?),
        Action::WeekdayOfWeek => date(put_together(&slots, context, true)?),
        Action::Past | Action::Future => {
            let mut when = put_together(&slots, context, false)?;
            when.side = Some(match action {
                Action::Past => Side::Past,
                _ => Side::Future,
            });
            date(when)
        }
        Action::Back => known(moved(&slots, context, -1)),
        Action::Forward => known(moved(&slots, context, 1)),
        Action::Within => known(moved(&slots, context, 1).map(|mut readings| {
            for reading in &mut readings {
                if let Some(exact) = reading.exact.take() {
                    reading.whole = Some(reading.val);
                    reading.val = Val::day(exact);
                }
            }
            readings
        })),
        Action::LastSpan | Action::NextSpan => {
            known(beside(&slots, context, action == Action::LastSpan).map(one))
        }
        Action::SpanFrom => {
            let length = slots.span()?;
            let from = slots.dates().next()?.readings(context);
            let span = |reading: &Reading| {
                let first = reading.val.first();
                let last = calendar::plus_days(length.from(first, 1)?, -1)?;
                Some(Reading {
                    val: Val::days(first, last)?,
                    // What is said may also be only that it begins then.
                    whole: Some(reading.val),
                    ..*reading
                })
            };
            let spans: Vec<Reading> = from.iter().filter_map(span).collect();
            known((!spans.is_empty()).then_some(spans))
        }
        Action::Range | Action::RangeBefore => {
            let (class, sem) = known(range(&slots, context, action == Action::RangeBefore))?;
            match sem {
                Sem::When(when) if slots.are_days() => {
                    let floats = true;
                    date(When {
                        floats,
                        ..When::clone(&when)
                    })
                }
                sem => Some((class, sem)),
            }
        }
        Action::Pair => {
            let mut days = range(&slots, context, false)?;
            days.retain(|reading| reading.val.length() == 2 && reading.val.to != reading.val.from);
            known((!days.is_empty()).then_some(days))
        }
        Action::SoFar => known(running(&slots, context, true)),
        Action::RestOf => known(running(&slots, context, false)),
        Action::WeekOf => {
            let of = slots.dates().next()?.readings(context);
            let weekend = slots.unit() == Some(Unit::Weekend);
            known(all(of, |reading| {
                if weekend {
                    weekend_of(reading.val.first())
                } else {
                    calendar::week(reading.val.first())
                }
            }))
        }
        Action::WeekNumber => known(week_number(&slots, context)),
        Action::Nth => known(nth(&slots, context)),
        Action::Portion => {
            let portion = named(Portion::ALL, slots.value(Slot::Portion)?)?;
            let when = put_together(&slots, context, false)?;
            if when.is_clock() {
                return None;
            }
            let today = context.today();
            let readings = when.readings(context);
            if readings.is_empty() {
                return known(None);
            }
            let of = |reading: &Reading| portion_of(reading, portion, today);
            known(Some(readings.iter().map(of).collect()))
        }
        Action::QuarterOf | Action::HalfOf => {
            let number = slots
                .number(Slot::N)
                .or(slots.value(Slot::Ordinal).map(i64::from))?;
            let most = if action == Action::QuarterOf { 4 } else { 2 };
            // "Last quarter" is the one before this.
            let number = match number {
                -1 if slots.dates().next().is_some() => most,
                number => number,
            };
            if !(1..=most).contains(&number) {
                return None;
            }
            let rest: Vec<Filled> = filled
                .iter()
                .filter(|(slot, _)| !matches!(slot, Slot::N | Slot::Ordinal | Slot::Unit))
                .cloned()
                .collect();
            let mut when = put_together(&Slots(&rest), context, false).unwrap_or_default();
            let field = if action == Action::QuarterOf {
                &mut when.quarter
            } else {
                &mut when.half
            };
            *field = small(number);
            date(when)
        }
        Action::Decade => decade(&slots, context)
            .map(|readings| (Class::Date, Sem::When(Rc::new(When::known(readings))))),
        Action::Century => {
            let number = slots
                .number(Slot::N)
                .or(slots.value(Slot::Ordinal).map(i64::from))?;
            let first = i16::try_from(number.checked_sub(1)?.checked_mul(100)?).ok()?;
            known(Some(one(Val::years(first.max(1), first.checked_add(99)?)?)))
        }
        Action::Began => known(began(&slots, context)),
        Action::Lasted => {
            let length = slots.span()?;
            let readings = (length.minutes == 0).then(|| began(&slots, context))?;
            let unsure = |reading: Reading| Reading {
                side: Side::Past,
                ..reading
            };
            let readings = readings.into_iter().flatten().map(unsure).collect();
            Some((Class::Other, Sem::When(Rc::new(When::known(readings)))))
        }
        Action::Now => known(
            context
                .anchor
                .and_then(|time| Some(one(Val::point(Point::minute(time).ok()?)))),
        ),
        Action::Vague => Some((Class::Other, Sem::Vague)),
        Action::Unresolved => Some((Class::Other, Sem::Unresolved)),
        Action::Nothing => Some((Class::Other, Sem::Nothing)),
        Action::Every | Action::EveryBetween | Action::EveryOther | Action::EveryNth => {
            let recur = recurrence(action, &slots, table, words)?;
            Some((Class::Recurrence, Sem::Recur(Rc::new(recur))))
        }
    }
}

fn one(val: Val) -> Vec<Reading> {
    vec![Reading::sure(val)]
}

/// Every reading changed by `change`; `None` when there is none.
fn all(readings: Vec<Reading>, change: impl Fn(&Reading) -> Option<Val>) -> Option<Vec<Reading>> {
    let out: Vec<Reading> = readings
        .iter()
        .filter_map(|reading| {
            Some(Reading {
                val: change(reading)?,
                exact: None,
                whole: None,
                ..*reading
            })
        })
        .collect();
    (!out.is_empty()).then_some(out)
}

fn half_length(slots: &Slots<'_>) -> Option<Length> {
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
fn clock(action: Action, slots: &Slots<'_>) -> Option<Clock> {
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
fn full_year(two: i64, context: &Context) -> Option<i16> {
    let now = context
        .today()
        .map_or(2025, |today| i64::from(today.year()));
    let year = now / 100 * 100 + two;
    let year = if year > now + 30 { year - 100 } else { year };
    i16::try_from(year).ok()
}

/// All slots of a date in one.
fn put_together(slots: &Slots<'_>, context: &Context, weeks: bool) -> Option<When> {
    let mut when = When {
        clock: clock(Action::Time, slots)?,
        ..When::default()
    };
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
        jiff::civil::Date::new(own.year.unwrap_or(2000), month, day).ok()?;
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
        if context.anchor.is_some() {
            let today = context.today()?;
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
    // Parts that can be worked out but to nothing ("February 30th, 2024") make no date.
    if context.anchor.is_some() && !out.is_clock() && out.readings(context).is_empty() {
        return None;
    }
    Some(out)
}

/// A length before or after now or a date.
fn moved(slots: &Slots<'_>, context: &Context, sign: i64) -> Option<Vec<Reading>> {
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
    let exact = length.from(today, sign)?;
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
fn shifted(val: &Val, length: &Length, sign: i64) -> Option<Val> {
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

/// The range of a length right before or after today.
fn beside(slots: &Slots<'_>, context: &Context, before: bool) -> Option<Val> {
    let length = slots.span()?;
    if slots.number(Slot::N) == Some(1) {
        return None;
    }
    let now = context.anchor?;
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
fn range(slots: &Slots<'_>, context: &Context, before: bool) -> Option<Vec<Reading>> {
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
            let mixed = slots.all(Slot::D).count() == 1 && slots.all(Slot::Ordinal).count() == 1;
            let is_end = |slot: Slot| match twice {
                Some(twice) => slot == twice,
                None => mixed && matches!(slot, Slot::D | Slot::Ordinal),
            };
            if twice.is_none() && !mixed {
                return None;
            }
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
    if a.clock.pm.is_none() && a.clock.part.is_none() && a.clock.hour <= b.clock.hour {
        (a.clock.pm, a.clock.part) = (b.clock.pm, b.clock.part);
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
    let starts = a.readings(context);
    let starts = if starts.is_empty() {
        b.readings(context).into_iter().filter(|_| false).collect()
    } else {
        starts
    };
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
            b.readings(&near)
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

/// From the beginning of a date to yesterday, or from today to its end.
fn running(slots: &Slots<'_>, context: &Context, so_far: bool) -> Option<Vec<Reading>> {
    let today = context.today()?;
    let when = put_together(slots, context, false)?;
    all(when.readings(context), |reading| {
        if so_far {
            let yesterday = calendar::plus_days(today, -1)?;
            Val::days(reading.val.first(), yesterday.min(reading.val.last()))
        } else {
            Val::days(today.max(reading.val.first()), reading.val.last())
        }
    })
}

/// The weekend of a date: its Saturday and Sunday, longer when the date is the Friday or Monday beside it.
fn weekend_of(date: jiff::civil::Date) -> Option<Val> {
    match calendar::weekday(date) {
        1 => Val::days(calendar::plus_days(date, -2)?, date),
        4 => Val::days(date, calendar::plus_days(date, 3)?),
        5 => Val::days(date, calendar::plus_days(date, 2)?),
        _ => calendar::weekend(date),
    }
}

fn week_number(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
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
fn nth(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
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
fn nth_unit(first: Date, last: Date, unit: Unit, nth: i64) -> Option<Val> {
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

fn decade(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
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

/// When that which has lasted a length began, in the form of its unit.
fn began(slots: &Slots<'_>, context: &Context) -> Option<Vec<Reading>> {
    let length = slots.span()?;
    let today = context.today()?;
    let exact = length.from(today, -1)?;
    let unit = match length.unit {
        Unit::Year | Unit::Decade | Unit::Century => Unit::Year,
        Unit::Month | Unit::Quarter | Unit::Half => Unit::Month,
        Unit::Week | Unit::Fortnight | Unit::Workweek => Unit::Week,
        Unit::Second | Unit::Minute | Unit::Hour => return moved(slots, context, -1),
        _ => Unit::Day,
    };
    Some(one(calendar::unit_at(exact, unit, 0)?))
}

fn recurrence(action: Action, slots: &Slots<'_>, table: &Table, words: &str) -> Option<Recur> {
    let forms = &table.recurring;
    let step = match action {
        Action::EveryOther => 2,
        Action::EveryNth => 1,
        _ => slots
            .number(Slot::N)
            .or(slots.value(Slot::Ordinal).map(i64::from))
            .or(slots.length().map(|length| length.count))
            .unwrap_or(1),
    };
    if step < 1 {
        return None;
    }
    let mut unit = slots.unit().or(slots.length().map(|length| length.unit));
    let mut weekdays: Vec<i32> = slots.all(Slot::Weekday).filter_map(value_of).collect();
    let mut step = step;
    let mut before = Vec::new();
    let mut nth_before = None;
    for sem in slots.all(Slot::Recurrence) {
        if let Sem::Recur(recur) = sem {
            let core = &recur.core;
            weekdays.extend(&core.weekdays);
            before.extend(core.others.iter().copied());
            unit = unit.or(core.unit);
            step = step.max(core.step);
            nth_before = nth_before.or(core.nth);
        }
    }
    if let (Action::EveryBetween, [first, last]) = (action, &weekdays[..]) {
        let days = (last - first).rem_euclid(7);
        weekdays = (0..=days).map(|more| (first + more - 1) % 7 + 1).collect();
    }
    weekdays.sort_unstable();
    weekdays.dedup();
    let mut others = Vec::new();
    let mut names = Vec::new();
    for weekday in &weekdays {
        names.push(table.name_of(Class::Weekday, *weekday)?.to_owned());
    }
    for (slot, class) in [
        (Slot::Month, Class::Month),
        (Slot::Part, Class::Part),
        (Slot::Season, Class::Season),
        (Slot::Holiday, Class::Holiday),
    ] {
        for value in slots.all(slot).filter_map(value_of) {
            others.push((class, value));
            names.push(table.name_of(class, value)?.to_owned());
        }
    }
    for (class, value) in before {
        if !others.contains(&(class, value)) {
            others.push((class, value));
            names.push(table.name_of(class, value)?.to_owned());
        }
    }
    if let Some(unit) = unit {
        names.push(table.name_of(Class::Unit, unit as i32)?.to_owned());
    }
    if names.is_empty() {
        return None;
    }
    let ordinal = slots.value(Slot::Ordinal);
    let nth = match action {
        Action::EveryNth => ordinal.or(slots.number(Slot::D).and_then(|d| i32::try_from(d).ok())),
        // "Every first Thursday" is that of the month; "every third" may be a step.
        Action::Every if !weekdays.is_empty() => {
            ordinal.filter(|nth| [1, -1].contains(nth)).or(nth_before)
        }
        _ => nth_before,
    };
    if nth.is_some() && !weekdays.is_empty() {
        // "Every month on the first Tuesday" and "every first Tuesday" are the same.
        (unit, step) = (None, 1);
    }
    let joined = match names.split_at(weekdays.len()) {
        (days, []) => days.join(&forms.and),
        ([], others) => others.join(" "),
        (days, others) => [&days.join(&forms.and), &others.join(" ")]
            .map(String::as_str)
            .join(" "),
    };
    let form = match (nth, step) {
        // The 28th of every month.
        (Some(nth), _) if unit == Some(Unit::Month) && !forms.day.is_empty() => {
            forms.day.replace("{n}", &nth.to_string())
        }
        (Some(nth), _) => forms.nth.replace("{n}", &nth.to_string()),
        (None, 1) => forms.every.clone(),
        (None, 2) => forms.other.clone(),
        (None, step) => forms.step.replace("{n}", &step.to_string()),
    };
    let written = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let own = crate::time::value::Recurrence::new(&written).is_ok();
    let inner = slots.all(Slot::Recurrence).find_map(|sem| match sem {
        Sem::Recur(recur) => recur.date.clone(),
        _ => None,
    });
    Some(Recur {
        date: slots.dates().next().cloned().or(inner),
        words: if own {
            written
        } else {
            form.replace("{}", &joined)
        },
        core: Core {
            step,
            nth,
            unit,
            weekdays,
            others,
        },
    })
}
