//! The hub's cache on this disk, as huggingface_hub, hf-hub and other programs fill it. No
//! socket is opened.

use hf_hub::{Repo, RepoType};

use super::{copy, list, with_blob_hash};
use crate::catalogue::{HubRepoType, HubSource};
use crate::fetch::Job;
use crate::{Error, Progress};

/// Copies the model's files from the cache; all must be there.
pub(crate) fn fetch(job: &mut Job, progress: &mut dyn Progress) -> Result<(), Error> {
    let absent = |reason: String| Err(Error::Unavailable { reason });
    let Some(hub) = &job.model.hub else {
        return absent("the hub does not have this model".to_owned());
    };
    let Some(snapshot) = job.request.places.hub_snapshot(&repo(hub)) else {
        return absent(format!(
            "`{}` is not in the hub's cache on this disk",
            hub.repo
        ));
    };
    let wanted = job.wanted(list(&snapshot)?)?;
    if let Some(file) = wanted
        .iter()
        .find(|file| !snapshot.join(&file.path).is_file())
    {
        return absent(format!("`{}` lacks `{}`", snapshot.display(), file.path));
    }
    progress.begin("the hub's cache", job.model.total_bytes());
    for file in wanted {
        if !job.has(&file) {
            let source = snapshot.join(&file.path);
            let file = with_blob_hash(&file, &source);
            copy(job, &file, &source, progress)?;
        }
    }
    Ok(())
}

/// The repository in hf-hub's words.
pub(crate) fn repo(hub: &HubSource) -> Repo {
    let repo_type = match hub.repo_type {
        HubRepoType::Model => RepoType::Model,
        HubRepoType::Dataset => RepoType::Dataset,
    };
    Repo::with_revision(hub.repo.clone(), repo_type, hub.revision.clone())
}
