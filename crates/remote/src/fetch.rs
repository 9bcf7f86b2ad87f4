//! The order of a fetch: check, lock, try each source, write the manifest.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::catalogue::{Model, ModelFile, is_inside};
use crate::intake::{self, Intake};
use crate::manifest::{self, Manifest, ManifestFile, write_json};
use crate::places::Places;
use crate::sources::{cache, hub, local, pip};
use crate::{Attempt, Error, Progress, chain};

/// Where a model's files can come from, in the order tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A file or folder the user names.
    Local,
    /// The hub's cache on this disk.
    Cache,
    /// The hub.
    Hub,
    /// Wheels of a Python package registry.
    Pip,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::Local => "local",
            Source::Cache => "cache",
            Source::Hub => "hub",
            Source::Pip => "pip",
        })
    }
}

impl Source {
    fn in_words(self) -> &'static str {
        match self {
            Source::Local => "the path given",
            Source::Cache => "the hub's cache",
            Source::Hub => "the hub",
            Source::Pip => "Python packages",
        }
    }
}

/// What to fetch, and how.
pub struct Request<'a> {
    /// The catalogue entry.
    pub model: &'a Model,
    /// Where models are kept.
    pub places: &'a Places,
    /// A local file or folder with the model's files; then no other source is tried.
    pub from: Option<&'a Path>,
    /// Try this source alone.
    pub only: Option<Source>,
    /// Fetch again even what is there.
    pub force: bool,
    /// The pip program; none: whichever is found.
    pub pip: Option<&'a Path>,
}

/// The end of a successful fetch.
#[derive(Debug)]
pub struct Fetched {
    /// The model's folder.
    pub folder: PathBuf,
    /// What lies in it.
    pub manifest: Manifest,
    /// Whether it had been there before and nothing was done.
    pub was_there: bool,
}

/// Brings a model into its folder. Complete and checked files stay when a fetch is interrupted
/// and are not fetched again. Two fetches of one model at once: the second waits.
///
/// # Errors
/// [`Error::NoSource`] with what each source said, or the one source's own error if `only` or
/// `from` named one. [`Error::Write`] at once: no other source can help.
pub fn fetch(request: &Request, progress: &mut dyn Progress) -> Result<Fetched, Error> {
    let folder = request.places.model_dir(&request.model.name);
    // Before the lock, so that a model on a read-only disk is found as well.
    if let Some(fetched) = already_there(request, &folder)? {
        return Ok(fetched);
    }
    let models = request.places.models_dir();
    fs::create_dir_all(&models).map_err(Error::write(&models))?;
    let _lock = lock(&models, &request.model.name, progress)?;
    if let Some(fetched) = already_there(request, &folder)? {
        return Ok(fetched);
    }

    let mut job = Job::open(request, folder)?;
    let mut attempts = Vec::new();
    let mut sources = request.sources().into_iter().peekable();
    while let Some(source) = sources.next() {
        let outcome = job.run(source, progress);
        progress.end();
        match outcome {
            Ok(()) => return job.close(source),
            Err(error) if error.is_ours() => return Err(error),
            Err(error) => {
                if let Some(next) = sources.peek() {
                    progress.note(&format!(
                        "{source}: {}; trying {} next",
                        chain(&error),
                        next.in_words()
                    ));
                }
                attempts.push(Attempt { source, error });
            }
        }
    }
    match (attempts.pop(), attempts.is_empty()) {
        (Some(only), true) => Err(only.error),
        (last, _) => {
            attempts.extend(last);
            Err(Error::NoSource {
                name: request.model.name.clone(),
                attempts,
            })
        }
    }
}

impl Request<'_> {
    fn sources(&self) -> Vec<Source> {
        match (self.from, self.only) {
            (Some(_), _) => vec![Source::Local],
            (None, Some(source)) => vec![source],
            (None, None) => vec![Source::Cache, Source::Hub, Source::Pip],
        }
    }
}

fn already_there(request: &Request, folder: &Path) -> Result<Option<Fetched>, Error> {
    if request.force {
        return Ok(None);
    }
    let manifest = Manifest::read(folder)?;
    let manifest = manifest.filter(|manifest| manifest.agrees(folder, request.model));
    let folder = folder.to_owned();
    Ok(manifest.map(|manifest| Fetched {
        folder,
        manifest,
        was_there: true,
    }))
}

/// Held until dropped; the system releases it when the process dies.
fn lock(models: &Path, name: &str, progress: &mut dyn Progress) -> Result<File, Error> {
    let path = models.join(format!(".{name}.lock"));
    let file = File::create(&path).map_err(Error::write(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            progress.note(&format!(
                "another fetch of `{name}` is under way; waiting for it"
            ));
            file.lock().map_err(Error::write(&path))?;
            Ok(file)
        }
        Err(TryLockError::Error(source)) => Err(Error::Write { path, source }),
    }
}

