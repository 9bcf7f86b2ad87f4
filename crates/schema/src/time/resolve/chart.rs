//! The matcher: which rules fit where.
//!
//! Bottom-up, from the last token to the first. When a token is reached, all that can begin behind it is known, so a
//! rule is tried once for each way to fill its slots with known nodes, and no choice is ever taken back. The nodes
//! that begin at one token are limited in number, and so is the work.

use std::{ops::Range, rc::Rc};

use super::{
    actions,
    length::Length,
    names::{Action, Class, Slot},
    recurring::Recur,
    table::{Makes, Rule, Table},
    text::{Kind, Tokens},
    weekdays,
    when::{Context, When},
};

/// Nodes that may begin at one token.
const NODES: usize = 96;
/// Nodes of one class that may cover the same tokens.
const SAME: usize = 3;
/// Tokens that a rule may reach over.
const REACH: usize = 40;
/// Actions that may have made a node: some more than the longest expressions that people say hold, which have 13.
const ACTIONS: u16 = 16;

/// What a node means.
#[derive(Clone, Debug)]
pub(super) enum Sem {
    /// A number, with the count of its digits; 0 for number words.
    Number(i64, u8),
    /// The value of a word, or an ordinal.
    Value(i32),
    /// A length of time.
    Length(Length),
    /// A date or a time of day.
    When(Rc<When>),
    /// Something that comes again.
    Recur(Rc<Recur>),
    /// Too vague for a date.
    Vague,
    /// Seen, without a date.
    Unresolved,
    /// No time at all.
    Nothing,
}

impl Sem {
    /// Whether it is a date that was said and does not exist, or that needs a message time.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::When(when) if when.is_lost())
    }
}

/// A part of the text with what it means.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) class: Class,
    /// The token behind it.
    pub(super) end: usize,
    pub(super) sem: Sem,
    /// How flat it was read: elements of its rule.
    pub(super) rank: u8,
    /// Actions that made it: its own and those of what it holds.
    pub(super) made: u16,
}

/// A text that is being read.
pub(super) struct Chart<'a> {
    table: &'a Table,
    context: &'a Context,
    text: &'a str,
    tokens: &'a Tokens<'a>,
    words: &'a [u32],
    /// Nodes by the token that they begin with.
    pub(super) nodes: Vec<Vec<Node>>,
}

/// A slot with what fills it.
pub(super) type Filled = (Slot, Sem);

/// A slot with the node that fills it: the token that the node begins with, and its place among the nodes there.
type SlotAt = (Slot, usize, usize);

/// A rule that fits.
struct Match {
    rule: u32,
    /// The token behind it.
    end: usize,
    /// Its slots, in [`Matches::slots`].
    slots: Range<usize>,
}

/// Rules that fit at one token, and room to find them in.
#[derive(Default)]
struct Matches {
    found: Vec<Match>,
    slots: Vec<SlotAt>,
    /// Slots of the rules that are being tried.
    path: Vec<SlotAt>,
    /// Slots of the rule whose node is being made.
    filled: Vec<Filled>,
}

impl Matches {
    fn add(&mut self, rule: u32, end: usize) {
        let from = self.slots.len();
        self.slots.extend_from_slice(&self.path);
        let slots = from..self.slots.len();
        self.found.push(Match { rule, end, slots });
    }
}

impl<'a> Chart<'a> {
    /// Reads all of `tokens`, whose word numbers are `words`.
    pub(super) fn read(
        table: &'a Table,
        context: &'a Context,
        text: &'a str,
        tokens: &'a Tokens<'a>,
        words: &'a [u32],
    ) -> Self {
        let mut chart = Self {
            table,
            context,
            text,
            tokens,
            words,
            nodes: vec![Vec::new(); words.len()],
        };
        let mut matches = Matches::default();
        for start in (0..words.len()).rev() {
            chart.begin(start, &mut matches);
        }
        chart
    }

