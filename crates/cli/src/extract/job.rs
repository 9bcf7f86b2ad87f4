//! One run: everything selected, what is done of it, and where it goes.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write,
    sync::atomic::AtomicBool,
    time::Instant,
};

use mem_schema::{
    generator::Generator,
    window::{Window, shortened},
};

use crate::memory::peak_bytes;

use super::{
    Error, Fingerprint, Layout, Outcome, Output, Summary,
    args::{InputArgs, OutputArgs},
    fingerprint::adapter_state,
    inputs::{Inputs, Problems},
    journal::Journal,
    output::replace,
    run::Run,
    settings::Settings,
};

/// A checked run.
pub struct Job {
    pub(super) settings: Settings,
    output: Output,
    pub(super) layout: Layout,
    pub(super) max_new_tokens: usize,
    pub(super) windows: Vec<Window>,
    problems: Problems,
    messages_shortened: usize,
    pub(super) journal: Option<Journal>,
    fingerprint: Fingerprint,
    /// Outcomes by position in `windows`.
    pub(super) outcomes: BTreeMap<usize, Outcome>,
}

/// Checks the output, reads the inputs and cuts the windows.
///
/// # Errors
/// When the run cannot be made. An input that cannot be read is skipped and counted.
pub fn prepare(args: &InputArgs, output_args: &OutputArgs) -> Result<Job, Error> {
    let output = Output::parse(output_args.out.as_deref());
    output.check(&args.inputs)?;
    let journal = match &output {
        Output::File(path) => Some(Journal::open(path, output_args.resume)?),
        Output::Stdout if output_args.resume => return Err(Error::ResumeStdout),
        Output::Stdout => None,
    };
    let settings = Settings::resolve(args)?;
    let inputs = Inputs::read(args)?;
    let windows = inputs.windows(&settings.segmentation)?;
    let ids: BTreeSet<_> = windows.iter().map(|window| &window.transcript_id).collect();
    if output_args.layout == Layout::Dimmem && ids.len() > 1 {
        return Err(Error::OneBank {
            transcripts: ids.len(),
        });
    }
    let mut fingerprint = Fingerprint::default();
    fingerprint.set("memloom", env!("CARGO_PKG_VERSION"));
    settings.describe(&mut fingerprint);
    inputs.describe(args, &mut fingerprint);
    if let Some(adapter) = &args.adapter {
        fingerprint.set("adapter", adapter_state(adapter)?);
    }
    let captions = settings.segmentation.captions;
    let of_transcripts = inputs.transcripts.iter();
    let messages_shortened = of_transcripts.map(|one| shortened(one, captions)).sum();
    Ok(Job {
        settings,
        output,
        layout: output_args.layout,
        max_new_tokens: output_args.max_new_tokens,
        windows,
        problems: inputs.problems,
        messages_shortened,
        journal,
        fingerprint,
        outcomes: BTreeMap::new(),
    })
}

impl Job {
    /// Takes over what an interrupted run did, if it is being resumed: every window that would go the same way again.
    /// `model` describes the weights and the device.
    ///
    /// # Errors
    /// When the interrupted run was a different one, or its journal cannot be written.
    pub fn begin(&mut self, model: &str) -> Result<(), Error> {
        self.fingerprint.set("model", model);
        if let Some(journal) = &mut self.journal {
            self.outcomes = journal.begin(&self.fingerprint)?;
            self.outcomes
                .retain(|_, outcome| outcome.holds_at(self.max_new_tokens));
        }
        Ok(())
    }

    /// What was wrong with the inputs; to be said before the run starts.
    pub fn problems(&self) -> &Problems {
        &self.problems
    }

    /// Extracts from every window that is left, several at once where the generator does that, then writes the
    /// output. `load` is not called if none is left. `interrupted` ends the run at the next token.
    ///
    /// # Errors
    /// When the model cannot be loaded or something cannot be written. A failed window is no error.
    pub fn run<G: Generator>(
        mut self,
        load: impl FnOnce() -> anyhow::Result<G>,
        interrupted: &AtomicBool,
        stdout: &mut dyn Write,
    ) -> anyhow::Result<Summary> {
        let started = Instant::now();
        let resumed = self.outcomes.len();
        if resumed < self.windows.len() {
            let generator = load()?;
            let mut run = Run::start(&mut self, interrupted, stdout);
            generator.generate_all(&mut run);
            run.end()?;
        }
        let mut summary = self.summary(resumed);
        self.finish(&mut summary, stdout)?;
        summary.seconds = started.elapsed().as_secs_f64();
        summary.peak_memory_bytes = peak_bytes();
        Ok(summary)
    }

    #[cfg(test)]
    pub(super) fn journal_to(&mut self, file: std::fs::File) {
        if let Some(journal) = &mut self.journal {
            journal.write_to(file);
        }
    }

    fn summary(&self, resumed: usize) -> Summary {
        let mut summary = Summary {
            inputs_failed: self.problems.unreadable.clone(),
            lost: self.problems.lost,
            placeholders: self.problems.placeholders,
            messages_shortened: self.messages_shortened,
            ..Summary::default()
        };
        summary.windows.total = self.windows.len();
        summary.windows.resumed = resumed;
        summary.interrupted = self.outcomes.len() < self.windows.len();
        let mut transcripts = BTreeSet::new();
        transcripts.extend(self.windows.iter().map(|window| &window.transcript_id));
        summary.transcripts = transcripts.len();
        for (position, outcome) in &self.outcomes {
            if let Some(window) = self.windows.get(*position) {
                summary.add(&window.transcript_id, window.index, outcome);
            }
        }
        summary
    }

    /// Writes what can be written now, and ends the journal if nothing is left to try again, be it with a higher limit.
    fn finish(self, summary: &mut Summary, stdout: &mut dyn Write) -> Result<(), Error> {
        let records: Vec<_> = self
            .outcomes
            .values()
            .flat_map(Outcome::records)
            .cloned()
            .collect();
        let write = |writer: &mut dyn Write| self.layout.write(writer, &self.windows, &records);
        let worth_writing = !summary.interrupted && summary.windows.done > 0;
        match &self.output {
            Output::File(path) if worth_writing => {
                replace(path, write)?;
                summary.out = Some(path.clone());
            }
            Output::Stdout if worth_writing && self.layout == Layout::Dimmem => {
                write(stdout).map_err(Error::Stdout)?;
            }
            _ => {}
        }
        if let Some(journal) = self.journal {
            let nothing_kept = summary.windows.done == 0;
            let limit = self.max_new_tokens;
            let mut outcomes = self.outcomes.values();
            let cut_off = outcomes.any(|outcome| outcome.is_cut_off(limit));
            let nothing_left = summary.windows.done == summary.windows.total && !cut_off;
            if nothing_kept || nothing_left {
                journal.remove()?;
            } else {
                summary.journal = Some(journal.path().to_owned());
            }
        }
        Ok(())
    }
}
