//! What a run amounts to: for a person as text, for a program as JSON.

use std::{fmt, path::PathBuf};

use mem_schema::{
    extraction::Drops, generator::Finish, time_check::TimeCounts, window::LongTextCut,
};
use serde::Serialize;

use crate::say::count;

use super::{
    Outcome,
    inputs::{Unreadable, left_out},
    progress::duration,
};

/// Failed windows that the text lists.
const SHOWN: usize = 10;

/// Figures of a run. Windows taken over from an earlier run count in all of them except `seconds`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// File that was written; none for standard output or where nothing was written.
    pub out: Option<PathBuf>,
    /// Unfinished work, kept for `--resume`.
    pub journal: Option<PathBuf>,
    /// Inputs that could not be read.
    pub inputs_failed: Vec<Unreadable>,
    /// Lines, messages and other parts of inputs that could not be understood.
    pub lost: usize,
    /// Messages of exports that only stood for a picture, a file or a deleted message.
    pub placeholders: usize,
    /// Transcripts with at least one window.
    pub transcripts: usize,
    /// Messages that were shortened because they are too long for a window.
    pub messages_shortened: usize,
    /// Windows by how they went.
    pub windows: Windows,
    /// Windows that failed, in input order.
    pub failed: Vec<FailedWindow>,
    /// Records of the windows that are done, written or kept.
    pub records: usize,
    /// Records with a time, by whether their evidence allows it.
    pub times: TimeCounts,
    /// Memories of replies that became no record, by reason.
    pub drops: Drops,
    /// Tokens of all prompts.
    pub prompt_tokens: usize,
    /// Tokens of all replies.
    pub new_tokens: usize,
    /// Time that the windows took, prompts included and loading the model not.
    pub generating_seconds: f64,
    /// Wall-clock time of this run, loading the model included.
    pub seconds: f64,
    /// Most memory that the process held, where the system tells.
    pub peak_memory_bytes: Option<u64>,
    /// The run was ended before its last window.
    pub interrupted: bool,
}

/// Counts of windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Windows {
    /// All that were selected.
    pub total: usize,
    /// Read, salvaged ones included.
    pub done: usize,
    /// Without a usable reply.
    pub failed: usize,
    /// Of those done, taken over from an earlier run.
    pub resumed: usize,
    /// Of those done, cut off with their complete records kept.
    pub salvaged: usize,
    /// Of those done, ended because the model began to repeat itself.
    pub repeating: usize,
}

/// A window that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedWindow {
    /// Its transcript.
    pub transcript: String,
    /// Its 0-based index there.
    pub window: usize,
    /// Why.
    pub reason: String,
}

impl Summary {
    /// Adds one window to the figures.
    pub(super) fn add(&mut self, transcript: &str, window: usize, outcome: &Outcome) {
        let cost = outcome.cost();
        self.generating_seconds += cost.seconds;
        self.prompt_tokens += cost.prompt_tokens;
        self.new_tokens += cost.new_tokens;
        match outcome {
            Outcome::Done(done) => {
                self.windows.done += 1;
                self.windows.salvaged +=
                    usize::from(done.salvaged && done.finish != Finish::Stopped);
                self.windows.repeating += usize::from(done.finish == Finish::Stopped);
                self.records += done.records.len();
                self.times += TimeCounts::of(&done.records);
                self.drops += done.drops;
            }
            Outcome::Failed(failed) => {
                self.windows.failed += 1;
                let (transcript, reason) = (transcript.to_owned(), failed.reason.clone());
                self.failed.push(FailedWindow {
                    transcript,
                    window,
                    reason,
                });
            }
        }
    }

