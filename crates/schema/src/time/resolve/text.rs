//! Text as tokens: case and width folded, digits as numbers, byte ranges into the original kept.

use std::{borrow::Cow, ops::Range};

/// One token of a text.
#[derive(Clone, Debug)]
pub(super) struct Token {
    /// Where it stands in the original.
    pub(super) range: Range<usize>,
    /// Where its folded text stands in [`Tokens::folded`].
    pub(super) folded: Range<usize>,
    /// What kind of token it is.
    pub(super) kind: Kind,
    /// Whether a blank (or the beginning) lies before it.
    pub(super) blank: bool,
    /// Whether the original begins with a capital letter.
    pub(super) capital: bool,
}

/// Kinds of token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word of a script with blanks between words.
    Word,
    /// One character of Han, Kana or Hangul.
    Char,
    /// ASCII digits after folding.
    Digits,
    /// One other character.
    Mark,
}

/// A tokenised text.
#[derive(Debug)]
pub(super) struct Tokens<'a> {
    /// Folded text of all tokens, end to end.
    pub(super) folded: Cow<'a, str>,
    /// The tokens in order.
    pub(super) tokens: Cow<'a, [Token]>,
}

impl Tokens<'_> {
    /// Folded text of token `at`.
    pub(super) fn text(&self, at: usize) -> &str {
        &self.folded[self.tokens[at].folded.clone()]
    }
}

/// Whether `c` belongs to a script whose words are not parted by blanks, or to Hangul, whose particles are not.
fn stands_alone(c: char) -> bool {
    matches!(c,
        '\u{1100}'..='\u{11ff}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{3130}'..='\u{318f}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

/// Whether `c` is a Hangul syllable.
pub(super) fn is_hangul(c: char) -> bool {
    matches!(c, '\u{ac00}'..='\u{d7a3}')
}

/// Whether token `at` is the point behind a sentence, not behind an abbreviation ("Oct. 5") or a number ("3. Juni").
pub(super) fn ends_sentence(tokens: &Tokens, at: usize) -> bool {
    let is_point = tokens.text(at) == "." && at > 0;
    let Some(next) = tokens
        .tokens
        .get(at + 1)
        .filter(|next| is_point && next.blank)
    else {
        return false;
    };
    let before = tokens.text(at - 1);
    match tokens.tokens[at - 1].kind {
        Kind::Digits => before.len() > 2 && next.kind != Kind::Digits,
        // Hindi ends its sentences with another mark.
        Kind::Word if before.starts_with(|c| matches!(c, '\u{900}'..='\u{97f}')) => false,
        Kind::Word => match before.chars().count() {
            0..=3 => false,
            4 => next.capital && next.kind == Kind::Word,
            _ => true,
        },
        Kind::Char | Kind::Mark => true,
    }
}

fn kind_of(c: char) -> Option<Kind> {
    if c.is_ascii_alphabetic() {
        Some(Kind::Word)
    } else if c.is_ascii_digit() {
        Some(Kind::Digits)
    } else if c.is_whitespace() || matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}') {
        None
    } else if stands_alone(c) {
        Some(Kind::Char)
    } else if c.is_alphanumeric()
        || matches!(
            c,
            '\u{300}'..='\u{36f}' | '\u{94d}' | '\u{200c}' | '\u{200d}'
        )
    {
        Some(Kind::Word)
    } else {
        Some(Kind::Mark)
    }
}

/// `c` in one width, with ASCII digits and plain quotes and dashes; `None` for what is left out (Arabic vowel signs, the
/// dot below Hindi letters).
fn fold(c: char) -> Option<char> {
    if c.is_ascii() && c != '`' {
        return Some(c);
    }
    let digit = |zero: u32| char::from_digit(c as u32 - zero, 10);
    match c {
        '\u{ff10}'..='\u{ff19}' => digit(0xff10),
        '\u{660}'..='\u{669}' => digit(0x660),
        '\u{6f0}'..='\u{6f9}' => digit(0x6f0),
        '\u{966}'..='\u{96f}' => digit(0x966),
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0),
        '\u{3000}' => Some(' '),
        '‘' | '’' | 'ʼ' | '´' | '`' => Some('\''),
        '‐' | '‑' | '–' | '—' | '−' => Some('-'),
        '〜' => Some('~'),
        '、' | '،' => Some(','),
        '\u{640}' | '\u{64b}'..='\u{652}' => None,
        'أ' | 'إ' | 'آ' => Some('ا'),
        'ى' | 'ی' => Some('ي'),
        'ة' => Some('ه'),
        'ک' => Some('ك'),
        // Hindi letters are written with and without their dot, and the nasal sign in two forms.
        '\u{93c}' => None,
        '\u{958}' => Some('क'),
        '\u{959}' => Some('ख'),
        '\u{95a}' => Some('ग'),
        '\u{95b}' => Some('ज'),
        '\u{95c}' => Some('ड'),
        '\u{95d}' => Some('ढ'),
        '\u{95e}' => Some('फ'),
        '\u{95f}' => Some('य'),
        '\u{901}' => Some('\u{902}'),
        _ => Some(c),
    }
}

/// Tokens of `text`.
pub(super) fn tokenise(text: &str) -> Tokens<'static> {
    let mut folded = String::with_capacity(text.len());
    let mut tokens: Vec<Token> = Vec::with_capacity(text.len() / 4 + 1);
    let mut blank = true;
    // Whether the last token may still grow, and into what.
    let mut open: Option<Kind> = None;
    for (at, original) in text.char_indices() {
        let end = at + original.len_utf8();
        let Some(c) = fold(original) else {
            if let Some(last) = tokens.last_mut().filter(|_| open.is_some()) {
                last.range.end = end;
            }
            continue;
        };
        let Some(kind) = kind_of(c) else {
            blank = true;
            open = None;
            continue;
        };
        let start = folded.len();
        if c.is_ascii() {
            folded.push(c.to_ascii_lowercase());
        } else {
            folded.extend(c.to_lowercase());
        }
        let grows = open == Some(kind) && matches!(kind, Kind::Word | Kind::Digits);
        match tokens.last_mut() {
            Some(last) if grows => {
                last.range.end = end;
                last.folded.end = folded.len();
            }
            _ => tokens.push(Token {
                range: at..end,
                folded: start..folded.len(),
                kind,
                blank,
                capital: original.is_uppercase(),
            }),
        }
        open = Some(kind);
        blank = false;
    }
    Tokens {
        folded: folded.into(),
        tokens: tokens.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let tokens = tokenise(text);
        (0..tokens.tokens.len())
            .map(|at| tokens.text(at).to_owned())
            .collect()
    }

    #[test]
    fn folds_case_width_and_digits() {
        assert_eq!(words("５月 ３日"), ["5", "月", "3", "日"]);
        assert_eq!(words("Dec31, '94"), ["dec", "31", ",", "'", "94"]);
        assert_eq!(words("٢٠٢٤ सोमवार २"), ["2024", "सोमवार", "2"]);
        assert_eq!(words("I’ll"), ["i", "'", "ll"]);
        assert_eq!(
            words("फ़रवरी फ\u{93c}रवरी पाँच الجمعة إلى"),
            ["फरवरी", "फरवरी", "पांच", "الجمعه", "الي"]
        );
    }

    #[test]
    fn ranges_point_into_the_original() {
        let text = "Am ÄRGSTEN ５月";
        let tokens = tokenise(text);
        let parts: Vec<_> = tokens
            .tokens
            .iter()
            .map(|t| &text[t.range.clone()])
            .collect();
        assert_eq!(parts, ["Am", "ÄRGSTEN", "５", "月"]);
    }
}
