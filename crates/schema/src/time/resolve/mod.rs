//! Time expressions in a sentence, each resolved against the message's own time.
//!
//! What a language says is data: `crates/schema/time/<language>.toml`, explained in the README beside the tables.
//! The code is a matcher over those tables and calendar arithmetic. What the forms mean is laid down in
//! `datasets/LABELLING.md`: weeks run from Monday to Sunday, "last Friday" is the latest one before today, "three
//! weeks ago" is that whole week, "in March" in the past tense is the latest March.

mod actions;
mod calendar;
mod chart;
mod clock;
mod compose;
mod counted;
mod edge;
mod holidays;
mod language;
mod length;
mod lookup;
mod names;
mod pattern;
mod portion;
mod quantity;
mod recurring;
mod slots;
mod spans;
mod table;
mod tense;
mod text;
mod tree;
mod weekdays;
mod when;
mod written;

use std::{borrow::Cow, ops::Range};

use jiff::civil::Date;

pub use language::Language;

use chart::{Chart, Node, Sem};
use names::Class;
pub use recurring::Core as RecurrenceCore;
pub use table::Table;
pub(in crate::time) use table::{MONTHS, WEEKDAYS};
use tense::{Direction, tense};
use text::{Kind, Tokens};
use when::{Context, Reading, Side};

use super::value::{FIRST, LAST, Point, Recurrence, TimeValue};
use crate::moment::Moment;

/// Half of the earth that seasons are told for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hemisphere {
    /// Summer is June to August.
    #[default]
    Northern,
    /// Summer is December to February.
    Southern,
}

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Language of the text; found out by script and common words when it is not given.
    pub language: Option<Language>,
    /// Half of the earth that seasons are told for.
    pub hemisphere: Hemisphere,
}

/// A time expression that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it stands in the text, in bytes.
    pub range: Range<usize>,
    /// Its words, as they stand there.
    pub words: String,
    /// What it can mean, the likeliest first; empty when it was seen and could not be resolved: a duration, an age, or
    /// a relative expression without a message time. [`TimeValue::Empty`] is for words too vague for a date ("recently").
    pub candidates: Vec<TimeValue>,
    /// Whether only the first candidate is meant: the words or the tense leave nothing open.
    pub sure: bool,
    /// Language that it was read in.
    pub language: Language,
    /// Rhythm of a recurrence, for comparing two whose words differ.
    pub rhythm: Option<RecurrenceCore>,
}

/// Finds the time expressions of `text`, in order, and resolves each against `anchor`, the time of the message.
///
/// Without an anchor absolute dates are resolved; relative ones are returned with their words and no candidate.
pub fn resolve(text: &str, anchor: Option<&Moment>, options: &Options) -> Vec<Found> {
    let tokens = text::tokenise(text);
    if tokens.tokens.is_empty() {
        return Vec::new();
    }
    let context = Context {
        anchor: anchor.map(|moment| moment.local.clamp(FIRST, LAST)),
        south: options.hemisphere == Hemisphere::Southern,
    };
    let mut out: Vec<Found> = Vec::new();
    for language in language::of_text(&tokens, options.language) {
        if let Some(table) = language.table() {
            let found = read(text, tokenised(&tokens, table), table, &context, language);
            out = together(out, found);
        }
    }
    out
}

/// What two languages find, each in the order of the text: the first has the say where both find something in the same
/// place, unless the other sees more.
fn together(first: Vec<Found>, second: Vec<Found>) -> Vec<Found> {
    let mut gone = vec![false; first.len()];
    let mut out = Vec::new();
    for found in second {
        let start = first.partition_point(|of| of.range.end <= found.range.start);
        let rivals = start..first.partition_point(|of| of.range.start < found.range.end);
        let says_more = |at: usize| !gone[at] && first[at].range.len() >= found.range.len();
        // The halves of a compound have the whole word as their place.
        let follows = out
            .last()
            .is_none_or(|of: &Found| of.range.end <= found.range.start);
        if follows && !rivals.clone().any(says_more) {
            gone[rivals].fill(true);
            out.push(found);
        }
    }
    let kept = first.into_iter().zip(gone).filter(|(_, gone)| !gone);
    out.extend(kept.map(|(of, _)| of));
    out.sort_by_key(|found| found.range.start);
    out
}

