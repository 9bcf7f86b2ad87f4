//! What can go wrong while a transcript file is read.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::readers::Format;

/// Why a file yields no transcript at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("cannot read `{path}`: check the name and the permissions")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Nothing but white space.
    #[error("`{path}` is empty")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Text in an encoding that is not read.
    #[error("`{path}` is {encoding}: save it as UTF-8{hint}")]
    Encoding {
        /// The file.
        path: PathBuf,
        /// What the bytes look like.
        encoding: &'static str,
        /// A command that may help, with its separator.
        hint: &'static str,
    },
    /// JSON that does not parse.
    #[error(
        "`{path}` is not valid JSON at line {line}, column {column}: check whether the file is complete"
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// 1-based line.
        line: usize,
        /// 1-based column, in bytes.
        column: usize,
        /// What the parser says.
        source: serde_json::Error,
    },
    /// None of the formats.
    #[error(
        "`{path}` is no transcript in a known format. It begins with `{seen}`\n{}",
        Format::ACCEPTED
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its first characters, safe to print.
        seen: String,
    },
    /// The format is known, but the file does not have its shape.
    #[error("`{path}` does not fit the format `{format}`: {problem}")]
    Shape {
        /// The file.
        path: PathBuf,
        /// The format asked for or detected.
        format: Format,
        /// What is missing or of the wrong type.
        problem: String,
    },
    /// The format fits, but nobody says anything.
    #[error(
        "`{path}`, read as `{format}`, holds no turn with text{}",
        first_warning(warnings)
    )]
    NoTurns {
        /// The file.
        path: PathBuf,
        /// The format asked for or detected.
        format: Format,
        /// What was left out on the way.
        warnings: Vec<Warning>,
    },
}

fn first_warning(warnings: &[Warning]) -> String {
    warnings.first().map_or_else(String::new, |first| {
        format!(
            "; the first problem is at {}: {}",
            first.location, first.message
        )
    })
}

/// Something in a file that was mended or left out; the rest was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The file.
    pub path: PathBuf,
    /// Where in the file: `line 12`, ``session `S1`, turn 3``.
    pub location: String,
    /// What is wrong, and what was done about it.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}`, {}: {}",
            self.path.display(),
            self.location,
            self.message
        )
    }
}
