//! One trainable Qwen-class model in Candle: load, adapt, generate.

pub mod adapter;
mod attention;
pub mod cache;
pub mod config;
pub mod error;
mod gemm;
pub mod generate;
mod host;
pub mod linear;
mod matrix;
pub mod ops;
mod packed;
pub mod qwen;
pub mod weights;
