//! The list of allowed times, and what is put together from what was named.

use std::collections::HashSet;

use jiff::{
    Span, ToSpan,
    civil::{Date, Time},
};

use super::{
    super::{
        resolve::Found,
        value::{Point, TimeValue},
    },
    Allowed, Origin,
};

/// Points that are put together with others; behind the first ones nothing is put together.
const JOINED_POINTS: usize = 64;
/// Longest range between two days that were named apart.
const LONGEST_DAYS: i32 = 366;
/// Longest range that a weekday is looked for in.
const SHORT_DAYS: usize = 14;

/// Allowed values while they are collected.
#[derive(Default)]
pub(super) struct List {
    pub(super) allowed: Vec<Allowed>,
    known: HashSet<TimeValue>,
}

impl List {
    pub(super) fn add(&mut self, value: TimeValue, origin: Origin) {
        if !value.is_empty() && self.known.insert(value.clone()) {
            self.allowed.push(Allowed { value, origin });
        }
    }

    /// Adds dates that leave the year, month or week open, in those that are named elsewhere.
    pub(super) fn place<'a>(&mut self, found: impl Iterator<Item = &'a Found> + Clone) {
        let meant = |of: &Found| of.candidates.first().and_then(span_of);
        let places = || {
            found
                .clone()
                .filter_map(|of| Some((of, meant(of)?)))
                .take(JOINED_POINTS)
        };
        for (open, span) in found.clone().filter_map(|of| Some((open(of)?, meant(of)?))) {
            for (of, place) in places() {
                // Only a year that leaves nothing open says more than the two nearest ones.
                if open == Open::Year && !of.sure {
                    continue;
                }
                for value in placed(open, span, place) {
                    self.add(value, Origin::Joined);
                }
            }
        }
    }

    /// Adds ends of ranges, hours on other days, and what lasts from one day, month or year to another.
    pub(super) fn join(&mut self) {
        let mut points: Vec<Point> = Vec::new();
        for (from, to) in self.spans(|_| true) {
            self.add(from.into(), Origin::Joined);
            self.add(to.into(), Origin::Joined);
            points.extend([from, to]);
            points.extend(coarser(&from));
            points.extend(coarser(&to));
        }
        let mut known = HashSet::new();
        points.retain(|point| known.insert(*point));
        points.truncate(JOINED_POINTS);
        for clock in points.iter().filter_map(clock_of) {
            for day in points.iter().filter_map(day_of) {
                if let Ok(minute) = Point::minute(day.to_datetime(clock)) {
                    self.add(minute.into(), Origin::Joined);
                }
            }
        }
        for from in &points {
            for to in points.iter().filter(|to| from < to && is_near(from, to)) {
                if let Ok(range) = TimeValue::range(*from, *to) {
                    self.add(range, Origin::Joined);
                }
            }
        }
    }

    /// Adds what holds an allowed time: of a minute the day, of a day the month, of a month the year.
    pub(super) fn coarsen(&mut self) {
        for (from, to) in self.spans(|origin| origin < Origin::Session) {
            for (first, last) in week(&from, &to) {
                self.add(TimeValue::Range(first, last), Origin::Coarser);
            }
        }
        for (from, to) in self.spans(|origin| origin != Origin::Joined) {
            // A week counts to the month that it begins in.
            let week = from.shift(6).is_some_and(|last| to <= last);
            for holder in coarser(&from) {
                if holder.contains(&to) || (week && matches!(from, Point::Day(_))) {
                    self.add(holder.into(), Origin::Coarser);
                }
            }
        }
    }

    /// First and last point of what is allowed so far.
    fn spans(&self, of: impl Fn(Origin) -> bool) -> Vec<(Point, Point)> {
        let wanted = self.allowed.iter().filter(|allowed| of(allowed.origin));
        wanted
            .filter_map(|allowed| span_of(&allowed.value))
            .collect()
    }
}

/// What a date leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// "In October", "on the 3rd of May".
    Year,
    /// "The 8th".
    Month,
    /// "On Friday".
    Week,
}

