//! How many rows are decoded together where nobody says.

use std::thread::available_parallelism;

use candle_core::Device;

use crate::config::ModelConfig;
use crate::memory;
use crate::qwen::Model;

/// Tokens that a row is expected to hold at most: a long instruction, a window and its reply.
pub(super) const ROW_TOKENS: usize = 4096;
/// Rows after which a core has enough to do in every pass over the weights.
const ROWS_PER_CORE: usize = 8;
/// More rows add little on a processor: each takes memory and makes the first replies wait longer.
const MOST_ON_CPU: usize = 16;
/// A device has far more arithmetic for each byte of weights that it reads.
const MOST_ON_DEVICE: usize = 64;
/// What caches may take on a device, whose free memory is not asked for, and on a processor where the system does
/// not tell it.
const ASSUMED_BYTES: usize = 4 << 30;

/// Rows that suit `model` where it lies. On a processor 8 a core, at most 16, and so few that their caches take no
/// more than a quarter of the memory that is free now, with 4096 tokens a row; on a device 64, or what fits into
/// 4 GiB.
pub fn default_rows(model: &Model) -> usize {
    let (free, most) = match model.device() {
        Device::Cpu => {
            let cores = available_parallelism().map_or(1, usize::from);
            let most = (cores * ROWS_PER_CORE).min(MOST_ON_CPU);
            let free = memory::available_bytes().map_or(ASSUMED_BYTES, |free| free as usize / 4);
            (free, most)
        }
        _ => (ASSUMED_BYTES, MOST_ON_DEVICE),
    };
    fitting(model.config(), model.cache_value_bytes(), free, most)
}

/// Rows of [`ROW_TOKENS`] tokens that fit into `bytes`, from 1 to `most`.
fn fitting(config: &ModelConfig, value_bytes: usize, bytes: usize, most: usize) -> usize {
    let tokens = config.context_length.min(ROW_TOKENS);
    let row = cache_bytes(config, value_bytes).saturating_mul(tokens);
    (bytes / row.max(1)).clamp(1, most)
}

/// Bytes that the cache of one row takes at most on a processor, in 32-bit floats.
pub fn row_bytes(config: &ModelConfig) -> u64 {
    let tokens = config.context_length.min(ROW_TOKENS);
    (cache_bytes(config, size_of::<f32>()) as u64).saturating_mul(tokens as u64)
}

/// Bytes of keys and values that one token takes.
fn cache_bytes(config: &ModelConfig, value_bytes: usize) -> usize {
    2 * config.layers * config.kv_heads * config.head_dim * value_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn rows_fit_the_memory() {
        let path = fixtures::folder("tiny-qwen3").join("config.json");
        let mut config = ModelConfig::from_json(&path).unwrap();
        // Qwen2.5 0.5B: 24 blocks, 2 groups of 64, keys and values of 4 bytes.
        (config.layers, config.kv_heads, config.head_dim) = (24, 2, 64);
        config.context_length = 32_768;
        assert_eq!(cache_bytes(&config, 4), 24_576);
        assert_eq!(row_bytes(&config), 24_576 * 4096);
        let rows = |bytes| fitting(&config, 4, bytes, 32);
        assert_eq!(rows(4096 * 24_576 * 5), 5);
        assert_eq!(rows(0), 1);
        assert_eq!(rows(usize::MAX), 32);
        config.context_length = 512;
        assert_eq!(fitting(&config, 4, 4096 * 24_576, 32), 8);
    }
}
