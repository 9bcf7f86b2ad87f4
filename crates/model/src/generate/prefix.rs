//! The beginning that prompts share, computed once.

use crate::cache::KvCache;
use crate::error::Result;
use crate::linear::Pass;
use crate::qwen::Model;

use super::engine::STEP_TOKENS;

/// Fewer tokens than this are not worth a cache of their own.
const WORTH_SHARING: usize = 32;

/// The beginning of a prompt with its keys and values, from which rows start. Prompts of one run open with the same
/// instruction, and so do most of their neighbours' neighbours: one prefix is enough.
pub(super) struct Prefix {
    tokens: Vec<u32>,
    cache: KvCache,
}

impl Prefix {
    pub(super) fn new(model: &Model) -> Self {
        Self {
            tokens: Vec::new(),
            cache: KvCache::new(model.config().layers),
        }
    }

    /// A cache for `prompt`, filled as far as it begins like the prefix. If it shares notably more with one of
    /// `neighbours`, the prompts that come before and after it, the prefix becomes what they share.
    pub(super) fn start<'p>(
        &mut self,
        model: &Model,
        prompt: &[u32],
        neighbours: impl Iterator<Item = &'p [u32]>,
    ) -> Result<KvCache> {
        // The last token is left to the row: its hidden state is wanted.
        let prompt = &prompt[..prompt.len().saturating_sub(1)];
        let mut held = common(prompt, &self.tokens);
        let shared = neighbours.map(|other| common(prompt, other)).max();
        let shared = shared.unwrap_or(0);
        if shared >= held + WORTH_SHARING {
            self.tokens.truncate(held);
            self.cache.truncate(held);
            for part in prompt[held..shared].chunks(STEP_TOKENS) {
                let caches = &mut [&mut self.cache];
                let feed = || model.hidden(part, &[part.len()], Some(caches), Pass::Prefill);
                model.device().with_context(feed)?;
                self.tokens.extend(part);
            }
            held = shared;
        }
        if held < WORTH_SHARING {
            return Ok(KvCache::new(model.config().layers));
        }
        let mut cache = self.cache.fork()?;
        cache.truncate(held);
        Ok(cache)
    }
}

/// Tokens that both begin with.
pub(super) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
