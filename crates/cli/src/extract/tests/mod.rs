//! Whole runs with a generator that is not a model.

use std::{cell::Cell, fs, io, path::PathBuf, sync::atomic::AtomicBool};

use clap::Parser;
use mem_schema::generator::{ChatMessage, Finish, Generator, Reply, Request, Work};
use tempfile::TempDir;

mod inputs;
mod resume;
mod runs;

use super::{
    Error, Job, Summary,
    args::{InputArgs, OutputArgs},
    prepare,
};

/// Command line of a test; the program's own parser needs a model.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Answers the call of this number, from 0, or leaves it to the fake.
type Answer<'a> = &'a dyn Fn(usize, &Request<'_>) -> Option<Result<Reply, io::Error>>;

/// Remembers the last message of every window.
#[derive(Default)]
struct Fake<'a> {
    calls: Cell<usize>,
    /// Takes so many requests together and replies to the last of them first; 0 is one by one.
    together: usize,
    answer: Option<Answer<'a>>,
}

impl<'a> Fake<'a> {
    fn answering(answer: Answer<'a>) -> Self {
        Self {
            answer: Some(answer),
            ..Self::default()
        }
    }
}

impl Generator for Fake<'_> {
    type Error = io::Error;

    fn generate(&self, request: Request<'_>) -> Result<Reply, io::Error> {
        let request = &request;
        let call = self.calls.replace(self.calls.get() + 1);
        if let Some(answered) = self.answer.and_then(|answer| answer(call, request)) {
            return answered;
        }
        Ok(reply(&memories(&[&last_message(request)]), Finish::End))
    }

    fn generate_all<'w>(&self, work: &mut dyn Work<'w, io::Error>) {
        let mut number = 0;
        loop {
            let requests: Vec<_> = (0..self.together.max(1))
                .map_while(|_| work.next())
                .collect();
            if requests.is_empty() {
                return;
            }
            let numbered: Vec<_> = (number..).zip(requests).collect();
            number += numbered.len();
            for (number, request) in numbered.into_iter().rev() {
                if work.reply(number, self.generate(request)).is_break() {
                    return;
                }
            }
        }
    }

    fn count_tokens(&self, messages: &[ChatMessage]) -> Result<usize, io::Error> {
        Ok(messages
            .iter()
            .map(|message| message.content.split_whitespace().count())
            .sum())
    }
}

/// Number and text of the last message in the prompt.
fn last_message(request: &Request<'_>) -> (usize, String) {
    let prompt = &request.messages.last().expect("a prompt").content;
    let of_line = |line: &str| {
        let (number, text) = line.split_once(' ')?;
        Some((number.parse().ok()?, text.split_once(": ")?.1.to_owned()))
    };
    prompt.lines().rev().find_map(of_line).expect("a message")
}

fn memories(of: &[&(usize, String)]) -> String {
    let memory = |(number, text): &&(usize, String)| serde_json::json!({"source_id": number, "content": format!("It was said: {text}"), "dimension": {"memory_type": "fact"}});
    serde_json::json!({"memories": of.iter().map(memory).collect::<Vec<_>>()}).to_string()
}

fn reply(text: &str, finish: Finish) -> Reply {
    Reply {
        text: text.to_owned(),
        finish,
        prompt_tokens: 100,
        new_tokens: 20,
    }
}

/// A folder with two transcripts of 7 and 3 messages: 4 windows of 3 messages with 1 repeated.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let place = Self { folder };
        place.talk("ada.txt", 7);
        place.talk("ben.txt", 3);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn talk(&self, name: &str, messages: usize) {
        let lines = (1..=messages)
            .map(|n| format!("[2024-03-04 18:{n:02}] Mina: sentence {n} of {name}\n"));
        fs::write(self.path(name), lines.collect::<String>()).expect("written");
    }

    /// The arguments `line`, with every word that ends in an extension put into the folder.
    fn line(&self, line: &str) -> Line {
        let place = |word: &str| match word.rsplit_once('.') {
            Some((_, "txt" | "jsonl" | "json" | "partial" | "new")) => {
                self.path(word).display().to_string()
            }
            _ => word.to_owned(),
        };
        Line::parse_from(
            std::iter::once("memextract".to_owned()).chain(line.split_whitespace().map(place)),
        )
    }

    fn prepare(&self, line: &str) -> Result<Job, Error> {
        let line = self.line(&format!(
            "{line} --window 3 --overlap 1 --instruction short"
        ));
        prepare(&line.input, &line.output)
    }

    /// Runs `line` with `fake`; what it wrote to standard output comes second.
    fn run(&self, line: &str, fake: &Fake<'_>) -> anyhow::Result<(Summary, String)> {
        self.run_until(line, fake, &AtomicBool::new(false))
    }

    fn run_until(
        &self,
        line: &str,
        fake: &Fake<'_>,
        stop: &AtomicBool,
    ) -> anyhow::Result<(Summary, String)> {
        let mut job = self.prepare(line)?;
        job.begin("fake")?;
        let mut stdout = Vec::new();
        let summary = job.run(|| Ok(fake), stop, &mut stdout)?;
        Ok((summary, String::from_utf8(stdout)?))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("readable")
    }

    /// What `line` is refused with, hint included.
    fn refusal(&self, line: &str) -> String {
        let error = self.prepare(line).err().expect("a refusal");
        let hint = error
            .hint()
            .map(|hint| format!("\n  hint: {hint}"))
            .unwrap_or_default();
        format!("{}{hint}", self.words(&error.into()))
    }

    fn words(&self, error: &anyhow::Error) -> String {
        self.without_folder(&format!("{error:#}"))
    }

    /// The summary as text, times and memory taken out.
    fn summary(&self, mut summary: Summary) -> String {
        summary.seconds = 1.0;
        summary.generating_seconds = 0.5;
        summary.peak_memory_bytes = None;
        self.without_folder(&summary.to_string())
    }

    fn without_folder(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).expect("a folder");
        let mut names: Vec<_> = entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }
}

impl Generator for &Fake<'_> {
    type Error = io::Error;

    fn generate(&self, request: Request<'_>) -> Result<Reply, io::Error> {
        (**self).generate(request)
    }

    fn generate_all<'w>(&self, work: &mut dyn Work<'w, io::Error>) {
        (**self).generate_all(work);
    }

    fn count_tokens(&self, messages: &[ChatMessage]) -> Result<usize, io::Error> {
        (**self).count_tokens(messages)
    }
}

const BOTH: &str = "ada.txt ben.txt --out out.jsonl";
