//! LoRA supervised fine-tuning of a [`mem_model`] model on labelled scenarios.

pub mod base;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod examples;
pub mod gradient;
mod metrics;
pub mod optimiser;
pub mod sft;
