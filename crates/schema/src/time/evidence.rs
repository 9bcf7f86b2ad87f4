//! What times a memory may have by the turns that it rests on.
//!
//! A turn allows what its words of time mean, and by `datasets/LABELLING.md` the day of its session, which a value said
//! as of now has. Less likely are the same times said more coarsely and what the words of two places say together.
//! What nobody named is not allowed.

use std::collections::HashSet;

use jiff::civil::DateTime;

use super::{
    resolve::{Found, Options, RecurrenceCore, resolve},
    value::{Point, TimeValue},
};
use crate::moment::Moment;

/// Points that are put together with others; behind the first ones nothing is put together.
const JOINED_POINTS: usize = 48;
/// Longest range between two days that were named apart.
const LONGEST_DAYS: i64 = 366;

/// A turn that a memory rests on: when it was said, and what it says about time.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// When the session of the turn began, or the turn's own time; `None` where that is not known.
    pub at: Option<Moment>,
    /// Its time expressions.
    pub found: Vec<Found>,
}

impl Said {
    /// Reads the `text` of a turn.
    pub fn read(text: &str, at: Option<Moment>, options: &Options) -> Self {
        let found = resolve(text, at.as_ref(), options);
        Self { at, found }
    }
}

/// How an allowed time comes about; what is likelier comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The likeliest meaning of words in a turn.
    Meant,
    /// Another meaning of such words.
    Possible,
    /// The day of a turn's session.
    Session,
    /// Two places together: from one day to another, the hour of one on the day of another, "the 8th" in the month
    /// of another.
    Joined,
    /// The day, month or year that holds one of the others.
    Coarser,
}

/// A time that the turns allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// The time.
    pub value: TimeValue,
    /// How it comes about.
    pub origin: Origin,
}

/// What the turns of a memory say about its time.
#[derive(Clone, Debug)]
pub struct Evidence {
    allowed: Vec<Allowed>,
    rhythms: Vec<RecurrenceCore>,
    options: Options,
}

impl Evidence {
    /// Of turns in conversation order, each text with the time that it is counted from.
    pub fn read<'a>(
        turns: impl IntoIterator<Item = (&'a str, Option<Moment>)>,
        options: &Options,
    ) -> Self {
        let said: Vec<Said> = turns
            .into_iter()
            .map(|(text, at)| Said::read(text, at, options))
            .collect();
        Self::of(&said, options)
    }

    /// Of turns in conversation order that have been read; `options` are for the words of recurrences.
    pub fn of(said: &[Said], options: &Options) -> Self {
        let mut list = List::default();
        let found = || said.iter().flat_map(|turn| &turn.found);
        for value in found().filter_map(|of| of.candidates.first()) {
            list.add(value.clone(), Origin::Meant);
        }
        for value in found().flat_map(|of| of.candidates.iter().skip(1)) {
            list.add(value.clone(), Origin::Possible);
        }
        for day in said.iter().filter_map(|turn| turn.at) {
            list.add(Point::Day(day.date()).into(), Origin::Session);
        }
        list.join(found());
        list.coarsen();
        Self {
            allowed: list.allowed,
            rhythms: found().filter_map(|of| of.rhythm.clone()).collect(),
            options: *options,
        }
    }

    /// Everything that is allowed, the likeliest first, nothing twice.
    pub fn allowed(&self) -> &[Allowed] {
        &self.allowed
    }

    /// How `value` comes about; `None` if it is not allowed, as [`TimeValue::Empty`] never is.
    ///
    /// A recurrence is allowed when a turn has its rhythm, whatever its words and bounds.
    pub fn origin(&self, value: &TimeValue) -> Option<Origin> {
        if let TimeValue::Recurrence(recurrence) = value {
            let mut own = resolve(recurrence.as_str(), None, &self.options)
                .into_iter()
                .filter_map(|of| of.rhythm);
            if own.any(|rhythm| self.rhythms.contains(&rhythm)) {
                return Some(Origin::Meant);
            }
        }
        let same = self.allowed.iter().find(|allowed| allowed.value == *value);
        same.map(|allowed| allowed.origin)
    }
}

