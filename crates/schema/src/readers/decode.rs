//! From bytes to clean text: byte order marks, UTF-16, broken UTF-8, NUL, line ends.

use std::path::Path;

use super::warnings::Warnings;
use crate::error::ReadError;

/// Bytes looked at to recognise UTF-16 without a byte order mark.
const PROBE_BYTES: usize = 64;

/// Decodes `bytes`; lines of the result end in `\n` alone.
pub(super) fn decode(
    path: &Path,
    bytes: Vec<u8>,
    warnings: &mut Warnings,
) -> Result<String, ReadError> {
    let refuse = |encoding, hint| ReadError::Encoding {
        path: path.to_owned(),
        encoding,
        hint,
    };
    if bytes.starts_with(&[0xFF, 0xFE, 0, 0]) || bytes.starts_with(&[0, 0, 0xFE, 0xFF]) {
        return Err(refuse("UTF-32 text", ""));
    }
    let mut text = if let Some(little_endian) = utf16_order(&bytes) {
        utf16(&bytes, little_endian, warnings)
    } else {
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => {
                let (text, replaced) = lossy(error.as_bytes(), warnings);
                // A stray bad byte is mended; text that is mostly bad bytes is another encoding.
                if replaced * 20 > text.chars().count() {
                    return Err(refuse(
                        "not UTF-8 text (another encoding, or not text at all)",
                        "; for older Korean text: `iconv -f CP949 -t UTF-8 FILE`",
                    ));
                }
                text
            }
        }
    };
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    if text.contains('\r') {
        text = text.replace("\r\n", "\n").replace('\r', "\n");
    }
    if let Some(first) = text.find('\0') {
        let message = format!(
            "NUL characters were removed: {}",
            text.matches('\0').count()
        );
        warnings.add(line_at(&text, first), message);
        text.retain(|c| c != '\0');
    }
    Ok(text)
}

fn line_at(text: &str, byte: usize) -> String {
    format!(
        "line {}",
        text.as_bytes()[..byte]
            .iter()
            .filter(|b| **b == b'\n')
            .count()
            + 1
    )
}

/// `Some(true)` for little-endian, `Some(false)` for big-endian UTF-16.
fn utf16_order(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0xFF, 0xFE, ..] => return Some(true),
        [0xFE, 0xFF, ..] => return Some(false),
        _ => {}
    }
    let probe = &bytes[..bytes.len().min(PROBE_BYTES)];
    let zeros = |first| {
        probe
            .iter()
            .skip(first)
            .step_by(2)
            .filter(|b| **b == 0)
            .count()
    };
    let (even, odd) = (zeros(0), zeros(1));
    let enough = probe.len().div_ceil(8).max(2);
    match (even, odd) {
        (0, n) if n >= enough => Some(true),
        (n, 0) if n >= enough => Some(false),
        _ => None,
    }
}

fn utf16(bytes: &[u8], little_endian: bool, warnings: &mut Warnings) -> String {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let unit = |pair: &[u8; 2]| {
        if little_endian {
            u16::from_le_bytes(*pair)
        } else {
            u16::from_be_bytes(*pair)
        }
    };
    let mut replaced = rest.len();
    let decoded = char::decode_utf16(pairs.iter().map(unit)).map(|unit| {
        unit.unwrap_or_else(|_| {
            replaced += 1;
            char::REPLACEMENT_CHARACTER
        })
    });
    let text: String = decoded.collect();
    if replaced > 0 {
        warnings.add(
            "whole file",
            format!("broken UTF-16 units were replaced by `\u{fffd}`: {replaced}"),
        );
    }
    text
}

/// The text with `\u{fffd}` for what is not UTF-8, and how often that was needed.
fn lossy(bytes: &[u8], warnings: &mut Warnings) -> (String, usize) {
    let mut text = String::with_capacity(bytes.len());
    let mut replaced = 0;
    let mut line = 1;
    let mut warned_line = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        line += chunk.valid().matches('\n').count();
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            replaced += 1;
            if line != warned_line {
                warned_line = line;
                let message = "bytes that are not UTF-8 were replaced by `\u{fffd}`";
                warnings.add(format_args!("line {line}"), message);
            }
        }
    }
    (text, replaced)
}
