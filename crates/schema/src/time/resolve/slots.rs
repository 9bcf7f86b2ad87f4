//! The slots of a pattern with what fills them.

use std::rc::Rc;

use super::{
    chart::{Filled, Sem},
    length::Length,
    names::{Slot, Unit},
    when::When,
};

/// The slots of a match, by name.
pub(super) struct Slots<'a>(pub(super) &'a [Filled]);

impl<'a> Slots<'a> {
    pub(super) fn all(&self, slot: Slot) -> impl Iterator<Item = &'a Sem> {
        self.0
            .iter()
            .filter(move |(name, _)| *name == slot)
            .map(|(_, sem)| sem)
    }

    pub(super) fn value(&self, slot: Slot) -> Option<i32> {
        self.all(slot).find_map(value_of)
    }

    pub(super) fn number(&self, slot: Slot) -> Option<i64> {
        self.all(slot).find_map(|sem| match sem {
            Sem::Number(value, _) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn unit(&self) -> Option<Unit> {
        named(Unit::ALL, self.value(Slot::Unit)?)
    }

    pub(super) fn length(&self) -> Option<Length> {
        self.all(Slot::Length).find_map(|sem| match sem {
            Sem::Length(length) => Some(*length),
            _ => None,
        })
    }

    pub(super) fn dates(&self) -> impl Iterator<Item = &'a Rc<When>> {
        self.0.iter().filter_map(|(slot, sem)| match sem {
            Sem::When(when) if *slot == Slot::Date => Some(when),
            _ => None,
        })
    }

    /// Whether they name days of a month and nothing else.
    pub(super) fn are_days(&self) -> bool {
        self.0.iter().all(|(slot, sem)| match (slot, sem) {
            (Slot::D | Slot::Ordinal | Slot::Set, _) => true,
            (Slot::Date, Sem::When(when)) => when.is_day_of_month(),
            _ => false,
        })
    }

    /// `{length}`, or `{n} {unit}`, or one `{unit}`.
    pub(super) fn span(&self) -> Option<Length> {
        self.length().or_else(|| {
            let count = self
                .number(Slot::N)
                .or(self.value(Slot::Ordinal).map(i64::from));
            Length::new(count.unwrap_or(1), self.unit()?)
        })
    }
}

pub(super) fn value_of(sem: &Sem) -> Option<i32> {
    match sem {
        Sem::Value(value) => Some(*value),
        Sem::Number(value, _) => i32::try_from(*value).ok(),
        _ => None,
    }
}

pub(super) fn named<T: Copy>(all: &[T], value: i32) -> Option<T> {
    all.get(usize::try_from(value).ok()?).copied()
}

pub(super) fn small(value: i64) -> Option<i8> {
    i8::try_from(value).ok()
}