    /// The word numbers of all tokens.
    pub(super) fn words(&self) -> &[u32] {
        self.words
    }

    /// The word number of token `at`.
    pub(super) fn word(&self, at: usize) -> u32 {
        self.words[at]
    }

    /// Finds all nodes that begin with token `start`.
    fn begin(&mut self, start: usize, matches: &mut Matches) {
        let word = self.words[start];
        let digits = self.tokens.tokens[start].kind == Kind::Digits;
        if word == 0 && !digits {
            return;
        }
        self.number(start);
        for (end, bits) in weekdays::rows(self.table, self.tokens, self.words, start) {
            self.nodes[start].push(Node {
                class: Class::Weekdays,
                end,
                sem: Sem::Value(bits),
                rank: 1,
                made: 0,
            });
        }
        if let Some(step) = self.table.tree.first_word(word) {
            self.walk(step, start, start + 1, matches);
            self.make_all(start, matches);
        }
        let mut next = 0;
        while next < self.nodes[start].len() && self.nodes[start].len() < NODES {
            let Node { class, end, .. } = self.nodes[start][next];
            for branch in self.table.tree.first_slots(class) {
                if fits(branch.slot, branch.only, &self.nodes[start][next].sem) {
                    matches.path.push((branch.slot, start, next));
                    self.walk(branch.to, start, end, matches);
                    matches.path.pop();
                }
            }
            self.make_all(start, matches);
            next += 1;
        }
    }

    /// Finds the rules that fit from a step at token `at`, behind what the path of `matches` holds.
    fn walk(&self, step: u32, start: usize, at: usize, matches: &mut Matches) {
        let step = self.table.tree.step(step);
        for &rule in &step.rules {
            matches.add(rule, at);
        }
        if step.is_end() || at >= self.words.len() || at - start > REACH {
            return;
        }
        let blank = self.tokens.tokens[at].blank;
        if self.words[at] != 0 {
            for branch in step.word(self.words[at]) {
                if !(branch.glued && blank) {
                    self.walk(branch.to, start, at + 1, matches);
                }
            }
        }
        for branch in &step.slots {
            if branch.glued && blank {
                continue;
            }
            for (index, node) in self.nodes[at].iter().enumerate() {
                if node.class == branch.class && fits(branch.slot, branch.only, &node.sem) {
                    matches.path.push((branch.slot, at, index));
                    self.walk(branch.to, start, node.end, matches);
                    matches.path.pop();
                }
            }
        }
    }

    /// Makes the nodes of all rules that fit, in the order of the table.
    fn make_all(&mut self, start: usize, matches: &mut Matches) {
        matches.found.sort_by_key(|of| of.rule);
        for of in &matches.found {
            self.make(
                start,
                of,
                &matches.slots[of.slots.clone()],
                &mut matches.filled,
            );
        }
        matches.found.clear();
        matches.slots.clear();
    }

    /// Whether the rule puts the same words to a date twice: those are two dates.
    fn is_said_twice(&self, rule: &Rule, slots: &[SlotAt]) -> bool {
        let words = |at: usize, index: usize| &self.words[at..self.nodes[at][index].end];
        match *slots {
            [(Slot::Date, a, a_index), (Slot::Date, b, b_index)] => {
                matches!(rule.makes, Makes::Action(Action::Date))
                    && words(a, a_index) == words(b, b_index)
            }
            _ => false,
        }
    }

