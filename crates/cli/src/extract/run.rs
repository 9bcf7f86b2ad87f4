//! The windows of a job as work for a generator: which come next, and what becomes of their replies.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write,
    ops::ControlFlow,
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use mem_schema::{
    generator::{Reply, Request, Work},
    tuning::Instruction,
    window::Window,
};

use super::{
    Error, Job, Layout, Outcome,
    journal::{Entry, Journal},
    output::write_lines,
    progress::Progress,
    window::Task,
};

/// A job while it generates. Outcomes go to the journal as they come; records for standard output wait until those
/// of all windows before have been written.
pub(super) struct Run<'a> {
    windows: &'a [Window],
    instruction: Instruction,
    max_new_tokens: usize,
    layout: Layout,
    interrupted: &'a AtomicBool,
    journal: Option<&'a mut Journal>,
    outcomes: &'a mut BTreeMap<usize, Outcome>,
    stdout: &'a mut dyn Write,
    progress: Progress,
    shares: Shares,
    /// Next position to hand out, if it is not done.
    next: usize,
    /// By number of the request.
    in_work: HashMap<usize, InWork>,
    handed_out: usize,
    /// Next position whose records go to standard output.
    next_written: usize,
    error: Option<Error>,
}

/// A window whose reply is being written.
struct InWork {
    position: usize,
    /// What [`Shares`] showed when it began.
    began: f64,
}

/// A clock that runs the slower the more windows are in work: what it shows between a window's beginning and its
/// end is the window's share of the time.
struct Shares {
    seconds: f64,
    read: Instant,
}

impl Shares {
    fn start() -> Self {
        Self {
            seconds: 0.0,
            read: Instant::now(),
        }
    }

    /// Reads the clock; `in_work` windows have been in work since the last reading.
    fn read(&mut self, in_work: usize) -> f64 {
        let now = Instant::now();
        if in_work > 0 {
            self.seconds += (now - self.read).as_secs_f64() / in_work as f64;
        }
        self.read = now;
        self.seconds
    }
}

impl<'a> Run<'a> {
    /// Begins to work on what `job` has left.
    pub(super) fn start(
        job: &'a mut Job,
        interrupted: &'a AtomicBool,
        stdout: &'a mut dyn Write,
    ) -> Self {
        Self {
            instruction: job.settings.instruction,
            max_new_tokens: job.max_new_tokens,
            layout: job.layout,
            interrupted,
            stdout,
            progress: Progress::start(job.windows.len(), job.outcomes.len()),
            shares: Shares::start(),
            windows: &job.windows,
            journal: job.journal.as_mut(),
            outcomes: &mut job.outcomes,
            next: 0,
            in_work: HashMap::new(),
            handed_out: 0,
            next_written: 0,
            error: None,
        }
    }

    /// Ends the work: where it was interrupted, records of windows behind a gap are written now.
    ///
    /// # Errors
    /// What broke it off, or that standard output cannot be written.
    pub(super) fn end(mut self) -> Result<(), Error> {
        self.progress.end();
        match self.error.take() {
            Some(error) => Err(error),
            None => self.write_lines(true),
        }
    }

    fn task(&self, position: usize) -> Task<'a> {
        Task {
            window: &self.windows[position],
            instruction: self.instruction,
            max_new_tokens: self.max_new_tokens,
            interrupted: self.interrupted,
        }
    }

    fn take(&mut self, position: usize, outcome: Outcome) -> Result<(), Error> {
        let window = &self.windows[position];
        self.progress
            .window(&window.transcript_id, window.index, &outcome);
        self.progress.rows(self.in_work.len());
        let entry = Entry { position, outcome };
        if let Some(journal) = &mut self.journal {
            journal.append(&entry)?;
        }
        self.outcomes.insert(position, entry.outcome);
        self.write_lines(false)
    }

    /// Writes records of windows that are done to standard output, where records go there: up to the first window
    /// that is not done, or all of them.
    fn write_lines(&mut self, all: bool) -> Result<(), Error> {
        if self.journal.is_some() || self.layout != Layout::Jsonl {
            return Ok(());
        }
        for (&position, outcome) in self.outcomes.range(self.next_written..) {
            if position > self.next_written && !all {
                break;
            }
            write_lines(self.stdout, outcome.records()).map_err(Error::Stdout)?;
            self.next_written = position + 1;
        }
        Ok(())
    }
}

impl<'a, E: std::error::Error + 'static> Work<'a, E> for Run<'a> {
    fn next(&mut self) -> Option<Request<'a>> {
        if self.interrupted.load(Ordering::Relaxed) {
            return None;
        }
        while self.outcomes.contains_key(&self.next) {
            self.next += 1;
        }
        let position = self.next;
        if position >= self.windows.len() {
            return None;
        }
        self.next += 1;
        let began = self.shares.read(self.in_work.len());
        self.in_work
            .insert(self.handed_out, InWork { position, began });
        self.handed_out += 1;
        self.progress.rows(self.in_work.len());
        Some(self.task(position).request())
    }

    fn reply(&mut self, number: usize, reply: Result<Reply, E>) -> ControlFlow<()> {
        let now = self.shares.read(self.in_work.len());
        let Some(InWork { position, began }) = self.in_work.remove(&number) else {
            return ControlFlow::Continue(());
        };
        let Some(outcome) = self.task(position).outcome(reply, now - began) else {
            return ControlFlow::Continue(());
        };
        match self.take(position, outcome) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.error = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}
