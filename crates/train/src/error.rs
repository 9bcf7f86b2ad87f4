//! What can go wrong in this crate.

use std::io;
use std::path::PathBuf;

use mem_model::error::{Cause, plain};

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Failure to prepare or run a fine-tune.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write `{}`; finished checkpoints are untouched", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The settings are not TOML of the expected form.
    #[error("`{}` is not a valid recipe", path.display())]
    Recipe {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// The settings cannot be written down.
    #[error("the settings cannot be written as TOML")]
    Settings {
        /// Why.
        source: toml::ser::Error,
    },
    /// A `--set` that cannot be applied.
    #[error("`--set {given}` cannot be applied: {problem}")]
    Set {
        /// The argument.
        given: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A setting out of range.
    #[error("setting `{key}` is {value}, it must be {range}")]
    Setting {
        /// Key in the recipe.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is accepted.
        range: &'static str,
    },
    /// A labelled conversation is refused.
    #[error(transparent)]
    Scenario(#[from] mem_schema::scenario::ScenarioError),
    /// Two files hold one scenario.
    #[error("`{}` holds scenario `{id}`, which another file holds already", path.display())]
    DuplicateScenario {
        /// The second file.
        path: PathBuf,
        /// The `scenario_id`.
        id: String,
    },
    /// There is nothing to train on.
    #[error("{what} gives no example; {hint}")]
    NoExamples {
        /// Which data.
        what: String,
        /// What to do.
        hint: String,
    },
    /// A loss or a gradient is no longer a number.
    #[error(
        "the {what} is {value} at step {step}; lower `train.learning_rate` or look at the data of that step"
    )]
    Diverged {
        /// Optimiser step, from 1; 0 before the first.
        step: usize,
        /// What was computed.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A loss is no number although nothing was learned yet.
    #[error(
        "the {what} is {value} before anything was learned: the model is damaged; check it with `memtrain models \
         verify`, or fetch it again"
    )]
    DamagedModel {
        /// What was computed.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// A variable got no gradient: the graph is cut somewhere.
    #[error(
        "adapter tensor `{0}` has no gradient; this is a defect of the program, please report it"
    )]
    NoGradient(String),
    /// A run folder that belongs to another run.
    #[error("`{}` holds a checkpoint of another run ({difference}); run it as before, choose another `output`, or delete it", path.display())]
    OtherRun {
        /// The checkpoint.
        path: PathBuf,
        /// What differs.
        difference: String,
    },
    /// A checkpoint that cannot be used.
    #[error("checkpoint file `{}` cannot be used; delete its folder to train from the start", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: Cause,
    },
    /// The model failed.
    #[error(transparent)]
    Model(#[from] mem_model::error::Error),
    /// The backend failed.
    #[error("the computation failed")]
    Compute(#[source] candle_core::Error),
}

impl From<candle_core::Error> for Error {
    fn from(error: candle_core::Error) -> Self {
        Self::Compute(plain(error))
    }
}
