//! Rules as a tree: what several rules begin with is matched once for all of them.

use super::{
    names::{Class, Slot},
    table::Element,
};

/// A word that may come next.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordBranch {
    word: u32,
    /// Whether no blank may lie before it.
    pub(super) glued: bool,
    /// The step behind it.
    pub(super) to: u32,
}

/// A slot that may come next.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotBranch {
    pub(super) slot: Slot,
    /// What the slot takes.
    pub(super) class: Class,
    /// The one value that it takes.
    pub(super) only: Option<i32>,
    /// Whether no blank may lie before it.
    pub(super) glued: bool,
    /// The step behind it.
    pub(super) to: u32,
}

/// What may come next where all elements so far have fitted.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Words in order of their numbers.
    words: Vec<WordBranch>,
    pub(super) slots: Vec<SlotBranch>,
    /// Rules that end here.
    pub(super) rules: Vec<u32>,
}

impl Step {
    /// The branches of a word.
    pub(super) fn word(&self, word: u32) -> impl Iterator<Item = &WordBranch> {
        let from = self.words.partition_point(|of| of.word < word);
        self.words[from..]
            .iter()
            .take_while(move |of| of.word == word)
    }

    /// Whether no rule goes on here.
    pub(super) fn is_end(&self) -> bool {
        self.words.is_empty() && self.slots.is_empty()
    }
}

/// All rules of a table, by their elements.
#[derive(Debug, Default)]
pub(super) struct Tree {
    steps: Vec<Step>,
    /// Steps behind the first word, by its number.
    first_words: Vec<Option<u32>>,
    /// First slots, by class.
    first_slots: Vec<Vec<SlotBranch>>,
}

impl Tree {
    /// Adds a rule by its number.
    pub(super) fn insert(&mut self, elements: &[Element], glued: &[bool], rule: u32) {
        let mut at = None;
        for (&element, &glued) in elements.iter().zip(glued) {
            at = Some(self.branch(at, element, glued));
        }
        if let Some(at) = at {
            self.steps[at as usize].rules.push(rule);
        }
    }

    /// The step behind an element, which is added when there is none.
    fn branch(&mut self, at: Option<u32>, element: Element, glued: bool) -> u32 {
        let new = self.steps.len() as u32;
        let to = match (element, at) {
            (Element::Word(word), None) => {
                let word = word as usize;
                if self.first_words.len() <= word {
                    self.first_words.resize(word + 1, None);
                }
                *self.first_words[word].get_or_insert(new)
            }
            (Element::Word(word), Some(at)) => {
                let branches = &mut self.steps[at as usize].words;
                match branches.binary_search_by_key(&(word, glued), |of| (of.word, of.glued)) {
                    Ok(place) => branches[place].to,
                    Err(place) => {
                        let to = new;
                        branches.insert(place, WordBranch { word, glued, to });
                        to
                    }
                }
            }
            (Element::Slot(slot, only), at) => {
                let class = slot.class();
                let branches = match at {
                    Some(at) => &mut self.steps[at as usize].slots,
                    None => {
                        self.first_slots.resize_with(Class::ALL.len(), Vec::new);
                        &mut self.first_slots[class as usize]
                    }
                };
                let same = |of: &&SlotBranch| (of.slot, of.only, of.glued) == (slot, only, glued);
                match branches.iter().find(same) {
                    Some(branch) => branch.to,
                    None => {
                        let to = new;
                        branches.push(SlotBranch {
                            slot,
                            class,
                            only,
                            glued,
                            to,
                        });
                        to
                    }
                }
            }
        };
        if to == new {
            self.steps.push(Step::default());
        }
        to
    }

    /// The step behind a first word.
    pub(super) fn first_word(&self, word: u32) -> Option<u32> {
        self.first_words.get(word as usize).copied().flatten()
    }

    /// First slots of a class.
    pub(super) fn first_slots(&self, class: Class) -> &[SlotBranch] {
        self.first_slots
            .get(class as usize)
            .map_or(&[], Vec::as_slice)
    }

    pub(super) fn step(&self, at: u32) -> &Step {
        &self.steps[at as usize]
    }
}