    /// 0: all done. 1: written, with something missing, be it the end of a reply. 2: nothing was written.
    /// 130: interrupted.
    pub fn exit_code(&self) -> u8 {
        if self.interrupted {
            130
        } else if self.windows.done == 0 {
            2
        } else {
            let missing = !self.inputs_failed.is_empty() || self.lost > 0;
            u8::from(self.windows.failed > 0 || self.windows.salvaged > 0 || missing)
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Windows {
            total,
            done,
            failed,
            resumed,
            salvaged,
            repeating,
        } = self.windows;
        write!(
            f,
            "{}, {}: {done} done",
            count(self.transcripts, "transcript"),
            count(total, "window")
        )?;
        let left = total - done - failed;
        let parts = [
            (failed, "failed"),
            (left, "left"),
            (resumed, "from the run before"),
            (salvaged, "cut off and salvaged"),
            (repeating, "stopped for repeats"),
        ];
        for (number, what) in parts.into_iter().filter(|(number, _)| *number > 0) {
            write!(f, ", {number} {what}")?;
        }
        write!(f, "\n{}", count(self.records, "record"))?;
        if self.times.total() > 0 {
            let TimeCounts {
                agreed,
                repaired,
                unverified,
            } = self.times;
            write!(
                f,
                ", {} with a time: {agreed} agreed, {repaired} repaired, {unverified} unverified",
                self.times.total()
            )?;
        }
        if self.drops.total() > 0 {
            let reasons = self
                .drops
                .reasons()
                .into_iter()
                .map(|(reason, count)| format!("{count} {reason}"));
            write!(
                f,
                "; dropped {}: {}",
                self.drops.total(),
                reasons.collect::<Vec<_>>().join(", ")
            )?;
        }
        writeln!(f)?;
        write!(
            f,
            "{} tokens in, {} out",
            self.prompt_tokens, self.new_tokens
        )?;
        if self.generating_seconds > 0.0 {
            write!(
                f,
                ", {:.1} a second",
                self.new_tokens as f64 / self.generating_seconds
            )?;
        }
        write!(f, "; {}", duration(self.seconds))?;
        if let Some(bytes) = self.peak_memory_bytes {
            write!(f, ", at most {:.2} GB of memory", bytes as f64 / 1e9)?;
        }
        if self.messages_shortened > 0 {
            write!(
                f,
                "\nshortened: {} of more than {} characters, to beginning, middle and end",
                count(self.messages_shortened, "message"),
                LongTextCut::DEFAULT.threshold
            )?;
        }
        for line in left_out(self.lost, self.placeholders) {
            write!(f, "\n{line}")?;
        }
        for FailedWindow {
            transcript,
            window,
            reason,
        } in self.failed.iter().take(SHOWN)
        {
            write!(f, "\nfailed: {transcript} window {window}: {reason}")?;
        }
        if self.failed.len() > SHOWN {
            write!(
                f,
                "\nfailed: {} more, all listed with `--json`",
                self.failed.len() - SHOWN
            )?;
        }
        for unreadable in &self.inputs_failed {
            write!(f, "\nskipped: {unreadable}")?;
        }
        if self.interrupted && self.journal.is_none() {
            write!(f, "\ninterrupted: nothing is kept for `--resume`")?;
        }
        if let Some(out) = &self.out {
            write!(f, "\nwritten: {}", out.display())?;
        }
        if let Some(journal) = &self.journal {
            let kept = count(done, "window");
            let further = match done == total {
                true => "with `--resume` and a higher `--max-new-tokens` for what was cut off",
                false => "with `--resume` for the rest",
            };
            write!(
                f,
                "\nkept: {kept} in `{}`; run again {further}",
                journal.display()
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_get_every_figure() {
        let summary = Summary {
            windows: Windows {
                total: 1,
                done: 1,
                ..Windows::default()
            },
            ..Summary::default()
        };
        insta::assert_snapshot!(serde_json::to_string_pretty(&summary).unwrap(), @r#"
    {
      "out": null,
      "journal": null,
      "inputs_failed": [],
      "lost": 0,
      "placeholders": 0,
      "transcripts": 0,
      "messages_shortened": 0,
      "windows": {
        "total": 1,
        "done": 1,
        "failed": 0,
        "resumed": 0,
        "salvaged": 0,
        "repeating": 0
      },
      "failed": [],
      "records": 0,
      "times": {
        "agreed": 0,
        "repaired": 0,
        "unverified": 0
      },
      "drops": {
        "not_an_object": 0,
        "no_content": 0,
        "no_source": 0,
        "unknown_source": 0,
        "in_overlap": 0,
        "duplicate": 0
      },
      "prompt_tokens": 0,
      "new_tokens": 0,
      "generating_seconds": 0.0,
      "seconds": 0.0,
      "peak_memory_bytes": null,
      "interrupted": false
    }
    "#);
    }
}
