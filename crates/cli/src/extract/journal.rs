//! What a run has done so far, beside its output, so that a killed run can be resumed.
//!
//! `FILE.partial` is JSONL: a header with the run's [`Fingerprint`], then one [`Entry`] a window, on disk
//! as soon as the window is done (the header with the first), in the order in which they end. The output itself is
//! assembled from it at the end, in input order, which is why a resumed run ends with the same bytes. A line that a kill
//! cut short is dropped.

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{Error, Fingerprint, Outcome};

/// How every journal begins.
const HEAD: &[u8] = b"{\"memextract\":";

#[derive(Serialize, Deserialize)]
struct Header {
    memextract: Fingerprint,
}

/// What an earlier run left.
struct Found {
    fingerprint: Fingerprint,
    /// By position; failures included.
    outcomes: BTreeMap<usize, Outcome>,
    /// Length up to the last whole line.
    sound_bytes: u64,
}

/// One window of a run.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Position among all windows of the run, from 0.
    pub(super) position: usize,
    /// How it went.
    pub(super) outcome: Outcome,
}

/// The open and locked journal of a run.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    found: Option<Found>,
    /// What is written before the first entry: a run that ends before it leaves nothing.
    header: Option<Header>,
}

impl Journal {
    /// Opens the journal of `out` and locks it. Called before anything costly: it is also the test of
    /// whether the output's folder can be written to.
    ///
    /// # Errors
    /// When the folder is missing or not writable, another run holds the journal, its contents are
    /// damaged, or it holds windows and `resume` is off.
    pub(super) fn open(out: &Path, resume: bool) -> Result<Self, Error> {
        let path = path_for(out);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(|source| Error::OutputFolder {
                out: out.to_owned(),
                source,
            })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::InUse { journal: path }),
            Err(TryLockError::Error(source)) => {
                return Err(Error::NoJournal {
                    journal: path,
                    source,
                });
            }
        }
        let mut journal = Self {
            path,
            file,
            found: None,
            header: None,
        };
        let mut bytes = Vec::new();
        journal
            .file
            .read_to_end(&mut bytes)
            .map_err(|source| Error::NoJournal {
                journal: journal.path.clone(),
                source,
            })?;
        journal.found = read(&journal.path, &bytes)?;
        let windows = journal.windows_done();
        if windows > 0 && !resume {
            return Err(Error::Unfinished {
                journal: journal.path.clone(),
                windows,
            });
        }
        Ok(journal)
    }

    /// Windows that an earlier run left done.
    pub(super) fn windows_done(&self) -> usize {
        let found = self.found.iter().flat_map(|found| found.outcomes.values());
        found.filter(|outcome| outcome.is_done()).count()
    }

    /// Starts or continues the run described by `fingerprint`; returns the windows that are done.
    /// Failed ones are not among them: they are tried again.
    ///
    /// # Errors
    /// When the earlier run was a different one, or the file cannot be written.
    pub(super) fn begin(
        &mut self,
        fingerprint: &Fingerprint,
    ) -> Result<BTreeMap<usize, Outcome>, Error> {
        let done = self.windows_done();
        let Some(found) = self.found.take().filter(|_| done > 0) else {
            self.header = Some(Header {
                memextract: fingerprint.clone(),
            });
            self.cut(0)?;
            return Ok(BTreeMap::new());
        };
        let changes = found.fingerprint.changes(fingerprint);
        if !changes.is_empty() {
            return Err(Error::Changed {
                journal: self.path.clone(),
                changes,
            });
        }
        self.cut(found.sound_bytes)?;
        Ok(found
            .outcomes
            .into_iter()
            .filter(|(_, outcome)| outcome.is_done())
            .collect())
    }

    /// Puts one window on disk.
    ///
    /// # Errors
    /// When the file cannot be written; what was there stays readable.
    pub(super) fn append(&mut self, entry: &Entry) -> Result<(), Error> {
        let mut lines = Vec::new();
        if let Some(header) = &self.header {
            add_line(&mut lines, header).map_err(|source| self.error(source))?;
        }
        add_line(&mut lines, entry).map_err(|source| self.error(source))?;
        let written = self.file.write_all(&lines);
        let written = written.and_then(|()| self.file.sync_data());
        written.map_err(|source| self.error(source))?;
        self.header = None;
        Ok(())
    }

    /// Ends a run that left nothing to do again.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub(super) fn remove(self) -> Result<(), Error> {
        fs::remove_file(&self.path).map_err(|source| self.error(source))
    }

    /// Writes to another file from here on, as a disk that is full would.
    #[cfg(test)]
    pub(super) fn write_to(&mut self, file: File) {
        self.file = file;
    }

    /// Where it lies.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn cut(&mut self, length: u64) -> Result<(), Error> {
        let cut = self
            .file
            .set_len(length)
            .and_then(|()| self.file.seek(SeekFrom::Start(length)));
        cut.map(drop).map_err(|source| self.error(source))
    }

    fn error(&self, source: io::Error) -> Error {
        let journal = self.path.clone();
        match self.header {
            Some(_) => Error::NoJournal { journal, source },
            None => Error::Journal { journal, source },
        }
    }
}

fn add_line(lines: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, value)?;
    lines.push(b'\n');
    Ok(())
}

impl Drop for Journal {
    /// A run that ended before its first window leaves nothing behind.
    fn drop(&mut self) {
        if self.header.is_some() || fs::metadata(&self.path).is_ok_and(|meta| meta.len() == 0) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `FILE.partial` for `FILE`.
pub(super) fn path_for(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Reads a journal; `None` where it is empty or was cut short in its first line.
fn read(path: &Path, bytes: &[u8]) -> Result<Option<Found>, Error> {
    let broken = |line, source| Error::Broken {
        journal: path.to_owned(),
        line,
        source,
    };
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next() else {
        return Ok(None);
    };
    if !first.ends_with(b"\n") && (first.starts_with(HEAD) || HEAD.starts_with(first)) {
        return Ok(None);
    }
    let header: Header = serde_json::from_slice(first).map_err(|source| broken(1, source))?;
    let mut found = Found {
        fingerprint: header.memextract,
        outcomes: BTreeMap::new(),
        sound_bytes: first.len() as u64,
    };
    let mut lines = lines.zip(2..).peekable();
    while let Some((line, number)) = lines.next() {
        let last = lines.peek().is_none();
        let entry: Entry = match serde_json::from_slice(line) {
            Ok(entry) if line.ends_with(b"\n") => entry,
            Err(source) if !last => return Err(broken(number, source)),
            // The last line: the kill came while it was written.
            _ => break,
        };
        found.outcomes.insert(entry.position, entry.outcome);
        found.sound_bytes += line.len() as u64;
    }
    Ok(Some(found))
}
