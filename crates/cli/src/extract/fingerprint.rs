//! What the result of a run depends on, so that a resumed run cannot mix two results.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use mem_schema::tuning::Tuning;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Error;

/// Names of things a result depends on, with their state in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Fingerprint(BTreeMap<String, String>);

impl Fingerprint {
    /// Notes the state of one thing.
    pub(super) fn set(&mut self, name: impl Into<String>, state: impl ToString) {
        self.0.insert(name.into(), state.to_string());
    }

    /// What is different `now`, one line each, in words.
    pub(super) fn changes(&self, now: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, was) in &self.0 {
            match now.0.get(name) {
                Some(is) if is == was => {}
                Some(is) => lines.push(format!("{name} was {was}, now {is}")),
                None => lines.push(format!("{name} was {was}, now missing")),
            }
        }
        let added = now.0.iter().filter(|(name, _)| !self.0.contains_key(*name));
        lines.extend(added.map(|(name, is)| format!("{name} is new: {is}")));
        lines
    }
}

/// Short SHA-256 of some bytes, for comparing and for showing: the first 16 hex digits.
pub(super) fn short_hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Describes the weights at `path`, a file or a folder: names, sizes and times of change.
///
/// Contents are not hashed: a model has gigabytes, and a resumed run should not have to read it twice.
///
/// # Errors
/// When the file system refuses.
pub fn model_state(path: &Path) -> Result<String, Error> {
    let states: Vec<String> = files_at(path)?
        .iter()
        .map(|file| {
            let meta = fs::metadata(file).map_err(|source| read_error(file, source))?;
            let changed = meta
                .modified()
                .ok()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            Ok(format!(
                "{} {} {}",
                file_name(file),
                meta.len(),
                changed.unwrap_or_default().as_nanos()
            ))
        })
        .collect::<Result<_, Error>>()?;
    Ok(format!(
        "`{}` {}",
        file_name(path),
        short_hash(states.join("\n").as_bytes())
    ))
}

/// Describes the adapter folder `path` by the contents of the files that count.
///
/// # Errors
/// When the file system refuses.
pub(super) fn adapter_state(path: &Path) -> Result<String, Error> {
    let mut digest = Sha256::new();
    for file in files_at(path)?
        .iter()
        .filter(|file| is_adapter_file(&file_name(file)))
    {
        digest.update(file_name(file).as_bytes());
        let mut reader = fs::File::open(file).map_err(|source| read_error(file, source))?;
        io::copy(&mut reader, &mut digest).map_err(|source| read_error(file, source))?;
    }
    Ok(format!(
        "`{}` {}",
        file_name(path),
        short_hash(&digest.finalize())
    ))
}

/// The file itself, or the plain files of a folder, sorted.
fn files_at(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let meta = fs::metadata(path).map_err(|source| read_error(path, source))?;
    if !meta.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(|source| read_error(path, source))? {
        let file = entry.map_err(|source| read_error(path, source))?.path();
        if file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a file changes what the adapter does; a README or a training log beside it does not.
fn is_adapter_file(name: &str) -> bool {
    name.starts_with("adapter_") || name == Tuning::FILE
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn read_error(path: &Path, source: io::Error) -> Error {
    Error::Read {
        path: path.to_owned(),
        source,
    }
}
