//! What times a memory may have by the turns that it rests on.
//!
//! A turn allows what its words of time mean, and by `datasets/LABELLING.md` the day of its session, which a value said
//! as of now has. Less likely are the same times said more coarsely and what the words of two places say together.
//! What nobody named is not allowed.

mod list;

use super::{
    resolve::{Found, Options, RecurrenceCore, resolve},
    value::{Point, TimeValue},
};
use crate::moment::Moment;
use list::{List, weekdays};

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
    /// One end of a range; two places together: from one day to another, the hour of one on the day of another, "the
    /// 8th" in the month of another.
    Joined,
    /// The day, week, weekend, month or year that holds one of the others.
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
    /// Weekdays that are named, 1 to 7.
    weekdays: Vec<i32>,
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
        list.place(found());
        list.join();
        list.coarsen();
        let rhythms: Vec<_> = found().filter_map(|of| of.rhythm.clone()).collect();
        let in_rhythms = rhythms.iter().flat_map(|rhythm| rhythm.weekdays.clone());
        Self {
            allowed: list.allowed,
            weekdays: in_rhythms.chain(found().flat_map(weekdays)).collect(),
            rhythms,
            options: *options,
        }
    }

    /// Everything that is allowed, the likeliest first, nothing twice.
    pub fn allowed(&self) -> &[Allowed] {
        &self.allowed
    }

    /// How `value` comes about; `None` if it is not allowed, as [`TimeValue::Empty`] never is.
    ///
    /// A recurrence is allowed when a turn has its rhythm, whatever its words and bounds, or names its weekdays.
    pub fn origin(&self, value: &TimeValue) -> Option<Origin> {
        if let TimeValue::Recurrence(recurrence) = value {
            let own = resolve(recurrence.as_str(), None, &self.options);
            let rhythms = || own.iter().filter_map(|of| of.rhythm.as_ref());
            if rhythms().any(|rhythm| self.rhythms.contains(rhythm)) {
                return Some(Origin::Meant);
            }
            if rhythms().any(|rhythm| self.names_weekdays(rhythm)) {
                return Some(Origin::Joined);
            }
        }
        let same = self.allowed.iter().find(|allowed| allowed.value == *value);
        same.map(|allowed| allowed.origin)
    }

    /// Whether the turns name all weekdays of something that comes every week.
    fn names_weekdays(&self, rhythm: &RecurrenceCore) -> bool {
        let weekly = rhythm.step == 1 && rhythm.nth.is_none() && !rhythm.weekdays.is_empty();
        weekly
            && rhythm
                .weekdays
                .iter()
                .all(|day| self.weekdays.contains(day))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn of Thursday, 30 June 2022.
    const AT: &str = "2022-06-30T10:05:00";

    fn origin(turns: &[(&str, &str)], value: &str) -> Option<Origin> {
        let turns = turns.iter().map(|(text, at)| (*text, at.parse().ok()));
        Evidence::read(turns, &Options::default()).origin(&value.parse().unwrap())
    }

    #[test]
    fn what_the_turns_say_is_allowed() {
        let trip = "Flights booked last Saturday. We leave Saturday Oct 1 and are home on Thursday October 13.";
        let fair = "The fair is from 9 to 16 August 2026.";
        for (turns, value, expected) in [
            (vec![(trip, AT)], "2022-06-25", Origin::Meant),
            (vec![(trip, AT)], "2022-10-01", Origin::Meant),
            (vec![(trip, AT)], "2022-10", Origin::Coarser),
            (vec![(trip, AT)], "2022-10-01/2022-10-13", Origin::Joined),
            (vec![(trip, AT)], "2022-06-20/2022-06-26", Origin::Coarser),
            (
                vec![("He weighs 23 kilos.", AT)],
                "2022-06-30",
                Origin::Session,
            ),
            (
                vec![("He weighs 23 kilos.", AT)],
                "2022-06",
                Origin::Coarser,
            ),
            (
                vec![(fair, AT), ("I arrive on the 8th.", AT)],
                "2026-08-08",
                Origin::Joined,
            ),
            (
                vec![(fair, AT), ("So I land on 9 August at noon.", AT)],
                "2026-08-09T12:00",
                Origin::Joined,
            ),
            (
                vec![("We meet this Friday.", AT), ("At 4 pm.", AT)],
                "2022-07-01T16:00",
                Origin::Joined,
            ),
            (
                vec![("I swim every Tuesday.", AT)],
                "every Tuesday since 2020",
                Origin::Meant,
            ),
            (
                vec![("On Monday, as always.", AT)],
                "every Monday",
                Origin::Joined,
            ),
        ] {
            assert_eq!(origin(&turns, value), Some(expected), "{turns:?} {value}");
        }
    }

    #[test]
    fn what_nobody_said_is_refused() {
        let trip = "Flights booked last Saturday. We leave Saturday Oct 1 and are home on Thursday October 13.";
        for (text, value) in [
            (trip, ""),
            (trip, "2022-06-18"),
            (trip, "2022-06-24"),
            (trip, "2022-10-02"),
            (trip, "2022-10-01/2022-10-14"),
            (trip, "2023-10-01"),
            (trip, "2022-11"),
            (trip, "2020"),
            ("He weighs 23 kilos.", "2022-06-29"),
            ("He weighs 23 kilos.", "2022-06-30T10:00"),
            ("He weighs 23 kilos.", "2022-07"),
            ("I swim every Tuesday.", "every Wednesday"),
            ("I swim every Tuesday.", "every other Tuesday"),
            ("On Monday, as always.", "every Tuesday"),
            ("We meet this Friday at 4 pm.", "2022-07-01T17:00"),
        ] {
            assert_eq!(origin(&[(text, AT)], value), None, "{text} {value}");
        }
    }

    #[test]
    fn without_a_time_only_whole_dates_are_allowed() {
        let turns = [(
            "Yesterday I found the ring that I lost on 2 March 2021.",
            "",
        )];
        assert_eq!(origin(&turns, "2021-03-02"), Some(Origin::Meant));
        assert_eq!(origin(&turns, "2021"), Some(Origin::Coarser));
        assert_eq!(origin(&turns, "2022-06-29"), None);
    }

    #[test]
    fn the_list_begins_with_the_likeliest() {
        let evidence = Evidence::read(
            [(
                "In March we moved, and yesterday the cat came back.",
                AT.parse().ok(),
            )],
            &Options::default(),
        );
        let origins: Vec<_> = evidence.allowed().iter().map(|of| of.origin).collect();
        assert_eq!(evidence.allowed()[0].value.to_string(), "2022-03");
        assert_eq!(evidence.allowed()[1].value.to_string(), "2022-06-29");
        let named = origins
            .iter()
            .take_while(|origin| **origin <= Origin::Session);
        assert_eq!(named.count(), 4, "{:?}", evidence.allowed());
        assert!(origins.is_sorted());
    }

    #[test]
    fn many_dates_stay_a_short_list() {
        let text: Vec<_> = (1..=28)
            .map(|day| format!("On {day} May at {}:{day:02}.", day % 12))
            .collect();
        let text = text.join(" ").repeat(20);
        let evidence = Evidence::read([(text.as_str(), AT.parse().ok())], &Options::default());
        assert!(
            evidence.allowed().len() < 10_000,
            "{}",
            evidence.allowed().len()
        );
    }
}
