//! What a language model does for the rest of memloom, without a word about tensors.

use std::ops::ControlFlow;

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

/// One piece of work for a generator. It owns what it needs, so that it can be made when its turn comes.
pub struct Request<'a> {
    /// Conversation so far; the reply is the next assistant message.
    pub messages: Vec<ChatMessage>,
    /// Bytes that the last message begins with and other requests too, such as an instruction, so that what they have in
    /// common is computed once; 0 where only what precedes the last message is the same. Changes no reply.
    pub shared_bytes: usize,
    /// JSON schema that the reply must satisfy; `None` leaves it free.
    pub schema: Option<serde_json::Value>,
    /// Reply is cut after this many tokens.
    pub max_new_tokens: usize,
    /// Choice of tokens.
    pub sampling: Sampling,
    /// Asked with the reply so far whenever it grows, and now and then before it begins; `true` ends it
    /// ([`Finish::Stopped`]). The answer should depend on the text alone, or the reply depends on when it is asked.
    pub stop: Option<Stop<'a>>,
}

/// See [`Request::stop`].
pub type Stop<'a> = Box<dyn Fn(&str) -> bool + Send + Sync + 'a>;

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

/// Many requests and where their replies go.
pub trait Work<'a, E> {
    /// The next request, asked for when there is room for it; after `None` not again.
    fn next(&mut self) -> Option<Request<'a>>;

    /// Takes the reply to the request that was handed out as the `number`th, counted from 0. Replies come as they
    /// end, in any order. [`ControlFlow::Break`] drops what is not done.
    fn reply(&mut self, number: usize, reply: Result<Reply, E>) -> ControlFlow<()>;
}

/// Anything that continues a conversation: a local model, an endpoint, a fake in a test.
pub trait Generator {
    /// What can go wrong.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Generates the next assistant message.
    ///
    /// # Errors
    /// When the prompt does not fit, the schema cannot be compiled, or the backend fails.
    fn generate(&self, request: Request<'_>) -> Result<Reply, Self::Error>;

    /// Generates the replies to all of `work`: several at once where the backend gains by it, else one by one.
    /// A reply is the one that [`Generator::generate`] gives, and one that fails leaves the others alone.
    fn generate_all<'a>(&self, work: &mut dyn Work<'a, Self::Error>) {
        let mut number = 0;
        while let Some(request) = work.next() {
            if work.reply(number, self.generate(request)).is_break() {
                return;
            }
            number += 1;
        }
    }

    /// Tokens that `messages` take once rendered, for budgets.
    ///
    /// # Errors
    /// When the messages cannot be rendered.
    fn count_tokens(&self, messages: &[ChatMessage]) -> Result<usize, Self::Error>;
}
