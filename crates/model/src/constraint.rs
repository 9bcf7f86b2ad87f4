//! Replies that satisfy a JSON schema by construction: at each step the tokens that would leave
//! the schema's grammar are forbidden.
//!
//! The grammar engine is llguidance; this file gives it the tokenizer and keeps its types inside.

use std::sync::Arc;

use llguidance::{
    Matcher, ParserFactory,
    api::TopLevelGrammar,
    toktrie::{InferenceCapabilities, SimpleVob, TokEnv, TokRxInfo, TokTrie, TokenizerEnv},
};
use serde_json::{Value, json};

use crate::{
    error::{Error, Result},
    tokenizer::Tokenizer,
};

/// Compiles schemas; made once for a model, since it sorts the vocabulary.
pub struct ConstraintFactory {
    parsers: ParserFactory,
}

impl ConstraintFactory {
    /// For a model whose logits are `model_vocab` wide; ids past the tokenizer's are never allowed.
    ///
    /// # Errors
    /// [`Error::Constraint`] when the model is narrower than its tokenizer.
    pub fn new(tokenizer: &Tokenizer, model_vocab: usize) -> Result<Self> {
        let fail = |message| Error::Constraint {
            accepted: 0,
            message,
        };
        if model_vocab < tokenizer.vocab_size() {
            return Err(fail(format!(
                "the model has {model_vocab} logits for the tokenizer's {} tokens",
                tokenizer.vocab_size()
            )));
        }
        let environment: TokEnv = Arc::new(Vocabulary::new(tokenizer, model_vocab));
        let capabilities = InferenceCapabilities {
            ff_tokens: true,
            ..Default::default()
        };
        let mut parsers = ParserFactory::new(&environment, capabilities, &tidy_slices())
            .map_err(|error| fail(error.to_string()))?;
        parsers.quiet();
        // Otherwise each message carries the whole grammar and the tokens so far.
        parsers.limits_mut().verbose_errors = false;
        Ok(Self { parsers })
    }

    /// A constraint for one reply. Unless the schema's `x-guidance` says otherwise the JSON is
    /// compact (a small model can emit blanks without end) and characters stand for themselves
    /// (`\u` escapes only cost tokens).
    ///
    /// # Errors
    /// [`Error::Schema`] when the schema is invalid, unsatisfiable, unsupported or too large.
    pub fn constraint(&self, schema: &Value) -> Result<Constraint> {
        let mut schema = schema.clone();
        if let Some(fields) = schema.as_object_mut() {
            let guidance = fields.entry("x-guidance").or_insert_with(|| json!({}));
            if let Some(options) = guidance.as_object_mut() {
                options.entry("whitespace_flexible").or_insert(json!(false));
                options
                    .entry("json_allowed_escapes")
                    .or_insert(json!("nrt\"\\"));
            }
        }
        let parser = self
            .parsers
            .create_parser(TopLevelGrammar::from_json_schema(schema));
        let mut matcher = Matcher::new(parser);
        if let Some(message) = matcher.get_error() {
            return Err(Error::Schema { message });
        }
        for warning in matcher.grammar_warnings() {
            tracing::warn!("reply schema: {warning}");
        }
        Ok(Constraint {
            matcher,
            accepted: 0,
        })
    }
}

/// Parts of the vocabulary that the engine allows as a whole where the grammar takes all of their
/// words, instead of walking through each: inside a string that is nearly all tokens.
///
/// They fit the texts of [`mem_schema::reply_schema::reply_schema`]: visible characters, at most
/// one blank between two. The short one serves near the end of a bounded text, where the long one
/// no longer fits. With them the median mask over Qwen's 151,936 tokens takes 0.13 ms; without,
/// and with llguidance's own `json_slices`, which expect unrestricted text, 1.7 ms (2 cores,
/// unquiet). Each costs some 10 MB.
fn tidy_slices() -> [String; 2] {
    let visible = r#"[^"\\\s\x00-\x1f\x7f-\x9f]"#;
    [10, 30].map(|most| format!("( ?{visible}){{1,{most}}}"))
}

