//! Shared words of memloom: transcripts, windows, records, prompts. No tensors, no database.

pub mod bank;
pub mod clean;
pub mod error;
pub mod extraction;
pub mod generator;
pub mod labels;
pub mod moment;
pub mod prompt;
pub mod query;
pub mod readers;
pub mod record;
pub mod repetition;
pub mod reply;
pub mod reply_schema;
pub mod scenario;
pub mod target;
pub mod time;
pub mod time_check;
pub mod transcript;
pub mod tuning;
pub mod window;
