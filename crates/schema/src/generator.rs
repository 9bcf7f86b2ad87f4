//! What a language model does for the rest of memloom, without a word about tensors.

use serde::{Deserialize, Serialize};

use crate::transcript::Role;

/// One chat message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
}

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sampling {
    /// The likeliest token; ties go to the lower id.
    Greedy,
    /// Drawn from the tempered, truncated distribution.
    Random {
        /// Divides the logits; above 0.
        temperature: f64,
        /// Smallest set of tokens with at least this probability is kept; 1 keeps all.
        top_p: f64,
        /// Seed of the request's own generator.
        seed: u64,
    },
}

/// One piece of work for a generator.
pub struct Request<'a> {
    /// Conversation so far; the reply is the next assistant message.
    pub messages: &'a [ChatMessage],
    /// JSON schema that the reply must satisfy; `None` leaves it free.
    pub schema: Option<&'a serde_json::Value>,
    /// Reply is cut after this many tokens.
    pub max_new_tokens: usize,
    /// Choice of tokens.
    pub sampling: Sampling,
    /// Asked with the reply so far whenever it grows; `true` ends it ([`Finish::Stopped`]).
    pub stop: Option<&'a (dyn Fn(&str) -> bool + Sync)>,
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Finish {
    /// The model ended it.
    End,
    /// `max_new_tokens` or the context ran out.
    Length,
    /// [`Request::stop`] said so.
    Stopped,
}

/// A generator's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The text, without end tokens.
    pub text: String,
    /// Why it ended.
    pub finish: Finish,
    /// Tokens of the rendered prompt.
    pub prompt_tokens: usize,
    /// Tokens generated, the end token included.
    pub new_tokens: usize,
}

/// Anything that continues a conversation: a local model, an endpoint, a fake in a test.
pub trait Generator {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Generates the next assistant message.
    ///
    /// # Errors
    /// When the prompt does not fit, the schema cannot be compiled, or the backend fails.
    fn generate(&self, request: &Request<'_>) -> Result<Reply, Self::Error>;

    /// Tokens that `messages` take once rendered, for budgets and for `memextract windows`.
    ///
    /// # Errors
    /// When the messages cannot be rendered.
    fn count_tokens(&self, messages: &[ChatMessage]) -> Result<usize, Self::Error>;
}
