//! Text to the tokens that an encoder takes.

use std::path::Path;

use crate::error::{Error, Result};

/// A tokenizer of any family, with the tokens that it puts around each text.
pub(super) struct TextEncoder {
    inner: tokenizers::Tokenizer,
    before: Vec<u32>,
    after: Vec<u32>,
    /// Of a text, without those around it.
    max_tokens: usize,
    lower_case: bool,
}

/// One text as tokens.
pub(super) struct Encoded {
    pub(super) ids: Vec<u32>,
    /// Tokens of the text that found no room.
    pub(super) cut_tokens: usize,
}

impl TextEncoder {
    /// Reads `tokenizer.json`; rows have at most `max_tokens` tokens in all.
    pub(super) fn load(folder: &Path, max_tokens: usize, lower_case: bool) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let json = std::fs::read(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let broken = |source| Error::Tokenizer {
            origin: path.display().to_string(),
            source,
        };
        let mut inner = tokenizers::Tokenizer::from_bytes(json).map_err(broken)?;
        // Rows are cut and packed here; files often carry the lengths that some training run used.
        inner
            .with_padding(None)
            .with_truncation(None)
            .map_err(broken)?;
        // A text that happens to spell `[SEP]` is no separator.
        inner.set_encode_special_tokens(true);
        let ids = |around| -> Result<Vec<u32>> {
            Ok(inner
                .encode_fast("a", around)
                .map_err(broken)?
                .get_ids()
                .to_vec())
        };
        let (bare, whole) = (ids(false)?, ids(true)?);
        let at = whole.windows(bare.len().max(1)).position(|ids| ids == bare);
        let Some(at) = at else {
            return Err(Error::Unsupported {
                path,
                feature: "a post-processor that changes the text's own tokens".to_owned(),
            });
        };
        let (before, after) = (whole[..at].to_vec(), whole[at + bare.len()..].to_vec());
        let around = before.len() + after.len();
        if max_tokens <= around {
            return Err(Error::Unsupported {
                path,
                feature: format!("rows of {max_tokens} tokens, {around} of them around the text"),
            });
        }
        Ok(Self {
            inner,
            before,
            after,
            max_tokens: max_tokens - around,
            lower_case,
        })
    }

    /// Tokens of `text`, cut at the end where there are too many, between those that go around it.
    pub(super) fn encode(&self, text: &str) -> Result<Encoded> {
        let lower;
        let text = if self.lower_case {
            lower = text.to_lowercase();
            &lower
        } else {
            text
        };
        let encoding = self
            .inner
            .encode_fast(text, false)
            .map_err(|source| Error::Encode {
                len_bytes: text.len(),
                source,
            })?;
        let own = encoding.get_ids();
        let kept = own.len().min(self.max_tokens);
        Ok(Encoded {
            ids: [&self.before, &own[..kept], &self.after].concat(),
            cut_tokens: own.len() - kept,
        })
    }
}
