//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{DecimalBytes, ProgressBar, ProgressStyle};
use mem_remote::Progress;

use crate::say;

/// Between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows bytes as they arrive.
pub struct Bar {
    terminal: bool,
    bar: Option<ProgressBar>,
    what: String,
    total: Option<u64>,
    arrived: u64,
    last_line: Instant,
}

impl Bar {
    /// A bar for this process's standard error.
    pub fn new() -> Self {
        Self {
            terminal: stderr().is_terminal(),
            bar: None,
            what: String::new(),
            total: None,
            arrived: 0,
            last_line: Instant::now(),
        }
    }

    fn line(&self) {
        let arrived = DecimalBytes(self.arrived);
        match self.total {
            Some(total) => say!("{}: {arrived} of {}", self.what, DecimalBytes(total)),
            None => say!("{}: {arrived}", self.what),
        }
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress for Bar {
    fn note(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{line}")),
            None => say!("{line}"),
        }
    }

    fn begin(&mut self, what: &str, total_bytes: Option<u64>) {
        self.end();
        (self.what, self.total, self.arrived) = (what.to_owned(), total_bytes, 0);
        self.last_line = Instant::now();
        if !self.terminal {
            match total_bytes {
                Some(total) => say!("{what}: {}", DecimalBytes(total)),
                None => say!("{what}"),
            }
            return;
        }
        let (bar, template) = match total_bytes {
            Some(total) => (
                ProgressBar::new(total),
                "{msg} {wide_bar} {decimal_bytes}/{decimal_total_bytes} \
                 {decimal_bytes_per_sec} {eta}",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{spinner} {msg} {decimal_bytes} {decimal_bytes_per_sec}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(self.what.clone());
        bar.enable_steady_tick(Duration::from_millis(200));
        self.bar = Some(bar);
    }

    fn advance(&mut self, bytes: u64) {
        self.arrived += bytes;
        match &self.bar {
            Some(bar) => bar.inc(bytes),
            None if self.last_line.elapsed() >= LINE_EVERY => {
                self.line();
                self.last_line = Instant::now();
            }
            None => {}
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
