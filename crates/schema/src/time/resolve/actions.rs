//! What rules do with the slots of their patterns.

use std::rc::Rc;

use super::{
    calendar::{self, Val},
    chart::{Filled, Sem},
    compose::{clock, half_length, put_together},
    counted::{decade, nth, week_number, weekend_of},
    length::Length,
    names::{Action, Portion, Slot, Unit},
    portion::portion_of,
    recurring::recurrence,
    slots::{Slots, named, small},
    spans::{began, beside, moved, range, running, weekday_beside},
    table::Table,
    when::{Context, Reading, Side, When},
};
use crate::time::value::Point;

/// Added to the value of a word for a day that lies as many days before as behind today, as the tense says.
pub(super) const EITHER_WAY: i32 = 1000;

/// What the action makes, of its class; `None` when the slots do not go together.
pub(super) fn make(
    action: Action,
    filled: &[Filled],
    table: &Table,
    context: &Context,
    words: &str,
) -> Option<Sem> {
    let slots = Slots(filled);
    let date = |when: When| Some(Sem::When(Rc::new(when)));
    let known = |readings: Option<Vec<Reading>>| {
        let readings = match readings {
            // Nothing can be told without a message time, or from a date that does not exist.
            None if context.anchor.is_some() && !slots.dates().any(|of| of.is_lost()) => {
                return None;
            }
            readings => readings.unwrap_or_default(),
        };
        Some(Sem::When(Rc::new(When::known(readings))))
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
            Some(Sem::Number(value, 0))
        }
        Action::Ordinal => {
            let value = i32::try_from(slots.number(Slot::N)?).ok()?;
            (value > 0).then_some(Sem::Value(value))
        }
        Action::Length => {
            let lengths: Vec<&Sem> = slots.all(Slot::Length).collect();
            let length = match lengths[..] {
                [Sem::Length(a), Sem::Length(b)] if a.unit != b.unit => a.plus(b),
                [] => Length::new(slots.number(Slot::N).unwrap_or(1), slots.unit()?)?,
                _ => return None,
            };
            Some(Sem::Length(length))
        }
        Action::HalfLength => Some(Sem::Length(half_length(&slots)?)),
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
            Some(Sem::When(Rc::new(when)))
        }
        Action::Date => {
            let when = put_together(&slots, context, false)?;
            // "4/31" is no date that does not exist but two numbers.
            let is_bare =
                || !words.contains(char::is_alphabetic) && slots.all(Slot::Year).next().is_none();
            let is_own =
                slots.all(Slot::D).next().is_some() && slots.all(Slot::Yy).next().is_none();
            (!(when.is_lost() && is_own && is_bare())).then_some(())?;
            date(when)
        }
        Action::NoDate => {
            let is_short = |sem: &Sem| matches!(sem, Sem::Number(_, digits) if *digits <= 2);
            slots
                .all(Slot::N)
                .all(is_short)
                .then(When::lost)
                .and_then(date)
        }
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
            known(beside(&slots, context, action == Action::LastSpan))
        }
        Action::SpanFrom | Action::SpanAt => {
            let length = slots.span()?;
            let from = slots.dates().next()?.readings(context);
            let span = |reading: &Reading, more: i64| {
                let first = reading.val.first();
                let last = calendar::plus_days(length.from(first, 1)?, more)?;
                Some(Reading {
                    val: Val::days(first, last)?,
                    exact: None,
                    whole: (action == Action::SpanAt).then_some(reading.val),
                    ..*reading
                })
            };
            let spans = from.iter().filter_map(|reading| span(reading, -1));
            // Whole weeks may also end on the weekday that they began with.
            let weeks = from.iter().filter(|_| length.unit == Unit::Week);
            let spans: Vec<Reading> = spans
                .chain(weeks.filter_map(|reading| span(reading, 0)))
                .collect();
            known((!spans.is_empty()).then_some(spans))
        }
        Action::Range | Action::RangeBefore => {
            match known(range(&slots, context, action == Action::RangeBefore))? {
                Sem::When(when) if slots.are_days() => {
                    let floats = true;
                    date(When {
                        floats,
                        ..When::clone(&when)
                    })
                }
                sem => Some(sem),
            }
        }
        Action::Pair => {
            let mut days = match range(&slots, context, false) {
                None if context.anchor.is_none() => Vec::new(),
                days => days?,
            };
            if days.is_empty() {
                // Of two dates each stands for itself.
                let one = slots.dates().next().is_none();
                return one.then(When::lost).and_then(date);
            }
            days.retain(|reading| reading.val.length() == 2 && reading.val.to != reading.val.from);
            known((!days.is_empty()).then_some(days))
        }
        Action::WeekdayBefore | Action::WeekdayAfter => known(weekday_beside(
            &slots,
            context,
            action == Action::WeekdayBefore,
        )),
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
        Action::Decade => {
            decade(&slots, context).map(|readings| Sem::When(Rc::new(When::known(readings))))
        }
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
            Some(Sem::When(Rc::new(When::known(readings))))
        }
        Action::Now => known(
            context
                .anchor
                .and_then(|time| Some(one(Val::point(Point::minute(time).ok()?)))),
        ),
        Action::Vague => Some(Sem::Vague),
        Action::Unresolved => Some(Sem::Unresolved),
        Action::Nothing => Some(Sem::Nothing),
        Action::Every | Action::EveryBetween | Action::EveryOther | Action::EveryNth => {
            let recur = recurrence(action, &slots, table, words)?;
            Some(Sem::Recur(Rc::new(recur)))
        }
    }
}

pub(super) fn one(val: Val) -> Vec<Reading> {
    vec![Reading::sure(val)]
}

/// Every reading changed by `change`; `None` when nothing is left of them.
pub(super) fn all(
    readings: Vec<Reading>,
    change: impl Fn(&Reading) -> Option<Val>,
) -> Option<Vec<Reading>> {
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
    (!out.is_empty() || readings.is_empty()).then_some(out)
}