fn remove_if_there(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(Error::write(path)(error))
        }
        _ => Ok(()),
    }
}

/// One fetch under its lock.
pub(crate) struct Job<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) model: &'a Model,
    /// The model's final folder.
    folder: PathBuf,
    /// What is not finished lies beside the final folder, on the same disk.
    pub(crate) partial: PathBuf,
    /// Files already in the final folder, checked.
    done: Vec<ManifestFile>,
}

impl<'a> Job<'a> {
    fn open(request: &'a Request<'a>, folder: PathBuf) -> Result<Self, Error> {
        let name = &request.model.name;
        let partial = request.places.models_dir().join(format!("{name}.partial"));
        fs::create_dir_all(&partial).map_err(Error::write(&partial))?;
        let mut job = Self {
            request,
            model: request.model,
            folder,
            partial,
            done: Vec::new(),
        };
        if request.force {
            // First of all, so that an interrupted `--force` is not taken for a complete model.
            remove_if_there(&job.folder.join(manifest::FILE_NAME))?;
            remove_if_there(&job.done_path())?;
            return Ok(job);
        }
        job.done = match Manifest::read(&job.folder)? {
            Some(manifest) => manifest.files,
            // A torn list only costs fetching those files again.
            None => fs::read(job.done_path())
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default(),
        };
        job.done.retain(|file| file.has_its_size(&job.folder));
        Ok(job)
    }

    fn done_path(&self) -> PathBuf {
        self.partial.join("done.json")
    }

    fn run(&mut self, source: Source, progress: &mut dyn Progress) -> Result<(), Error> {
        match source {
            Source::Local => local::fetch(self, progress),
            Source::Cache => cache::fetch(self, progress),
            Source::Hub => hub::fetch(self, progress),
            Source::Pip => pip::fetch(self, progress),
        }
    }

    /// The catalogue's files, or those of the source's own list that a model or data set needs.
    pub(crate) fn wanted(&self, listed: Vec<String>) -> Result<Vec<ModelFile>, Error> {
        if !self.model.files.is_empty() {
            return Ok(self.model.files.clone());
        }
        let mut wanted = Vec::new();
        for path in listed {
            if !is_inside(&path) {
                return Err(Error::UnsafePath { path });
            }
            let extension = path.rsplit_once('.').map(|(_, extension)| extension);
            if extension.is_some_and(|extension| USEFUL.contains(&extension)) {
                wanted.push(ModelFile {
                    path,
                    bytes: None,
                    sha256: None,
                });
            }
        }
        match wanted.is_empty() {
            true => Err(Error::Unavailable {
                reason: "no usable file is listed".to_owned(),
            }),
            false => Ok(wanted),
        }
    }

    /// Whether this file is in the final folder already, checked by an earlier run.
    pub(crate) fn has(&self, wanted: &ModelFile) -> bool {
        self.done.iter().any(|done| {
            done.path == wanted.path
                && wanted
                    .sha256
                    .as_ref()
                    .is_none_or(|hash| *hash == done.sha256)
        })
    }

    /// Starts a file under a temporary name.
    pub(crate) fn intake(&self, wanted: &ModelFile) -> Result<Intake, Error> {
        Intake::create(self.partial.join("incoming").join(&wanted.path))
    }

    /// Checks a complete intake and puts it into the final folder.
    pub(crate) fn accept(&mut self, intake: Intake, wanted: &ModelFile) -> Result<(), Error> {
        let record = intake.finish(wanted, &self.folder.join(&wanted.path))?;
        self.record(record)
    }

    /// As [`Job::accept`] for a file that lies complete in the partial folder.
    pub(crate) fn adopt(
        &mut self,
        path: &Path,
        wanted: &ModelFile,
        progress: &mut dyn Progress,
    ) -> Result<(), Error> {
        let record = intake::adopt(path, wanted, &self.folder.join(&wanted.path), progress)?;
        self.record(record)
    }

    fn record(&mut self, record: ManifestFile) -> Result<(), Error> {
        self.done.retain(|done| done.path != record.path);
        self.done.push(record);
        write_json(&self.done_path(), &self.done)
    }

    fn close(self, source: Source) -> Result<Fetched, Error> {
        let manifest = Manifest {
            version: 1,
            name: self.model.name.clone(),
            licence: self.model.licence.clone(),
            source,
            files: self.done,
        };
        manifest.write(&self.folder)?;
        fs::remove_dir_all(&self.partial).map_err(Error::write(&self.partial))?;
        Ok(Fetched {
            folder: self.folder,
            manifest,
            was_there: false,
        })
    }
}

/// File name endings that a repository's own list is filtered by: weights in safe formats,
/// settings, tokenizers, chat templates, data.
const USEFUL: [&str; 8] = [
    "safetensors",
    "gguf",
    "json",
    "jsonl",
    "jinja",
    "txt",
    "parquet",
    "model",
];
