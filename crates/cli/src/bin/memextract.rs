//! memextract: transcripts in, records out.

#![warn(clippy::print_stderr, clippy::print_stdout)]

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Parser, Subcommand, value_parser};
use mem_cli::{
    begin,
    device::{Device, Dtype, MachineArgs},
    exit_code,
    extract::{
        self, Output, Problems, Summary,
        args::{DEFAULT_MODEL, InputArgs, OutputArgs},
    },
    interrupt, memory,
    models::{model_name, resolve_model},
    say, unless_reader_left, when,
};
use mem_model::adapter::read_config;
use mem_model::generate::{LoadOptions, LocalGenerator, load_encoder};
use mem_model::matrix::Compute;
use mem_model::weights::is_quantised;
use mem_schema::generator::ChatMessage;

const AFTER_HELP: &str = "\
Sizes of windows, captions and instruction come from the flags, else from --preset, else from the
adapter, else from the preset `small`. One record a line, in input order.

Exit codes: 0 all done; 1 written, but inputs, lines, windows or ends of replies are missing; 2 nothing
was written; 130 interrupted. Where windows failed or the run was interrupted, the same command with
--resume does what is missing.";

/// Extract memory records from conversations with a local model
#[derive(Parser)]
#[command(
    name = "memextract",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = AFTER_HELP
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    machine: MachineArgs,
    /// Windows that are decoded together; the records do not depend on it
    /// [default: by cores and free memory, on a processor at most 16]
    #[arg(long, value_name = "COUNT", help_heading = "Machine", value_parser = value_parser!(u16).range(1..=MOST_ROWS))]
    rows: Option<u16>,
    /// Write the summary as JSON: to standard output, or to standard error where the records go there
    #[arg(long, help_heading = "Output")]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Show the windows and prompts that would be sent; with --model also their tokens
    #[command(mut_arg("model", |model| model.help(COUNTING_MODEL)))]
    Windows {
        #[command(flatten)]
        input: InputArgs,
        /// One JSON object a window
        #[arg(long)]
        json: bool,
    },
    /// Show the times that a text speaks of, resolved against when it was said
    When(when::Arguments),
}

/// What `--model` is for where nothing is generated.
const COUNTING_MODEL: &str = "Count the tokens of each prompt as this model does: a name of the catalogue, a model folder or a GGUF file";

/// More than a device gains by, and their caches still have a size that can be computed.
const MOST_ROWS: i64 = 1024;

fn main() -> ExitCode {
    begin();
    let arguments = Arguments::parse();
    // SAFETY: nothing else runs yet.
    unsafe { arguments.machine.limit_threads() };
    let outcome = match &arguments.command {
        Some(Command::Windows { input, json }) => show_windows(input, *json),
        Some(Command::When(arguments)) => arguments.text().and_then(|text| {
            when::run(arguments, &text, &mut io::stdout().lock())
                .map_err(extract::Error::Stdout)?;
            Ok(ExitCode::SUCCESS)
        }),
        None => extract(&arguments),
    };
    let (hint, reader_left) = match outcome
        .as_ref()
        .err()
        .and_then(|error| error.downcast_ref())
    {
        Some(extract::Error::Stdout(io)) => (None, io.kind() == io::ErrorKind::BrokenPipe),
        Some(error) => (error.hint(), false),
        None => (None, false),
    };
    if reader_left {
        return ExitCode::SUCCESS;
    }
    let code = exit_code(outcome);
    if let Some(hint) = hint {
        say!("hint: {hint}");
    }
    code
}

fn show_windows(input: &InputArgs, json: bool) -> anyhow::Result<ExitCode> {
    let encoder = input
        .model
        .as_deref()
        .map(|model| anyhow::Ok(load_encoder(&resolve_model(model)?)?))
        .transpose()?;
    let count = encoder.as_ref().map(|encoder| {
        move |messages: &[ChatMessage]| anyhow::Ok(encoder.encode_prompt(messages)?.len())
    });
    let count = count
        .as_ref()
        .map(|count| count as extract::CountTokens<'_>);
    let problems = extract::show(input, json, count, &mut io::stdout().lock())?;
    say_problems(&problems);
    for line in problems.left_out() {
        say!("{line}");
    }
    Ok(ExitCode::from(u8::from(problems.lose_something())))
}

fn extract(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut job = extract::prepare(&arguments.input, &arguments.output)?;
    say_problems(job.problems());
    let model = choose_model(&arguments.input)?;
    let (device, compute) = (arguments.machine.kind(), arguments.machine.compute());
    let model_state = extract::model_state(&model)?;
    job.begin(&format!("{model_state}, on {device:?} in {compute:?}"))?;
    let options = LoadOptions {
        model,
        adapter: arguments.input.adapter.clone(),
        device,
        compute,
        rows: arguments.rows.map(usize::from),
    };
    let load = || {
        if arguments.machine.device == Device::Cpu {
            memory::check(&options.model, options.rows.unwrap_or(1))?;
        }
        let generator = LocalGenerator::load(&options)?;
        warn_without_integers(arguments.machine, &options.model)?;
        Ok(generator)
    };
    let summary = job.run(load, interrupt::listen(), &mut io::stdout().lock())?;
    print_summary(&summary, arguments);
    Ok(ExitCode::from(summary.exit_code()))
}

/// Says what was wrong with the inputs, a line each.
fn say_problems(problems: &Problems) {
    for line in problems.to_string().lines() {
        say!("{line}");
    }
}

/// The model that was asked for, else the adapter's, else the default. An adapter on a model that it was not
/// trained on is allowed, since one model has many names, but seldom meant.
fn choose_model(input: &InputArgs) -> anyhow::Result<PathBuf> {
    let adapter = input.adapter.as_deref().map(read_config).transpose()?;
    let base = adapter
        .map(|a| a.base_model)
        .filter(|base| !base.is_empty());
    let name = input
        .model
        .as_deref()
        .or(base.as_deref())
        .unwrap_or(DEFAULT_MODEL);
    let mut path = resolve_model(name);
    if input.model.is_none() && base.is_some() {
        path = path.context("the adapter's model is not here; name it with `--model`");
    }
    let path = path?;
    let name = model_name(name, &path);
    if let Some(base) = base.filter(|base| *base != name) {
        say!("warning: the adapter was trained on `{base}`, the model is `{name}`");
    }
    Ok(path)
}

/// `--dtype int8` multiplies quantised weights in integers; a model that has none is computed in floats, which is seldom
/// what was meant.
fn warn_without_integers(machine: MachineArgs, model: &Path) -> anyhow::Result<()> {
    if machine.dtype != Some(Dtype::Int8) || machine.device != Device::Cpu {
        return Ok(());
    }
    if !is_quantised(model)? {
        let float = format!("{:?}", Compute::fastest_float()).to_lowercase();
        say!(
            "warning: `--dtype int8` needs a quantised GGUF, `{}` is none: it is computed in {float}",
            model.display()
        );
    }
    Ok(())
}

/// Says how the run went. The records are written by now: a summary that cannot be is no reason for another exit code.
fn print_summary(summary: &Summary, arguments: &Arguments) {
    let written = match serde_json::to_string_pretty(summary) {
        _ if !arguments.json => {
            say!("{summary}");
            Ok(())
        }
        Ok(json) if Output::parse(arguments.output.out.as_deref()) == Output::Stdout => {
            say!("{json}");
            Ok(())
        }
        Ok(json) => writeln!(io::stdout(), "{json}"),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = unless_reader_left(written) {
        say!("warning: cannot write the summary to standard output: {error}");
        say!("{summary}");
    }
}
