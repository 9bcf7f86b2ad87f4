//! What is seen does not depend on when it was said.

use std::ops::Range;

use super::super::{
    Language, Options,
    names::{Class, Part, Portion, Season, Slot, Unit},
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
    /// Counts up from what the pattern is, so that uses of a slot take other words and patterns do not depend on others.
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

    /// The words of a class that are a time by themselves; of one value where that is given.
    fn of(&self, class: Class, only: Option<i32>) -> Vec<&str> {
        let place = |list: &[&str], name: &str| list.iter().position(|of| *of == name);
        let value = |name: &str| match class {
            Class::Weekday => place(&WEEKDAYS, name).map(|at| at as i32 + 1),
            Class::Month => place(&MONTHS, name).map(|at| at as i32 + 1),
            Class::Unit => Unit::from_name(name).map(|of| of as i32),
            Class::Season => Season::from_name(name).map(|of| of as i32),
            Class::Part => Part::from_name(name).map(|of| of as i32),
            Class::Portion => Portion::from_name(name).map(|of| of as i32),
            _ => name.parse().ok(),
        };
        self.lists()
            .into_iter()
            .filter(|(of, _)| *of == class)
            .flat_map(|(_, lists)| lists)
            .filter(|(name, _)| only.is_none() || value(name) == only)
            .flat_map(|(_, words)| words.iter().map(String::as_str))
            .filter(|word| !self.written.weak.iter().any(|weak| weak == word))
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
            Slot::Year => Some((2000 + self.turn % 900).to_string()),
            Slot::Yy => Some("21".to_owned()),
            Slot::M => Some("5".to_owned()),
            Slot::D => Some((1 + self.turn % 28).to_string()),
            Slot::Hour => Some("10".to_owned()),
            Slot::Minute => Some("30".to_owned()),
            Slot::Time => Some("10:30".to_owned()),
            Slot::Length => {
                let unit = [Unit::Day, Unit::Week, Unit::Month, Unit::Year][self.turn % 4];
                let unit = one(self.of(Class::Unit, Some(unit as i32)))?;
                Some(format!("3 {unit}"))
            }
            Slot::Date => one(self.of(
                [Class::Day, Class::Weekday, Class::Month][self.turn % 3],
                None,
            )),
            Slot::Recurrence => {
                let day = one(self.of(Class::Weekday, None))?;
                Some(self.written.recurrence.every.replace("{}", &day))
            }
            Slot::Ordinal => {
                let ordinals = self.written.ordinals.iter();
                one(ordinals
                    .filter(|(_, value)| only.map_or(**value > 0, |only| only == **value))
                    .map(|(word, _)| word.as_str())
                    .collect())
            }
            Slot::Set => {
                let sets = self
                    .written
                    .sets
                    .values()
                    .nth(usize::try_from(only?).ok()?)?;
                one(sets.iter().map(String::as_str).collect())
            }
            slot => one(self.of(slot.class(), only)),
        }
    }

    /// Every word that stands in a list.
    fn listed(&self) -> Vec<String> {
        let lists = self.lists().into_iter();
        lists
            .flat_map(|(_, lists)| lists.values().flatten().cloned())
            .collect()
    }

    /// Every word for a step before and behind units, seasons, a weekday and months.
    fn stepped(&self) -> Vec<String> {
        let written = &self.written;
        let some = |lists: &Lists, names: &[&str]| -> Vec<String> {
            names
                .iter()
                .filter_map(|name| lists.get(*name)?.first().cloned())
                .collect()
        };
        let firsts = |lists: &Lists| -> Vec<String> {
            lists
                .values()
                .filter_map(|words| words.first().cloned())
                .collect()
        };
        let stepped = [
            firsts(&written.units),
            firsts(&written.seasons),
            some(&written.weekdays, &["monday"]),
            some(&written.months, &["january", "june", "december"]),
        ];
        // "Now" and "June" are one only in June.
        let is_date = |step: &&String| !self.seen(step, AT).is_empty();
        let steps = written.relative.values().flatten();
        let steps: Vec<&String> = steps.filter(|step| !is_date(step)).collect();
        let both = |of: &String| -> Vec<String> {
            steps
                .iter()
                .flat_map(|step| [format!("{step} {of}"), format!("{of} {step}")])
                .collect()
        };
        stepped.iter().flatten().flat_map(both).collect()
    }

    /// Every pattern of a rule with its slots filled, and whether what fills them may contradict itself.
    fn filled(&mut self) -> Vec<(String, bool)> {
        let mut out = Vec::new();
        let sets: Vec<String> = self.written.sets.keys().cloned().collect();
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        let rules: Vec<String> = self.written.rules.values().flatten().cloned().collect();
        let flat = rules.iter().flat_map(|rule| {
            let flat = pattern::expand(rule, &sets).unwrap();
            flat.into_iter().map(move |pieces| (rule, pieces))
        });
        for (rule, pieces) in flat {
            self.turn = rule.bytes().map(usize::from).sum();
            let piece = |piece: &Piece| match piece {
                Piece::Text(text) => Some(text.clone()),
                Piece::Slot(slot, only) => self.fill(*slot, *only),
                Piece::Constant(..) => Some(String::new()),
            };
            let text: Option<Vec<String>> = pieces.iter().map(piece).collect();
            out.extend(text.map(|text| (text.concat(), is_open(&pieces))));
        }
        out
    }

    fn seen(&self, text: &str, at: &str) -> Vec<Range<usize>> {
        let options = Options {
            language: Some(self.language),
            ..Options::default()
        };
        let at: Moment = at.parse().unwrap();
        let found = resolve(text, Some(&at), &options);
        found.into_iter().map(|of| of.range).collect()
    }
}

