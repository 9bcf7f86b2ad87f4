//! Taking a file in: bytes are hashed as they pass and only a checked file gets its final name.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::catalogue::ModelFile;
use crate::manifest::ManifestFile;
use crate::{Error, Progress};

/// Large enough that the system calls do not show beside the hashing.
const CHUNK_BYTES: usize = 1 << 20;

/// A file on its way in, under a temporary name. Dropped unfinished, it leaves nothing.
pub(crate) struct Intake {
    file: File,
    path: PathBuf,
    hasher: Sha256,
    bytes: u64,
}

impl Intake {
    pub(crate) fn create(path: PathBuf) -> Result<Self, Error> {
        create_parent(&path)?;
        let file = File::create(&path).map_err(Error::write(&path))?;
        Ok(Self {
            file,
            path,
            hasher: Sha256::new(),
            bytes: 0,
        })
    }

    /// Appends all of `reader`; `origin` names it in an error.
    pub(crate) fn append(
        &mut self,
        reader: &mut dyn Read,
        origin: &Path,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        for_each_chunk(reader, origin, |chunk| {
            self.hasher.update(chunk);
            self.file
                .write_all(chunk)
                .map_err(Error::write(&self.path))?;
            self.bytes += chunk.len() as u64;
            progress.advance(chunk.len() as u64);
            Ok(())
        })
    }

    /// Checks the whole against what is `wanted` and gives it its final name.
    pub(crate) fn finish(
        mut self,
        wanted: &ModelFile,
        target: &Path,
    ) -> Result<ManifestFile, Error> {
        self.file.sync_all().map_err(Error::write(&self.path))?;
        let hash = hex(std::mem::take(&mut self.hasher));
        let record = check(wanted, self.bytes, hash)?;
        create_parent(target)?;
        fs::rename(&self.path, target).map_err(Error::write(target))?;
        Ok(record)
    }
}

impl Drop for Intake {
    fn drop(&mut self) {
        // After a rename there is nothing of this name; before it nobody needs it.
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks a complete file of ours and renames it; a wrong one is deleted.
pub(crate) fn adopt(
    path: &Path,
    wanted: &ModelFile,
    target: &Path,
    progress: &mut dyn Progress,
) -> Result<ManifestFile, Error> {
    let (bytes, hash) = hash_file(path, progress)?;
    let record = check(wanted, bytes, hash).inspect_err(|_| {
        let _ = fs::remove_file(path);
    })?;
    create_parent(target)?;
    fs::rename(path, target).map_err(Error::write(target))?;
    Ok(record)
}

fn check(wanted: &ModelFile, bytes: u64, sha256: String) -> Result<ManifestFile, Error> {
    let file = wanted.path.clone();
    match (wanted.bytes, &wanted.sha256) {
        (Some(expected), _) if expected != bytes => Err(Error::Size {
            file,
            expected,
            actual: bytes,
        }),
        (_, Some(expected)) if *expected != sha256 => Err(Error::Hash {
            file,
            expected: expected.clone(),
            actual: sha256,
        }),
        _ => Ok(ManifestFile {
            path: file,
            bytes,
            sha256,
        }),
    }
}

/// Size and SHA-256 of a file.
pub(crate) fn hash_file(path: &Path, progress: &mut dyn Progress) -> Result<(u64, String), Error> {
    let mut file = File::open(path).map_err(Error::read(path))?;
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    for_each_chunk(&mut file, path, |chunk| {
        hasher.update(chunk);
        bytes += chunk.len() as u64;
        progress.advance(chunk.len() as u64);
        Ok(())
    })?;
    Ok((bytes, hex(hasher)))
}

/// Copies all of `reader` into a file of ours and returns the bytes.
pub(crate) fn copy(
    reader: &mut dyn Read,
    origin: &Path,
    out: &mut File,
    path: &Path,
) -> Result<u64, Error> {
    let mut bytes = 0;
    for_each_chunk(reader, origin, |chunk| {
        bytes += chunk.len() as u64;
        out.write_all(chunk).map_err(Error::write(path))
    })?;
    Ok(bytes)
}

fn for_each_chunk(
    reader: &mut dyn Read,
    origin: &Path,
    mut take: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => take(&buffer[..count])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(Error::Read {
                    path: origin.to_owned(),
                    source,
                });
            }
        }
    }
}

pub(crate) fn create_parent(path: &Path) -> Result<(), Error> {
    match path.parent() {
        Some(parent) => fs::create_dir_all(parent).map_err(Error::write(parent)),
        None => Ok(()),
    }
}

fn hex(hasher: Sha256) -> String {
    hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
