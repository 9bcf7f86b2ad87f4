//! An experiment: the model names the words that carry a record's time, and code works out the value.

use super::resolve::{Found, Options, resolve};
use crate::moment::Moment;

/// Whether the environment asks for it (`MEMLOOM_TIME=words`).
pub fn wanted() -> bool {
    std::env::var_os("MEMLOOM_TIME").is_some_and(|value| value == "words")
}

/// The words of the turns that give `value` with their first candidate, else with another one, else `value` itself.
pub fn to_words(value: &str, turns: &[(&str, Option<Moment>)]) -> String {
    if value.is_empty() {
        return String::new();
    }
    let found: Vec<Found> = turns
        .iter()
        .flat_map(|(text, at)| resolve(text, at.as_ref(), &Options::default()))
        .collect();
    let first = found.iter().find(|of| {
        of.candidates
            .first()
            .is_some_and(|first| first.to_string() == value)
    });
    let any = || {
        found
            .iter()
            .find(|of| of.candidates.iter().any(|one| one.to_string() == value))
    };
    let words = first.or_else(any).map(|of| of.words.as_str());
    words
        .filter(|words| words.chars().count() <= 60)
        .map_or_else(
            || value.to_owned(),
            |words| words.split_whitespace().collect::<Vec<_>>().join(" "),
        )
}

/// The value of words that a record names, as they are meant in its turns; the last turn is the source.
pub fn to_value(words: &str, turns: &[(&str, Option<Moment>)]) -> String {
    let words = words.trim();
    if words.is_empty() {
        return String::new();
    }
    let same = |of: &Found| {
        of.words
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .eq_ignore_ascii_case(words)
    };
    for (text, at) in turns.iter().rev() {
        let found = resolve(text, at.as_ref(), &Options::default());
        if let Some(first) = found
            .iter()
            .find(|of| same(of))
            .and_then(|of| of.candidates.first())
        {
            return first.to_string();
        }
    }
    let at = turns.last().and_then(|(_, at)| *at);
    resolve(words, at.as_ref(), &Options::default())
        .first()
        .and_then(|of| of.candidates.first())
        .map_or_else(String::new, ToString::to_string)
}
