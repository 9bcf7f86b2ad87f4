//! The beginning that prompts share, computed once.

use crate::cache::KvCache;
use crate::error::Result;
use crate::qwen::Model;

use super::row::Row;

/// Fewer tokens than this are not worth a cache of their own.
const WORTH_SHARING: usize = 32;

/// The beginning of the latest prompt that has one to share, with its keys and values. Prompts of one run open with the
/// same instruction: one prefix is enough.
pub(super) struct Prefix {
    tokens: Vec<u32>,
    cache: KvCache,
}

impl Prefix {
    pub(super) fn new(model: &Model) -> Self {
        Self {
            tokens: Vec::new(),
            cache: model.new_cache(),
        }
    }

    /// Lets a row that has read nothing begin behind the prefix, if it is the row's.
    pub(super) fn lend(&self, row: &mut Row<'_>) -> Result<()> {
        if row.cache.is_empty() && !self.tokens.is_empty() && row.shared() == self.tokens {
            row.cache = self.cache.fork()?;
        }
        Ok(())
    }

    /// Keeps what a row has just read, if that is what it shares.
    pub(super) fn keep(&mut self, row: &Row<'_>) -> Result<()> {
        let shared = row.shared();
        if shared.len() >= WORTH_SHARING && row.cache.len() == shared.len() && shared != self.tokens
        {
            self.tokens = shared.to_vec();
            self.cache = row.cache.fork()?;
        }
        Ok(())
    }
}
