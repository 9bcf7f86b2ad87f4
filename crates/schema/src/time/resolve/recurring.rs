//! What comes again.

use std::rc::Rc;

use super::{
    chart::Sem,
    names::{Action, Class, Slot, Unit},
    slots::{Slots, value_of},
    table::Table,
    weekdays,
    when::When,
};

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

pub(super) fn recurrence(
    action: Action,
    slots: &Slots<'_>,
    table: &Table,
    words: &str,
) -> Option<Recur> {
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
    let rows = slots.all(Slot::Weekdays).filter_map(value_of);
    weekdays.extend(rows.flat_map(weekdays::of_bits));
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
