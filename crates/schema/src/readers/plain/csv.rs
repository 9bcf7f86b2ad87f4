//! The table that KakaoTalk exports on a Mac: `Date,User,Message`, with quotes around texts.

use super::super::fields::clean_name;
use super::super::stamps::{self, Stamp};
use super::super::warnings::Warnings;
use super::collect::{Gap, Spoken, is_kakao_notice_of};
use crate::transcript::Moment;

/// A table, row by row.
pub(in crate::readers) struct Rows {
    /// Every row with the 1-based line where it begins, without the head.
    rows: Vec<(usize, Vec<String>)>,
    /// Line of a quote that nothing closes.
    open_quote: Option<usize>,
}

/// The rows of a text that is KakaoTalk's table.
pub(in crate::readers) fn rows(text: &str) -> Option<Rows> {
    let is_head = |line: &str| {
        let line = line.trim().trim_start_matches('\u{feff}').replace('"', "");
        line.eq_ignore_ascii_case("Date,User,Message")
    };
    let head = text.lines().position(|line| !line.trim().is_empty())?;
    if !is_head(text.lines().nth(head)?) {
        return None;
    }
    let mut table = parse(text);
    table.rows.remove(0);
    Some(table)
}

/// Splits comma-separated values (RFC 4180); rows without a visible character are left out.
fn parse(text: &str) -> Rows {
    let mut rows = Vec::new();
    let (mut row, mut field) = (Vec::new(), String::new());
    let (mut line, mut first) = (1, 1);
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let in_quotes = quote.is_some();
        if c == '\n' {
            line += 1;
        }
        match c {
            '"' if in_quotes && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' if in_quotes => quote = None,
            '"' if field.is_empty() => quote = Some(line),
            ',' if !in_quotes => row.push(std::mem::take(&mut field)),
            '\n' if !in_quotes => {
                end_row(&mut rows, first, &mut row, &mut field);
                first = line;
            }
            other => field.push(other),
        }
    }
    end_row(&mut rows, first, &mut row, &mut field);
    Rows {
        rows,
        open_quote: quote,
    }
}

fn end_row(
    rows: &mut Vec<(usize, Vec<String>)>,
    line: usize,
    row: &mut Vec<String>,
    field: &mut String,
) {
    row.push(std::mem::take(field));
    let row = std::mem::take(row);
    if row.iter().any(|field| !field.trim().is_empty()) {
        rows.push((line, row));
    }
}

/// The messages of a table; notices of the program are left out.
pub(super) fn spoken(table: Rows, warnings: &mut Warnings) -> Vec<Spoken> {
    let mut spoken = Vec::new();
    let mut notices = 0;
    for (line, row) in table.rows {
        let place = format!("line {line}");
        let Ok([date, name, text]) = <[String; 3]>::try_from(row) else {
            let message = "not a date, a user and a message; the row was left out";
            warnings.lose(place, message);
            continue;
        };
        if is_kakao_notice_of(name.trim(), text.trim()) {
            notices += 1;
            continue;
        }
        let time = moment(&date);
        if time.is_none() {
            let message = "the date is not like `2024-03-04 18:20:11`; the time stays unknown";
            warnings.add(&place, message);
        }
        spoken.push(Spoken {
            line,
            name: clean_name(&name),
            text,
            time,
            gap: Gap::None,
        });
    }
    if notices > 0 {
        let message = format!("who came and who went was left out: {notices} rows");
        warnings.add("whole file", message);
    }
    if let Some(line) = table.open_quote {
        let message = "a quote is not closed: check whether the file is complete";
        warnings.lose(format_args!("line {line}"), message);
    }
    spoken
}

fn moment(date: &str) -> Option<Moment> {
    match stamps::stamp(date.trim())? {
        (Stamp::Full(moment), "") => moment,
        _ => None,
    }
}
