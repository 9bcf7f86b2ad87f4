//! Numbers that are no time: money, per cent, decimals, thousands, versions.

use std::ops::Range;

use super::{
    chart::Chart,
    names::Class,
    table::Table,
    text::{Kind, Tokens},
};

/// Signs of money, which stand before or behind a number.
const MONEY: [&str; 6] = ["$", "€", "£", "¥", "₩", "₹"];
/// Signs behind a number.
const SHARES: [&str; 3] = ["%", "‰", "°"];

/// Whether the digits at token `at` follow a sign of money.
pub(super) fn follows_sign(tokens: &Tokens, at: usize) -> bool {
    is_digits(tokens, at) && at > 0 && MONEY.contains(&tokens.text(at - 1))
}

/// Whether the phrase begins or ends inside a number: behind the comma of "2,650", before the point of "24.9", in the
/// middle of "02-2024-1010".
pub(super) fn is_cut(tokens: &Tokens, phrase: Range<usize>) -> bool {
    let at_start = phrase.start >= 2
        && (is_point(tokens, phrase.start - 1) || is_joint(tokens, phrase.start - 1, -1));
    at_start || is_point(tokens, phrase.end) || is_joint(tokens, phrase.end, 1)
}

/// Whether the token is a dash between digits without a blank, and those on the given side make a number that is
/// neither a day, a month nor a year.
fn is_joint(tokens: &Tokens, at: usize, side: isize) -> bool {
    let glued = |at: usize| tokens.tokens.get(at).is_some_and(|token| !token.blank);
    if at == 0 || !is_digits(tokens, at - 1) || !is_digits(tokens, at + 1) {
        return false;
    }
    let digits = tokens.text(at.saturating_add_signed(side));
    let is_year = digits.len() == 4 && (digits.starts_with("19") || digits.starts_with("20"));
    tokens.text(at) == "-" && glued(at) && glued(at + 1) && digits.len() > 2 && !is_year
}

/// Whether the phrase ends with a number of something: "at 15%", "at 20 euros", "at 18 months".
pub(super) fn has_measure(
    chart: &Chart<'_>,
    tokens: &Tokens,
    table: &Table,
    phrase: Range<usize>,
) -> bool {
    let (last, next) = (phrase.end - 1, phrase.end);
    let is_number = is_digits(tokens, last) || table.number_word(chart.word(last)).is_some();
    if !is_number || next >= tokens.tokens.len() {
        return false;
    }
    let sign = tokens.text(next);
    // "In May 2020 $500": a sign that belongs to the number behind it.
    let goes_on = is_digits(tokens, next + 1) && !tokens.tokens[next + 1].blank;
    let is_year = is_digits(tokens, last) && tokens.text(last).len() == 4;
    let counts = chart.nodes[next]
        .iter()
        .any(|node| node.class == Class::Unit);
    SHARES.contains(&sign)
        || (MONEY.contains(&sign) && !goes_on)
        || (counts && !is_year)
        || table.is_measure(&chart.words()[next..])
}

/// Whether the phrase is the bare number of a house: a name of a street stands behind it.
pub(super) fn is_house(tokens: &Tokens, table: &Table, phrase: Range<usize>) -> bool {
    let names = (phrase.end..tokens.tokens.len()).take(4).take_while(|&at| {
        let token = &tokens.tokens[at];
        token.kind == Kind::Word && token.capital
    });
    let is_bare = phrase.len() == 1 && is_digits(tokens, phrase.start);
    is_bare && names.skip(1).any(|at| table.is_street(tokens.text(at)))
}

/// Whether the token is a comma, point or stroke between digits without a blank.
fn is_point(tokens: &Tokens, at: usize) -> bool {
    let between = at > 0 && is_digits(tokens, at - 1) && is_digits(tokens, at + 1);
    if !between || tokens.tokens[at].blank || tokens.tokens[at + 1].blank {
        return false;
    }
    let digits = tokens.text(at + 1).len();
    match tokens.text(at) {
        "." => digits != 4,
        // "1/32": a fraction, unless the phrase holds all of it.
        "/" => true,
        // "17,18日" is a list, and "5,2024" ends with a year.
        "," => {
            digits == 3
                || (digits < 3
                    && tokens
                        .tokens
                        .get(at + 2)
                        .is_none_or(|next| next.kind != Kind::Char))
        }
        _ => false,
    }
}

fn is_digits(tokens: &Tokens, at: usize) -> bool {
    tokens
        .tokens
        .get(at)
        .is_some_and(|token| token.kind == Kind::Digits)
}
