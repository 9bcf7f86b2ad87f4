//! The training loop.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use candle_core::{Tensor, Var};
use mem_model::adapter::{self, AdapterConfig};
use mem_model::encode::Encoded;
use mem_model::qwen::Model;
use mem_schema::tuning::Tuning;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::base::Base;
use crate::checkpoint::{Checkpoint, OPTIMISER, State};
use crate::config::Recipe;
use crate::error::{Error, Result};
use crate::examples::{Example, Examples};
use crate::gradient::{Sums, accumulate, evaluate};
use crate::metrics::Metrics;
use crate::optimiser::{AdamW, AdamWSettings, Schedule, clip};

/// What a run reports while it goes; each is also a line of `metrics.jsonl`, except [`Event::Saved`].
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// An optimiser step.
    Step {
        /// Counted from 1.
        step: usize,
        /// Steps in all.
        steps: usize,
        /// Mean loss per supervised token before the step, nats.
        loss: f64,
        /// Learning rate.
        rate: f64,
        /// Global gradient norm before the clip.
        gradient_norm: f64,
        /// Tokens of the step.
        tokens: usize,
        /// Of them supervised.
        supervised_tokens: usize,
        /// Time that the step took.
        seconds: f64,
    },
    /// An evaluation on dev.
    Eval {
        /// Steps made before it.
        step: usize,
        /// Mean loss per supervised token, nats.
        loss: f64,
        /// Examples measured.
        examples: usize,
        /// Supervised tokens of them.
        supervised_tokens: usize,
        /// Time that it took.
        seconds: f64,
    },
    /// A checkpoint was written.
    Saved {
        /// Steps made.
        step: usize,
    },
}

/// How a run ended.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Dev loss before the first step.
    pub dev_loss_before: f64,
    /// Dev loss after the last.
    pub dev_loss_after: f64,
    /// The adapter's folder.
    pub adapter: PathBuf,
}

/// Name of the metrics file in a run folder.
pub const METRICS: &str = "metrics.jsonl";

/// Name of the file in a run folder that says what went in.
pub const INPUTS: &str = "inputs.json";

/// [`INPUTS`]
#[derive(Serialize)]
struct Inputs<'a> {
    base_model: &'a str,
    examples_sha256: &'a str,
}

/// Fine-tunes `model`, which is `base`. The recipe's output folder gets the settings
/// (`recipe.toml`) and [`INPUTS`] before the first step, [`METRICS`] and checkpoints during the run, and a PEFT adapter
/// folder `adapter` at its end. A checkpoint there is continued: the run ends with the same bytes as one that was never
/// interrupted.
///
/// Once `interrupted` is set the run ends after the step in work, which is saved, and returns `None`.
///
/// # Errors
/// When the output cannot be written, holds another run, the loss stops being a number, or the backend fails.
pub fn run(
    mut model: Model,
    base: &Base,
    recipe: &Recipe,
    examples: &Examples,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(&Event),
) -> Result<Option<Outcome>> {
    let settings = &recipe.train;
    let output = &recipe.output;
    std::fs::create_dir_all(output).map_err(|source| Error::Write {
        path: output.clone(),
        source,
    })?;
    let config = recipe.adapter(&base.name);
    let state = State {
        step: 0,
        recipe: identity(recipe, &base.name)?,
        data: examples.fingerprint(),
        weights: base.weights.clone(),
        compute: format!("{:?}", base.compute).to_lowercase(),
        device: match model.device().is_cpu() {
            true => "cpu",
            false => "cuda",
        }
        .to_owned(),
        dev_loss_before: f64::NAN,
        dev_loss: f64::NAN,
    };
    let resumed = Checkpoint::load(output, model.device())?;
    if let Some(checkpoint) = &resumed {
        check_same_run(output, &checkpoint.state, &state)?;
    }
    adapter::write_beside(&output.join("recipe.toml"), recipe.to_toml()?.as_bytes())?;
    let inputs = Inputs {
        base_model: &base.name,
        examples_sha256: &state.data,
    };
    write_json(&output.join(INPUTS), &inputs)?;
    let mut rng = ChaCha8Rng::seed_from_u64(recipe.seed);
    let tensors = match &resumed {
        Some(checkpoint) => checkpoint.adapter.clone(),
        None => adapter::initial(&config, &model, &mut rng)?,
    };
    let vars = attach_trainable(&mut model, &config, &tensors)?;
    let mut optimiser = AdamW::new(AdamWSettings::with_decay(settings.weight_decay), &vars)?;
    let start = resumed.as_ref().map_or(0, |c| c.state.step);
    let dev_losses = resumed
        .as_ref()
        .map(|c| (c.state.dev_loss_before, c.state.dev_loss));
    if let Some(checkpoint) = resumed
        && !optimiser.restore(start, checkpoint.optimiser)
    {
        return Err(Error::Checkpoint {
            path: output.join("checkpoint").join(OPTIMISER),
            source: "its tensors do not fit the adapter".into(),
        });
    }
    let mut metrics = Metrics::open(output, start, dev_losses)?;
    let dev = spread(&examples.dev, settings.eval_examples);
    let schedule = Schedule {
        peak: settings.learning_rate,
        warmup: settings.warmup_steps,
        steps: settings.steps,
        min_share: settings.min_rate_share,
    };
    if start == 0 {
        metrics.record(&measure(&model, &dev, settings.max_tokens, 0)?, observe)?;
    }
    if start < settings.steps && interrupted.load(Ordering::Relaxed) {
        return Ok(None);
    }
    for step in start + 1..=settings.steps {
        let batch = batch(&examples.train, recipe.seed, step, settings.batch_examples);
        let event = train_step(&model, &vars, &mut optimiser, &batch, recipe, &schedule)?;
        metrics.record(&event, observe)?;
        let last = step == settings.steps;
        if last || due(step, settings.eval_every) {
            metrics.record(&measure(&model, &dev, settings.max_tokens, step)?, observe)?;
        }
        let stop = !last && interrupted.load(Ordering::Relaxed);
        if last || stop || due(step, settings.checkpoint_every) {
            let adapter = detached(&vars);
            let (dev_loss_before, dev_loss) = metrics.dev_losses;
            let state = State {
                step,
                dev_loss_before,
                dev_loss,
                ..state.clone()
            };
            Checkpoint {
                state,
                adapter,
                optimiser: optimiser.state(),
            }
            .save(output)?;
            observe(&Event::Saved { step });
        }
        if stop {
            return Ok(None);
        }
    }
    let folder = output.join("adapter");
    save_adapter(&folder, &config, &recipe.tuning(), &detached(&vars))?;
    let (dev_loss_before, dev_loss_after) = metrics.dev_losses;
    Ok(Some(Outcome {
        dev_loss_before,
        dev_loss_after,
        adapter: folder,
    }))
}

