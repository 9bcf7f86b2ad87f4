//! One trainable Qwen-class model in Candle: load, adapt, generate. Beside it, encoders of text into vectors.

pub mod adapter;
#[cfg(all(feature = "onednn", target_arch = "x86_64"))]
mod amx;
mod attention;
mod buffer;
pub mod cache;
pub mod config;
pub mod constraint;
pub mod embed;
pub mod encode;
pub mod error;
mod expand;
mod gemm;
pub mod generate;
mod gguf_check;
mod host;
#[cfg(target_arch = "x86_64")]
mod int8;
mod lanes;
pub mod linear;
pub mod matrix;
pub mod memory;
#[cfg(feature = "onednn")]
mod onednn;
pub mod ops;
mod packed;
mod paged;
mod panels;
mod product;
pub mod qwen;
mod rows;
pub mod sampling;
mod simd;
pub mod template;
pub mod tokenizer;
pub mod weights;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod gradcheck;
