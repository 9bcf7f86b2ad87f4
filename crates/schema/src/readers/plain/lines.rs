//! What each line of a plain text is, and which lines begin a turn.

use std::collections::HashSet;

use super::super::fields::role_of;
use super::super::stamps::{self, Stamp};
use super::super::warnings::Warnings;
use super::placeholders::Export;
use crate::transcript::{Moment, Role};

/// Timed lines are looked for among this many first lines that are not blank.
const PROBE_LINES: usize = 20;
/// Longest name of a speaker, in characters.
const NAME_CHARS: usize = 40;

/// A line, by what it may be.
pub(super) enum Line<'a> {
    Blank,
    /// `---` or the like.
    Rule(&'a str),
    /// A date on its own line.
    Heading(Moment),
    /// A time, and a speaker with text; without a speaker it is a notice of the program.
    Timed {
        stamp: Stamp,
        said: Option<(&'a str, &'a str)>,
        whole: &'a str,
    },
    /// A speaker with text, without a time.
    Named {
        name: &'a str,
        text: &'a str,
        whole: &'a str,
    },
    Other(&'a str),
}

/// Which lines begin a turn.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Mode {
    /// Those with date and time (or KakaoTalk's name and time).
    Dated,
    /// Those with a time of day.
    Clocked,
    /// Those with a speaker.
    Named,
    /// Those whose speaker is `user`, `assistant` or another role; `Note: …` continues a turn.
    Roles,
}

/// A text, line by line.
pub(in crate::readers) struct Lines<'a> {
    pub(super) lines: Vec<Line<'a>>,
    pub(super) mode: Mode,
    /// The program that may have exported the text.
    pub(super) export: Option<Export>,
}

impl<'a> Lines<'a> {
    pub(in crate::readers) fn scan(text: &'a str) -> Self {
        let lines: Vec<_> = text.lines().map(line).collect();
        let timed = |wanted: fn(&Stamp) -> bool| {
            lines.iter().any(
                |line| matches!(line, Line::Timed { stamp, said: Some(_), .. } if wanted(stamp)),
            )
        };
        let has_role = |role| {
            lines
                .iter()
                .any(|line| matches!(line, Line::Named { name, .. } if role_of(name) == Some(role)))
        };
        let kakao = text.lines().any(|line| stamps::kakao(line).is_some());
        let mode = if kakao || timed(|stamp| !matches!(stamp, Stamp::Clock(_))) {
            Mode::Dated
        } else if timed(|_| true) {
            Mode::Clocked
        } else if has_role(Role::User) && has_role(Role::Assistant) {
            Mode::Roles
        } else {
            Mode::Named
        };
        let export = match mode {
            _ if kakao || text.lines().any(stamps::is_kakao_of_telephone) => {
                Some(Export::KakaoTalk)
            }
            Mode::Dated => Some(Export::WhatsApp),
            _ => None,
        };
        Self {
            lines,
            mode,
            export,
        }
    }

    /// Whether a line opens with a time and a speaker, so that its `[` does not open a JSON list.
    pub(in crate::readers) fn is_timed(first_line: &str) -> bool {
        matches!(line(first_line), Line::Timed { said: Some(_), .. })
    }

    /// Number of turns.
    pub(in crate::readers) fn turns(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| self.opens_turn(line).is_some())
            .count()
    }

    /// The speaker and the text of a line that begins a turn.
    pub(super) fn opens_turn(&self, line: &Line<'a>) -> Option<(&'a str, &'a str)> {
        match (self.mode, line) {
            (
                Mode::Dated,
                Line::Timed {
                    stamp: Stamp::Clock(_),
                    said,
                    whole,
                },
            ) => {
                // Of times without a date only KakaoTalk's lines count here.
                said.filter(|_| stamps::kakao(whole).is_some())
            }
            (Mode::Dated | Mode::Clocked, Line::Timed { said, .. }) => *said,
            (Mode::Named, Line::Named { name, text, .. }) => Some((name, text)),
            (Mode::Roles, Line::Named { name, text, .. }) if role_of(name).is_some() => {
                Some((name, text))
            }
            _ => None,
        }
    }

    /// Whether the turns have times of their own.
    pub(super) fn are_timed(&self) -> bool {
        matches!(self.mode, Mode::Dated | Mode::Clocked)
    }

    /// Whether this is a conversation and not prose, a list or a configuration file.
    pub(in crate::readers) fn look_like_a_transcript(&self) -> bool {
        let mut visible = self
            .lines
            .iter()
            .filter(|line| !matches!(line, Line::Blank));
        if self.are_timed() {
            return visible
                .take(PROBE_LINES)
                .any(|line| self.opens_turn(line).is_some());
        }
        // A title may stand above.
        let title = |line: &&Line<'_>| match line {
            Line::Heading(_) | Line::Rule(_) => true,
            Line::Other(whole) => whole.starts_with('#'),
            _ => false,
        };
        let first = visible.find(|line| !title(line));
        let names: Vec<_> = self
            .lines
            .iter()
            .filter_map(|line| Some(self.opens_turn(line)?.0))
            .collect();
        let distinct = names.iter().collect::<HashSet<_>>().len();
        first.is_some_and(|line| self.opens_turn(line).is_some())
            && names.len() >= 2
            && distinct <= 2.max(names.len() / 2)
    }
}

