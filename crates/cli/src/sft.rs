//! `memtrain sft`: fine-tunes a LoRA adapter after a recipe.

use std::fs::{File, TryLockError};
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use mem_model::generate;
use mem_model::matrix::Compute;
use mem_train::base::{self, Base};
use mem_train::config::Recipe;
use mem_train::examples::{Example, Examples};
use mem_train::sft::{self, Event};

use crate::device::{Device, MachineArgs};
use crate::interrupt;
use crate::memory::{self, give_back_when_freed, peak_bytes};
use crate::models::{model_name, resolve_model};
use crate::say::count;
use crate::{say, unless_reader_left};

/// The arguments of `memtrain sft`.
#[derive(Args)]
pub struct Arguments {
    /// Recipe in TOML; `training/` has examples
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Replace a setting of the recipe, as in `train.steps=40`; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Write the outcome as a JSON object to standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command. Exit code 0: trained; 1: trained, but files of the data were skipped; 130: stopped by Ctrl-C.
///
/// # Errors
/// When the recipe, the model or the data cannot be used, or the run fails.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    // SAFETY: the command starts here, before any thread of its own.
    unsafe { arguments.machine.limit_threads() };
    give_back_when_freed();
    anyhow::ensure!(
        arguments.machine.compute_to_train() != Compute::Int8,
        "training needs gradients, which `--dtype int8` has none of: use `--dtype bf16` or `f32`, or leave it out"
    );
    let recipe = Recipe::load(&arguments.config, &arguments.settings)?;
    let path = resolve_model(&recipe.model)?;
    // Before the weights, which take longer: what is wrong with recipe, machine or data is said at once.
    let context = generate::sizes(&path)?.context_length;
    anyhow::ensure!(
        recipe.train.max_tokens <= context,
        "`train.max_tokens` is {}, the model's context holds {context}",
        recipe.train.max_tokens
    );
    if arguments.machine.device == Device::Cpu {
        memory::check(&path, 0)?;
    }
    let encoder = generate::load_encoder(&path)?;
    let examples = Examples::read(
        &recipe.data,
        &recipe.tuning(),
        &encoder,
        recipe.train.max_tokens,
    )?;
    examples
        .faults
        .iter()
        .for_each(|fault| say!("skipped: {}", mem_remote::chain(fault)));
    let _lock = lock(&recipe.output)?;
    let compute = arguments.machine.compute_to_train();
    let base = Base {
        name: model_name(&recipe.model, &path),
        weights: base::fingerprint(&path)?,
        compute,
    };
    let model = generate::load_model(&path, arguments.machine.kind(), compute)?;
    announce(&recipe, &path, &examples, model.weight_bytes());
    let interrupted = interrupt::listen();
    let mut progress = Progress::new(&recipe);
    let outcome = sft::run(model, &base, &recipe, &examples, interrupted, &mut |e| {
        progress.show(e)
    })?;
    progress.end();
    let Some(outcome) = outcome else {
        say!("stopped; the same command goes on from here");
        return Ok(ExitCode::from(130));
    };
    say!(
        "dev loss {:.4} before, {:.4} after",
        outcome.dev_loss_before,
        outcome.dev_loss_after
    );
    if let Some(bytes) = peak_bytes() {
        say!("peak memory {} MB", bytes / 1_000_000);
    }
    say!(
        "adapter in `{}`; use it with `memextract --adapter`",
        outcome.adapter.display()
    );
    if arguments.json {
        let written = writeln!(std::io::stdout(), "{}", serde_json::to_string(&outcome)?);
        unless_reader_left(written).context("cannot write the outcome to standard output")?;
    }
    Ok(if examples.faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// The arithmetic of the run, before anything is computed.
fn announce(recipe: &Recipe, path: &Path, examples: &Examples, weight_bytes: usize) {
    let tokens = |examples: &[Example]| examples.iter().map(|e| e.encoded.ids.len()).sum::<usize>();
    let supervised = |examples: &[Example]| {
        examples
            .iter()
            .map(|e| e.encoded.ids.len() - e.encoded.prompt_len)
            .sum::<usize>()
    };
    say!(
        "model {} ({} MB of weights)",
        path.display(),
        weight_bytes / 1_000_000
    );
    say!("seed {}", recipe.seed);
    for (name, part) in [("train", &examples.train), ("dev", &examples.dev)] {
        say!(
            "{name}: {}, {}, {} supervised",
            count(part.len(), "example"),
            count(tokens(part), "token"),
            supervised(part)
        );
    }
    if !examples.too_long.is_empty() {
        let longest = examples
            .too_long
            .iter()
            .map(|(_, tokens)| *tokens)
            .max()
            .unwrap_or(0);
        let left_out = count(examples.too_long.len(), "example");
        say!(
            "left out: {left_out} longer than {} tokens (longest {longest})",
            recipe.train.max_tokens
        );
    }
    if examples.labels_left_out > 0 {
        say!(
            "left out: {} beyond the reply's bounds",
            count(examples.labels_left_out, "label")
        );
    }
    let t = &recipe.train;
    let seen = t.steps * t.batch_examples;
    let epochs = seen as f64 / examples.train.len() as f64;
    say!(
        "{} of {}: {}, {epochs:.2} epochs",
        count(t.steps, "step"),
        count(t.batch_examples, "example"),
        count(seen, "example")
    );
}

/// Keeps another `memtrain` out of the run folder for as long as the file is open: two runs would take each other's
/// checkpoints for their own.
fn lock(folder: &Path) -> Result<File> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create `{}`", folder.display()))?;
    let path = folder.join(".lock");
    let file = File::create(&path).with_context(|| format!("cannot write `{}`", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "`{}` is in use by another run; wait for it to end, or choose another `output`",
            folder.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock `{}`", path.display()))
        }
    }
}

/// A bar on a terminal, a line a step elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    steps: usize,
    tokens: usize,
    seconds: f64,
}

