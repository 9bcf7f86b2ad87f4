//! From scenario files to tokenised examples of the extraction task.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use mem_model::encode::{ChatEncoder, Encoded};
use mem_schema::prompt::extraction_messages;
use mem_schema::scenario::{Scenario, Split};
use mem_schema::target::target_reply;
use mem_schema::tuning::Tuning;
use mem_schema::window::windows;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};

/// A window of a scenario with the reply that its labels ask for.
pub struct Example {
    /// `scenario#window`.
    pub id: String,
    /// Prompt and answer.
    pub encoded: Encoded,
}

/// All examples of some data.
#[derive(Default)]
pub struct Examples {
    /// To learn from.
    pub train: Vec<Example>,
    /// To measure on; no scenario of it is in `train`.
    pub dev: Vec<Example>,
    /// Scenario files read.
    pub scenarios: usize,
    /// Examples longer than the limit, with their length in tokens: left out.
    pub too_long: Vec<(String, usize)>,
    /// Labels that do not fit the reply's bounds: left out of their example.
    pub labels_left_out: usize,
    /// Files that were skipped.
    pub faults: Vec<Error>,
}

impl Examples {
    /// Reads every scenario under `data` and cuts it as `tuning` says. Examples of more than
    /// `max_tokens` are left out and counted; malformed files are skipped and listed.
    ///
    /// # Errors
    /// When a folder cannot be read, the tokenizer fails, or nothing is left to train or measure on.
    pub fn read(
        data: &[PathBuf],
        tuning: &Tuning,
        encoder: &ChatEncoder,
        max_tokens: usize,
    ) -> Result<Self> {
        let mut found = Found::default();
        for path in data {
            found.add(path)?;
        }
        found.files.sort();
        let mut examples = Self::default();
        let mut ids = HashSet::new();
        for path in found.files {
            match Scenario::from_path(&path) {
                Ok(scenario) => {
                    let id = scenario.transcript.id.clone();
                    if ids.insert(id.clone()) {
                        examples.add(&scenario, tuning, encoder, max_tokens)?;
                    } else {
                        examples.faults.push(Error::DuplicateScenario { path, id });
                    }
                }
                Err(fault) => examples.faults.push(fault.into()),
            }
        }
        let what = || {
            data.iter()
                .map(|p| format!("`{}`", p.display()))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let hint = |hint: &str| Error::NoExamples {
            what: what(),
            hint: hint.to_owned(),
        };
        if examples.train.is_empty() {
            return Err(hint(
                "name scenario files or folders with `.json` scenario files in `data`, or raise `train.max_tokens`",
            ));
        }
        if examples.dev.is_empty() {
            return Err(hint(
                "none of the scenarios falls into dev (about 15 % do, by a hash of the id); add more scenarios",
            ));
        }
        Ok(examples)
    }

    fn add(
        &mut self,
        scenario: &Scenario,
        tuning: &Tuning,
        encoder: &ChatEncoder,
        max_tokens: usize,
    ) -> Result<()> {
        self.scenarios += 1;
        for window in windows(&scenario.transcript, &tuning.segmentation()) {
            let target = target_reply(scenario, &window);
            self.labels_left_out += target.left_out;
            let messages = extraction_messages(&window, tuning.instruction);
            let encoded = encoder.encode_example(&messages, &target.text)?;
            let id = format!("{}#{}", window.transcript_id, window.index);
            if encoded.ids.len() > max_tokens {
                self.too_long.push((id, encoded.ids.len()));
                continue;
            }
            match scenario.split() {
                Split::Train => self.train.push(Example { id, encoded }),
                Split::Dev => self.dev.push(Example { id, encoded }),
            }
        }
        Ok(())
    }

    /// SHA-256 over ids and tokens of all examples: two runs with the same value see the same data.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for example in self.train.iter().chain(&self.dev) {
            hash.update(example.id.as_bytes());
            hash.update((example.encoded.prompt_len as u64).to_le_bytes());
            example
                .encoded
                .ids
                .iter()
                .for_each(|id| hash.update(id.to_le_bytes()));
        }
        hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// Files and folders of the data, each once under whatever names and links it is reached: an example that is there
/// twice is learnt twice, and a link to a folder above never ends.
#[derive(Default)]
struct Found {
    files: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
}

impl Found {
    /// A file as it is, or the `.json` files of a folder, searched in full. A link to nothing inside a folder stays in
    /// the list, to be skipped as unreadable.
    fn add(&mut self, path: &Path) -> Result<()> {
        let fault = |source| Error::Read {
            path: path.to_owned(),
            source,
        };
        if !self
            .seen
            .insert(std::fs::canonicalize(path).map_err(fault)?)
        {
            return Ok(());
        }
        if !path.is_dir() {
            self.files.push(path.to_owned());
            return Ok(());
        }
        let entries = std::fs::read_dir(path).map_err(fault)?;
        let mut entries: Vec<_> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(fault)?;
        // In order, so that of several names the same one counts on every machine.
        entries.sort();
        for entry in entries {
            let scenario = entry.extension().is_some_and(|e| e == "json");
            if entry.is_dir() || (scenario && entry.exists()) {
                self.add(&entry)?;
            } else if scenario {
                self.files.push(entry);
            }
        }
        Ok(())
    }
}
