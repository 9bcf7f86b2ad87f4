//! The conversations of a run: read, selected, cut into windows.

use std::{
    fmt, fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use mem_schema::{
    readers::{self, Format, ReadError, make_ids_unique},
    transcript::Transcript,
    window::{Segmentation, Window, windows},
};
use serde::Serialize;

use crate::say::count;

use super::{Error, Fingerprint, Sessions, args::InputArgs, short_hash, with_causes};

/// Transcripts that are named where another was asked for.
const SHOWN: usize = 10;

/// What was read.
#[derive(Default)]
pub(super) struct Inputs {
    /// Selected transcripts with their selected sessions, in the order of the inputs.
    pub(super) transcripts: Vec<Transcript>,
    /// What was wrong.
    pub(super) problems: Problems,
    /// Name and contents of each input that was read.
    states: Vec<String>,
}

/// What was wrong with the inputs of a run that goes on nevertheless.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    /// Inputs that were skipped.
    pub unreadable: Vec<Unreadable>,
    /// What was mended or left out in the others.
    pub warnings: Vec<String>,
    /// Lines, messages and other parts that could not be understood; each has its warning, up to a number of them.
    pub lost: usize,
    /// Messages of exports that only stood for a picture, a file or a deleted message.
    pub placeholders: usize,
}

impl Problems {
    /// Whether some of what the inputs hold may be missing.
    pub fn lose_something(&self) -> bool {
        !self.unreadable.is_empty() || self.lost > 0
    }

    /// What is to be said, a line each.
    pub(super) fn lines(&self) -> Vec<String> {
        let text = self.to_string();
        text.lines().map(str::to_owned).collect()
    }

    /// What was left out of the inputs that were read, a line each.
    pub fn left_out(&self) -> Vec<String> {
        left_out(self.lost, self.placeholders)
    }
}

/// What was left out, a line each.
pub(super) fn left_out(lost: usize, placeholders: usize) -> Vec<String> {
    let lines = [
        (lost, "part", "that could not be understood"),
        (
            placeholders,
            "message",
            "that stood for pictures, files or deleted messages",
        ),
    ];
    let lines = lines.into_iter().filter(|(number, ..)| *number > 0);
    lines
        .map(|(number, noun, what)| format!("left out: {} {what}", count(number, noun)))
        .collect()
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unreadable
            .iter()
            .try_for_each(|unreadable| writeln!(f, "warning: skipped: {unreadable}"))?;
        self.warnings
            .iter()
            .try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

/// An input that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// As given on the command line.
    pub input: String,
    /// What was wrong, and what is accepted.
    pub reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The reason names the input.
        f.write_str(&self.reason)
    }
}

impl Inputs {
    /// Reads every input once and keeps what `args` select.
    ///
    /// # Errors
    /// When no input can be read, or a selected transcript is in none of them.
    pub(super) fn read(args: &InputArgs) -> Result<Self, Error> {
        let mut inputs = Self::default();
        for path in &args.inputs {
            inputs.read_one(path, args.format);
        }
        if inputs.states.is_empty() {
            return Err(Error::NoInput {
                inputs: inputs.problems.unreadable,
            });
        }
        for (index, before) in make_ids_unique(&mut inputs.transcripts) {
            let now = &inputs.transcripts[index].id;
            inputs.problems.warnings.push(format!(
                "another input holds a transcript `{before}`; this one is called `{now}`"
            ));
        }
        inputs.select(args)?;
        Ok(inputs)
    }

    fn read_one(&mut self, path: &Path, format: Option<Format>) {
        let input = path.display().to_string();
        let (name, bytes) = if path == Path::new("-") {
            let mut bytes = Vec::new();
            (
                PathBuf::from("stdin"),
                io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes),
            )
        } else {
            (path.to_owned(), fs::read(path))
        };
        if bytes.is_err() && path.is_dir() {
            self.problems.unreadable.push(Unreadable {
                reason: format!("`{input}` is a folder: name the files in it"),
                input,
            });
            return;
        }
        let read = bytes
            .map_err(|source| ReadError::Io {
                path: name.clone(),
                source,
            })
            .and_then(|bytes| {
                let hash = short_hash(&bytes);
                readers::read_bytes(&name, bytes, format).map(|read| (hash, read))
            });
        match read {
            Ok((hash, read)) => {
                let name = name
                    .file_name()
                    .unwrap_or(name.as_os_str())
                    .to_string_lossy();
                self.states.push(format!("`{name}` {hash}"));
                self.problems
                    .warnings
                    .extend(read.warnings.iter().map(ToString::to_string));
                self.problems.lost += read.lost;
                self.problems.placeholders += read.placeholders;
                self.transcripts.extend(read.transcripts);
            }
            Err(error) => self.problems.unreadable.push(Unreadable {
                input,
                reason: with_causes(&error),
            }),
        }
    }

    fn select(&mut self, args: &InputArgs) -> Result<(), Error> {
        for id in &args.transcript {
            if !self
                .transcripts
                .iter()
                .any(|transcript| transcript.id == *id)
            {
                let ids = self.transcripts.iter().map(|transcript| &transcript.id);
                let mut known: Vec<_> = ids.take(SHOWN).map(|id| format!("`{id}`")).collect();
                if self.transcripts.len() > SHOWN {
                    known.push(format!("and {} more", self.transcripts.len() - SHOWN));
                }
                return Err(Error::UnknownTranscript {
                    id: id.clone(),
                    known,
                    problems: std::mem::take(&mut self.problems),
                });
            }
        }
        if !args.transcript.is_empty() {
            self.transcripts
                .retain(|transcript| args.transcript.contains(&transcript.id));
        }
        if let Some(wanted) = &args.sessions {
            for transcript in &mut self.transcripts {
                let mut position = 0;
                transcript.sessions.retain(|_| {
                    position += 1;
                    wanted.holds(position)
                });
            }
        }
        Ok(())
    }

    /// Cuts the windows, in the order of the inputs.
    ///
    /// # Errors
    /// When there is not a single message.
    pub(super) fn windows(&self, segmentation: &Segmentation) -> Result<Vec<Window>, Error> {
        let all: Vec<_> = self
            .transcripts
            .iter()
            .flat_map(|transcript| windows(transcript, segmentation))
            .collect();
        if all.is_empty() {
            Err(Error::NoMessages {
                problems: self.problems.clone(),
            })
        } else {
            Ok(all)
        }
    }

    /// Notes what was selected.
    pub(super) fn describe(&self, args: &InputArgs, fingerprint: &mut Fingerprint) {
        for (number, state) in (1..).zip(&self.states) {
            fingerprint.set(format!("input {number}"), state);
        }
        let format = args
            .format
            .map_or("by content".to_owned(), |format| format.to_string());
        fingerprint.set("`--format`", format);
        let sessions = args
            .sessions
            .as_ref()
            .map_or("all".to_owned(), Sessions::to_string);
        fingerprint.set("`--sessions`", sessions);
        let transcripts = if args.transcript.is_empty() {
            "all".to_owned()
        } else {
            args.transcript.join(", ")
        };
        fingerprint.set("`--transcript`", transcripts);
    }
}
