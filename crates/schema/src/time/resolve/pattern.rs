//! Patterns of rules: literal words, `{slots}`, `[optional parts]`, `(one|or another)`, `<named sets>`.

use super::names::{Part, Portion, Season, Slot, Unit};

/// Flat patterns that one written pattern may stand for.
const LIMIT: usize = 400;

/// One piece of a flat pattern.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Piece {
    /// Literal text, to be tokenised like the text that is read.
    Text(String),
    /// A slot, with the one value that it takes.
    Slot(Slot, Option<i32>),
    /// A slot that is filled without any text, written `{!unit=week}`.
    Constant(Slot, i32),
}

/// The flat patterns of `written`.
///
/// # Errors
/// In words for the one who writes the table.
pub(super) fn expand(written: &str, sets: &[&str]) -> Result<Vec<Vec<Piece>>, String> {
    let mut rest = written.to_owned();
    rest.push('\0');
    let mut at = rest.as_str();
    let flat = alternatives(&mut at, '\0', sets)?;
    if flat.len() > LIMIT {
        return Err(format!("stands for more than {LIMIT} patterns; split it"));
    }
    Ok(flat)
}

/// Reads `a|b|c` up to `close`, which is consumed.
fn alternatives(at: &mut &str, close: char, sets: &[&str]) -> Result<Vec<Vec<Piece>>, String> {
    let mut done = Vec::new();
    let mut now: Vec<Vec<Piece>> = vec![Vec::new()];
    loop {
        let c = at
            .chars()
            .next()
            .ok_or_else(|| format!("`{close}` is missing"))?;
        *at = &at[c.len_utf8()..];
        if c == close {
            done.append(&mut now);
            return Ok(done);
        }
        match c {
            '|' => {
                done.append(&mut now);
                now.push(Vec::new());
            }
            '(' => now = product(&now, &alternatives(at, ')', sets)?)?,
            '[' => {
                let mut inner = alternatives(at, ']', sets)?;
                inner.push(Vec::new());
                now = product(&now, &inner)?;
            }
            '{' => {
                let (name, tail) = at.split_once('}').ok_or("`{` without `}`".to_owned())?;
                let slot = slot(name)?;
                *at = tail;
                now.iter_mut().for_each(|pieces| pieces.push(slot.clone()));
            }
            '<' => {
                let (name, tail) = at.split_once('>').ok_or("`<` without `>`".to_owned())?;
                let set = sets
                    .iter()
                    .position(|of| *of == name)
                    .ok_or_else(|| format!("`<{name}>` is not in [sets]"))?;
                let piece = Piece::Slot(Slot::Set, i32::try_from(set).ok());
                *at = tail;
                now.iter_mut().for_each(|pieces| pieces.push(piece.clone()));
            }
            '\\' => {
                let escaped = at.chars().next().ok_or("`\\` before nothing".to_owned())?;
                *at = &at[escaped.len_utf8()..];
                now.iter_mut().for_each(|pieces| push(pieces, escaped));
            }
            ')' | ']' | '}' | '>' => return Err(format!("`{c}` closes nothing")),
            '\0' => return Err(format!("`{close}` is missing")),
            c => now.iter_mut().for_each(|pieces| push(pieces, c)),
        }
    }
}

fn push(pieces: &mut Vec<Piece>, c: char) {
    match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => pieces.push(Piece::Text(c.to_string())),
    }
}

fn product(left: &[Vec<Piece>], right: &[Vec<Piece>]) -> Result<Vec<Vec<Piece>>, String> {
    if left.len() * right.len() > 4 * LIMIT {
        return Err(format!("stands for more than {LIMIT} patterns; split it"));
    }
    let mut out = Vec::with_capacity(left.len() * right.len());
    for head in left {
        for tail in right {
            let mut pieces = head.clone();
            let mut tail = tail.clone();
            // Text on both sides of a bracket is one text: `week(s|)` is a word and its plural.
            if let (Some(Piece::Text(text)), Some(Piece::Text(next))) =
                (pieces.last_mut(), tail.first())
            {
                text.push_str(next);
                tail.remove(0);
            }
            pieces.append(&mut tail);
            out.push(pieces);
        }
    }
    Ok(out)
}

fn slot(written: &str) -> Result<Piece, String> {
    let (written, constant) = match written.strip_prefix('!') {
        Some(rest) => (rest, true),
        None => (written, false),
    };
    let (name, value) = match written.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (written, None),
    };
    let slot = Slot::from_name(name).ok_or_else(|| format!("there is no slot `{{{name}}}`"))?;
    let Some(value) = value else {
        if constant {
            return Err(format!("`{{!{written}}}` has no value"));
        }
        return Ok(Piece::Slot(slot, None));
    };
    let number = match slot {
        Slot::Unit => Unit::from_name(value).map(|unit| unit as i32),
        Slot::Season => Season::from_name(value).map(|season| season as i32),
        Slot::Part => Part::from_name(value).map(|part| part as i32),
        Slot::Portion => Portion::from_name(value).map(|portion| portion as i32),
        _ => value.parse().ok(),
    };
    match number {
        Some(number) if constant => Ok(Piece::Constant(slot, number)),
        Some(number) => Ok(Piece::Slot(slot, Some(number))),
        None => Err(format!("`{{{written}}}` names no value of `{{{name}}}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(written: &str) -> Vec<String> {
        let show = |pieces: Vec<Piece>| {
            pieces
                .into_iter()
                .map(|piece| match piece {
                    Piece::Text(text) => text,
                    Piece::Slot(slot, None) => format!("{{{slot:?}}}"),
                    Piece::Slot(slot, Some(value)) => format!("{{{slot:?}={value}}}"),
                    Piece::Constant(slot, value) => format!("{{!{slot:?}={value}}}"),
                })
                .collect::<String>()
        };
        expand(written, &["of"])
            .unwrap()
            .into_iter()
            .map(show)
            .collect()
    }

    #[test]
    fn optional_parts_alternatives_and_sets_are_written_out() {
        assert_eq!(
            flat("{month} [the ]{d}"),
            ["{Month} the {D}", "{Month} {D}"]
        );
        assert_eq!(flat("\\({d}\\)"), ["({D})"]);
        assert_eq!(flat("(a|b[c])d"), ["ad", "bcd", "bd"]);
        assert_eq!(flat("{d} <of> {unit=week}"), ["{D} {Set=0} {Unit=6}"]);
    }

    #[test]
    fn mistakes_are_told() {
        for (written, message) in [
            ("{daay}", "there is no slot `{daay}`"),
            ("{unit=wek}", "`{unit=wek}` names no value of `{unit}`"),
            ("[a", "`]` is missing"),
            ("a)", "`)` closes nothing"),
            ("<of> x", "`<of>` is not in [sets]"),
        ] {
            assert_eq!(expand(written, &[]).unwrap_err(), message);
        }
    }
}
