//! The four sources. Each has one function, `fetch`, that brings all files of a job or fails.

pub(crate) mod cache;
pub(crate) mod hub;
pub(crate) mod local;
pub(crate) mod pip;

use std::fs::{self, File};
use std::path::Path;

use crate::catalogue::{ModelFile, is_sha256};
use crate::fetch::Job;
use crate::{Error, Progress};

/// Copies one file in and checks it.
fn copy(
    job: &mut Job,
    wanted: &ModelFile,
    from: &Path,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let mut file = File::open(from).map_err(Error::read(from))?;
    let mut intake = job.intake(wanted)?;
    intake.append(&mut file, from, progress)?;
    job.accept(intake, wanted)
}

/// The hub's cache names a blob by its hash: SHA-256 for large files, Git's hash for small ones.
/// Where the catalogue knows no SHA-256, the blob's name stands in for it.
fn with_blob_hash(wanted: &ModelFile, file: &Path) -> ModelFile {
    let mut wanted = wanted.clone();
    if wanted.sha256.is_none() {
        let blob = fs::canonicalize(file).ok();
        let name = blob
            .as_deref()
            .and_then(Path::file_name)
            .and_then(|name| name.to_str());
        wanted.sha256 = name.filter(|name| is_sha256(name)).map(str::to_owned);
    }
    wanted
}

/// All files below a folder, as paths with `/`, sorted.
fn list(folder: &Path) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    let mut open = vec![(folder.to_owned(), String::new())];
    while let Some((folder, prefix)) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::read(&folder))? {
            let entry = entry.map_err(Error::read(&folder))?;
            // A name that is not UTF-8 is no name the hub could have given.
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // Links are not followed into folders: they may lead in a circle.
            match entry.file_type().map_err(Error::read(&folder))?.is_dir() {
                true => open.push((entry.path(), format!("{prefix}{name}/"))),
                false => found.push(format!("{prefix}{name}")),
            }
        }
    }
    found.sort();
    Ok(found)
}
