//! Something that comes again, in plain words.

use std::{fmt, sync::LazyLock};

use regex::Regex;

use super::{Point, TimeValue, TimeValueError, cut};

/// First words of a recurrence that are followed by a blank.
const RECURRENCE_WORDS: &str = "every|each|cada|jeden|jedes|jede|chaque|tous|toutes|todos|todas|todo|toda|ogni|كل|hər|her|har|हर";

/// Beginnings of a recurrence that need no blank.
const RECURRENCE_PREFIXES: &str = "daily|매|毎|每|kaum|каж|หลังทุก";

/// Characters of a recurrence behind its first word, blanks not counted.
const RECURRENCE_CHARS: usize = 80;

/// A recurrence in plain words that begin with *every* in their language, bounds included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Recurrence {
    text: String,
}

impl Recurrence {
    /// A recurrence in words.
    ///
    /// # Errors
    /// When the words do not begin with *every* in one of our languages, hold blanks other than single ones, or
    /// are longer than 80 characters.
    pub fn new(words: &str) -> Result<Self, TimeValueError> {
        static PATTERN: LazyLock<Option<Regex>> =
            LazyLock::new(|| Regex::new(&format!("^({})$", recurrence_pattern())).ok());
        if PATTERN
            .as_ref()
            .is_some_and(|words_of| words_of.is_match(words))
        {
            Ok(Self {
                text: words.to_owned(),
            })
        } else {
            Err(TimeValueError::Form(cut(words)))
        }
    }

    /// The words as they were given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the recurrence begins and ends, as far as its words say so in normal forms.
    ///
    /// Read are `from A`, `since A`, `until B`, `to B`, `in A` (begins and ends in it) and `A/B`, A and B points.
    /// Dates written out in words ("from July 2020", "2023年12月4日起") need the tables of a language and give
    /// `None` here. A point without one of those words before it, and ends in the wrong order, bound nothing.
    pub fn bounds(&self) -> (Option<Point>, Option<Point>) {
        let (mut from, mut until) = (None, None);
        let mut before = "";
        for word in self.text.split(' ') {
            let word = word.trim_matches([',', '.', ';']);
            match (before, word.parse::<TimeValue>()) {
                ("from" | "since", Ok(TimeValue::Point(point))) => from = Some(point),
                ("until" | "to", Ok(TimeValue::Point(point))) => until = Some(point),
                ("in", Ok(TimeValue::Point(point))) => (from, until) = (Some(point), Some(point)),
                (_, Ok(TimeValue::Range(first, last))) => {
                    (from, until) = (Some(first), Some(last));
                }
                _ => {}
            }
            before = word;
        }
        match (from, until) {
            (Some(first), Some(last)) if first.first() > last.last() => (None, None),
            bounds => bounds,
        }
    }
}

impl fmt::Display for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Regular expression, not anchored, of a recurrence.
pub(super) fn recurrence_pattern() -> String {
    let words = RECURRENCE_CHARS - 1;
    format!(
        "({RECURRENCE_WORDS}) \\S( ?\\S){{0,{words}}}|({RECURRENCE_PREFIXES})( ?\\S){{0,{words}}}"
    )
}
