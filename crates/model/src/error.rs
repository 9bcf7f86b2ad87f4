//! What can go wrong in this crate.

use std::{io, path::PathBuf};

/// A cause from a library that has no error type of its own to name here.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure to load, adapt or run a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the model cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that holds no model at all.
    #[error(
        "`{path}` is {what}, no model: give a `.gguf` file, or a folder with `config.json`, `tokenizer.json` and \
         `.safetensors` files"
    )]
    NotAModel {
        /// What was given.
        path: PathBuf,
        /// What it is, with its article.
        what: &'static str,
    },
    /// A model that does something else than to write text, or in a way that is not known here.
    #[error(
        "`{path}` is of a model of type `{name}`{hint}; models that write text here are of type `qwen2` or `qwen3`"
    )]
    Architecture {
        /// Its configuration.
        path: PathBuf,
        /// Its type.
        name: String,
        /// What such a model is for, where that is known.
        hint: &'static str,
    },
    /// A file of the model is not the JSON it should be.
    #[error("`{path}` is not the JSON a model folder holds there; fetch the model again")]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// The configuration of an adapter is not what PEFT writes.
    #[error(
        "`{path}` is not the JSON that an adapter folder holds there; copy the adapter again, or train it again"
    )]
    AdapterJson {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A GGUF lacks a metadata field, or the field has another type.
    #[error("GGUF field `{key}` {problem}")]
    GgufField {
        /// Name of the field.
        key: String,
        /// What is wrong with it, as the end of the sentence.
        problem: String,
    },
    /// The header of a GGUF file says what no model has.
    #[error("`{path}` is no usable GGUF file: {problem}; it may be damaged, fetch it again")]
    GgufHeader {
        /// The file.
        path: PathBuf,
        /// What it says, with the name of the field.
        problem: String,
    },
    /// The tokenizer's definition is refused.
    #[error("cannot build the tokenizer of `{origin}`")]
    Tokenizer {
        /// File, or `GGUF metadata`.
        origin: String,
        /// Why.
        source: Cause,
    },
    /// The GGUF splits text in a way this crate does not know.
    #[error(
        "the GGUF asks for pre-tokenizer `{name}`, only `qwen2` is known; use a Qwen2, Qwen2.5 or Qwen3 model"
    )]
    PreTokenizer {
        /// Value of `tokenizer.ggml.pre`.
        name: String,
    },
    /// The tokenizer does its work in a way this crate does not follow.
    #[error("the tokenizer of `{origin}` is not a Qwen tokenizer: {problem}")]
    ForeignTokenizer {
        /// File, or `GGUF metadata`.
        origin: String,
        /// What was found.
        problem: String,
    },
    /// Text cannot be tokenised.
    #[error("cannot tokenise a text of {len_bytes} bytes")]
    Encode {
        /// Length of the text.
        len_bytes: usize,
        /// Why.
        source: Cause,
    },
    /// The model comes without a chat template.
    #[error(
        "`{origin}` has no chat template; a chat model is needed, with `chat_template` in `tokenizer_config.json` or a `chat_template.jinja`"
    )]
    NoTemplate {
        /// Folder, or `GGUF metadata`.
        origin: String,
    },
    /// The chat template does not parse or refuses the messages.
    #[error("the chat template cannot render {messages} messages")]
    Template {
        /// Number of messages; 0 while the template is parsed.
        messages: usize,
        /// Why, with the template's line.
        source: minijinja::Error,
    },
    /// A training example whose prompt is not what inference would send.
    #[error("the chat template does not keep prompt and answer apart: {problem}")]
    PromptNotPrefix {
        /// What differs, with an excerpt.
        problem: String,
    },
    /// The reply's schema cannot be turned into a grammar.
    #[error("the reply's JSON schema cannot be compiled: {message}")]
    Schema {
        /// The grammar engine's message.
        message: String,
    },
    /// The grammar engine failed while decoding.
    #[error("constrained decoding failed after {accepted} tokens: {message}")]
    Constraint {
        /// Tokens accepted before.
        accepted: usize,
        /// The grammar engine's message.
        message: String,
    },
    /// Logits from which no token can be chosen.
    #[error("no token can be chosen from {width} logits: {problem}")]
    Logits {
        /// Number of logits.
        width: usize,
        /// What is wrong with them.
        problem: String,
    },
    /// A text vector with values that are no finite numbers.
    #[error(
        "the embedder's vector of a text of {tokens} tokens holds values that are no numbers: its weights are damaged; fetch \
         the model again"
    )]
    Vector {
        /// Tokens of the text.
        tokens: usize,
    },
    /// Sampling settings out of range.
    #[error("`{name}` is {value}, it must be {range}")]
    Sampling {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What is accepted.
        range: &'static str,
    },
    /// The model asks for something that is not implemented.
    #[error("`{path}` needs {feature}, which is not supported")]
    Unsupported {
        /// Model folder or file.
        path: PathBuf,
        /// What it needs.
        feature: String,
    },
    /// Sizes of a model that cannot be.
    #[error(
        "`{path}` describes no model that can be computed: {problem}; it may be damaged, fetch the model again"
    )]
    Sizes {
        /// Model folder or file.
        path: PathBuf,
        /// Which sizes, and what they would have to be.
        problem: String,
    },
    /// A model folder without weights.
    #[error("`{path}` holds no `.safetensors` file; give a model folder or a `.gguf` file")]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// The header of a weight file cannot be read.
    #[error("`{path}` holds no readable weights; it may be damaged or cut off")]
    WeightFile {
        /// File, or folder of the files.
        path: PathBuf,
        /// Why.
        source: Box<candle_core::Error>,
    },
    /// A tensor of the model cannot be read.
    #[error("cannot read tensor `{tensor}` of `{path}`; the file may be damaged, fetch it again")]
    Weight {
        /// Model folder or file.
        path: PathBuf,
        /// Name in HF checkpoints.
        tensor: String,
        /// Why.
        source: Box<candle_core::Error>,
    },
    /// An adapter that does not fit the model.
    #[error("the adapter cannot be used: {0}")]
    Adapter(String),
    /// A file cannot be written.
    #[error("cannot write `{path}`")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The prompt leaves no room for a reply.
    #[error(
        "the prompt has {tokens} tokens, the model's context holds {context}; use smaller windows (`--window`)"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Tokens that the model can hold.
        context: usize,
    },
    /// Nothing to continue.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A build without CUDA was asked for it.
    #[error("this build has no CUDA support; build with `--features cuda`, or use `--device cpu`")]
    NoCuda,
    /// bf16 was asked for where it is not to be had.
    #[error(
        "bf16 on the processor needs a build with `--features onednn` and a CPU with AVX512-BF16 or AMX; use \
         `--dtype f32`"
    )]
    NoBf16,
    /// 8-bit integers were asked for where they are not to be had.
    #[error(
        "int8 needs `--device cpu` and a CPU with AVX512-VNNI or AVX2; leave out `--dtype` for the fastest of the other types"
    )]
    NoInt8,
    /// The backend failed.
    #[error("the computation failed")]
    Compute(#[source] candle_core::Error),
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Compute(plain(error))
    }
}

/// The error without the backtraces that candle takes where `RUST_BACKTRACE` is set and prints as part of the message.
pub fn plain(error: candle_core::Error) -> candle_core::Error {
    use candle_core::Error as Candle;
    match error {
        Candle::WithBacktrace { inner, .. } => plain(*inner),
        Candle::WithPath { inner, path } => Candle::WithPath {
            inner: Box::new(plain(*inner)),
            path,
        },
        Candle::Context { inner, context } => Candle::Context {
            inner: Box::new(plain(*inner)),
            context,
        },
        other => other,
    }
}