/// Whether two slots of a pattern each name a day: on some days "Friday" and "the 5th" are one day, on others two, and
/// a range may run backwards.
fn is_open(pieces: &[Piece]) -> bool {
    let slots = || {
        pieces.iter().filter_map(|piece| match piece {
            Piece::Slot(slot, _) | Piece::Constant(slot, _) => Some(*slot),
            Piece::Text(_) => None,
        })
    };
    let count = |of: &[Slot]| slots().filter(|slot| of.contains(slot)).count();
    let days = count(&[Slot::Date, Slot::Day, Slot::Weekday, Slot::Holiday]);
    let days_of_month = count(&[Slot::D, Slot::Ordinal]);
    let months = count(&[Slot::Month, Slot::M]);
    // "The 3rd week of March", "in June from 4 to 6".
    let others = count(&[Slot::N, Slot::Unit, Slot::Time, Slot::Hour]);
    days + days_of_month > 1 || months > 1 || days + months > 1 || (days + months > 0 && others > 0)
}

/// Whether each of `all` meets one of `others`.
fn meet(all: &[Range<usize>], others: &[Range<usize>]) -> bool {
    let meets = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
    all.iter().all(|a| others.iter().any(|b| meets(a, b)))
}

#[test]
fn what_is_seen_does_not_depend_on_when_it_was_said() {
    let (mut count, mut open) = (0, 0);
    let mut wrong = Vec::new();
    for &language in Language::ALL {
        let mut words = Words {
            language,
            written: toml::from_str(language.written()).unwrap(),
            turn: 0,
        };
        let plain = words.listed().into_iter().chain(words.stepped());
        let plain: Vec<_> = plain.map(|text| (text, false)).collect();
        let texts: Vec<_> = plain.into_iter().chain(words.filled()).collect();
        for (text, is_open) in texts {
            let seen = words.seen(&text, AT);
            count += usize::from(!seen.is_empty());
            open += usize::from(is_open && !seen.is_empty());
            for at in OTHERS {
                let other = words.seen(&text, at);
                let same = other == seen || (is_open && meet(&seen, &other) && meet(&other, &seen));
                if !same {
                    let words = |ranges: &[Range<usize>]| -> Vec<String> {
                        ranges
                            .iter()
                            .map(|of| text[of.clone()].to_owned())
                            .collect()
                    };
                    let (seen, other) = (words(&seen), words(&other));
                    wrong.push(format!(
                        "{} {text:?}: {seen:?}, on {at} {other:?}",
                        language.code()
                    ));
                }
            }
        }
    }
    assert!(count - open > 15_000, "{count}, {open}");
    assert!(
        wrong.is_empty(),
        "{} of {count}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
