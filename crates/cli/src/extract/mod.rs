//! memextract: from transcripts to records, window by window, resumable.
//!
//! Three steps: [`prepare`] checks everything that needs no model, [`Job::begin`] compares with an
//! interrupted run, [`Job::run`] extracts. The model is loaded inside the last, and only if a window is left.
//! [`show`] prints what would be sent instead.

pub use self::{
    error::Error,
    fingerprint::model_state,
    inputs::{Problems, Unreadable},
    job::{Job, prepare},
    output::{Layout, Output},
    report::{FailedWindow, Summary, Windows},
    sessions::Sessions,
    show::{CountTokens, show},
};
use self::{
    error::with_causes,
    fingerprint::{Fingerprint, short_hash},
    outcome::{Cost, Done, Failed, Outcome},
};

pub mod args;
mod error;
mod fingerprint;
mod inputs;
mod job;
mod journal;
mod outcome;
mod output;
mod progress;
mod report;
mod run;
mod sessions;
mod settings;
mod show;
#[cfg(test)]
mod tests;
mod window;
