//! The model that a run tunes, as far as a checkpoint has to know it.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use mem_model::matrix::Compute;
use mem_model::weights;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// The model that a run tunes: what must be the same for the run to be continued.
#[derive(Clone, Debug)]
pub struct Base {
    /// Its name in the adapter's card; never a path.
    pub name: String,
    /// What [`fingerprint`] says of its files.
    pub weights: String,
    /// The type of its products.
    pub compute: Compute,
}

/// Bytes at the beginning of a weight file that are hashed in whole: the header and, in a GGUF file, the tokenizer.
const HEAD: u64 = 8 << 20;

/// Bytes of one sample of the rest.
const SAMPLE: u64 = 64 << 10;

/// Samples of a file, spread evenly: with 64 KiB each, files of up to 72 MiB are hashed in whole.
const SAMPLES: u64 = 1024;

/// Tells the weights of the model at `path` (HF folder or GGUF file) from others: SHA-256 over the names and sizes of
/// its files, their first 8 MiB and samples of 64 KiB spread over the rest, the first 16 hex digits. Two trainings
/// differ in every matrix, and whole files of many gigabytes would take longer to hash than to load.
///
/// # Errors
/// When a file cannot be read.
pub fn fingerprint(path: &Path) -> Result<String> {
    let mut hash = Sha256::new();
    for file in weights::files(path)? {
        // The name of a lone file is its owner's choice.
        if file != path {
            let name = file.file_name().unwrap_or_default();
            hash.update(name.as_encoded_bytes());
        }
        sample(&file, &mut hash).map_err(|source| Error::Read { path: file, source })?;
    }
    let digest = hash.finalize();
    Ok(digest.iter().take(8).map(|b| format!("{b:02x}")).collect())
}

fn sample(path: &Path, hash: &mut Sha256) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    hash.update(length.to_le_bytes());
    let mut read = |start: u64, bytes: u64| -> std::io::Result<()> {
        file.seek(SeekFrom::Start(start))?;
        std::io::copy(&mut (&mut file).take(bytes), hash)?;
        Ok(())
    };
    read(0, HEAD)?;
    let stride = (length.saturating_sub(HEAD) / SAMPLES).max(SAMPLE);
    let mut start = HEAD;
    while start < length {
        read(start, SAMPLE)?;
        start += stride;
    }
    // The last matrix of a file may be the only one that differs.
    read(length.saturating_sub(SAMPLE), SAMPLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_differ_by_content_size_and_name_of_their_parts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        let state = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            fingerprint(&path).unwrap()
        };
        let mut bytes = vec![7; 80 << 20];
        let whole = state(&bytes);
        assert_eq!(whole, state(&bytes), "written again");
        for at in [0, (8 << 20) + 5, bytes.len() - 1] {
            bytes[at] = 8;
            assert_ne!(whole, state(&bytes), "byte {at}");
            bytes[at] = 7;
        }
        assert_ne!(whole, state(&bytes[..79 << 20]));
        assert_eq!(whole, state(&bytes));
        std::fs::rename(&path, folder.path().join("other.gguf")).unwrap();
        assert_eq!(
            whole,
            fingerprint(&folder.path().join("other.gguf")).unwrap()
        );
        std::fs::write(folder.path().join("config.json"), "{}").unwrap();
        std::fs::write(folder.path().join("a.safetensors"), "x").unwrap();
        let one = fingerprint(folder.path()).unwrap();
        std::fs::rename(
            folder.path().join("a.safetensors"),
            folder.path().join("b.safetensors"),
        )
        .unwrap();
        assert_ne!(one, fingerprint(folder.path()).unwrap());
        std::fs::write(folder.path().join("README.md"), "words").unwrap();
        let two = fingerprint(folder.path()).unwrap();
        std::fs::remove_file(folder.path().join("README.md")).unwrap();
        assert_eq!(two, fingerprint(folder.path()).unwrap());
    }
}