    /// Makes the node of a rule that fits.
    fn make(&mut self, start: usize, of: &Match, slots: &[SlotAt], filled: &mut Vec<Filled>) {
        if self.nodes[start].len() >= NODES {
            return;
        }
        let rule = &self.table.rules[of.rule as usize];
        let (end, rank) = (of.end, rule.rank);
        let class = match rule.makes {
            Makes::Word(class, _) => class,
            Makes::Action(action) => action.class(),
        };
        let held = slots
            .iter()
            .map(|&(_, at, index)| self.nodes[at][index].made);
        let made = held.sum::<u16>() + u16::from(matches!(rule.makes, Makes::Action(_)));
        if made > ACTIONS || self.is_said_twice(rule, slots) {
            return;
        }
        // Without a message time most dates have none.
        let known = self.context.anchor.is_some();
        let lost = |node: &Node| known && node.sem.is_lost();
        let (mut all, mut count, mut best, mut has_any) = (0, 0, 0, false);
        for node in self.nodes[start].iter().filter(|node| node.end == end) {
            all += usize::from(node.class != Class::Number);
            if node.class != class {
                continue;
            }
            has_any = true;
            if !lost(node) {
                count += 1;
                best = best.max(node.rank);
            }
        }
        // One that is read more flatly than all others is kept in any case.
        if count >= SAME && (rank <= best || count >= 2 * SAME) {
            return;
        }
        let sem = match rule.makes {
            Makes::Word(Class::Number, value) => Sem::Number(value.into(), 0),
            Makes::Word(_, value) => Sem::Value(value),
            Makes::Action(action) => {
                if all > 4 * SAME {
                    return;
                }
                filled.clear();
                filled.extend(
                    slots
                        .iter()
                        .map(|&(slot, at, index)| (slot, self.nodes[at][index].sem.clone())),
                );
                filled.extend(rule.constants.iter().map(|&(slot, value)| {
                    let sem = match slot.class() {
                        Class::Number => Sem::Number(value.into(), 0),
                        _ => Sem::Value(value),
                    };
                    (slot, sem)
                }));
                let first = self.tokens.tokens[start].range.start;
                let last = self.tokens.tokens[end - 1].range.end;
                let words = &self.text[first..last];
                match actions::make(action, filled, self.table, self.context, words) {
                    Some(made) => made,
                    None => return,
                }
            }
        };
        // A date that does not exist is none of those that are meant, if there are any.
        if known && sem.is_lost() && has_any {
            return;
        }
        self.nodes[start].push(Node {
            class,
            end,
            sem,
            rank,
            made,
        });
    }

    /// The number (or the ordinal in words) that begins with token `start`.
    fn number(&mut self, start: usize) {
        let token = &self.tokens.tokens[start];
        if token.kind == Kind::Digits {
            let text = self.tokens.text(start);
            if let (Ok(value), Ok(digits)) = (text.parse(), u8::try_from(text.len())) {
                // Digits before a number word: 3万, 2 thousand.
                self.push_number(start, start + 1, value, digits);
                let mut end = start + 1;
                let mut value: i64 = value;
                while let Some(word) = self.words.get(end).and_then(|w| self.table.number_word(*w))
                {
                    match value
                        .checked_mul(word.value)
                        .filter(|_| word.multiplies && digits < 7)
                    {
                        Some(more) => value = more,
                        None => break,
                    }
                    end += 1;
                }
                if end > start + 1 {
                    self.push_number(start, end, value, 0);
                }
                self.grouped(start, value);
            }
            return;
        }
        let Some(first) = self.table.number_word(self.words[start]) else {
            return;
        };
        let (mut total, mut current, mut end) = (0i64, first.value, start + 1);
        let mut spelled = u8::from((0..10).contains(&first.value) && !first.multiplies);
        // The unit that a further word must stay below.
        let mut room = if first.multiplies {
            first.value
        } else {
            place(first.value)
        };
        let mut ordinal = None;
        while end < self.words.len() && end - start < 16 {
            let mut at = end;
            while at < self.words.len() && at < end + 2 && self.table.joins_numbers(self.words[at])
            {
                at += 1;
            }
            let Some(&next) = self.words.get(at) else {
                break;
            };
            let Some(word) = self.table.number_word(next) else {
                if let Some(last) = self.table.ordinal_word(next)
                    && last > 0
                    && i64::from(last) < room
                {
                    ordinal = Some((total + current + i64::from(last), at + 1));
                }
                break;
            };
            if word.multiplies {
                if at > end {
                    break;
                }
                let Some(product) = current.max(1).checked_mul(word.value) else {
                    break;
                };
                if product > 1_000_000_000 {
                    break;
                }
                if word.value >= 10_000 || (word.value >= 1000 && total == 0) {
                    total += product;
                    current = 0;
                    room = word.value;
                } else if spelled > 1 {
                    break;
                } else {
                    total += product;
                    current = 0;
                    room = word.value;
                }
                spelled = 0;
            } else if spelled > 0 && self.table.spelled_digits && (0..10).contains(&word.value) {
                if spelled >= 4 {
                    break;
                }
                current = current * 10 + word.value;
                spelled += 1;
                room = 1;
            } else if word.value < room && word.value > 0 {
                current += word.value;
                room = place(word.value);
                spelled = u8::from((1..10).contains(&word.value) && room > 1);
                if !self.table.spelled_digits {
                    spelled = 0;
                }
            } else {
                break;
            }
            end = at + 1;
        }
        self.push_number(
            start,
            end,
            total + current,
            if spelled > 1 { spelled } else { 0 },
        );
        if let Some((value, end)) = ordinal
            && let Ok(value) = i32::try_from(value)
        {
            self.nodes[start].push(Node {
                class: Class::Ordinal,
                end,
                sem: Sem::Value(value),
                rank: 2,
                made: 0,
            });
        }
    }

