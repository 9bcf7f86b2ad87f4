//! One trainable Qwen-class model in Candle: load, adapt, generate.