/// Allowed values while they are collected.
#[derive(Default)]
struct List {
    allowed: Vec<Allowed>,
    known: HashSet<TimeValue>,
}

impl List {
    fn add(&mut self, value: TimeValue, origin: Origin) {
        if !value.is_empty() && self.known.insert(value.clone()) {
            self.allowed.push(Allowed { value, origin });
        }
    }

    /// Points that are allowed so far, the ends of ranges among them.
    fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for allowed in &self.allowed {
            match allowed.value {
                TimeValue::Point(point) => points.push(point),
                TimeValue::Range(from, to) => points.extend([from, to]),
                TimeValue::Empty | TimeValue::Recurrence(_) => {}
            }
        }
        points
    }

    /// Adds what two places say together.
    fn join<'a>(&mut self, found: impl Iterator<Item = &'a Found>) {
        let mut points = self.points();
        points.truncate(JOINED_POINTS);
        let days: Vec<Point> = points.iter().filter_map(day_of).collect();
        for day in found.filter_map(day_of_any_month) {
            for of in &days {
                let first = of.first();
                if let Ok(day) = Point::day(first.year(), first.month(), day) {
                    self.add(day.into(), Origin::Joined);
                }
            }
        }
        for clock in points.iter().filter_map(clock_of) {
            for day in &days {
                let time = day.first().date().to_datetime(clock.time());
                if let Ok(minute) = Point::minute(time) {
                    self.add(minute.into(), Origin::Joined);
                }
            }
        }
        points.extend(days);
        for from in &points {
            for to in &points {
                let near = match (from, to) {
                    (Point::Day(from), Point::Day(to)) => {
                        i64::from((*to - *from).get_days()) <= LONGEST_DAYS
                    }
                    _ => true,
                };
                if from < to
                    && near
                    && let Ok(range) = TimeValue::range(*from, *to)
                {
                    self.add(range, Origin::Joined);
                }
            }
        }
    }

    /// Adds what holds an allowed time: of a minute the day, of a day the month, of a month the year.
    fn coarsen(&mut self) {
        let spans: Vec<_> = self
            .allowed
            .iter()
            .filter(|allowed| allowed.origin != Origin::Joined)
            .filter_map(|allowed| match allowed.value {
                TimeValue::Point(point) => Some((point, point)),
                TimeValue::Range(from, to) => Some((from, to)),
                TimeValue::Empty | TimeValue::Recurrence(_) => None,
            })
            .collect();
        for (from, to) in spans {
            for holder in coarser(&from) {
                if holder.contains(&to) {
                    self.add(holder.into(), Origin::Coarser);
                }
            }
        }
    }
}

/// The day, month and year that hold `point`, those that are coarser than it.
fn coarser(point: &Point) -> Vec<Point> {
    let first = point.first();
    let (year, month) = (first.year(), first.month());
    let all = [
        Some(Point::Day(first.date())),
        Point::month(year, month).ok(),
        Point::year(year).ok(),
    ];
    let above = match point {
        Point::Minute(_) => 0,
        Point::Day(_) => 1,
        Point::Month { .. } => 2,
        Point::Year(_) => 3,
    };
    all.into_iter().skip(above).flatten().collect()
}

fn day_of(point: &Point) -> Option<Point> {
    matches!(point, Point::Day(_) | Point::Minute(_)).then(|| Point::Day(point.first().date()))
}

fn clock_of(point: &Point) -> Option<DateTime> {
    match point {
        Point::Minute(time) => Some(*time),
        _ => None,
    }
}

/// The day of the month, where words name nothing more than it: their meanings lie in different months.
fn day_of_any_month(found: &Found) -> Option<i8> {
    let days: Vec<_> = found
        .candidates
        .iter()
        .filter_map(|value| match value {
            TimeValue::Point(Point::Day(date)) => Some(*date),
            _ => None,
        })
        .collect();
    let first = days.first()?;
    let same_day =
        days.len() == found.candidates.len() && days.iter().all(|date| date.day() == first.day());
    let other_month = days.iter().any(|date| date.month() != first.month());
    (same_day && other_month).then_some(first.day())
}