/// What the words leave open, told from what their meanings have in common.
fn open(found: &Found) -> Option<Open> {
    let first = span_of(found.candidates.first()?)?.0;
    let spans = found.candidates.iter().filter_map(span_of);
    let dates: Vec<Date> = spans
        .filter(|(from, _)| from.same_form(&first))
        .map(|(from, _)| from.first().date())
        .collect();
    let own = first.first().date();
    let all = |same: fn(Date, Date) -> bool| dates.iter().all(|date| same(*date, own));
    if all(|one, two| one == two) {
        None
    } else if all(|one, two| (one.month(), one.day()) == (two.month(), two.day())) {
        Some(Open::Year)
    } else if all(|one, two| one.day() == two.day()) {
        Some(Open::Month)
    } else if all(|one, two| one.weekday() == two.weekday()) {
        Some(Open::Week)
    } else {
        None
    }
}

/// The span of an open date moved to where another one lies.
fn placed(open: Open, (from, to): (Point, Point), place: (Point, Point)) -> Vec<TimeValue> {
    let (own, other) = (from.first().date(), place.0.first().date());
    let years = i32::from(other.year()) - i32::from(own.year());
    let spans = match open {
        Open::Year => vec![Span::new().years(years)],
        Open::Month => {
            let months = i32::from(other.month()) - i32::from(own.month());
            vec![Span::new().months(years * 12 + months)]
        }
        Open::Week => {
            let last = place.1.first().date();
            let days = other
                .series(1.day())
                .take_while(|day| *day <= last)
                .take(SHORT_DAYS);
            let days: Vec<_> = days.collect();
            let short = matches!(place.0, Point::Day(_)) && days.last() == Some(&last);
            days.into_iter()
                .filter(|day| short && day.weekday() == own.weekday())
                .map(|day| day - own)
                .collect()
        }
    };
    let shifted = |point: &Point, span: Span| -> Option<Point> {
        let time = point.first().checked_add(span).ok()?;
        let is_whole = open == Open::Week || time.day() == point.first().day();
        is_whole.then_some(match point {
            Point::Year(_) => Point::Year(time.year()),
            Point::Month { .. } => Point::month(time.year(), time.month()).ok()?,
            Point::Day(_) => Point::Day(time.date()),
            Point::Minute(_) => Point::Minute(time),
        })
    };
    let value = |span: Span| match (shifted(&from, span)?, shifted(&to, span)?) {
        (from, to) if from == to => Some(from.into()),
        (from, to) => TimeValue::range(from, to).ok(),
    };
    spans.into_iter().filter_map(value).collect()
}

/// Weekdays that words name, 1 to 7, those of a range all.
pub(super) fn weekdays(found: &Found) -> Vec<i32> {
    let span = found.candidates.first().and_then(span_of);
    let (Some(Open::Week), Some((from, to))) = (open(found), span) else {
        return Vec::new();
    };
    let (from, last) = (from.first().date(), to.first().date());
    let days = from.series(1.day()).take(7).take_while(|day| *day <= last);
    days.map(|day| i32::from(day.weekday().to_monday_one_offset()))
        .collect()
}

/// The week from Monday to Sunday that holds a day, and its weekend if that does.
fn week(from: &Point, to: &Point) -> Vec<(Point, Point)> {
    let (Point::Day(day), true) = (from, from == to) else {
        return Vec::new();
    };
    let weekday = i64::from(day.weekday().to_monday_zero_offset());
    let at = |offset: i64| from.shift(offset - weekday);
    let ends = [(0, 6), (5, 6)]
        .into_iter()
        .filter(|(first, _)| *first <= weekday);
    ends.filter_map(|(first, last)| Some((at(first)?, at(last)?)))
        .collect()
}

fn span_of(value: &TimeValue) -> Option<(Point, Point)> {
    match value {
        TimeValue::Point(point) => Some((*point, *point)),
        TimeValue::Range(from, to) => Some((*from, *to)),
        TimeValue::Empty | TimeValue::Recurrence(_) => None,
    }
}

/// Whether two days are near enough to be the ends of one thing.
fn is_near(from: &Point, to: &Point) -> bool {
    match (from, to) {
        (Point::Day(from), Point::Day(to)) => (*to - *from).get_days() <= LONGEST_DAYS,
        _ => true,
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

fn day_of(point: &Point) -> Option<Date> {
    matches!(point, Point::Day(_) | Point::Minute(_)).then(|| point.first().date())
}

fn clock_of(point: &Point) -> Option<Time> {
    match point {
        Point::Minute(time) => Some(time.time()),
        _ => None,
    }
}
