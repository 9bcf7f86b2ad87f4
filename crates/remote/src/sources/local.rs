//! A file or folder the user names.

use std::path::{Path, PathBuf};

use super::{copy, list};
use crate::catalogue::ModelFile;
use crate::fetch::Job;
use crate::{Error, Progress, manifest};

/// Copies the model's files from `--from`.
pub(crate) fn fetch(job: &mut Job, progress: &mut dyn Progress) -> Result<(), Error> {
    let Some(from) = job.request.from else {
        let reason = "give the file or folder with `--from PATH`".to_owned();
        return Err(Error::Unavailable { reason });
    };
    if !from.exists() {
        let reason = format!("no file or folder `{}` exists", from.display());
        return Err(Error::Unavailable { reason });
    }
    let mut listed = if from.is_dir() {
        list(from)?
    } else {
        Vec::new()
    };
    listed.retain(|path| path != manifest::FILE_NAME);
    let wanted = job.wanted(listed)?;
    progress.begin(&from.display().to_string(), job.model.total_bytes());
    for file in wanted {
        if !job.has(&file) {
            let source = find(from, &file, job.model.files.len())?;
            copy(job, &file, &source, progress)?;
        }
    }
    Ok(())
}

/// In a folder, the file of that path; a file itself, if the model is one file.
fn find(from: &Path, file: &ModelFile, files: usize) -> Result<PathBuf, Error> {
    if from.is_dir() {
        return Ok(from.join(&file.path));
    }
    if files == 1 {
        return Ok(from.to_owned());
    }
    let reason = format!(
        "the model has {files} files; give a folder that holds them, not the file `{}`",
        from.display()
    );
    Err(Error::Unavailable { reason })
}