/// Gives the model an adapter of variables that start as `tensors`.
///
/// # Errors
/// When the tensors do not fit the model.
pub fn attach_trainable(
    model: &mut Model,
    config: &AdapterConfig,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<BTreeMap<String, Var>> {
    let vars: BTreeMap<String, Var> = tensors
        .iter()
        .map(|(name, t)| Ok((name.clone(), Var::from_tensor(t)?)))
        .collect::<Result<_>>()?;
    let tracked = vars
        .iter()
        .map(|(name, var)| (name.clone(), var.as_tensor().clone()))
        .collect();
    adapter::attach(model, config, &tracked)?;
    Ok(vars)
}

fn due(step: usize, every: usize) -> bool {
    every > 0 && step.is_multiple_of(every)
}

fn detached(vars: &BTreeMap<String, Var>) -> BTreeMap<String, Tensor> {
    vars.iter()
        .map(|(name, var)| (name.clone(), var.as_detached_tensor()))
        .collect()
}

/// One optimiser step: gradients are summed over all examples and divided once by their supervised tokens.
fn train_step(
    model: &Model,
    vars: &BTreeMap<String, Var>,
    optimiser: &mut AdamW,
    batch: &[&Encoded],
    recipe: &Recipe,
    schedule: &Schedule,
) -> Result<Event> {
    let started = Instant::now();
    let step = optimiser.steps() + 1;
    let mut sums = Sums::default();
    for part in packs(batch, recipe.train.max_tokens) {
        accumulate(model, vars, part, &mut sums)?;
    }
    let count = sums.supervised_tokens.max(1) as f64;
    let loss = finite(LOSS, sums.loss / count, step)?;
    if let Some(name) = vars.keys().find(|name| !sums.gradients.contains_key(*name)) {
        return Err(Error::NoGradient(name.clone()));
    }
    for gradient in sums.gradients.values_mut() {
        *gradient = (&*gradient / count)?;
    }
    // Checked before the step, which would carry it into the adapter and the next checkpoint.
    let norm = clip(&mut sums.gradients, recipe.train.clip_norm)?;
    let gradient_norm = finite("gradient norm", norm, step)?;
    let rate = schedule.rate(step);
    optimiser.step(vars, &sums.gradients, rate)?;
    Ok(Event::Step {
        step,
        steps: recipe.train.steps,
        loss,
        rate,
        gradient_norm,
        tokens: sums.tokens,
        supervised_tokens: sums.supervised_tokens,
        seconds: started.elapsed().as_secs_f64(),
    })
}

fn measure(model: &Model, dev: &[&Encoded], max_tokens: usize, step: usize) -> Result<Event> {
    let started = Instant::now();
    let mut sums = Sums::default();
    for part in packs(dev, max_tokens) {
        evaluate(model, part, &mut sums)?;
    }
    let loss = sums.loss / sums.supervised_tokens.max(1) as f64;
    Ok(Event::Eval {
        step,
        loss: finite("dev loss", loss, step)?,
        examples: dev.len(),
        supervised_tokens: sums.supervised_tokens,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// What [`finite`] calls the loss of a step.
const LOSS: &str = "loss";

fn finite(what: &'static str, value: f64, step: usize) -> Result<f64> {
    if value.is_finite() {
        return Ok(value);
    }
    // Steps count from 1, and the loss of the first is taken before anything moves.
    let untrained = step == 0 || (step == 1 && what == LOSS);
    Err(match untrained {
        true => Error::DamagedModel { what, value },
        false => Error::Diverged { step, what, value },
    })
}

/// Consecutive examples of at most `max_tokens` together.
fn packs<'a, 'b>(
    examples: &'a [&'b Encoded],
    max_tokens: usize,
) -> impl Iterator<Item = &'a [&'b Encoded]> {
    let mut rest = examples;
    std::iter::from_fn(move || {
        let mut tokens = 0;
        let fitting = rest.iter().take_while(|e| {
            tokens += e.ids.len();
            tokens <= max_tokens
        });
        let count = fitting.count().max(1).min(rest.len());
        let (part, left) = rest.split_at(count);
        rest = left;
        (!part.is_empty()).then_some(part)
    })
}

/// The examples of a step. Each epoch has its own order, drawn from the seed alone, so that a resumed run
/// sees what an uninterrupted one would have seen.
fn batch(train: &[Example], seed: u64, step: usize, size: usize) -> Vec<&Encoded> {
    let order = |epoch: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(epoch as u64 + 1);
        let mut order: Vec<usize> = (0..train.len()).collect();
        order.shuffle(&mut rng);
        order
    };
    let first = (step - 1) * size;
    let mut epoch = first / train.len();
    let mut current = order(epoch);
    let wanted = (first..first + size).map(|position| {
        if position / train.len() != epoch {
            epoch = position / train.len();
            current = order(epoch);
        }
        &train[current[position % train.len()]].encoded
    });
    wanted.collect()
}

/// `count` examples spread evenly over all of them; 0 takes all.
fn spread(examples: &[Example], count: usize) -> Vec<&Encoded> {
    let count = if count == 0 {
        examples.len()
    } else {
        count.min(examples.len())
    };
    (0..count)
        .map(|i| &examples[i * examples.len() / count].encoded)
        .collect()
}

/// What must be equal for a checkpoint to be continued.
fn identity(recipe: &Recipe, base_model: &str) -> Result<String> {
    let mut recipe = recipe.clone();
    recipe.model = base_model.to_owned();
    recipe.data.clear();
    recipe.output = PathBuf::new();
    recipe.train.checkpoint_every = 0;
    recipe.train.eval_every = 0;
    recipe.to_toml()
}

fn check_same_run(output: &Path, found: &State, expected: &State) -> Result<()> {
    let mut differences = Vec::new();
    if found.weights != expected.weights {
        differences.push("the model's weights are others".to_owned());
    }
    for (flag, was, is) in [
        ("--dtype", &found.compute, &expected.compute),
        ("--device", &found.device, &expected.device),
    ] {
        if was != is {
            differences.push(format!("`{flag} {was}` is now `{flag} {is}`"));
        }
    }
    if found.data != expected.data {
        differences.push("its examples differ".to_owned());
    }
    let lines = found.recipe.lines().zip(expected.recipe.lines());
    let changed = lines
        .filter(|(a, b)| a != b)
        .map(|(a, b)| format!("`{a}` is now `{b}`"));
    differences.extend(changed);
    if found.recipe.lines().count() != expected.recipe.lines().count() {
        differences.push("its recipe has other settings".to_owned());
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::OtherRun {
        path: output.join("checkpoint"),
        difference: differences.join(", "),
    })
}

fn save_adapter(
    folder: &Path,
    config: &AdapterConfig,
    tuning: &Tuning,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|source| Error::Write {
        path: folder.to_owned(),
        source,
    })?;
    write_json(&folder.join(Tuning::FILE), tuning)?;
    Ok(adapter::save(folder, config, tensors)?)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let json = serde_json::to_vec_pretty(value).map_err(|e| Error::Write {
        path: path.to_owned(),
        source: e.into(),
    })?;
    Ok(adapter::write_beside(path, &json)?)
}
