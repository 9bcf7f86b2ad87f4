//! Tables of languages: `crates/schema/time/<language>.toml`, read and compiled into rules.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::FixedState;
use serde::Deserialize;

use super::{
    actions::EITHER_WAY,
    holidays,
    names::{Action, Class, Part, Portion, Season, Slot, Unit},
    pattern::{self, Piece},
    tense::{Direction, Signs},
    text::{self, Kind, tokenise},
    tree::Tree,
    written::{Lists, Recurring, Written},
};

/// Months in order, as `[months]` names them.
pub(in crate::time) const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
/// Weekdays in order from Monday, as `[weekdays]` names them.
pub(in crate::time) const WEEKDAYS: [&str; 7] = [
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
];

/// A number word.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberWord {
    /// Its value.
    pub(super) value: i64,
    /// Whether it multiplies what stands before it.
    pub(super) multiplies: bool,
}

/// One element of a rule.
#[derive(Clone, Copy, Debug)]
pub(super) enum Element {
    /// A token with this word number.
    Word(u32),
    /// A node of the slot's class, maybe of one value only.
    Slot(Slot, Option<i32>),
}

/// What a rule makes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Makes {
    /// A word of a class with its value.
    Word(Class, i32),
    /// What the action makes.
    Action(Action),
}

/// A flat rule; its elements stand in [`Table::tree`].
#[derive(Debug)]
pub(super) struct Rule {
    /// How many elements must stand in a row; never 0.
    pub(super) rank: u8,
    /// Slots that the rule fills by itself.
    pub(super) constants: Box<[(Slot, i32)]>,
    /// What comes of it.
    pub(super) makes: Makes,
}

/// A language, ready to read with.
#[derive(Debug)]
pub struct Table {
    words: HashMap<Box<str>, u32, FixedState>,
    /// Whether the word is one mark other than a comma, by its number.
    marks: Vec<bool>,
    /// Elements of all rules.
    pub(super) tree: Tree,
    pub(super) rules: Vec<Rule>,
    numbers: HashMap<u32, NumberWord, FixedState>,
    ordinals: HashMap<u32, i32, FixedState>,
    weekday_letters: HashMap<u32, i32, FixedState>,
    joiners: Vec<u32>,
    pub(super) spelled_digits: bool,
    pub(super) signs: Signs,
    weak: HashSet<String, FixedState>,
    measures: Vec<Vec<u32>>,
    streets: HashSet<String, FixedState>,
    pub(super) prefixes: Vec<String>,
    pub(super) compounds: bool,
    pub(super) verb_last: bool,
    pub(super) recurring: Recurring,
    names: BTreeMap<(Class, i32), String>,
}

