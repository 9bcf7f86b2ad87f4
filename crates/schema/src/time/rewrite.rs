//! Another date in place of one that a sentence names, in the same style.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::LazyLock,
};

use jiff::civil::Date;
use serde::Deserialize;

use super::{
    resolve::{Found, Language, MONTHS, Options, WEEKDAYS, resolve},
    value::{Point, TimeValue},
};
use crate::moment::Moment;

/// Signs for zero of the ways to write digits.
const ZEROS: [char; 5] = ['0', '\u{660}', '\u{6f0}', '\u{966}', '\u{ff10}'];
/// Most digits-and-names texts that are tried for one date.
const MOST_VARIANTS: usize = 256;

/// `sentence`, spoken at `at`, with the date `old` replaced by `new`; `None` where it names `old` not at all, more than
/// once or in a way that cannot be replaced safely.
///
/// Numbers are replaced by numbers and names of months and weekdays by names of the same style ("Mar" by "Apr"). What
/// comes out has been read again and names `new` where `old` stood. Ranges and recurrences are not replaced.
pub fn rewrite(
    sentence: &str,
    old: &TimeValue,
    new: &TimeValue,
    at: Option<&Moment>,
    options: &Options,
) -> Option<String> {
    let (TimeValue::Point(old), TimeValue::Point(new)) = (old, new) else {
        return None;
    };
    let read = |text: &str| resolve(text, at, options);
    let found = read(sentence);
    let mut naming = found.iter().filter_map(|of| Some((of, place(of, old)?)));
    let (of, nth) = naming.next()?;
    if naming.next().is_some() || !old.same_form(new) {
        return None;
    }
    let around = |words: &str| {
        let (before, after) = (&sentence[..of.range.start], &sentence[of.range.end..]);
        format!("{before}{words}{after}")
    };
    let is_right = |text: &String| {
        let again = read(text);
        let same = again
            .iter()
            .find(|other| other.range.start == of.range.start);
        again.len() == found.len() && same.is_some_and(|other| place(other, new) == Some(nth))
    };
    let mut texts: Vec<String> = variants(of, old, new)
        .iter()
        .map(|words| around(words))
        .filter(is_right)
        .collect();
    let text = texts.pop()?;
    texts.is_empty().then_some(text)
}

/// Which of the meanings of `found` is `point`, or an hour of it.
fn place(found: &Found, point: &Point) -> Option<usize> {
    found
        .candidates
        .iter()
        .position(|value| match (value, point) {
            (TimeValue::Point(Point::Minute(time)), Point::Day(date)) => time.date() == *date,
            (TimeValue::Point(value), point) => value == point,
            _ => false,
        })
}

/// The words of `found` with some or all of what `old` has and `new` has not replaced, each text once.
fn variants(found: &Found, old: &Point, new: &Point) -> BTreeSet<String> {
    let (from, to) = (old.first().date(), new.first().date());
    let names = NAMES[found.language as usize].as_ref();
    let mut words = found.words.clone();
    if let Some(names) = names {
        let weekday =
            |date: Date| usize::from(date.weekday().to_monday_zero_offset().unsigned_abs());
        let month = |date: Date| usize::from(date.month().unsigned_abs()) - 1;
        words = renamed(&words, &names.weekdays, weekday(from), weekday(to));
        words = renamed(&words, &names.months, month(from), month(to));
    }
    let mut texts = BTreeSet::from([words.clone()]);
    for range in numbers(&words).into_iter().rev() {
        let number = &words[range.clone()];
        let Some((value, zero)) = value_of(number) else {
            continue;
        };
        let parts = [
            (i32::from(from.year()), i32::from(to.year()), false),
            (i32::from(from.month()), i32::from(to.month()), false),
            (i32::from(from.day()), i32::from(to.day()), true),
        ];
        for (was, is, is_day) in parts {
            if was != value || was == is {
                continue;
            }
            let other = written(is, number, zero);
            // What stands before a number is still as it was; what stands behind it may have been replaced.
            let before = texts
                .iter()
                .filter_map(|text| text.strip_prefix(&words[..range.end]));
            let more: Vec<_> = before
                .map(|tail| {
                    let tail = match is_day {
                        true => with_ending(tail, is, found.language),
                        false => tail.to_owned(),
                    };
                    format!("{}{other}{tail}", &words[..range.start])
                })
                .collect();
            texts.extend(
                more.into_iter()
                    .take(MOST_VARIANTS.saturating_sub(texts.len())),
            );
        }
    }
    texts
}

