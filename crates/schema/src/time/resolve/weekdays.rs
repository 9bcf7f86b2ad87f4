//! Weekdays by one letter each, in a row: 一三五, 월수금, 月・水・金.

use super::{table::Table, text::Tokens};

/// Marks that may stand between two letters.
const MARKS: [&str; 4] = ["·", "・", ",", "/"];
const SUNDAY: i32 = 7;

/// The rows of two letters or more that begin with token `start`: the token behind each, and its weekdays as bits. They
/// stand in the order of the week.
pub(super) fn rows(
    table: &Table,
    tokens: &Tokens<'_>,
    words: &[u32],
    start: usize,
) -> Vec<(usize, i32)> {
    let mut out = Vec::new();
    let Some(mut last) = table.weekday_letter(words[start]) else {
        return out;
    };
    let (mut bits, mut end) = (1i32 << last, start + 1);
    loop {
        let marked = end < words.len() && MARKS.contains(&tokens.text(end));
        let at = end + usize::from(marked);
        let next = words.get(at).and_then(|word| table.weekday_letter(*word));
        let Some(next) = next.filter(|next| *next > last) else {
            return out;
        };
        if !marked && tokens.tokens[at].blank {
            return out;
        }
        bits |= 1 << next;
        end = at + 1;
        // Two letters of which the second is "day" are more often another word.
        if marked || next != SUNDAY || bits.count_ones() > 2 {
            out.push((end, bits));
        }
        last = next;
    }
}

/// The weekdays of bits.
pub(super) fn of_bits(bits: i32) -> impl Iterator<Item = i32> {
    (1..=SUNDAY).filter(move |day| bits & 1 << day != 0)
}