impl Table {
    /// Finds the time expressions of `text` as [`resolve`] does, with this table alone: for those who write tables.
    /// `Found::language` says English.
    pub fn resolve(
        &self,
        text: &str,
        anchor: Option<&Moment>,
        hemisphere: Hemisphere,
    ) -> Vec<Found> {
        let tokens = text::tokenise(text);
        let context = Context {
            anchor: anchor.map(|moment| moment.local.clamp(FIRST, LAST)),
            south: hemisphere == Hemisphere::Southern,
        };
        read(
            text,
            tokenised(&tokens, self),
            self,
            &context,
            Language::English,
        )
    }
}

/// Tokens as a language reads them: prefixes and compounds taken apart, with the numbers of the words.
fn tokenised<'a>(tokens: &'a Tokens<'_>, table: &Table) -> (Tokens<'a>, Vec<u32>) {
    let mut out = Cow::Borrowed(&tokens.tokens[..]);
    let mut words = Vec::with_capacity(tokens.tokens.len());
    for (place, token) in tokens.tokens.iter().enumerate() {
        let word = &tokens.folded[token.folded.clone()];
        // The point behind a sentence is no word, so that no phrase goes on behind it.
        let number = if text::ends_sentence(tokens, place) {
            0
        } else {
            table.word_number(word)
        };
        let unknown = number == 0 && token.kind == Kind::Word;
        let Some(cut) = unknown.then(|| cut(word, table)).flatten() else {
            words.push(number);
            if let Cow::Owned(out) = &mut out {
                out.push(token.clone());
            }
            continue;
        };
        // Folding may change the length of a word; the cut then stands for the whole of it in the original.
        let same = token.range.len() == token.folded.len();
        let mut head = token.clone();
        let mut tail = token.clone();
        head.folded.end = token.folded.start + cut;
        tail.folded.start = head.folded.end;
        if same {
            head.range.end = token.range.start + cut;
            tail.range.start = head.range.end;
        }
        tail.blank = false;
        words.push(table.word_number(&tokens.folded[head.folded.clone()]));
        words.push(table.word_number(&tokens.folded[tail.folded.clone()]));
        if let Cow::Borrowed(all) = out {
            out = Cow::Owned(all[..place].to_vec());
        }
        out.to_mut().extend([head, tail]);
    }
    let tokens = Tokens {
        folded: Cow::Borrowed(&tokens.folded),
        tokens: out,
    };
    (tokens, words)
}

/// Where an unknown word falls into a prefix or a known word and a known word.
fn cut(word: &str, table: &Table) -> Option<usize> {
    let prefix = table
        .prefixes
        .iter()
        .filter(|prefix| word.starts_with(prefix.as_str()))
        .map(String::len)
        .find(|&at| at < word.len() && table.word_number(&word[at..]) != 0);
    if prefix.is_some() || !table.compounds {
        return prefix;
    }
    word.char_indices()
        .map(|(at, _)| at)
        .filter(|&at| at >= 3 && word.len() - at >= 3)
        .find(|&at| table.word_number(&word[..at]) != 0 && table.word_number(&word[at..]) != 0)
}

