//! Which sessions of a transcript are wanted.

use std::{fmt, ops::RangeInclusive, str::FromStr};

use thiserror::Error;

/// Sessions by their position in a transcript, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sessions {
    text: String,
    ranges: Vec<RangeInclusive<usize>>,
}

/// A text that names no sessions.
#[derive(Debug, Error)]
#[error("`{0}` is no range of sessions: write `3`, `1-3`, `4-` or several with commas")]
pub struct SessionsError(String);

impl Sessions {
    /// Whether the session at `position`, counted from 1, is wanted.
    pub fn holds(&self, position: usize) -> bool {
        self.ranges.iter().any(|range| range.contains(&position))
    }
}

impl FromStr for Sessions {
    type Err = SessionsError;

    fn from_str(text: &str) -> Result<Self, SessionsError> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().ok()?;
            let last = match last.trim() {
                "" => usize::MAX,
                last => last.parse().ok()?,
            };
            (first >= 1 && first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(|part| range(part.trim())).collect();
        let ranges = ranges.ok_or_else(|| SessionsError(text.to_owned()))?;
        Ok(Self {
            text: text.to_owned(),
            ranges,
        })
    }
}

impl fmt::Display for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_both_ends() {
        let sessions: Sessions = "2-3, 5,8-".parse().unwrap();
        let held: Vec<_> = (1..=9)
            .filter(|position| sessions.holds(*position))
            .collect();
        assert_eq!(held, [2, 3, 5, 8, 9]);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "0", "3-1", "a", "1-2-3", "-2", "1,,2"] {
            assert!(text.parse::<Sessions>().is_err(), "{text}");
        }
    }
}
