//! Words for the person at the terminal.

use std::{
    fmt,
    io::{Write as _, stderr},
};

/// Writes a line to standard error, as `eprintln!` does, with what [`visible`] makes of it. It never panics: a run
/// of hours must not end because the reader of its log went away or the log's disk is full.
#[macro_export]
macro_rules! say {
    ($($format:tt)*) => { $crate::say::line(::std::format_args!($($format)*)) };
}

/// What [`say!`] calls.
pub fn line(line: fmt::Arguments<'_>) {
    let _ = writeln!(stderr(), "{}", visible(&line.to_string()));
}

/// `1 record`, `2 records`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `text` with escapes for the characters that would steer a terminal or turn the direction of what follows: names
/// and identifiers come from other people's files. Line ends and tabs stay.
pub fn visible(text: &str) -> String {
    let steers = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        let text = "a\u{1b}[2J\r\u{202e}b\n\t\u{9b}미나 👩\u{200d}👧";
        let shown = "a\\u{1b}[2J\\r\\u{202e}b\n\t\\u{9b}미나 👩\u{200d}👧";
        assert_eq!(visible(text), shown);
    }
}