/// All that one language finds.
fn read(
    text: &str,
    (tokens, words): (Tokens<'_>, Vec<u32>),
    table: &Table,
    context: &Context,
    language: Language,
) -> Vec<Found> {
    let at = |context: &Context| read_at(text, &tokens, &words, table, context, language);
    match edge::further_in(context) {
        Some(further) => edge::here(at(&further), at(context)),
        None => at(context),
    }
}

/// All that one language finds, not minding the ends of the calendar.
fn read_at(
    text: &str,
    tokens: &Tokens<'_>,
    words: &[u32],
    table: &Table,
    context: &Context,
    language: Language,
) -> Vec<Found> {
    let chart = Chart::read(table, context, text, tokens, words);
    let mut out = Vec::new();
    // The day (or the first one) of the date named last.
    let mut named: Option<Date> = None;
    let mut at = 0;
    while at < words.len() {
        let best = |within: Range<usize>| best(&chart, within, text, tokens, table);
        let Some(mut node) = best(at..words.len()) else {
            at += 1;
            continue;
        };
        // A longer one that begins inside and goes on behind it is meant, and what stands before that.
        let is_beyond = |from: &usize| {
            best(*from..words.len())
                .is_some_and(|of| of.end > node.end && of.end - from > node.end - at)
        };
        if node.class == Class::Date
            && let Some(beyond) = (at + 1..node.end).find(is_beyond)
        {
            let Some(before) = best(at..beyond) else {
                at += 1;
                continue;
            };
            node = before;
        }
        let range = tokens.tokens[at].range.start..tokens.tokens[node.end - 1].range.end;
        let side = tense(table, tokens, words, at..node.end);
        if let Some(mut found) = found(node, context, side) {
            // Digits that may be read in another order ("4/5") say that too.
            let digits = |at: usize| tokens.tokens[at].kind == Kind::Digits;
            let has_digits = (at..node.end).any(digits);
            let equals = chart.nodes[at].iter().filter(|of| {
                has_digits
                    && of.end == node.end
                    && of.class == Class::Date
                    && node.class == Class::Date
                    && of.rank == node.rank
            });
            for other in equals {
                if let Sem::When(when) = &other.sem {
                    let more = candidates(&when.readings(context));
                    let new = more
                        .into_iter()
                        .filter(|value| !found.candidates.contains(value));
                    let new: Vec<TimeValue> = new.collect();
                    found.sure &= new.is_empty();
                    found.candidates.extend(new);
                }
            }
            if let Some(day) = named
                && !found.candidates.is_empty()
                && let Sem::When(when) = &node.sem
                && (when.is_clock() || when.is_day_of_month() || !when.is_sure(context))
            {
                let near = Context {
                    anchor: Some(day.at(0, 0, 0, 0)),
                    ..*context
                };
                carry(
                    &mut found,
                    text,
                    tokens,
                    words,
                    at..node.end,
                    table,
                    &near,
                    when.is_clock(),
                );
            }
            if let Some(TimeValue::Point(point) | TimeValue::Range(point, _)) =
                found.candidates.first()
                && node.class == Class::Date
                && !matches!(point, Point::Year(_))
            {
                named = Some(point.first().date());
            }
            found.words = text[range.clone()].to_owned();
            found.range = range;
            found.language = language;
            out.push(found);
        }
        at = node.end;
    }
    out
}

/// Adds what a phrase means when it is read from the date named before it: "the 12th" in a month that was just spoken
/// of, "at six" on a day that was. A time of day comes first so; other dates come last.
#[expect(
    clippy::too_many_arguments,
    reason = "one text with its tokens, passed on"
)]
fn carry(
    found: &mut Found,
    text: &str,
    tokens: &Tokens<'_>,
    words: &[u32],
    phrase: Range<usize>,
    table: &Table,
    near: &Context,
    first: bool,
) {
    let part = Tokens {
        folded: Cow::Borrowed(&tokens.folded),
        tokens: Cow::Borrowed(&tokens.tokens[phrase.clone()]),
    };
    let chart = Chart::read(table, near, text, &part, &words[phrase.clone()]);
    let node = chart.nodes[0]
        .iter()
        .rev()
        .filter(|node| node.class == Class::Date && node.end == phrase.len());
    let Some(Sem::When(when)) = node.max_by_key(|node| node.rank).map(|node| &node.sem) else {
        return;
    };
    let near_day = near.today();
    let readings = when.readings(near).into_iter().filter(|reading| {
        let days = near_day.map_or(i64::MAX, |day| {
            calendar::days_between(day, reading.val.first())
        });
        let first = reading.val.first();
        let same_month =
            near_day.is_some_and(|day| (day.year(), day.month()) == (first.year(), first.month()));
        (reading.side != Side::Past && (0..=31).contains(&days)) || same_month
    });
    let values: Vec<TimeValue> = readings
        .map(|reading| reading.val.value())
        .filter(|value| !found.candidates.contains(value))
        .collect();
    found.sure &= first || values.is_empty();
    let at = if first { 0 } else { found.candidates.len() };
    found.candidates.splice(at..at, values);
}

