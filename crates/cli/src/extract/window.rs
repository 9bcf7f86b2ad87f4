//! One window: prompt, reply, records.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use mem_schema::{
    extraction::{OverlapPolicy, read_reply},
    generator::{Finish, Generator, Reply, Request, Sampling},
    prompt::extraction_messages,
    repetition::repeats_record,
    reply_schema::reply_schema,
    tuning::Instruction,
    window::Window,
};

use super::{Cost, Done, Failed, Outcome, with_causes};

/// A generator with what it does not tell by itself.
pub struct Loaded<G> {
    /// Continues conversations.
    pub generator: G,
    /// Tokens that prompt and reply may take together, where known.
    pub context_tokens: Option<usize>,
}

/// What to do with one window.
pub(super) struct Task<'a> {
    pub(super) window: &'a Window,
    pub(super) instruction: Instruction,
    pub(super) max_new_tokens: usize,
    pub(super) interrupted: &'a AtomicBool,
}

impl Task<'_> {
    /// Extracts from the window; none if it was interrupted. `growing` hears the reply's length in characters.
    pub(super) fn run<G: Generator>(
        &self,
        loaded: &Loaded<G>,
        growing: &(dyn Fn(usize) + Sync),
    ) -> Option<Outcome> {
        if self.interrupted.load(Ordering::Relaxed) {
            return None;
        }
        let started = Instant::now();
        let reply = self.generate(loaded, growing);
        let ended_by_itself = |reply: &Reply| reply.finish != Finish::Stopped;
        if self.interrupted.load(Ordering::Relaxed) && !reply.as_ref().is_ok_and(ended_by_itself) {
            return None;
        }
        let seconds = started.elapsed().as_secs_f64();
        let (result, cost) = match reply {
            Ok(reply) => {
                let Reply {
                    prompt_tokens,
                    new_tokens,
                    ..
                } = reply;
                (
                    self.read(&reply),
                    Cost {
                        prompt_tokens,
                        new_tokens,
                        seconds,
                    },
                )
            }
            Err(reason) => (
                Err(reason),
                Cost {
                    seconds,
                    ..Cost::default()
                },
            ),
        };
        Some(match result {
            Ok(done) => Outcome::Done(Done { cost, ..done }),
            Err(reason) => Outcome::Failed(Failed { reason, cost }),
        })
    }

    fn generate<G: Generator>(
        &self,
        loaded: &Loaded<G>,
        growing: &(dyn Fn(usize) + Sync),
    ) -> Result<Reply, String> {
        let messages = extraction_messages(self.window, self.instruction);
        if let Some(context_tokens) = loaded.context_tokens {
            let prompt_tokens = loaded
                .generator
                .count_tokens(&messages)
                .map_err(|error| with_causes(&error))?;
            if prompt_tokens >= context_tokens {
                return Err(format!(
                    "the prompt takes {prompt_tokens} tokens and the model's context has {context_tokens}: lower `--window`"
                ));
            }
        }
        let stop = |text: &str| {
            growing(text.chars().count());
            self.interrupted.load(Ordering::Relaxed) || repeats_record(text)
        };
        let request = Request {
            messages: &messages,
            schema: Some(&reply_schema(self.window)),
            max_new_tokens: self.max_new_tokens,
            sampling: Sampling::Greedy,
            stop: Some(&stop),
        };
        loaded
            .generator
            .generate(&request)
            .map_err(|error| with_causes(&error))
    }

    /// Reads a reply; an error where it holds no memories, with what to do about it.
    fn read(&self, reply: &Reply) -> Result<Done, String> {
        let Some(read) = read_reply(&reply.text, self.window, OverlapPolicy::Strict) else {
            return Err(match reply.finish {
                Finish::Length => format!(
                    "the reply was cut off after {} tokens, before its first record was whole: raise `--max-new-tokens`",
                    reply.new_tokens
                ),
                Finish::End | Finish::Stopped => "the reply holds no list of memories".to_owned(),
            });
        };
        Ok(Done {
            records: read.records,
            drops: read.drops,
            salvaged: read.salvaged,
            finish: reply.finish,
            cost: Cost::default(),
        })
    }
}
