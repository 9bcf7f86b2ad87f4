//! Recipes: everything that decides a fine-tune, in one TOML file with closed keys.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use mem_model::adapter::AdapterConfig;
use mem_model::qwen::Projection;
use mem_schema::tuning::{Instruction, Tuning};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A recipe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Base model: a name of the catalogue, a folder or a `.gguf` file.
    pub model: String,
    /// Scenario files, or folders that hold them (searched in full).
    pub data: Vec<PathBuf>,
    /// Run folder: metrics, checkpoint and the finished adapter go there.
    pub output: PathBuf,
    /// Seed of every random choice.
    pub seed: u64,
    /// How transcripts are cut.
    #[serde(default)]
    pub window: WindowSettings,
    /// The adapter.
    #[serde(default)]
    pub lora: LoraSettings,
    /// The optimisation.
    pub train: TrainSettings,
}

/// How transcripts are cut and introduced; goes into the adapter folder, so that extraction does the same.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WindowSettings {
    /// Messages in a window.
    pub size: usize,
    /// Messages repeated from the window before.
    pub overlap: usize,
    /// Whether image captions are shown.
    pub captions: bool,
    /// Which instruction the prompt begins with.
    pub instruction: Instruction,
}

impl Default for WindowSettings {
    fn default() -> Self {
        Self {
            size: 10,
            overlap: 2,
            captions: true,
            instruction: Instruction::Short,
        }
    }
}

/// The adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoraSettings {
    /// Rank.
    pub r: usize,
    /// Scale numerator: the update is scaled by `alpha / r`.
    pub alpha: f64,
    /// Scale by `alpha / sqrt(r)` instead.
    pub rslora: bool,
    /// Layers that carry a pair: `q_proj` and so on.
    pub targets: Vec<String>,
}

impl Default for LoraSettings {
    fn default() -> Self {
        let targets = Projection::ALL
            .iter()
            .map(|p| p.name().to_owned())
            .collect();
        Self {
            r: 16,
            alpha: 32.0,
            rslora: false,
            targets,
        }
    }
}

/// The optimisation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainSettings {
    /// Optimiser steps in all.
    pub steps: usize,
    /// Examples to one step.
    pub batch_examples: usize,
    /// Tokens computed at once; an example longer than this is left out and counted.
    #[serde(default = "max_tokens")]
    pub max_tokens: usize,
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Steps of linear rise to it.
    #[serde(default)]
    pub warmup_steps: usize,
    /// The cosine falls to this share of the peak.
    #[serde(default)]
    pub min_rate_share: f64,
    /// Decoupled weight decay.
    #[serde(default)]
    pub weight_decay: f64,
    /// Gradients are scaled down to this global norm; `inf` leaves them as they are.
    #[serde(default = "clip")]
    pub clip_norm: f64,
    /// Dev examples of one evaluation; 0 takes all.
    #[serde(default)]
    pub eval_examples: usize,
    /// Steps between evaluations on dev; 0 evaluates only before and after.
    #[serde(default)]
    pub eval_every: usize,
    /// Steps between checkpoints; 0 writes one at the end only.
    #[serde(default)]
    pub checkpoint_every: usize,
}

fn max_tokens() -> usize {
    1024
}

fn clip() -> f64 {
    1.0
}

impl Recipe {
    /// Reads a recipe and applies `key=value` settings over it (`train.steps=8`; the value is TOML, or
    /// plain text where it is not).
    ///
    /// # Errors
    /// When the file cannot be read, a key is unknown or missing, or a value is out of range.
    pub fn load(path: &Path, settings: &[String]) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let recipe = |source| Error::Recipe {
            path: path.to_owned(),
            source: Box::new(source),
        };
        if settings.is_empty() {
            return toml::from_str::<Self>(&text).map_err(recipe)?.checked();
        }
        let table: toml::Table = toml::from_str(&text).map_err(recipe)?;
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let problem = match merged(&table, &settings)? {
            Ok(merged) => return merged.checked(),
            Err(problem) => problem,
        };
        if let Some(given) = culprit(&table, &settings, &problem)? {
            return Err(Error::Set { given, problem });
        }
        // Parsed from the text, the fault is shown with its line.
        toml::from_str::<Self>(&text).map_err(recipe)?;
        let given = settings.join(" --set ");
        Err(Error::Set { given, problem })
    }

    fn checked(self) -> Result<Self> {
        let range = "a list of scenario files and folders";
        bound(!self.data.is_empty(), "data", &"empty", range)?;
        let named = !self.output.as_os_str().is_empty();
        bound(named, "output", &"empty", "the path of a folder")?;
        self.train.check()?;
        self.lora.check()?;
        let WindowSettings { size, overlap, .. } = self.window;
        bound(size > 0, "window.size", &size, "1 or more")?;
        let range = "less than `window.size`";
        bound(overlap < size, "window.overlap", &overlap, range)?;
        Ok(self)
    }

    /// The settings as they stand in a recipe's file.
    ///
    /// # Errors
    /// When a value has no form in TOML.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|source| Error::Settings { source })
    }

    /// The adapter of this recipe, to be trained on the model called `base_model`.
    pub fn adapter(&self, base_model: &str) -> AdapterConfig {
        let mut targets: Vec<Projection> = self
            .lora
            .targets
            .iter()
            .filter_map(|n| projection(n))
            .collect();
        targets.sort_by_key(|&p| p as usize);
        targets.dedup();
        AdapterConfig {
            r: self.lora.r,
            alpha: self.lora.alpha,
            rslora: self.lora.rslora,
            targets,
            base_model: base_model.to_owned(),
        }
    }

    /// What the adapter is tuned with.
    pub fn tuning(&self) -> Tuning {
        Tuning {
            prompt_version: mem_schema::prompt::PROMPT_VERSION,
            instruction: self.window.instruction,
            window: self.window.size,
            overlap: self.window.overlap,
            captions: self.window.captions,
        }
    }
}