/// The longest time expression that begins with the first token of `within` and does not go on behind the last.
fn best<'a>(
    chart: &'a Chart<'_>,
    within: Range<usize>,
    text: &str,
    tokens: &Tokens<'_>,
    table: &Table,
) -> Option<&'a Node> {
    let at = within.start;
    let nodes = &chart.nodes[at];
    if nodes.is_empty() {
        return None;
    }
    // Bare digits are a year only near our time.
    let bare = |node: &Node| {
        node.end == at + 1
            && tokens.tokens[at].kind == Kind::Digits
            && !tokens.text(at).starts_with("19")
            && !tokens.text(at).starts_with("20")
    };
    // A number word alone is none either.
    let bare = |node: &Node| {
        bare(node) || (node.end == at + 1 && table.number_word(chart.word(at)).is_some())
    };
    // A Korean word is read from its beginning; its particles may follow.
    let token = &tokens.tokens[at];
    if token.kind == Kind::Char && !token.blank && at > 0 {
        let is_hangul = |at: usize| tokens.text(at).chars().all(text::is_hangul);
        if is_hangul(at) && is_hangul(at - 1) {
            return None;
        }
    }
    let alone = |node: &Node| {
        matches!(node.class, Class::Date | Class::Recurrence | Class::Other)
            && !bare(node)
            && !weak(node, at, text, tokens, table)
            && (node.class == Class::Recurrence || !quantity::follows_sign(tokens, at))
            && !quantity::is_cut(tokens, at..node.end)
            && !quantity::is_house(tokens, table, at..node.end)
            && !quantity::has_measure(chart, tokens, table, at..node.end)
    };
    let weight = |node: &Node| {
        (
            node.end,
            !node.sem.is_lost(),
            node.class == Class::Other,
            node.class == Class::Recurrence,
            node.rank,
        )
    };
    // Of equals the first: what stands first in the table.
    nodes
        .iter()
        .rev()
        .filter(|node| node.end <= within.end)
        .fold(None, |best: Option<&Node>, node| {
            let is_better = best.is_none_or(|best| weight(node) >= weight(best)) && alone(node);
            if is_better { Some(node) } else { best }
        })
}

/// Whether the words of a node are no time by themselves.
fn weak(node: &Node, at: usize, text: &str, tokens: &Tokens<'_>, table: &Table) -> bool {
    let folded = tokens.tokens[at].folded.start..tokens.tokens[node.end - 1].folded.end;
    if !table.is_weak(&tokens.folded[folded]) {
        return false;
    }
    // A capital letter in the middle of a sentence makes it a name.
    let before = text[..tokens.tokens[at].range.start].trim_end();
    let first =
        before.is_empty() || before.ends_with(['.', '!', '?', ':', '\n', '"', '(', '-', '*', '>']);
    !tokens.tokens[at].capital || first
}

/// What a node says, with the tense deciding what it leaves open.
fn found(node: &Node, context: &Context, tense: Option<Direction>) -> Option<Found> {
    let mut out = Found {
        range: 0..0,
        words: String::new(),
        candidates: Vec::new(),
        sure: true,
        language: Language::English,
        rhythm: None,
    };
    match &node.sem {
        Sem::When(when) => {
            let mut readings = when.readings(context);
            let wanted = tense.map(|direction| match direction {
                Direction::Past => Side::Past,
                Direction::Future | Direction::Neutral => Side::Future,
            });
            // Signs of tense may belong to another verb: they order the candidates and leave out none.
            let decided = readings.iter().any(|reading| Some(reading.side) == wanted);
            readings.sort_by_key(|reading| decided && Some(reading.side) != wanted);
            out.candidates = candidates(&readings);
            let only = matches!(
                readings[..],
                [Reading {
                    side: Side::Sure,
                    ..
                }]
            );
            out.sure = only || decided;
        }
        Sem::Recur(recur) => {
            let value = Recurrence::new(&recur.words).map(TimeValue::Recurrence);
            out.candidates = value.into_iter().collect();
            if let Some(date) = &recur.date {
                out.candidates.extend(candidates(&date.readings(context)));
            }
            out.rhythm = Some(recur.core.clone());
        }
        Sem::Vague => out.candidates = vec![TimeValue::Empty],
        Sem::Unresolved => out.sure = false,
        _ => return None,
    }
    Some(out)
}

/// The values of readings without doubles; what a portion is a part of comes last.
fn candidates(readings: &[Reading]) -> Vec<TimeValue> {
    let mut out = Vec::new();
    let vals = readings.iter().map(|reading| Some(reading.val));
    let wholes = readings.iter().map(|reading| reading.whole);
    for val in vals.chain(wholes).flatten() {
        let value = val.value();
        if !out.contains(&value) {
            out.push(value);
        }
    }
    out
}