/// What follows the number of a day, with the ending that `day` asks for: "2nd" and "3rd", "1er" and "2".
fn with_ending(tail: &str, day: i32, language: Language) -> String {
    let is_end = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    if language == Language::English {
        for ending in ["st", "nd", "rd", "th"] {
            if let Some(rest) = tail.strip_prefix(ending).filter(|rest| is_end(rest)) {
                let right = match (day % 10, day / 10) {
                    (_, 1) => "th",
                    (1, _) => "st",
                    (2, _) => "nd",
                    (3, _) => "rd",
                    _ => "th",
                };
                return format!("{right}{rest}");
            }
        }
    }
    let first = ["er", ".\u{ba}", "\u{ba}"]
        .into_iter()
        .find_map(|of| tail.strip_prefix(of));
    match first.filter(|rest| day != 1 && is_end(rest)) {
        Some(rest) => rest.to_owned(),
        None => tail.to_owned(),
    }
}

/// `words` with a name of number `from` of the lists replaced by one of number `to`.
fn renamed(words: &str, lists: &[Vec<String>], from: usize, to: usize) -> String {
    let (Some(old), Some(new)) = (lists.get(from), lists.get(to)) else {
        return words.to_owned();
    };
    // Of several that fit the longest: "March" and not "mar".
    let hit = old
        .iter()
        .enumerate()
        .filter(|(_, name)| !name.starts_with(|c: char| c.is_ascii_digit()))
        .filter_map(|(nth, name)| Some((position(words, name)?, name.len(), nth)))
        .max_by_key(|(_, length, _)| *length);
    let Some((range, _, nth)) = hit else {
        return words.to_owned();
    };
    let Some(name) = new.get(nth).or(new.first()) else {
        return words.to_owned();
    };
    let was = &words[range.clone()];
    let name = if was.chars().all(|c| !c.is_lowercase()) && was.chars().any(char::is_uppercase) {
        name.to_uppercase()
    } else if was.starts_with(char::is_uppercase) {
        let mut letters = name.chars();
        letters
            .next()
            .map(char::to_uppercase)
            .into_iter()
            .flatten()
            .chain(letters)
            .collect()
    } else {
        name.to_lowercase()
    };
    format!("{}{name}{}", &words[..range.start], &words[range.end..])
}

/// Where `name` stands in `words`, in upper or lower case.
fn position(words: &str, name: &str) -> Option<Range<usize>> {
    let (folded, name) = (words.to_lowercase(), name.to_lowercase());
    let at = folded.find(&name)?;
    let range = at..at + name.len();
    // Case may change lengths; then there is no telling where it stands.
    let same = words.get(range.clone())?.to_lowercase() == name;
    same.then_some(range)
}

/// Where the numbers in digits stand.
fn numbers(words: &str) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for (at, c) in words.char_indices().filter(|(_, c)| digit(*c).is_some()) {
        let end = at + c.len_utf8();
        match out.last_mut() {
            Some(last) if last.end == at => last.end = end,
            _ => out.push(at..end),
        }
    }
    out
}

/// The value of a digit and the zero that it is counted from.
fn digit(c: char) -> Option<(u32, char)> {
    ZEROS.into_iter().find_map(|zero| {
        let value = u32::from(c).checked_sub(u32::from(zero))?;
        (value < 10).then_some((value, zero))
    })
}

fn value_of(number: &str) -> Option<(i32, char)> {
    let zero = number.chars().next().and_then(digit)?.1;
    let digits = number
        .chars()
        .map(|c| digit(c).map(|(value, _)| i32::try_from(value).unwrap_or(0)));
    let value = digits
        .take(5)
        .try_fold(0, |sum, digit| Some(10 * sum + digit?))?;
    Some((value, zero))
}

/// `value` in the digits of `zero`, with a leading zero where the number before had one.
fn written(value: i32, before: &str, zero: char) -> String {
    let padded = before.starts_with(zero) || before.chars().count() > 2;
    let width = if padded { before.chars().count() } else { 0 };
    let digits = format!("{value:0width$}");
    let own = |c: char| {
        let value = c.to_digit(10).unwrap_or(0);
        char::from_u32(u32::from(zero) + value).unwrap_or(c)
    };
    digits.chars().map(own).collect()
}

/// Names of months from January and weekdays from Monday, each with its forms.
struct Names {
    months: Vec<Vec<String>>,
    weekdays: Vec<Vec<String>>,
}