/// Tokens that may come next, one bit for each logit (V).
pub struct Mask(SimpleVob);

impl Mask {
    /// Number of bits: V.
    pub fn width(&self) -> usize {
        self.0.len()
    }

    /// Allowed tokens, 32 to a word, the lowest id in the lowest bit. Bits past the width are 0.
    pub(crate) fn words(&self) -> &[u32] {
        self.0.as_slice()
    }
}

/// Where one reply stands in its grammar.
pub struct Constraint {
    matcher: Matcher,
    accepted: usize,
}

impl Constraint {
    /// The tokens that may come next; where the reply is complete only end tokens.
    ///
    /// # Errors
    /// [`Error::Constraint`] when the engine gives up.
    pub fn mask(&mut self) -> Result<Mask> {
        let mask = self.matcher.compute_mask_or_eos();
        mask.map(Mask)
            .map_err(|error| self.failure(error.to_string()))
    }

    /// Takes the chosen token.
    ///
    /// # Errors
    /// [`Error::Constraint`] when the grammar does not allow it.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        self.matcher
            .consume_token(token)
            .map_err(|error| self.failure(error.to_string()))?;
        self.accepted += 1;
        Ok(())
    }

    /// Takes the tokens from the front that the grammar allows; says how many.
    ///
    /// # Errors
    /// [`Error::Constraint`] when the engine gives up.
    pub fn try_accept(&mut self, tokens: &[u32]) -> Result<usize> {
        let taken = self.matcher.try_consume_tokens(tokens);
        let taken = taken.map_err(|error| self.failure(error.to_string()))?;
        self.accepted += taken;
        Ok(taken)
    }

    /// Takes the last `tokens` tokens back, as if they had never been accepted.
    ///
    /// # Errors
    /// [`Error::Constraint`] when so many were not accepted, or the engine gives up.
    pub fn take_back(&mut self, tokens: usize) -> Result<()> {
        self.matcher
            .rollback(tokens)
            .map_err(|error| self.failure(error.to_string()))?;
        self.accepted -= tokens;
        Ok(())
    }

    /// Tokens that must come next whatever the model thinks; not yet taken.
    ///
    /// # Errors
    /// [`Error::Constraint`] when the engine gives up.
    pub fn forced_tokens(&mut self) -> Result<Vec<u32>> {
        let tokens = self.matcher.compute_ff_tokens();
        match self.matcher.get_error() {
            Some(message) => Err(self.failure(message)),
            None => Ok(tokens),
        }
    }

    /// Whether the reply is complete: nothing can follow but an end token, or one has been taken.
    pub fn is_finished(&self) -> bool {
        self.matcher.is_stopped() && !self.matcher.is_error()
    }

    fn failure(&self, message: String) -> Error {
        Error::Constraint {
            accepted: self.accepted,
            message,
        }
    }
}

/// The tokenizer as the grammar engine sees it.
struct Vocabulary {
    tokenizer: Tokenizer,
    trie: TokTrie,
}

impl Vocabulary {
    fn new(tokenizer: &Tokenizer, model_vocab: usize) -> Self {
        let words: Vec<Vec<u8>> = (0..model_vocab as u32)
            .map(|id| {
                let bytes = tokenizer.token_bytes(id);
                // The engine's convention for tokens that no text may produce.
                let marker = tokenizer
                    .is_control(id)
                    .then_some(TokTrie::SPECIAL_TOKEN_MARKER);
                marker.into_iter().chain(bytes.iter().copied()).collect()
            })
            .collect();
        let info = TokRxInfo::new(model_vocab as u32, tokenizer.end_of_turn());
        let trie = TokTrie::from(&info, &words).with_eos_tokens(tokenizer.end_tokens());
        Self {
            tokenizer: tokenizer.clone(),
            trie,
        }
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.trie
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<u32> {
        self.trie.tokenize_with_greedy_fallback(bytes, |text| {
            // The engine cannot take an error; greedy tokens spell the same text.
            let ids = self.tokenizer.encode_text(text);
            ids.unwrap_or_else(|_| self.trie.greedy_tokenize(text.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests;
