//! A table as it is written in its file.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Named lists of words.
pub(super) type Lists = BTreeMap<String, Vec<String>>;

/// A table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    /// Common words by which the language is known, lower case.
    #[expect(dead_code, reason = "read by the function of this name")]
    pub(super) function_words: Vec<String>,
    /// Words that are no time by themselves unless they have a capital letter.
    #[serde(default)]
    pub(super) weak: Vec<String>,
    /// Words behind a number that is no time ("euros", "per cent").
    #[serde(default)]
    pub(super) measures: Vec<String>,
    /// Words behind a number and a name that make an address ("2015 Main Street").
    #[serde(default)]
    pub(super) streets: Vec<String>,
    /// Letters that are written on to the beginning of a word ("and", "in", "the" in Arabic).
    #[serde(default)]
    pub(super) prefixes: Vec<String>,
    /// Whether words are written together ("Freitagabend").
    #[serde(default)]
    pub(super) compounds: bool,
    /// Whether the verb stands behind the date, so that what stands before belongs to another clause.
    #[serde(default)]
    pub(super) verb_last: bool,
    /// Words that may stand between number words ("and", "-").
    #[serde(default)]
    pub(super) joiners: Vec<String>,
    /// Whether number words of one digit side by side are digits (二〇二四).
    #[serde(default)]
    pub(super) spelled_digits: bool,
    pub(super) numbers: BTreeMap<String, i64>,
    #[serde(default)]
    pub(super) multipliers: BTreeMap<String, i64>,
    #[serde(default)]
    pub(super) ordinals: BTreeMap<String, i32>,
    pub(super) weekdays: Lists,
    /// One letter for each weekday, as they stand in a row (月水金).
    #[serde(default)]
    pub(super) weekday_letters: Lists,
    pub(super) months: Lists,
    pub(super) units: Lists,
    #[serde(default)]
    pub(super) seasons: Lists,
    #[serde(default)]
    pub(super) parts: Lists,
    #[serde(default)]
    pub(super) portions: Lists,
    #[serde(default)]
    pub(super) relative: Lists,
    #[serde(default)]
    pub(super) days: Lists,
    #[serde(default)]
    pub(super) ampm: Lists,
    #[serde(default)]
    pub(super) holidays: Lists,
    #[serde(default)]
    pub(super) eras: Lists,
    pub(super) tense: Tense,
    #[serde(default)]
    pub(super) recurrence: Recurring,
    #[serde(default)]
    pub(super) sets: Lists,
    pub(super) rules: Lists,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tense {
    pub(super) past: Vec<String>,
    pub(super) future: Vec<String>,
    /// Words that look like a sign and are none.
    #[serde(default)]
    pub(super) neutral: Vec<String>,
}

/// How recurrences are written out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recurring {
    /// "every {}".
    pub(super) every: String,
    /// "every other {}".
    pub(super) other: String,
    /// "every {n} {}", where `{n}` is the step and `{}` the unit.
    pub(super) step: String,
    /// "every {n} {} of the month", where `{n}` is the ordinal as it was written.
    pub(super) nth: String,
    /// "every month on day {n}".
    #[serde(default)]
    pub(super) day: String,
    /// Between several weekdays: " and ".
    pub(super) and: String,
}
