//! The hub, through hf-hub. Downloads go to a hub cache inside the job's partial folder, where
//! hf-hub itself resumes them, and are moved out when complete.
//!
//! hf-hub sets no time limits. Each call therefore runs in a thread of its own that reports what
//! arrives; when it falls silent it is left behind, and the process takes it along at its end.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError};
use hf_hub::{Cache, Repo};

use super::cache::repo;
use super::with_blob_hash;
use crate::fetch::Job;
use crate::{Error, Progress};

/// Until the hub's first answer: a network that reaches no hub should cost seconds.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Between two pieces of a file, generous for a bad line.
const STALL_LIMIT: Duration = Duration::from_secs(60);
/// How often a broken download is taken up again within one run.
const TRIES: u32 = 5;

/// Downloads the model's files.
pub(crate) fn fetch(job: &mut Job, progress: &mut dyn Progress) -> Result<(), Error> {
    let unavailable = |reason: &str| {
        Err(Error::Unavailable {
            reason: reason.to_owned(),
        })
    };
    let Some(hub) = &job.model.hub else {
        return unavailable("the hub does not have this model");
    };
    if job.request.places.hub_offline {
        return unavailable("the hub is switched off by `HF_HUB_OFFLINE`");
    }
    let remote = Remote::open(job, repo(hub))?;
    let listed = if job.model.files.is_empty() {
        remote.list()?
    } else {
        Vec::new()
    };
    for file in job.wanted(listed)? {
        if job.has(&file) {
            continue;
        }
        let pointer = remote.download(&file.path, progress)?;
        let file = with_blob_hash(&file, &pointer);
        let blob = fs::canonicalize(&pointer).map_err(Error::read(&pointer))?;
        progress.begin(
            &format!("check {}", file.path),
            fs::metadata(&blob).ok().map(|m| m.len()),
        );
        job.adopt(&blob, &file, progress)?;
        progress.end();
    }
    Ok(())
}

struct Remote {
    api: Api,
    repo: Repo,
    endpoint: String,
    cache: PathBuf,
}

enum Event<T> {
    Began(u64),
    Arrived(u64),
    Ended(Result<T, ApiError>),
}

impl Remote {
    fn open(job: &Job, repo: Repo) -> Result<Self, Error> {
        let places = job.request.places;
        let cache = job.partial.join("hub");
        let endpoint = places.hub_endpoint.clone();
        let api = ApiBuilder::from_cache(Cache::new(cache.clone()))
            .with_endpoint(endpoint.clone())
            .with_token(places.hub_token.clone())
            .with_user_agent("memloom", env!("CARGO_PKG_VERSION"))
            .build();
        match api {
            Ok(api) => Ok(Self {
                api,
                repo,
                endpoint,
                cache,
            }),
            Err(source) => Err(Error::Hub {
                what: repo.url(),
                endpoint,
                source: Box::new(source),
            }),
        }
    }

    /// The repository's files.
    fn list(&self) -> Result<Vec<String>, Error> {
        let handle = self.api.repo(self.repo.clone());
        let mut quiet = crate::Quiet;
        let what = self.repo.url();
        let info = self.watch(&what, &mut quiet, move |_| handle.info())?;
        Ok(info
            .siblings
            .into_iter()
            .map(|sibling| sibling.rfilename)
            .collect())
    }

    /// Downloads one file into the job's own cache; the path returned is a link to the blob.
    fn download(&self, path: &str, progress: &mut dyn Progress) -> Result<PathBuf, Error> {
        let what = format!("{}/{path}", self.repo.url());
        let mut tries = 0;
        loop {
            tries += 1;
            let handle = self.api.repo(self.repo.clone());
            let name = path.to_owned();
            let mut counted = Counted {
                inner: progress,
                path,
                arrived: 0,
                expected: None,
            };
            let outcome = self.watch(&what, &mut counted, move |events| {
                handle.download_with_progress(&name, Reporter { events })
            });
            let Counted {
                arrived, expected, ..
            } = counted;
            progress.end();
            let stuck = expected.is_some_and(|bytes| drop_full_parts(&self.cache, bytes));
            match outcome {
                Err(error @ Error::Hub { .. }) if tries < TRIES && (arrived > 0 || stuck) => {
                    progress.note(&format!(
                        "hub: {}; taking it up again",
                        crate::chain(&error)
                    ));
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs a call of hf-hub in its own thread and gives up when it falls silent.
    fn watch<T: Send + 'static>(
        &self,
        what: &str,
        progress: &mut dyn Progress,
        call: impl FnOnce(Sender<Event<T>>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, Error> {
        let (events, incoming) = mpsc::channel();
        thread::spawn(move || {
            let outcome = call(events.clone());
            // The receiver is gone if we gave up meanwhile.
            let _ = events.send(Event::Ended(outcome));
        });
        let mut limit = CONNECT_LIMIT;
        loop {
            match incoming.recv_timeout(limit) {
                Ok(Event::Began(bytes)) => progress.begin("", Some(bytes)),
                Ok(Event::Arrived(bytes)) => progress.advance(bytes),
                Ok(Event::Ended(Ok(value))) => return Ok(value),
                Ok(Event::Ended(Err(ApiError::IoError(source))))
                    if source.kind() == ErrorKind::StorageFull =>
                {
                    return Err(Error::write(&self.cache)(source));
                }
                Ok(Event::Ended(Err(source))) => {
                    let (what, endpoint) = (what.to_owned(), self.endpoint.clone());
                    return Err(Error::Hub {
                        what,
                        endpoint,
                        source: Box::new(source),
                    });
                }
                // Disconnected: hf-hub panicked, which is as good as silence.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Error::HubSilent {
                        what: what.to_owned(),
                        endpoint: self.endpoint.clone(),
                        secs: limit.as_secs(),
                    });
                }
            }
            limit = STALL_LIMIT;
        }
    }
}

/// Carries hf-hub's progress out of its thread.
struct Reporter<T> {
    events: Sender<Event<T>>,
}

impl<T> hf_hub::api::Progress for Reporter<T> {
    fn init(&mut self, size: usize, _filename: &str) {
        let _ = self.events.send(Event::Began(size as u64));
    }
    fn update(&mut self, size: usize) {
        let _ = self.events.send(Event::Arrived(size as u64));
    }
    fn finish(&mut self) {}
}

/// Names the file and remembers what came of it, to tell a broken line from a refusal.
struct Counted<'a> {
    inner: &'a mut dyn Progress,
    path: &'a str,
    arrived: u64,
    expected: Option<u64>,
}

impl Progress for Counted<'_> {
    fn begin(&mut self, _what: &str, total_bytes: Option<u64>) {
        // hf-hub announces a file twice: before it asks for it, and when it starts to come.
        if self.expected.is_none() {
            self.inner.begin(self.path, total_bytes);
        }
        self.expected = total_bytes;
    }
    fn advance(&mut self, bytes: u64) {
        self.arrived += bytes;
        self.inner.advance(bytes);
    }
}

/// hf-hub cannot finish a download that was killed between its last byte and its renaming: it
/// asks for the bytes after the end and is refused. Such a part is deleted; true if there was one.
fn drop_full_parts(cache: &Path, bytes: u64) -> bool {
    let Ok(parts) = super::list(cache) else {
        return false;
    };
    let mut dropped = false;
    for part in parts.iter().filter(|path| path.ends_with(".part")) {
        let path = cache.join(part);
        if fs::metadata(&path).is_ok_and(|meta| meta.len() >= bytes) {
            dropped |= fs::remove_file(&path).is_ok();
        }
    }
    dropped
}