impl Table {
    /// Reads the text of a table.
    ///
    /// # Errors
    /// Says which key, word or pattern is wrong and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut table = Self {
            words: HashMap::default(),
            marks: vec![false],
            tree: Tree::default(),
            rules: Vec::new(),
            numbers: HashMap::default(),
            ordinals: HashMap::default(),
            weekday_letters: HashMap::default(),
            joiners: Vec::new(),
            spelled_digits: written.spelled_digits,
            signs: Signs::default(),
            weak: written.weak.iter().map(|word| folded(word)).collect(),
            measures: Vec::new(),
            streets: written.streets.iter().map(|word| folded(word)).collect(),
            prefixes: written.prefixes,
            compounds: written.compounds,
            verb_last: written.verb_last,
            recurring: written.recurrence,
            names: BTreeMap::new(),
        };
        for (word, &value) in &written.numbers {
            table.number(word, value, false)?;
        }
        for (word, &value) in &written.multipliers {
            table.number(word, value, true)?;
        }
        for (word, &value) in &written.ordinals {
            if let [only] = table.row(word)?[..] {
                table.ordinals.insert(only, value);
            }
            table.word(word, Class::Ordinal, value)?;
        }
        for word in &written.measures {
            let row = table.row(word)?;
            table.measures.push(row);
        }
        for word in &written.joiners {
            let row = table.row(word)?;
            table.joiners.extend(row);
        }
        let place = |list: &'static [&'static str]| {
            move |name: &str| {
                list.iter()
                    .position(|of| *of == name)
                    .map(|at| at as i32 + 1)
            }
        };
        table.list(
            "weekdays",
            &written.weekdays,
            Class::Weekday,
            place(&WEEKDAYS),
        )?;
        table.letters(&written.weekday_letters, place(&WEEKDAYS))?;
        table.list("months", &written.months, Class::Month, place(&MONTHS))?;
        table.list("units", &written.units, Class::Unit, |name| {
            Unit::from_name(name).map(|unit| unit as i32)
        })?;
        table.list("seasons", &written.seasons, Class::Season, |name| {
            Season::from_name(name).map(|season| season as i32)
        })?;
        table.list("parts", &written.parts, Class::Part, |name| {
            Part::from_name(name).map(|part| part as i32)
        })?;
        table.list("portions", &written.portions, Class::Portion, |name| {
            Portion::from_name(name).map(|portion| portion as i32)
        })?;
        let number = |name: &str| name.parse().ok();
        table.list("relative", &written.relative, Class::Relative, number)?;
        table.list("days", &written.days, Class::Day, |name| {
            match name.strip_prefix("+-") {
                Some(days) => days.parse::<i32>().ok().map(|days| EITHER_WAY + days),
                None => number(name),
            }
        })?;
        table.list("eras", &written.eras, Class::Era, number)?;
        table.list("ampm", &written.ampm, Class::AmPm, |name| match name {
            "am" => Some(0),
            "pm" => Some(1),
            _ => None,
        })?;
        table.list(
            "holidays",
            &written.holidays,
            Class::Holiday,
            holidays::position,
        )?;
        table.tense(&written.tense.past, Direction::Past)?;
        table.tense(&written.tense.future, Direction::Future)?;
        let sets: Vec<&str> = written.sets.keys().map(String::as_str).collect();
        for (place, words) in written.sets.values().enumerate() {
            for word in words {
                table.word(word, Class::Set, place as i32)?;
            }
        }
        table.tense(&written.tense.neutral, Direction::Neutral)?;
        for (action, patterns) in &written.rules {
            let made = Action::from_name(action)
                .ok_or_else(|| format!("[rules] there is no action `{action}`"))?;
            for pattern in patterns {
                let flat = pattern::expand(pattern, &sets)
                    .map_err(|why| format!("[rules] {action} `{pattern}`: {why}"))?;
                for pieces in flat {
                    table
                        .rule(&pieces, made)
                        .map_err(|why| format!("[rules] {action} `{pattern}`: {why}"))?;
                }
            }
        }
        Ok(table)
    }

    /// The number of a folded word; 0 when the table does not hold it.
    pub(super) fn word_number(&self, folded: &str) -> u32 {
        self.words.get(folded).copied().unwrap_or(0)
    }

    /// The number word with this number.
    pub(super) fn number_word(&self, word: u32) -> Option<NumberWord> {
        self.numbers.get(&word).copied()
    }

    /// The ordinal with this word number.
    pub(super) fn ordinal_word(&self, word: u32) -> Option<i32> {
        self.ordinals.get(&word).copied()
    }

    /// The weekday, 1 to 7, whose letter has this word number.
    pub(super) fn weekday_letter(&self, word: u32) -> Option<i32> {
        self.weekday_letters.get(&word).copied()
    }

    /// Whether the word may stand between number words.
    pub(super) fn joins_numbers(&self, word: u32) -> bool {
        self.joiners.contains(&word)
    }

    /// Whether `folded` is no time by itself.
    pub(super) fn is_weak(&self, folded: &str) -> bool {
        self.weak.contains(folded)
    }

    /// Whether the words begin with a measure.
    pub(super) fn is_measure(&self, words: &[u32]) -> bool {
        self.measures.iter().any(|row| words.starts_with(row))
    }

    /// Whether `folded` stands for a street behind its name.
    pub(super) fn is_street(&self, folded: &str) -> bool {
        self.streets.contains(folded)
    }

    /// What a value is called: the first word of its list, as it is written there.
    pub(super) fn name_of(&self, class: Class, value: i32) -> Option<&str> {
        self.names.get(&(class, value)).map(String::as_str)
    }

    fn number(&mut self, word: &str, value: i64, multiplies: bool) -> Result<(), String> {
        match self.row(word)?[..] {
            [only] => {
                self.numbers.insert(only, NumberWord { value, multiplies });
            }
            _ if multiplies => return Err(format!("[multipliers] `{word}` is not one word")),
            _ => {
                let value = i32::try_from(value)
                    .map_err(|_| format!("[numbers] `{word}` is too large for several words"))?;
                self.word(word, Class::Number, value)?;
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        section: &str,
        lists: &Lists,
        class: Class,
        value: impl Fn(&str) -> Option<i32>,
    ) -> Result<(), String> {
        for (name, words) in lists {
            let value = value(name).ok_or_else(|| format!("[{section}] there is no `{name}`"))?;
            if let Some(first) = words.first() {
                self.names.insert((class, value), first.clone());
            }
            for word in words {
                self.word(word, class, value)?;
            }
        }
        Ok(())
    }

    fn letters(
        &mut self,
        lists: &Lists,
        weekday: impl Fn(&str) -> Option<i32>,
    ) -> Result<(), String> {
        for (name, letters) in lists {
            let weekday =
                weekday(name).ok_or_else(|| format!("[weekday_letters] there is no `{name}`"))?;
            for letter in letters {
                let [only] = self.row(letter)?[..] else {
                    return Err(format!("[weekday_letters] `{letter}` is not one letter"));
                };
                self.weekday_letters.insert(only, weekday);
            }
        }
        Ok(())
    }

    fn word(&mut self, word: &str, class: Class, value: i32) -> Result<(), String> {
        let row = self.row(word)?;
        let elements = row.into_iter().map(Element::Word).collect();
        let glued = hangul_within(word);
        self.add_rule(elements, glued, Vec::new(), Makes::Word(class, value));
        Ok(())
    }

    /// Word numbers of the tokens of `text`.
    fn row(&mut self, text: &str) -> Result<Vec<u32>, String> {
        let tokens = tokenise(text);
        if tokens.tokens.is_empty() {
            return Err("an empty word".to_owned());
        }
        Ok((0..tokens.tokens.len())
            .map(|at| self.intern(tokens.text(at)))
            .collect())
    }

    fn intern(&mut self, folded: &str) -> u32 {
        if let Some(&number) = self.words.get(folded) {
            return number;
        }
        let number = self.marks.len() as u32;
        let mark = tokenise(folded)
            .tokens
            .iter()
            .all(|token| token.kind == Kind::Mark);
        self.marks.push(mark && folded != ",");
        self.words.insert(folded.into(), number);
        number
    }

    fn tense(&mut self, signs: &[String], direction: Direction) -> Result<(), String> {
        for sign in signs {
            let bare = sign.trim_matches('*');
            if bare.len() < sign.len() {
                self.signs.add_part(sign, folded(bare), direction);
            } else {
                let row = self.row(sign)?;
                self.signs.add_words(row, direction);
            }
        }
        Ok(())
    }

    fn rule(&mut self, pieces: &[Piece], action: Action) -> Result<(), String> {
        let mut elements = Vec::new();
        let mut glued = Vec::new();
        let mut constants = Vec::new();
        let mut hangul = Vec::new();
        let mut blank = true;
        for piece in pieces {
            match piece {
                Piece::Constant(slot, value) => constants.push((*slot, *value)),
                Piece::Slot(slot, value) => {
                    elements.push(Element::Slot(*slot, *value));
                    hangul.push(false);
                    glued.push(!blank);
                    blank = false;
                }
                Piece::Text(text) => {
                    let tokens = tokenise(text);
                    hangul.extend(hangul_within(text));
                    for (at, token) in tokens.tokens.iter().enumerate() {
                        elements.push(Element::Word(self.intern(tokens.text(at))));
                        glued.push(!(token_blank(text, token.range.start) || blank && at == 0));
                    }
                    blank =
                        text.ends_with(char::is_whitespace) || (tokens.tokens.is_empty() && blank);
                }
            }
        }
        if elements.is_empty() {
            return Err("an empty pattern (is everything in it optional?)".to_owned());
        }
        // A blank in the text is only forbidden around marks: "10:30", "5/3", not "3 月".
        let marks: Vec<bool> = elements
            .iter()
            .map(|element| match element {
                Element::Word(word) => self.marks[*word as usize],
                Element::Slot(..) => false,
            })
            .collect();
        for at in 0..glued.len() {
            glued[at] &= at > 0 && (marks[at] || marks[at - 1]);
            glued[at] |= hangul[at];
        }
        self.add_rule(elements, glued, constants, Makes::Action(action));
        Ok(())
    }

    fn add_rule(
        &mut self,
        elements: Vec<Element>,
        glued: Vec<bool>,
        constants: Vec<(Slot, i32)>,
        makes: Makes,
    ) {
        let number = self.rules.len() as u32;
        self.tree.insert(&elements, &glued, number);
        self.rules.push(Rule {
            rank: u8::try_from(elements.len()).unwrap_or(u8::MAX),
            constants: constants.into(),
            makes,
        });
    }
}

/// The `function_words` of the text of a table; `None` when it is wrong.
pub(super) fn function_words(text: &str) -> Option<Vec<String>> {
    #[derive(Deserialize)]
    struct Part {
        function_words: Vec<String>,
    }
    toml::from_str(text)
        .ok()
        .map(|part: Part| part.function_words)
}

fn token_blank(text: &str, start: usize) -> bool {
    text[..start].ends_with(char::is_whitespace)
}

/// For each token of `text`, whether it is Hangul right behind Hangul: a word that must be written in one.
fn hangul_within(text: &str) -> Vec<bool> {
    let tokens = tokenise(text);
    let is_hangul = |at: usize| tokens.text(at).chars().all(text::is_hangul);
    (0..tokens.tokens.len())
        .map(|at| at > 0 && !tokens.tokens[at].blank && is_hangul(at) && is_hangul(at - 1))
        .collect()
}

/// `word` as tokens are folded.
fn folded(word: &str) -> String {
    tokenise(word).folded.into_owned()
}
