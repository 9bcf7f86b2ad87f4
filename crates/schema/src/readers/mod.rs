//! Reading transcripts from files: our scenarios, LoCoMo, LongMemEval, chat messages, plain text.
//!
//! Every reader turns what it understands into [`Transcript`]s and reports the rest as
//! [`Warning`]s; only a file that yields nothing is an error.

mod chat;
mod decode;
mod detect;
mod fields;
mod locomo;
mod longmemeval;
mod message_ids;
mod plain;
mod scenario;
mod sittings;
mod stamps;
mod tidy;
mod warnings;

#[cfg(test)]
mod golden_dates;

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

pub use crate::error::{ReadError, Warning};
use crate::transcript::Transcript;
pub use longmemeval::sample_key;
pub use tidy::make_ids_unique;
use warnings::Warnings;

/// A layout of transcript files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our scenario files: an object with `sessions` (or a list of such), labels ignored.
    Scenario,
    /// `locomo10.json`: a list of samples with `conversation` (or one such sample).
    Locomo,
    /// LongMemEval: a list of questions with `haystack_sessions` (or one such question).
    Longmemeval,
    /// Messages with `role` and `content`, as JSON list, as object with `messages`, or as JSONL. People may also stand under
    /// `author`, `from` or `sender` and what they say under `text`, as Discord's and Telegram's exports have it.
    Chat,
    /// Lines of text: `[2024-03-04 18:20] Mina: …` and the like.
    Plain,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] = [
        Self::Scenario,
        Self::Locomo,
        Self::Longmemeval,
        Self::Chat,
        Self::Plain,
    ];

    /// The list that is shown with a file that fits none of them.
    pub(crate) const ACCEPTED: &str = "accepted are:\n\
        - scenario: a JSON object with `sessions`, each with `turns`\n\
        - locomo: a JSON list of samples with `conversation`\n\
        - longmemeval: a JSON list of questions with `haystack_sessions`\n\
        - chat: a JSON list or JSONL of messages with `role` and `content`, or objects with `messages`\n\
        - plain: lines like `[2024-03-04 18:20] Mina: Hello` or `Mina: Hello`, also exports of KakaoTalk and WhatsApp\n\
        hint: if it is one of these, say which with `--format`";

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Locomo => "locomo",
            Self::Longmemeval => "longmemeval",
            Self::Chat => "chat",
            Self::Plain => "plain",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no transcript format: choose scenario, locomo, longmemeval, chat or plain")]
pub struct UnknownFormat(String);

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL
            .into_iter()
            .find(|format| format.name().eq_ignore_ascii_case(name));
        known.ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// What a file holds. Transcripts have at least one session, sessions at least one turn; all
/// identifiers are unique at their level.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadTranscripts {
    /// Format that was asked for or detected.
    pub format: Format,
    /// Transcripts in the order of the file.
    pub transcripts: Vec<Transcript>,
    /// What was mended or left out.
    pub warnings: Vec<Warning>,
    /// Lines and objects that could not be understood, of which something may be missing.
    pub lost: usize,
    /// Messages of exports, and parts of chat messages, that only stood for a picture, a file or a deleted message: left
    /// out, save for captions.
    pub placeholders: usize,
}

/// Reads the transcripts of one file; without `format` its content decides.
///
/// # Errors
/// When the file cannot be read, fits no format (or not the one asked for), or holds no turn.
pub fn read_file(path: &Path, format: Option<Format>) -> Result<ReadTranscripts, ReadError> {
    let bytes = fs::read(path).map_err(|source| ReadError::Io {
        path: path.to_owned(),
        source,
    })?;
    read_bytes(path, bytes, format)
}

/// Reads transcripts from `bytes`; `path` names them in messages and, by its stem, in identifiers.
///
/// # Errors
/// As [`read_file`].
pub fn read_bytes(
    path: &Path,
    bytes: Vec<u8>,
    format: Option<Format>,
) -> Result<ReadTranscripts, ReadError> {
    let mut warnings = Warnings::new(path);
    let text = decode::decode(path, bytes, &mut warnings)?;
    if text.trim().is_empty() {
        return Err(ReadError::Empty {
            path: path.to_owned(),
        });
    }
    let input = detect::detect(path, &text, format, &mut warnings)?;
    let format = input.format();
    let stem = path
        .file_stem()
        .map_or("stdin".into(), |stem| stem.to_string_lossy());
    let mut source = Source {
        stem: &stem,
        warnings: &mut warnings,
        placeholders: 0,
    };
    let mut transcripts = match input {
        detect::Input::Scenario(items) => scenario::read(items, &mut source),
        detect::Input::Locomo(items) => locomo::read(items, &mut source),
        detect::Input::Longmemeval(items) => longmemeval::read(items, &mut source),
        detect::Input::Chat(conversations) => chat::read(conversations, &mut source),
        detect::Input::Plain(lines) => plain::read(&lines, &mut source),
        detect::Input::Rows(rows) => plain::read_rows(rows, &mut source),
    };
    let placeholders = source.placeholders;
    drop(text);
    tidy::tidy(&mut transcripts, format, &mut warnings);
    let lost = warnings.lost;
    let warnings = warnings.finish();
    if transcripts.is_empty() {
        return Err(ReadError::NoTurns {
            path: path.to_owned(),
            format,
            warnings,
        });
    }
    Ok(ReadTranscripts {
        format,
        transcripts,
        warnings,
        lost,
        placeholders,
    })
}

/// What every reader needs beside the content.
struct Source<'a> {
    /// File name without folder and extension: the identifier where the content gives none.
    stem: &'a str,
    warnings: &'a mut Warnings,
    placeholders: usize,
}