impl Names {
    /// `None` when the table of the language is wrong, which a test of the tables rules out.
    fn of(language: Language) -> Option<Self> {
        #[derive(Deserialize)]
        struct Lists {
            months: BTreeMap<String, Vec<String>>,
            weekdays: BTreeMap<String, Vec<String>>,
        }
        let mut lists: Lists = toml::from_str(language.written()).ok()?;
        Some(Self {
            months: MONTHS
                .iter()
                .map(|name| lists.months.remove(*name))
                .collect::<Option<_>>()?,
            weekdays: WEEKDAYS
                .iter()
                .map(|name| lists.weekdays.remove(*name))
                .collect::<Option<_>>()?,
        })
    }
}

static NAMES: LazyLock<Vec<Option<Names>>> = LazyLock::new(|| {
    Language::ALL
        .iter()
        .map(|language| Names::of(*language))
        .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sentence: &str, old: &str, new: &str) -> Option<String> {
        let at: Moment = "2024-03-14T10:00:00".parse().unwrap();
        let (old, new) = (old.parse().unwrap(), new.parse().unwrap());
        rewrite(sentence, &old, &new, Some(&at), &Options::default())
    }

    #[test]
    fn the_style_stays() {
        for (sentence, old, new, expected) in [
            (
                "Mina moved on 2 March 2024.",
                "2024-03-02",
                "2024-03-03",
                "Mina moved on 3 March 2024.",
            ),
            (
                "Mina moved on March 2nd, 2024.",
                "2024-03-02",
                "2024-03-03",
                "Mina moved on March 3rd, 2024.",
            ),
            (
                "Mina moved on 03/04/2024.",
                "2024-03-04",
                "2024-03-05",
                "Mina moved on 03/05/2024.",
            ),
            (
                "Mina moved on 2024-03-02.",
                "2024-03-02",
                "2024-02-29",
                "Mina moved on 2024-02-29.",
            ),
            (
                "On 2 Mar 2024 Mina moved.",
                "2024-03-02",
                "2024-04-11",
                "On 11 Apr 2024 Mina moved.",
            ),
            (
                "She moved on Saturday, 2 March 2024.",
                "2024-03-02",
                "2024-03-04",
                "She moved on Monday, 4 March 2024.",
            ),
            (
                "In March 2024 she moved.",
                "2024-03",
                "2024-02",
                "In February 2024 she moved.",
            ),
            ("She left in 2019.", "2019", "2020", "She left in 2020."),
            (
                "미나는 2024년 3월 2일에 이사했다.",
                "2024-03-02",
                "2024-03-09",
                "미나는 2024년 3월 9일에 이사했다.",
            ),
            (
                "美奈は2024年3月3日に引っ越した。",
                "2024-03-03",
                "2024-04-03",
                "美奈は2024年4月3日に引っ越した。",
            ),
            (
                "Mina zog am 2. März 2024 um.",
                "2024-03-02",
                "2024-05-02",
                "Mina zog am 2. Mai 2024 um.",
            ),
            (
                "Mina a déménagé le 1er mars 2024.",
                "2024-03-01",
                "2024-03-02",
                "Mina a déménagé le 2 mars 2024.",
            ),
            (
                "Mina se mudó el 2 de marzo de 2024.",
                "2024-03-02",
                "2024-04-02",
                "Mina se mudó el 2 de abril de 2024.",
            ),
        ] {
            assert_eq!(
                rewritten(sentence, old, new).as_deref(),
                Some(expected),
                "{sentence}"
            );
        }
    }

    #[test]
    fn what_is_not_safe_is_left() {
        for (sentence, old, new) in [
            ("Mina moved.", "2024-03-02", "2024-03-03"),
            ("Mina moved on 2 March 2024.", "2024-03-04", "2024-03-05"),
            (
                "Mina moved on the second of March 2024.",
                "2024-03-02",
                "2024-03-03",
            ),
            (
                "On 2 March 2024 she packed, on 2 March 2024 she moved.",
                "2024-03-02",
                "2024-03-03",
            ),
            ("She moved on 2 March 2024.", "2024-03-02", "2024-03"),
            (
                "She was away from 2 to 4 March 2024.",
                "2024-03-02/2024-03-04",
                "2024-03-03/2024-03-05",
            ),
        ] {
            assert_eq!(rewritten(sentence, old, new), None, "{sentence}");
        }
    }
}
