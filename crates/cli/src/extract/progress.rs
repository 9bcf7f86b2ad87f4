//! Where a run stands: a bar on a terminal, otherwise one line a window. Never the text of a conversation.

use std::{io::IsTerminal as _, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use mem_schema::generator::Finish;

use crate::{
    say,
    say::{count, visible},
};

use super::{Cost, Outcome};

/// Tells a person on standard error where a run stands.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    left: usize,
    records: usize,
    /// Windows in work.
    rows: usize,
    /// Windows of this run and what they took; those taken over from an earlier one do not count.
    windows: usize,
    spent: Cost,
}

impl Progress {
    /// Starts with `resumed` of `total` windows taken over: a bar if standard error is a terminal, else lines.
    pub(super) fn start(total: usize, resumed: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(total, resumed));
        Self {
            bar,
            total,
            left: total - resumed,
            records: 0,
            rows: 0,
            windows: 0,
            spent: Cost::default(),
        }
    }

    /// So many windows are in work.
    pub(super) fn rows(&mut self, rows: usize) {
        self.rows = rows;
        if let Some(bar) = &self.bar {
            bar.set_message(self.state());
        }
    }

    /// A window ended.
    pub(super) fn window(&mut self, transcript: &str, window: usize, outcome: &Outcome) {
        let cost = outcome.cost();
        self.left -= 1;
        self.windows += 1;
        self.spent.new_tokens += cost.new_tokens;
        self.spent.seconds += cost.seconds;
        if let Outcome::Done(done) = outcome {
            self.records += done.records.len();
        }
        let line = || {
            format!(
                "[{}/{}] {transcript} window {window}: {}",
                self.total - self.left,
                self.total,
                says(outcome)
            )
        };
        match &self.bar {
            Some(bar) => {
                bar.inc(1);
                if !outcome.is_done() {
                    bar.println(visible(&line()));
                }
            }
            None => say!("{}", line()),
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Windows in work, records, speed and time left. Speed is that of all rows together: each window counts with its
    /// share of the time.
    fn state(&self) -> String {
        let mut state = format!("{} in work, {}", self.rows, count(self.records, "record"));
        if self.windows > 0 && self.spent.seconds > 0.0 {
            let left_seconds = self.spent.seconds / self.windows as f64 * self.left as f64;
            let speed = self.spent.new_tokens as f64 / self.spent.seconds;
            state += &format!(", {speed:.1} tokens/s, {} left", duration(left_seconds));
        }
        state
    }
}

fn bar(total: usize, resumed: usize) -> ProgressBar {
    let bar = ProgressBar::new(total as u64).with_position(resumed as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:24} windows {pos}/{len}, {msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// One window in words.
fn says(outcome: &Outcome) -> String {
    let Cost {
        prompt_tokens,
        new_tokens,
        seconds,
    } = outcome.cost();
    match outcome {
        Outcome::Done(done) => {
            let ended = match done.finish {
                Finish::Stopped => ", stopped for repeats",
                _ if done.salvaged => ", cut off and salvaged",
                _ => "",
            };
            let records = count(done.records.len(), "record");
            format!(
                "{records}, {prompt_tokens}+{new_tokens} tokens, {}{ended}",
                duration(seconds)
            )
        }
        Outcome::Failed(failed) => format!("failed: {}", failed.reason),
    }
}

/// Seconds in words: `0.4 s`, `42 s`, `3 min 5 s`, `2 h 10 min`.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..10 => format!("{seconds:.1} s"),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use mem_schema::extraction::Drops;

    use super::super::{Done, Failed};
    use super::*;

    fn done(seconds: f64, finish: Finish, salvaged: bool) -> Outcome {
        let cost = Cost {
            prompt_tokens: 812,
            new_tokens: 431,
            seconds,
        };
        Outcome::Done(Done {
            records: Vec::new(),
            drops: Drops::default(),
            salvaged,
            finish,
            cost,
        })
    }

    #[test]
    fn a_window_is_one_line() {
        let failed = Outcome::Failed(Failed {
            reason: "no more memory".to_owned(),
            cost: Cost::default(),
        });
        let outcomes = [
            done(35.2, Finish::End, false),
            done(0.04, Finish::Length, true),
            done(3725.0, Finish::Stopped, true),
            failed,
        ];
        insta::assert_snapshot!(outcomes.iter().map(says).collect::<Vec<_>>().join("\n"), @"
    0 records, 812+431 tokens, 35 s
    0 records, 812+431 tokens, 0.0 s, cut off and salvaged
    0 records, 812+431 tokens, 1 h 2 min, stopped for repeats
    failed: no more memory
    ");
    }

    #[test]
    fn the_time_left_counts_the_windows_of_this_run() {
        let mut progress = Progress {
            bar: None,
            total: 10,
            left: 4,
            records: 0,
            rows: 3,
            windows: 0,
            spent: Cost::default(),
        };
        assert_eq!(progress.state(), "3 in work, 0 records");
        progress.window("t", 6, &done(20.0, Finish::End, false));
        assert_eq!(
            progress.state(),
            "3 in work, 0 records, 21.6 tokens/s, 1 min 0 s left"
        );
    }
}