    /// Digits in groups of three: "4,060" is one number, and no year.
    fn grouped(&mut self, start: usize, first: i64) {
        let (mut value, mut end) = (first, start + 1);
        while value < 1_000_000 && end + 1 < self.words.len() {
            let (mark, group) = (self.tokens.text(end), self.tokens.text(end + 1));
            let [point, digits] = [&self.tokens.tokens[end], &self.tokens.tokens[end + 1]];
            if !matches!(mark, "," | ".")
                || group.len() != 3
                || digits.kind != Kind::Digits
                || point.blank
                || digits.blank
            {
                break;
            }
            value = value * 1000 + group.parse::<i64>().unwrap_or(0);
            end += 2;
        }
        if end > start + 1 {
            self.push_number(start, end, value, 7);
        }
    }

    fn push_number(&mut self, start: usize, end: usize, value: i64, digits: u8) {
        self.nodes[start].push(Node {
            class: Class::Number,
            end,
            sem: Sem::Number(value, digits),
            rank: 1,
            made: 0,
        });
    }
}

/// The power of ten below which a further number word must stay: 20 leaves room for less than 10, 100 for less than
/// 100, 25 for nothing.
fn place(value: i64) -> i64 {
    let mut place = 1;
    while value != 0 && value % (place * 10) == 0 && place < 1_000_000_000 {
        place *= 10;
    }
    if value == 10 { 1 } else { place }
}

/// Whether `sem` may fill the slot.
fn fits(slot: Slot, only: Option<i32>, sem: &Sem) -> bool {
    match *sem {
        Sem::Number(value, digits) => {
            let in_range = match slot {
                Slot::N => true,
                Slot::Year => (1000..=2999).contains(&value) && matches!(digits, 0 | 4),
                Slot::Yy => (0..=99).contains(&value) && digits == 2,
                Slot::M => (1..=12).contains(&value) && digits <= 2,
                Slot::D => (1..=31).contains(&value) && digits <= 2,
                Slot::Hour => (0..=24).contains(&value) && digits <= 2,
                Slot::Minute => (0..=59).contains(&value) && matches!(digits, 0 | 2),
                _ => false,
            };
            in_range && only.is_none_or(|only| i64::from(only) == value)
        }
        Sem::Value(value) => only.is_none_or(|only| only == value),
        _ => true,
    }
}
