//! Whether a memory's time agrees with its evidence, and what it was meant to be where it was miscounted.

use jiff::tz::Offset;
use serde::{Deserialize, Serialize};

use super::{
    evidence::{Evidence, Said},
    resolve::{Found, Options},
    value::{Point, TimeValue},
};

/// What came of checking a memory's time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeChecked {
    /// The evidence allows the time. An empty time always agrees: it states nothing.
    Agreed,
    /// The time was miscounted and has been put right by the one date that the evidence names.
    Repaired,
    /// Neither: the evidence does not hold the time, or does not settle it.
    #[default]
    Unverified,
}

/// What the evidence says of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As [`TimeChecked::Agreed`].
    Agreed,
    /// The time was miscounted; this is the right one.
    Miscounted(TimeValue),
    /// As [`TimeChecked::Unverified`].
    Unverified,
}

/// Checks `time`, a memory's time as text, against what the turns of its evidence say.
///
/// It is miscounted where the evidence holds one time expression with one meaning, by its words or by the tense, and
/// `time` is what a slip makes of that and of nothing else that could be meant: a few days off, weeks, a month or a
/// year off, day and month exchanged. Anything farther off may come from elsewhere. A text that is no [`TimeValue`] is
/// not verified.
pub fn check(time: &str, said: &[Said], options: &Options) -> Verdict {
    let Ok(value) = time.parse::<TimeValue>() else {
        return Verdict::Unverified;
    };
    if value.is_empty() || Evidence::of(said, options).origin(&value).is_some() {
        return Verdict::Agreed;
    }
    match only_expression(said).and_then(|found| meant(&value, found, said)) {
        Some(date) => Verdict::Miscounted(date.clone()),
        None => Verdict::Unverified,
    }
}

/// The expression that the turns hold, if it is the only one and a date.
fn only_expression(said: &[Said]) -> Option<&Found> {
    // Words too vague for a date ("recently") name none; a length of time may be what the date is counted by.
    let is_vague = |of: &&Found| of.candidates.first().is_some_and(TimeValue::is_empty);
    let found = said.iter().flat_map(|turn| &turn.found);
    let mut found = found.filter(|of| !is_vague(of));
    let one = found.next().filter(|of| of.sure && of.rhythm.is_none())?;
    found.next().is_none().then_some(one)
}

/// The date that `value` is a slip of.
fn meant<'a>(value: &TimeValue, found: &'a Found, said: &[Said]) -> Option<&'a TimeValue> {
    let (date, others) = found.candidates.split_first()?;
    let slip = slip(value, date)?;
    // What happened as of a session's day has it without a word.
    let days = said
        .iter()
        .filter_map(|turn| Some(Point::Day(turn.at?.date())));
    let rivals = days.flat_map(|day| [Some(day), month_of(&day), year_of(&day)]);
    let rivals = rivals.flatten().map(TimeValue::Point);
    let is_near = |rival: &TimeValue| self::slip(value, rival).is_some_and(|other| other <= slip);
    let one_meaning = !others.iter().any(is_near) && !rivals.into_iter().any(|of| is_near(&of));
    // Times at `+00:00` are mostly a machine's and not the speaker's: by those "yesterday" may be a day off.
    let utc = said
        .iter()
        .any(|turn| turn.at.is_some_and(|at| at.offset == Some(Offset::UTC)));
    let by_a_day = differ_by_a_day(value, date);
    (one_meaning && !(utc && by_a_day)).then_some(date)
}

/// By how much of a slip `value` differs from `date`: 1 for one week to four, one month or one year, and for day and
/// month exchanged; the number of days for less than a week; `None` for anything else.
fn slip(value: &TimeValue, date: &TimeValue) -> Option<i32> {
    match (value, date) {
        (TimeValue::Point(value), TimeValue::Point(date)) => slip_of_point(value, date),
        (TimeValue::Range(from, to), TimeValue::Range(first, last)) => {
            let slip = slip_of_point(from, first)?;
            let days =
                |one: &Point, two: &Point| (one.first().date() - two.first().date()).get_days();
            // Both ends have slipped alike; one that is off alone may count its last day or not.
            let by_months = months(from, first) != 0 && months(from, first) == months(to, last);
            let even = by_months || days(from, first) == days(to, last);
            (slip == slip_of_point(to, last)? && even).then_some(slip)
        }
        _ => None,
    }
}

/// Months from one to the other.
fn months(value: &Point, date: &Point) -> i32 {
    let count = |point: &Point| {
        let first = point.first();
        12 * i32::from(first.year()) + i32::from(first.month())
    };
    count(value) - count(date)
}

fn slip_of_point(value: &Point, date: &Point) -> Option<i32> {
    let (one, two) = (value.first(), date.first());
    let years = i32::from(one.year()) - i32::from(two.year());
    let months = months(value, date);
    let by_months = matches!(months.abs(), 1 | 12);
    match (value, date) {
        (Point::Year(_), Point::Year(_)) => (years.abs() == 1).then_some(1),
        (Point::Month { .. }, Point::Month { .. }) => by_months.then_some(1),
        (Point::Minute(_), Point::Minute(_)) if one.time() != two.time() => None,
        (Point::Day(_), Point::Day(_)) | (Point::Minute(_), Point::Minute(_)) => {
            let days = (one.date() - two.date()).get_days().abs();
            let weeks = days % 7 == 0 && days <= 28;
            let exchanged = years == 0 && (one.day(), one.month()) == (two.month(), two.day());
            if weeks || exchanged || (by_months && one.day() == two.day()) {
                Some(1)
            } else {
                (days < 7).then_some(days)
            }
        }
        _ => None,
    }
}

fn month_of(point: &Point) -> Option<Point> {
    let first = point.first();
    Point::month(first.year(), first.month()).ok()
}

fn year_of(point: &Point) -> Option<Point> {
    Point::year(point.first().year()).ok()
}

fn differ_by_a_day(one: &TimeValue, two: &TimeValue) -> bool {
    let day = |value: &TimeValue| value.span().map(|(first, _)| first.date());
    match (day(one), day(two)) {
        (Some(one), Some(two)) => (one - two).get_days().abs() <= 1,
        _ => true,
    }
}
