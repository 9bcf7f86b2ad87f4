//! Signs of tense: words around an expression that say whether it was or will be.

use std::{collections::HashMap, ops::Range};

use foldhash::fast::FixedState;

use super::{
    table::Table,
    text::{Kind, Tokens},
};

/// Which direction a word of tense points in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// What was.
    Past,
    /// What will be.
    Future,
    /// No sign, although it looks like one.
    Neutral,
}

/// The signs of a language.
#[derive(Debug, Default)]
pub(super) struct Signs {
    words: HashMap<u32, Direction, FixedState>,
    /// Signs of several words.
    rows: Vec<(Vec<u32>, Direction)>,
    /// Places in `rows` of those that hold a word, by its number.
    rows_of_word: Vec<Vec<usize>>,
    /// Parts of words.
    ends: Vec<(String, Direction)>,
    begins: Vec<(String, Direction)>,
    holds: Vec<(String, Direction)>,
}

impl Signs {
    /// Adds a sign of these words.
    pub(super) fn add_words(&mut self, row: Vec<u32>, direction: Direction) {
        if let [only] = row[..] {
            self.words.insert(only, direction);
            return;
        }
        for &word in &row {
            let word = word as usize;
            if self.rows_of_word.len() <= word {
                self.rows_of_word.resize_with(word + 1, Vec::new);
            }
            self.rows_of_word[word].push(self.rows.len());
        }
        self.rows.push((row, direction));
    }

    /// Adds a part of a word that is a sign: its end (`*ed`), its beginning (`pre*`) or any part (`*im*`).
    pub(super) fn add_part(&mut self, sign: &str, folded: String, direction: Direction) {
        let list = match (sign.starts_with('*'), sign.ends_with('*')) {
            (true, true) => &mut self.holds,
            (true, false) => &mut self.ends,
            _ => &mut self.begins,
        };
        list.push((folded, direction));
    }

    /// The tense that a word of the table, or the form of any word, shows.
    fn of_word(&self, word: u32, folded: &str) -> Option<Direction> {
        if let Some(&direction) = self.words.get(&word) {
            return (direction != Direction::Neutral).then_some(direction);
        }
        let find = |list: &[(String, Direction)], fits: &dyn Fn(&str) -> bool| {
            list.iter()
                .find(|(part, _)| part.len() < folded.len() && fits(part))
                .map(|(_, direction)| *direction)
        };
        find(&self.ends, &|part| folded.ends_with(part))
            .or_else(|| find(&self.begins, &|part| folded.starts_with(part)))
            .or_else(|| find(&self.holds, &|part| folded.contains(part)))
    }

    /// The tense of a sign of several words that covers word `at`.
    fn of_row(&self, words: &[u32], at: usize) -> Option<Direction> {
        let rows = self.rows_of_word.get(words[at] as usize)?.iter();
        let mut rows = rows.map(|&row| &self.rows[row]);
        let covers = |row: &[u32]| {
            (0..row.len()).any(|back| at >= back && words[at - back..].starts_with(row))
        };
        rows.find(|(row, _)| covers(row))
            .map(|(_, direction)| *direction)
    }
}

/// The tense that the words around a phrase show: the nearest sign of its sentence, one before it if two are as near.
pub(super) fn tense(
    table: &Table,
    tokens: &Tokens<'_>,
    words: &[u32],
    phrase: Range<usize>,
) -> Option<Direction> {
    let ends_sentence = |at: usize| {
        let text = tokens.text(at);
        matches!(text, "!" | "?" | "。" | ";" | "।" | "؟")
            || (text == "." && tokens.tokens.get(at + 1).is_none_or(|next| next.blank))
    };
    let sign = |at: usize| {
        let of = &tokens.tokens[at];
        match of.kind {
            Kind::Word | Kind::Char => {
                let signs = &table.signs;
                let row = signs.of_row(words, at);
                row.or_else(|| signs.of_word(words[at], tokens.text(at)))
            }
            _ => None,
        }
    };
    let mut nearest: Option<(usize, Direction)> = None;
    let mut weight = 0;
    let before = if table.verb_last {
        0..0
    } else {
        0..phrase.start
    };
    for at in before.rev() {
        if ends_sentence(at) {
            break;
        }
        weight += if tokens.text(at) == "," { 6 } else { 1 };
        if weight > 40 {
            break;
        }
        if let Some(direction) = sign(at) {
            nearest = Some((weight, direction));
            break;
        }
    }
    weight = 0;
    for at in phrase.end..words.len() {
        if ends_sentence(at) {
            break;
        }
        weight += if tokens.text(at) == "," { 6 } else { 1 };
        if weight > 40 || nearest.is_some_and(|(best, _)| best <= weight) {
            break;
        }
        if let Some(direction) = sign(at) {
            nearest = Some((weight, direction));
            break;
        }
    }
    nearest.map(|(_, direction)| direction)
}