impl Progress {
    fn new(recipe: &Recipe) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(recipe.train.steps as u64);
            if let Ok(style) = ProgressStyle::with_template("{wide_bar} step {pos}/{len}  {msg}") {
                bar.set_style(style);
            }
            bar.set_message("measuring dev");
            bar.enable_steady_tick(Duration::from_millis(500));
            bar
        });
        Self {
            bar,
            steps: 0,
            tokens: 0,
            seconds: 0.0,
        }
    }

    fn show(&mut self, event: &Event) {
        match event {
            Event::Step {
                step,
                steps,
                loss,
                rate,
                tokens,
                seconds,
                ..
            } => {
                self.steps += 1;
                self.tokens += tokens;
                self.seconds += seconds;
                let speed = self.tokens as f64 / self.seconds;
                let left = (steps - step) as f64 * self.seconds / self.steps as f64;
                let left = Duration::try_from_secs_f64(left).unwrap_or(Duration::MAX);
                let left = indicatif::HumanDuration(left);
                let state =
                    format!("loss {loss:.4}, rate {rate:.2e}, {speed:.0} tokens/s, {left} left");
                match &self.bar {
                    Some(bar) => {
                        bar.set_position(*step as u64);
                        bar.set_message(state);
                    }
                    None => say!("step {step}/{steps}: {state}"),
                }
            }
            Event::Eval {
                step,
                loss,
                examples,
                seconds,
                ..
            } => {
                self.line(&format!(
                    "dev loss after {}: {loss:.4} ({}, {seconds:.0} s)",
                    count(*step, "step"),
                    count(*examples, "example")
                ));
            }
            Event::Saved { step } => {
                self.line(&format!("checkpoint after {}", count(*step, "step")))
            }
        }
    }

    fn line(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{line}")),
            None => say!("{line}"),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
