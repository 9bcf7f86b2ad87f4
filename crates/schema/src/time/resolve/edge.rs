//! The ends of the calendar.
//!
//! A phrase of the first or the last years may lead out of the calendar. What is seen there is what is seen some cycles
//! of the calendar further in, where years have the same days and weekdays.

use jiff::civil::Date;

use super::{Found, when::Context};
use crate::time::value::TimeValue;

/// Years after which the calendar comes again, weekdays and leap days included.
const CYCLE: i16 = 400;
/// Years that lie further from the ends than any word alone may lead.
const INNER: std::ops::RangeInclusive<i16> = 400..=9600;

/// The same place some cycles further in; `None` for times that lie far from the ends.
pub(super) fn further_in(context: &Context) -> Option<Context> {
    let anchor = context.anchor?;
    if INNER.contains(&anchor.year()) {
        return None;
    }
    let year = 5 * CYCLE + anchor.year() % CYCLE;
    let date = Date::new(year, anchor.month(), anchor.day()).ok()?;
    Some(Context {
        anchor: Some(date.to_datetime(anchor.time())),
        ..*context
    })
}

/// What is seen further in, with what it means here; nothing where that is nothing.
pub(super) fn here(seen: Vec<Found>, mut here: Vec<Found>) -> Vec<Found> {
    let read = |of: Found| {
        let same = here.iter().position(|own| own.range == of.range);
        if let Some(at) = same {
            return here.swap_remove(at);
        }
        let timeless =
            |value: &TimeValue| matches!(value, TimeValue::Empty | TimeValue::Recurrence(_));
        let mut out = of;
        out.candidates.retain(timeless);
        out.sure &= !out.candidates.is_empty();
        out
    };
    seen.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests;
