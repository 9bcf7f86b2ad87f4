//! What one line of a plain text is.

use super::super::stamps::{self, Stamp};
use crate::transcript::Moment;

/// Longest name of a speaker, in characters.
const NAME_CHARS: usize = 40;

/// A line, by what it may be.
pub(super) enum Line<'a> {
    Blank,
    /// `---` or the like.
    Rule(&'a str),
    /// A date on its own line.
    Heading {
        date: Moment,
        whole: &'a str,
    },
    /// A time, and a speaker with text; without a speaker it is a notice of the program.
    Timed {
        stamp: Stamp,
        form: Form,
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

/// How a time is written: lines that a program writes have few forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Form {
    pub(super) sort: Sort,
    /// `[18:20]`.
    pub(super) bracket: bool,
    /// `18:20 - `.
    dash: bool,
}

/// What a time consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Sort {
    /// KakaoTalk's name and time of day.
    Kakao,
    /// A time of day.
    Clock,
    /// Date and time, the year first or the month a word.
    Full,
    /// Date and time, the year last.
    DayMonth,
}

impl Form {
    fn of(stamp: Stamp, head: &str) -> Self {
        Self {
            sort: match stamp {
                Stamp::Clock(_) => Sort::Clock,
                Stamp::Full(_) => Sort::Full,
                Stamp::DayMonth { .. } => Sort::DayMonth,
            },
            bracket: head.starts_with('['),
            dash: head.trim_end().ends_with(['-', '–', '—']),
        }
    }

    /// Whether WhatsApp writes so: the year last and marks around the time, or a dash behind it.
    pub(super) fn is_of_whatsapp(self) -> bool {
        self.dash || (self.bracket && self.sort == Sort::DayMonth)
    }

    /// Whether the date stands in the line itself.
    pub(super) fn is_dated(self) -> bool {
        matches!(self.sort, Sort::Full | Sort::DayMonth)
    }
}

pub(super) fn line(text: &str) -> Line<'_> {
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
            form: Form {
                sort: Sort::Kakao,
                bracket: true,
                dash: false,
            },
            said: Some((name, said)),
            whole: text,
        };
    }
    if let Some(date) = stamps::heading(text) {
        return Line::Heading { date, whole: text };
    }
    if let Some((stamp, rest)) = stamps::stamp(text) {
        return Line::Timed {
            stamp,
            form: Form::of(stamp, &text[..text.len() - rest.len()]),
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

/// Splits `Mina: text` at the first colon, or `<Mina> text`; after a time nearly every name will do.
fn after_stamp(text: &str) -> Option<(&str, &str)> {
    if let Some((name, said)) = text
        .strip_prefix('<')
        .and_then(|rest| rest.split_once("> "))
    {
        let name = name.trim_start_matches(['@', '+', '%', '&', '~']);
        return is_one_word(name).then_some((name, said.trim_start()));
    }
    let (name, said) = before_colon(text)?;
    // `Mina named the group "Trip: May"` tells what was done; nobody says `May"`.
    (!opens_quote(name)).then_some((name, said))
}

/// The name and the text of a line that is taken for a notice because its name opens a quotation; the name is short.
pub(super) fn quoted_name<'a>(line: &Line<'a>) -> Option<(&'a str, &'a str)> {
    let Line::Timed {
        said: None, whole, ..
    } = line
    else {
        return None;
    };
    let (_, rest) = stamps::stamp(whole)?;
    let (name, said) = before_colon(rest)?;
    (opens_quote(name) && name.split_whitespace().count() <= 3).then_some((name, said))
}

fn before_colon(text: &str) -> Option<(&str, &str)> {
    let (name, said) = text.split_once([':', '：'])?;
    let name = name.trim().trim_start_matches('~').trim_start();
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS + 20;
    (fits && !said.starts_with("//")).then_some((name, said.trim_start()))
}

fn opens_quote(name: &str) -> bool {
    let quotes = |marks: &[char]| name.matches(marks).count();
    quotes(&['"']) % 2 == 1 || quotes(&['“', '„', '«', '「']) + quotes(&['”', '»', '」']) == 1
}

fn is_one_word(name: &str) -> bool {
    !name.is_empty() && name.chars().count() <= NAME_CHARS && !name.contains(char::is_whitespace)
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
