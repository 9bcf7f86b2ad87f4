//! The note beside a fetched model: what lies there, and where it came from.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalogue::Model;
use crate::fetch::Source;
use crate::intake::hash_file;
use crate::{Error, Progress};

/// The manifest's file name. It is written last: a folder without it is not a fetched model.
pub const FILE_NAME: &str = "memloom-model.json";

/// What a fetch left in a model's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format.
    pub version: u32,
    /// The catalogue name.
    pub name: String,
    /// SPDX expression.
    pub licence: String,
    /// Where the files came from.
    pub source: Source,
    /// Every file of the model.
    pub files: Vec<ManifestFile>,
}

/// One fetched file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Path inside the model's folder, with `/`.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// SHA-256 in lower-case hexadecimal.
    pub sha256: String,
}

/// The state of one file, as [`verify`] found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// As recorded.
    Intact,
    /// Not there.
    Missing,
    /// There, but with other bytes.
    Changed {
        /// SHA-256 recorded or stated in the catalogue.
        expected: String,
        /// SHA-256 found.
        actual: String,
    },
}

impl Manifest {
    /// The manifest in this folder; none if the model was never fetched to its end.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Manifest`].
    pub fn read(folder: &Path) -> Result<Option<Self>, Error> {
        let path = folder.join(FILE_NAME);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                return Ok(None);
            }
            Err(source) => return Err(Error::Read { path, source }),
        };
        let manifest = serde_json::from_slice(&text);
        manifest
            .map(Some)
            .map_err(|source| Error::Manifest { path, source })
    }

    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        write_json(&folder.join(FILE_NAME), self)
    }

    /// Whether every file is there with its recorded size and the catalogue asks for no other.
    /// Reads no file's content; [`verify`] does.
    pub fn agrees(&self, folder: &Path, model: &Model) -> bool {
        let listed = model.files.iter().all(|wanted| {
            self.files.iter().any(|file| {
                file.path == wanted.path
                    && wanted.bytes.is_none_or(|bytes| bytes == file.bytes)
                    && wanted
                        .sha256
                        .as_ref()
                        .is_none_or(|hash| *hash == file.sha256)
            })
        });
        listed && self.files.iter().all(|file| file.has_its_size(folder))
    }

    /// The path a loader should open: the one GGUF file if the model is one, else the folder.
    pub fn load_path(&self, folder: &Path) -> PathBuf {
        let mut gguf = self
            .files
            .iter()
            .filter(|file| file.path.ends_with(".gguf"));
        match (gguf.next(), gguf.next()) {
            (Some(file), None) => folder.join(&file.path),
            _ => folder.to_owned(),
        }
    }
}

impl ManifestFile {
    pub(crate) fn has_its_size(&self, folder: &Path) -> bool {
        fs::metadata(folder.join(&self.path))
            .is_ok_and(|meta| meta.is_file() && meta.len() == self.bytes)
    }
}

/// Reads every file of a fetched model again and compares it with what was recorded and with
/// the catalogue.
///
/// # Errors
/// [`Error::NotFetched`] without a manifest; [`Error::Read`] if a file is there but unreadable.
pub fn verify(
    model: &Model,
    folder: &Path,
    progress: &mut dyn Progress,
) -> Result<Vec<(ManifestFile, FileState)>, Error> {
    let manifest = Manifest::read(folder)?.ok_or_else(|| Error::NotFetched {
        name: model.name.clone(),
    })?;
    let total = manifest.files.iter().map(|file| file.bytes).sum();
    progress.begin("verify", Some(total));
    let mut states = Vec::new();
    for file in manifest.files {
        let stated = model.files.iter().find(|wanted| wanted.path == file.path);
        let stated = stated.and_then(|wanted| wanted.sha256.as_ref());
        let expected = stated.unwrap_or(&file.sha256).clone();
        let path = folder.join(&file.path);
        let state = if !path.is_file() {
            FileState::Missing
        } else {
            match hash_file(&path, progress)? {
                (_, actual) if actual == expected => FileState::Intact,
                (_, actual) => FileState::Changed { expected, actual },
            }
        };
        states.push((file, state));
    }
    progress.end();
    Ok(states)
}

/// Writes beside and renames, so that a reader sees the old file or the new one.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let beside = path.with_extension("json.new");
    let text = serde_json::to_vec_pretty(value).map_err(|source| Error::Manifest {
        path: path.to_owned(),
        source,
    })?;
    let mut file = File::create(&beside).map_err(Error::write(&beside))?;
    file.write_all(&text)
        .and_then(|()| file.sync_all())
        .map_err(Error::write(&beside))?;
    fs::rename(&beside, path).map_err(Error::write(path))
}
