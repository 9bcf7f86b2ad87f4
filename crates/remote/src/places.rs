//! Where models are kept, and where others may have put them before.

use std::ffi::OsString;
use std::path::PathBuf;

use hf_hub::{Cache, Repo};

use crate::Error;

/// Folders and settings taken from the environment, once.
#[derive(Clone, Debug)]
pub struct Places {
    /// memloom's folder: `MEMLOOM_HOME`, else `memloom` in the XDG data folder.
    pub home: PathBuf,
    /// The hub's cache, found as huggingface_hub finds it.
    pub hub_cache: Option<PathBuf>,
    /// The hub's address: `HF_ENDPOINT`, else the public one.
    pub hub_endpoint: String,
    /// The hub's access token, for gated repositories.
    pub hub_token: Option<String>,
    /// `HF_HUB_OFFLINE`: the hub is not to be asked.
    pub hub_offline: bool,
}

impl Places {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// [`Error::NoHome`] if neither `MEMLOOM_HOME` nor a home folder is known.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// As [`Places::from_env`], with any source of variables. Empty variables count as unset.
    ///
    /// # Errors
    /// As [`Places::from_env`].
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let get = |name: &str| lookup(name).filter(|value| !value.is_empty());
        let folder = |name: &str| get(name).map(PathBuf::from);
        let user_home = folder("HOME").or_else(|| folder("USERPROFILE"));
        let below = |xdg: &str, usual: &str| {
            let absolute = folder(xdg).filter(|path| path.is_absolute());
            absolute.or_else(|| user_home.as_ref().map(|home| home.join(usual)))
        };

        let home = folder("MEMLOOM_HOME")
            .or_else(|| below("XDG_DATA_HOME", ".local/share").map(|data| data.join("memloom")))
            .ok_or(Error::NoHome)?;
        let hub_home = folder("HF_HOME")
            .or_else(|| below("XDG_CACHE_HOME", ".cache").map(|cache| cache.join("huggingface")));
        let hub_cache = folder("HF_HUB_CACHE")
            .or_else(|| folder("HUGGINGFACE_HUB_CACHE"))
            .or_else(|| hub_home.as_ref().map(|home| home.join("hub")));
        let text = |name: &str| get(name).and_then(|value| value.into_string().ok());
        let stored_token = || hub_home.map(|home| Cache::new(home.join("hub")).token());
        let offline = text("HF_HUB_OFFLINE")
            .unwrap_or_default()
            .to_ascii_lowercase();
        Ok(Self {
            home,
            hub_cache,
            hub_endpoint: text("HF_ENDPOINT")
                .map(|address| address.trim_end_matches('/').to_owned())
                .unwrap_or_else(|| "https://huggingface.co".to_owned()),
            hub_token: text("HF_TOKEN").or_else(|| stored_token().flatten()),
            hub_offline: ["1", "true", "yes", "on"].contains(&offline.as_str()),
        })
    }

    /// The folder that holds one folder per model.
    pub fn models_dir(&self) -> PathBuf {
        self.home.join("models")
    }

    /// The folder of one model, fetched or not.
    pub fn model_dir(&self, name: &str) -> PathBuf {
        self.models_dir().join(name)
    }

    /// The hub cache's folder of one repository at one revision, if it is there. Reads
    /// `refs/REVISION` for the commit, or takes the revision as the commit itself.
    pub fn hub_snapshot(&self, repo: &Repo) -> Option<PathBuf> {
        let repository = self.hub_cache.as_ref()?.join(repo.folder_name());
        let reference = repository.join("refs").join(repo.revision());
        let commit = std::fs::read_to_string(reference);
        let commit = commit.as_deref().map_or(repo.revision(), str::trim);
        let snapshot = repository.join("snapshots").join(commit);
        snapshot.is_dir().then_some(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Result<Places, Error> {
        Places::from_lookup(|name| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.into())
        })
    }

    #[test]
    fn our_folder_follows_memloom_home_then_xdg_then_home() {
        let home = |variables: &[_]| places(variables).unwrap().home;
        assert_eq!(
            home(&[("HOME", "/h")]),
            PathBuf::from("/h/.local/share/memloom")
        );
        let xdg = [("HOME", "/h"), ("XDG_DATA_HOME", "/d")];
        assert_eq!(home(&xdg), PathBuf::from("/d/memloom"));
        let relative = [("HOME", "/h"), ("XDG_DATA_HOME", "d"), ("MEMLOOM_HOME", "")];
        assert_eq!(home(&relative), PathBuf::from("/h/.local/share/memloom"));
        let own = [
            ("HOME", "/h"),
            ("XDG_DATA_HOME", "/d"),
            ("MEMLOOM_HOME", "/m"),
        ];
        assert_eq!(home(&own), PathBuf::from("/m"));
        assert!(matches!(places(&[]), Err(Error::NoHome)));
    }

    #[test]
    fn the_hub_cache_follows_the_hub_s_own_order() {
        let steps = [
            ("HOME", "/h", "/h/.cache/huggingface/hub"),
            ("XDG_CACHE_HOME", "/c", "/c/huggingface/hub"),
            ("HF_HOME", "/f", "/f/hub"),
            ("HUGGINGFACE_HUB_CACHE", "/old", "/old"),
            ("HF_HUB_CACHE", "/new", "/new"),
        ];
        let mut variables = Vec::new();
        for (name, value, expected) in steps {
            variables.push((name, value));
            let cache = places(&variables).unwrap().hub_cache.unwrap();
            assert_eq!(cache, PathBuf::from(expected), "after {name}");
        }
    }

    #[test]
    fn offline_endpoint_and_token_are_read() {
        let set = places(&[
            ("HOME", "/h"),
            ("HF_HUB_OFFLINE", "1"),
            ("HF_ENDPOINT", "http://mirror/"),
            ("HF_TOKEN", "t"),
        ])
        .unwrap();
        assert!(set.hub_offline);
        assert_eq!(set.hub_endpoint, "http://mirror");
        assert_eq!(set.hub_token.as_deref(), Some("t"));
        assert!(
            !places(&[("HOME", "/h"), ("HF_HUB_OFFLINE", "0")])
                .unwrap()
                .hub_offline
        );
    }
}