fn line(text: &str) -> Line<'_> {
    // Messengers put invisible direction marks before some lines.
    let text = text
        .trim_start_matches(['\u{200e}', '\u{200f}', '\u{feff}'])
        .trim_end();
    if text.trim().is_empty() {
        return Line::Blank;
    }
    if text.len() >= 3
        && ['-', '=', '*', '_']
            .iter()
            .any(|rule| text.chars().all(|c| c == *rule))
    {
        return Line::Rule(text);
    }
    if let Some((name, time, said)) = stamps::kakao(text) {
        return Line::Timed {
            stamp: Stamp::Clock(time),
            said: Some((name, said)),
            whole: text,
        };
    }
    if let Some(moment) = stamps::heading(text) {
        return Line::Heading(moment);
    }
    if let Some((stamp, rest)) = stamps::stamp(text) {
        return Line::Timed {
            stamp,
            said: after_stamp(rest),
            whole: text,
        };
    }
    match speaker(text) {
        Some((name, said)) => Line::Named {
            name,
            text: said,
            whole: text,
        },
        None => Line::Other(text),
    }
}

/// Splits `Mina: text` at the first colon; after a time nearly every name will do.
fn after_stamp(text: &str) -> Option<(&str, &str)> {
    let (name, said) = text.split_once([':', '：'])?;
    let name = name.trim().trim_start_matches('~').trim_start();
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS + 20;
    (fits && !said.starts_with("//")).then_some((name, said.trim_start()))
}

/// Splits `Mina: text` (also `**Mina:** text`) if what stands before the colon can be a name: short, few
/// words, no marks of a sentence.
fn speaker(text: &str) -> Option<(&str, &str)> {
    let bold = text.strip_prefix("**");
    let (name, said) = bold.unwrap_or(text).split_once([':', '：'])?;
    let (name, said) = match bold {
        Some(_) => (name.trim_end_matches("**"), said.trim_start_matches("**")),
        None => (name, said),
    };
    let name = name.trim();
    let short_word = |word: &str| !word.contains('.') || word.chars().count() <= 4;
    let fits = name.chars().next().is_some_and(char::is_alphabetic)
        && name.chars().count() <= NAME_CHARS
        && name.split_whitespace().count() <= 4
        && name.split_whitespace().all(short_word)
        && !name.contains(|c: char| {
            ",;!?\"`“”„…。、，！？；*#<>{}[]|\\/=+@~^%$".contains(c) || c.is_control()
        })
        && !said.starts_with("//");
    fits.then_some((name, said.trim_start()))
}

/// Whether days stand before months: yes, unless some line rules it out and none rules out the contrary.
pub(super) fn day_first(lines: &Lines<'_>, warnings: &mut Warnings) -> bool {
    let pairs: Vec<_> = lines
        .lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| match line {
            Line::Timed {
                stamp: Stamp::DayMonth { first, second, .. },
                said: Some(_),
                ..
            } => Some((index + 1, *first, *second)),
            _ => None,
        })
        .collect();
    let day_led = pairs.iter().any(|(_, first, _)| *first > 12);
    let month_led = pairs.iter().any(|(_, _, second)| *second > 12);
    if let Some((line, first, second)) = pairs.first()
        && day_led == month_led
    {
        let message = format!(
            "`{first:02}/{second:02}` may be day and month or month and day; read as day and month"
        );
        warnings.add(format_args!("line {line}"), message);
    }
    day_led || !month_led
}
