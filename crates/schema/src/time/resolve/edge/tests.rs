//! What is seen does not depend on when it was said.

use super::super::{
    Language, Options,
    names::{Action, Class, Part, Portion, Season, Slot, Unit},
    pattern::{self, Piece},
    resolve,
    table::{MONTHS, WEEKDAYS},
    written::{Lists, Written},
};
use crate::moment::Moment;

/// The time that says what there is to be seen.
const AT: &str = "2024-06-15T10:30:00";
const OTHERS: [&str; 6] = [
    "0001-01-01T00:00:00",
    "0001-12-31T23:59:00",
    "2024-02-29T10:30:00",
    "2025-12-31T10:30:00",
    "9999-01-01T10:30:00",
    "9999-12-31T23:59:00",
];

/// A table with what its slots can be filled with.
struct Words {
    language: Language,
    written: Written,
    /// Counts up, so that every use of a slot takes another word.
    turn: usize,
}

impl Words {
    fn lists(&self) -> [(Class, &Lists); 11] {
        let written = &self.written;
        [
            (Class::Weekday, &written.weekdays),
            (Class::Month, &written.months),
            (Class::Unit, &written.units),
            (Class::Season, &written.seasons),
            (Class::Part, &written.parts),
            (Class::Portion, &written.portions),
            (Class::Relative, &written.relative),
            (Class::Day, &written.days),
            (Class::Holiday, &written.holidays),
            (Class::AmPm, &written.ampm),
            (Class::Era, &written.eras),
        ]
    }

    /// The words of a class; of one value where that is given.
    fn of(&self, class: Class, only: Option<i32>) -> Vec<&str> {
        let place = |list: &[&str], name: &str| list.iter().position(|of| *of == name);
        let value = |name: &str| {
            let value = match class {
                Class::Weekday => place(&WEEKDAYS, name).map(|at| at as i32 + 1),
                Class::Month => place(&MONTHS, name).map(|at| at as i32 + 1),
                Class::Unit => Unit::from_name(name).map(|of| of as i32),
                Class::Season => Season::from_name(name).map(|of| of as i32),
                Class::Part => Part::from_name(name).map(|of| of as i32),
                Class::Portion => Portion::from_name(name).map(|of| of as i32),
                _ => name.parse().ok(),
            };
            value
        };
        self.lists()
            .into_iter()
            .filter(|(of, _)| *of == class)
            .flat_map(|(_, lists)| lists)
            .filter(|(name, _)| only.is_none() || value(name) == only)
            .flat_map(|(_, words)| words.iter().map(String::as_str))
            .collect()
    }

    /// Something that fills a slot; `None` where the table has nothing for it.
    fn fill(&mut self, slot: Slot, only: Option<i32>) -> Option<String> {
        self.turn += 1;
        let one = |words: Vec<&str>| -> Option<String> {
            (!words.is_empty()).then(|| words[self.turn % words.len()].to_owned())
        };
        if let (Some(only), Class::Number) = (only, slot.class()) {
            return Some(format!("{only:02}"));
        }
        match slot {
            Slot::N => Some("3".to_owned()),
            Slot::Year => Some("2019".to_owned()),
            Slot::Yy => Some("21".to_owned()),
            Slot::M => Some("5".to_owned()),
            Slot::D => Some("12".to_owned()),
            Slot::Hour => Some("10".to_owned()),
            Slot::Minute => Some("30".to_owned()),
            Slot::Time => Some("10:30".to_owned()),
            Slot::Length => {
                let unit = [Unit::Day, Unit::Week, Unit::Month, Unit::Year][self.turn % 4];
                let unit = one(self.of(Class::Unit, Some(unit as i32)))?;
                Some(format!("3 {unit}"))
            }
            Slot::Date => one(self.of([Class::Day, Class::Weekday, Class::Month][self.turn % 3], None)),
            Slot::Recurrence => {
                let day = one(self.of(Class::Weekday, None))?;
                Some(self.written.recurrence.every.replace("{}", &day))
            }
            Slot::Ordinal => {
                let ordinals = self.written.ordinals.iter();
                one(ordinals.filter(|(_, value)| only.is_none_or(|only| only == **value)).map(|(word, _)| word.as_str()).collect())
            }
            Slot::Set => {
                let sets = self.written.sets.values().nth(usize::try_from(only?).ok()?)?;
                one(sets.iter().map(String::as_str).collect())
            }
            slot => one(self.of(slot.class(), only)),
        }
    }

    /// Every word that stands in a list, and every pattern of a rule with its slots filled.
    fn texts(&mut self) -> Vec<String> {
        let lists = self.lists().into_iter();
        let mut out: Vec<String> = lists.flat_map(|(_, lists)| lists.values().flatten().cloned()).collect();
        let sets: Vec<String> = self.written.sets.keys().cloned().collect();
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let rules: Vec<String> = self.written.rules.values().flatten().cloned().collect();
        for rule in rules {
            for pieces in pattern::expand(&rule, &sets).unwrap() {
                let piece = |piece: &Piece| match piece {
                    Piece::Text(text) => Some(text.clone()),
                    Piece::Slot(slot, only) => self.fill(*slot, *only),
                    Piece::Constant(..) => Some(String::new()),
                };
                let text: Option<Vec<String>> = pieces.iter().map(piece).collect();
                out.extend(text.map(|text| text.concat()));
            }
        }
        out
    }

    fn seen(&self, text: &str, at: &str) -> Vec<String> {
        let options = Options {
            language: Some(self.language),
            ..Options::default()
        };
        let at: Moment = at.parse().unwrap();
        let found = resolve(text, Some(&at), &options);
        found.into_iter().map(|of| of.words).collect()
    }
}

#[test]
fn what_is_seen_does_not_depend_on_when_it_was_said() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for &language in Language::ALL {
        let mut words = Words {
            language,
            written: toml::from_str(language.written()).unwrap(),
            turn: 0,
        };
        for text in words.texts() {
            let seen = words.seen(&text, AT);
            count += usize::from(!seen.is_empty());
            for at in OTHERS {
                let other = words.seen(&text, at);
                if other != seen {
                    wrong.push(format!("{} {text:?}: {seen:?}, on {at} {other:?}", language.code()));
                }
            }
        }
    }
    assert!(count > 5000, "{count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}