impl TrainSettings {
    fn check(&self) -> Result<()> {
        let (steps, batch) = (self.steps, self.batch_examples);
        let most = 10_000_000;
        let range = "between 1 and 10000000";
        bound((1..=most).contains(&steps), "train.steps", &steps, range)?;
        let range = "between 1 and 65536";
        let holds = (1..=65_536).contains(&batch);
        bound(holds, "train.batch_examples", &batch, range)?;
        let rate = self.learning_rate;
        let holds = rate > 0.0 && rate.is_finite();
        bound(holds, "train.learning_rate", &rate, "a number above 0")?;
        let norm = self.clip_norm;
        bound(norm > 0.0, "train.clip_norm", &norm, "above 0")?;
        let decay = self.weight_decay;
        // A step takes that share off every weight; more than all of it turns signs.
        let holds = decay >= 0.0 && decay * rate <= 1.0;
        let range = "0 or a number above, and at most 1 / `train.learning_rate`";
        bound(holds, "train.weight_decay", &decay, range)?;
        let share = self.min_rate_share;
        let holds = (0.0..=1.0).contains(&share);
        bound(holds, "train.min_rate_share", &share, "between 0 and 1")
    }
}

impl LoraSettings {
    fn check(&self) -> Result<()> {
        let range = "between 1 and 1024";
        bound((1..=1024).contains(&self.r), "lora.r", &self.r, range)?;
        let holds = self.alpha > 0.0 && self.alpha.is_finite();
        bound(holds, "lora.alpha", &self.alpha, "a number above 0")?;
        let range = "a list of layer names";
        bound(!self.targets.is_empty(), "lora.targets", &"empty", range)?;
        let range = "names such as `q_proj` or `down_proj`";
        self.targets
            .iter()
            .try_for_each(|name| bound(projection(name).is_some(), "lora.targets", name, range))
    }
}

/// An error that names the setting unless `holds`.
fn bound(holds: bool, key: &'static str, value: &dyn Display, range: &'static str) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::Setting {
        key,
        value: value.to_string(),
        range,
    })
}

fn projection(name: &str) -> Option<Projection> {
    Projection::ALL.into_iter().find(|p| p.name() == name)
}

/// The recipe in `table` with `settings` over it, or what keeps them from being one.
fn merged(table: &toml::Table, settings: &[&str]) -> Result<Result<Recipe, String>> {
    let mut table = table.clone();
    for given in settings {
        apply(&mut table, given)?;
    }
    let recipe = toml::Value::Table(table).try_into::<Recipe>();
    Ok(recipe.map_err(|fault| fault.message().to_owned()))
}

/// The setting without which there would not be this `problem`.
fn culprit(table: &toml::Table, settings: &[&str], problem: &str) -> Result<Option<String>> {
    for (index, given) in settings.iter().enumerate() {
        let mut others = settings.to_vec();
        others.remove(index);
        if !merged(table, &others)?.is_err_and(|other| other == problem) {
            return Ok(Some((*given).to_owned()));
        }
    }
    Ok(None)
}

fn apply(table: &mut toml::Table, given: &str) -> Result<()> {
    let fault = |problem: &str| Error::Set {
        given: given.to_owned(),
        problem: problem.to_owned(),
    };
    let (key, value) = given
        .split_once('=')
        .ok_or_else(|| fault("it needs the form `key=value`"))?;
    let value = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut t| t.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut at = table;
    let mut parts = key.trim().split('.').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            at.insert(part.to_owned(), value);
            return Ok(());
        }
        let next = at
            .entry(part)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = next
            .as_table_mut()
            .ok_or_else(|| fault(&format!("`{part}` is not a table")))?;
    }
    Ok(())
}
