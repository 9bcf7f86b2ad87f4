//! What was written on the command line. Checking it is the work of [`super::prepare`].

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use mem_schema::readers::Format;

use super::{Layout, Sessions};

/// Model that is used where none is named.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m";

/// Which conversations, and how they are shown to the model.
#[derive(Args, Debug, Clone)]
pub struct InputArgs {
    /// Transcripts: scenario files, LoCoMo, LongMemEval, chat messages (JSON, JSONL), plain text; `-` is standard input
    #[arg(value_name = "INPUT", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Format of all inputs, instead of telling by their contents: scenario, locomo, longmemeval, chat or plain
    #[arg(long, value_name = "FORMAT", help_heading = "Input")]
    pub format: Option<Format>,
    /// Only the transcript with this id; may be repeated
    #[arg(long, value_name = "ID", help_heading = "Input")]
    pub transcript: Vec<String>,
    /// Only these sessions of each transcript, by position from 1: `1-3`, `5`, `2-4,7-`
    #[arg(long, value_name = "RANGES", help_heading = "Input")]
    pub sessions: Option<Sessions>,
    /// Window sizes of a method, before what the adapter was tuned with
    #[arg(long, value_name = "NAME", help_heading = "Windows")]
    pub preset: Option<Preset>,
    /// Messages in a window, before `--preset`
    #[arg(long, value_name = "MESSAGES", help_heading = "Windows")]
    pub window: Option<usize>,
    /// Messages repeated from the window before, as context only
    #[arg(long, value_name = "MESSAGES", help_heading = "Windows")]
    pub overlap: Option<usize>,
    /// Whether the model is told what shared pictures show
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Windows"
    )]
    pub captions: Captions,
    /// How much the prompt explains; `auto`: as the adapter was tuned, else long
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = "auto",
        help_heading = "Windows"
    )]
    pub instruction: InstructionArg,
    /// Model: a name of the catalogue (see `memtrain models list`), a model folder or a GGUF file
    /// [default: the adapter's, else qwen2.5-coder-0.5b-instruct-q4_k_m]
    #[arg(long, value_name = "NAME|PATH", help_heading = "Model")]
    pub model: Option<String>,
    /// Adapter folder written by `memtrain sft`
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    pub adapter: Option<PathBuf>,
}

/// What `memextract INPUT…` does with them.
#[derive(Args, Debug, Clone)]
pub struct OutputArgs {
    /// File for the records; without it, or with `-`, they go to standard output.
    ///
    /// The file appears when the run ends; until then the work is kept in FILE.partial.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Layout of the records
    #[arg(
        long,
        value_name = "LAYOUT",
        default_value = "jsonl",
        help_heading = "Output"
    )]
    pub layout: Layout,
    /// Go on where an interrupted run stopped, and try failed windows again
    #[arg(long, help_heading = "Output")]
    pub resume: bool,
    /// Longest reply of a window, in tokens; a longer one is cut off and its whole records are kept
    #[arg(
        long,
        value_name = "TOKENS",
        default_value_t = 4096,
        help_heading = "Model"
    )]
    pub max_new_tokens: usize,
}

/// Window sizes that belong to a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 10 messages, 2 of them repeated, captions shown: for small models
    Small,
    /// 25 messages, 5 of them repeated
    Locomo,
    /// 15 messages, 3 of them repeated
    Longmemeval,
}

/// Whether image captions are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Captions {
    /// As the adapter or the preset says
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// Which instruction opens the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum InstructionArg {
    /// As the adapter was tuned, else long
    Auto,
    /// A few lines
    Short,
    /// The whole task
    Long,
}
