//! One window: prompt, reply, records.

use std::sync::atomic::{AtomicBool, Ordering};

use mem_schema::{
    extraction::read_reply,
    generator::{Finish, Reply, Request, Sampling},
    prompt::{extraction_messages, shared_bytes},
    repetition::repeats_record,
    reply_schema::reply_schema,
    time_check::check_times,
    tuning::Instruction,
    window::Window,
};

use super::{Cost, Done, Failed, Outcome, with_causes};

/// What to do with one window.
pub(super) struct Task<'a> {
    pub(super) window: &'a Window,
    pub(super) instruction: Instruction,
    pub(super) max_new_tokens: usize,
    pub(super) interrupted: &'a AtomicBool,
}

impl<'a> Task<'a> {
    /// Asks for the window's memories; the reply is ended where the model repeats itself, or by an interruption.
    pub(super) fn request(&self) -> Request<'a> {
        let interrupted = self.interrupted;
        let stop = move |text: &str| interrupted.load(Ordering::Relaxed) || repeats_record(text);
        Request {
            messages: extraction_messages(self.window, self.instruction),
            shared_bytes: shared_bytes(self.window.kind, self.instruction),
            schema: Some(reply_schema(self.window)),
            max_new_tokens: self.max_new_tokens,
            sampling: Sampling::Greedy,
            stop: Some(Box::new(stop)),
        }
    }

    /// What the reply amounts to; none if an interruption may have ended it. `seconds` are those of [`Cost`].
    pub(super) fn outcome<E>(&self, reply: Result<Reply, E>, seconds: f64) -> Option<Outcome>
    where
        E: std::error::Error + 'static,
    {
        let ended_by_itself = |reply: &Reply| reply.finish != Finish::Stopped;
        if self.interrupted.load(Ordering::Relaxed) && !reply.as_ref().is_ok_and(ended_by_itself) {
            return None;
        }
        let mut cost = Cost {
            seconds,
            ..Cost::default()
        };
        let done = match reply {
            Ok(reply) => {
                cost.prompt_tokens = reply.prompt_tokens;
                cost.new_tokens = reply.new_tokens;
                self.read(&reply, cost)
            }
            Err(error) => Err(with_causes(&error)),
        };
        Some(match done {
            Ok(done) => Outcome::Done(done),
            Err(reason) => Outcome::Failed(Failed { reason, cost }),
        })
    }

    /// Reads a reply and checks its times; an error where it holds no memories, with what to do about it.
    fn read(&self, reply: &Reply, cost: Cost) -> Result<Done, String> {
        let Some(mut read) = read_reply(&reply.text, self.window) else {
            return Err(match reply.finish {
                Finish::Length => {
                    let (tokens, prompt) = (reply.new_tokens, reply.prompt_tokens);
                    let advice = match tokens < self.max_new_tokens {
                        true => format!(
                            "with the {prompt} tokens of the prompt it fills the model's context: take fewer messages with `--window`"
                        ),
                        false => "raise `--max-new-tokens`".to_owned(),
                    };
                    format!(
                        "the reply was cut off after {tokens} tokens, before its first record was whole: {advice}"
                    )
                }
                Finish::End | Finish::Stopped => "the reply holds no list of memories".to_owned(),
            });
        };
        check_times(&mut read.records, self.window);
        Ok(Done {
            records: read.records,
            drops: read.drops,
            salvaged: read.salvaged,
            finish: reply.finish,
            cost,
        })
    }
}
