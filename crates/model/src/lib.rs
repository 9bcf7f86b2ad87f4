//! One trainable Qwen-class model in Candle: load, adapt, generate. Beside it, encoders of text into vectors.

pub mod adapter;
mod attention;
pub mod cache;
pub mod config;
pub mod constraint;
mod dot;
pub mod embed;
pub mod encode;
pub mod error;
mod gemm;
pub mod generate;
mod host;
pub mod linear;
mod matrix;
pub mod ops;
mod packed;
pub mod qwen;
pub mod sampling;
pub mod template;
pub mod tokenizer;
pub mod weights;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod gradcheck;
