//! Shared words of memloom: transcripts, windows, records, prompts. No tensors, no database.

pub mod generator;
pub mod moment;
pub mod record;
pub mod transcript;
pub mod tuning;
pub mod window;
