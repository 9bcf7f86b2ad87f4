//! Why an extraction could not run at all.

use std::{error::Error as StdError, fmt::Display, io, path::PathBuf};

use mem_schema::window::SegmentationError;
use thiserror::Error;

use crate::say::count;

use super::inputs::{Problems, Unreadable};

/// Anything that ends a run with exit code 2; the hint beside it says what to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// `--out` names one of the inputs, or a file whose `.partial` or `.new` is one.
    #[error("`{}` is an input and would be written", .path.display())]
    OutputIsInput {
        /// The file.
        path: PathBuf,
    },
    /// `--out` names a folder, a device or a pipe.
    #[error("`{}` is not a regular file", .path.display())]
    OutputNotFile {
        /// What was named.
        path: PathBuf,
    },
    /// The journal beside the output could not be opened for writing.
    #[error("cannot write beside `{}`", .out.display())]
    OutputFolder {
        /// The output that was asked for.
        out: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process is writing the same output.
    #[error("`{}` is in use by another run", .journal.display())]
    InUse {
        /// The journal that is locked.
        journal: PathBuf,
    },
    /// There is an unfinished run and nobody asked to resume it.
    #[error("`{}` holds an unfinished run with {} done", .journal.display(), count(*.windows, "window"))]
    Unfinished {
        /// Its journal.
        journal: PathBuf,
        /// Windows that would be lost.
        windows: usize,
    },
    /// The unfinished run had other inputs, another model or other settings.
    #[error("`{}` belongs to a different run:{}", .journal.display(), list(.changes))]
    Changed {
        /// Its journal.
        journal: PathBuf,
        /// What differs, one line each.
        changes: Vec<String>,
    },
    /// The journal is damaged in the middle, or is no journal.
    #[error("line {line} of `{}` cannot be read", .journal.display())]
    Broken {
        /// Its journal.
        journal: PathBuf,
        /// 1-based line.
        line: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The journal could not be locked, read or begun; nothing is done yet.
    #[error("cannot keep the journal `{}`", .journal.display())]
    NoJournal {
        /// Its journal.
        journal: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Writing on in the journal failed.
    #[error("cannot keep the journal `{}`", .journal.display())]
    Journal {
        /// Its journal.
        journal: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The finished records could not be written.
    #[error("cannot write `{}`", .path.display())]
    Output {
        /// The output.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The reader of standard output went away, or it is a full disk.
    #[error("cannot write to standard output")]
    Stdout(#[source] io::Error),
    /// `--resume` without a file to resume.
    #[error("`--resume` needs `--out FILE`: what went to standard output cannot be resumed")]
    ResumeStdout,
    /// None of the inputs could be read.
    #[error("no input could be read:{}", list(.inputs))]
    NoInput {
        /// Each with its reason.
        inputs: Vec<Unreadable>,
    },
    /// The selection leaves nothing to extract from.
    #[error("there are no messages to extract from{}", list(&.problems.lines()))]
    NoMessages {
        /// What was wrong with the inputs: perhaps the messages are in one that was skipped.
        problems: Problems,
    },
    /// `--transcript` names one that no input holds.
    #[error("no input holds a transcript `{id}`; there are {}{}", .known.join(", "), list(&.problems.lines()))]
    UnknownTranscript {
        /// What was asked for.
        id: String,
        /// What there is, quoted; the first few, and how many more.
        known: Vec<String>,
        /// What was wrong with the inputs: perhaps the transcript is in one that was skipped.
        problems: Problems,
    },
    /// The sizes of windows do not fit each other.
    #[error(transparent)]
    Segmentation(#[from] SegmentationError),
    /// The reference's bank file holds one conversation.
    #[error("layout `dimmem` holds one conversation, and {transcripts} were selected")]
    OneBank {
        /// Transcripts selected.
        transcripts: usize,
    },
    /// A file of the adapter or the model cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The adapter's own settings cannot be understood.
    #[error("cannot understand `{}`", .path.display())]
    Tuning {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The adapter was tuned with other prompts than this build writes.
    #[error("`{}` was tuned with prompt version {found}, this build writes version {ours}", .path.display())]
    PromptVersion {
        /// The adapter's settings file.
        path: PathBuf,
        /// Version it was tuned with.
        found: u32,
        /// Version of this build.
        ours: u32,
    },
}

impl Error {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::OutputIsInput { .. } => "give `--out` another name",
            Self::OutputNotFile { .. } => "name a file, or use `--out -` for standard output",
            Self::OutputFolder { .. } => "create the folder, or choose one that you may write to",
            Self::InUse { .. } => "wait for it to end, or give `--out` another name",
            Self::Unfinished { .. } => {
                "add `--resume` to finish it, or delete that file to start afresh"
            }
            Self::Changed { .. } => {
                "repeat the first call exactly, or delete that file to start afresh"
            }
            Self::Broken { .. } => {
                "if that file is a run's, delete it to start afresh; if it is not, give `--out` another name"
            }
            Self::NoJournal { .. } => {
                "nothing is done yet: mend the cause (a full disk, or one that locks no files), or give `--out` another name"
            }
            Self::Journal { .. } | Self::Output { .. } => {
                "what is done is kept: mend the cause (often a full disk), then run again with `--resume`"
            }
            Self::NoMessages { .. } => "check `--transcript` and `--sessions`",
            Self::Segmentation(_) => "set both `--window` and `--overlap`",
            Self::OneBank { .. } => "choose one with `--transcript ID`",
            Self::Tuning { .. } => "the file is written by `memtrain sft`; train the adapter again",
            Self::PromptVersion { .. } => {
                "train the adapter again with this build, or use the build that made it"
            }
            Self::Stdout(_)
            | Self::ResumeStdout
            | Self::NoInput { .. }
            | Self::UnknownTranscript { .. }
            | Self::Read { .. } => return None,
        })
    }
}

fn list(items: &[impl Display]) -> String {
    items.iter().map(|item| format!("\n  {item}")).collect()
}

/// An error and what caused it, in one line.
pub(super) fn with_causes(error: &(dyn StdError + 'static)) -> String {
    anyhow::Chain::new(error)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
