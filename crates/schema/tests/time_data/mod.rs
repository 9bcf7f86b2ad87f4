//! Test data for time expressions: sentences with dates, and labelled scenarios.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "shared by a test and an example, each of which uses a part"
)]

use std::{fs, path::Path};

use mem_schema::{
    moment::Moment,
    scenario::Scenario,
    time::{resolve::Found, value::TimeValue},
};
use serde::Deserialize;

/// Reads a text spoken at a time.
pub type Resolve<'a> = &'a dyn Fn(&str, &Moment) -> Vec<Found>;

/// A sentence of `tests/dates/<language>.jsonl`.
#[derive(Deserialize)]
pub struct Line {
    pub input: String,
    pub phrase: String,
    pub reference: Moment,
    pub expect_any: Vec<String>,
}

/// A line of `tests/dates/labelling-<language>.jsonl`: where `LABELLING.md` disagrees with the value of a sentence.
#[derive(Deserialize)]
pub struct Disagreement {
    pub input: String,
    pub phrase: String,
    pub reference: Moment,
    /// The values by `LABELLING.md`: past and future where the sentence leaves it open.
    pub ours: Vec<String>,
    pub reason: String,
}

impl Disagreement {
    pub fn is_about(&self, line: &Line) -> bool {
        (&self.input, &self.phrase, &self.reference) == (&line.input, &line.phrase, &line.reference)
    }
}

/// What came of one sentence.
pub struct Outcome {
    pub line: Line,
    /// Candidates of the expression that covers most of the phrase, the first one first.
    pub got: Vec<String>,
    pub words: String,
    /// The values by `LABELLING.md`, where it disagrees with the line.
    pub ours: Option<Vec<String>>,
}

impl Outcome {
    /// The values that are right.
    pub fn wanted(&self) -> &[String] {
        self.ours.as_ref().unwrap_or(&self.line.expect_any)
    }

    /// Whether the first candidate is right.
    pub fn is_hit(&self) -> bool {
        self.got
            .first()
            .is_some_and(|first| self.wanted().contains(first))
    }

    /// Whether the first candidate is a value of the data, whatever `LABELLING.md` says.
    pub fn is_strict_hit(&self) -> bool {
        self.got
            .first()
            .is_some_and(|first| self.line.expect_any.contains(first))
    }
}

fn dates() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dates")
}

fn lines<T: for<'a> Deserialize<'a>>(file: &str) -> Vec<T> {
    let text = fs::read_to_string(dates().join(file)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The sentences of a language.
pub fn plain_lines(code: &str) -> Vec<Line> {
    lines(&format!("{code}.jsonl"))
}

/// Where `LABELLING.md` disagrees with sentences of a language.
pub fn disagreements(code: &str) -> Vec<Disagreement> {
    lines(&format!("labelling-{code}.jsonl"))
}

/// The sentences of a language, each resolved.
pub fn sentences(code: &str, resolve: Resolve) -> Vec<Outcome> {
    let disagreements = disagreements(code);
    let outcome = |line: Line| {
        let found = resolve(&line.input, &line.reference);
        let phrase = line.phrase.trim();
        let lower = line.input.to_lowercase();
        let range = match lower.find(&phrase.to_lowercase()) {
            Some(at) if lower.len() == line.input.len() => at..at + phrase.len(),
            _ => 0..line.input.len(),
        };
        let overlap = |of: &&Found| {
            let from = of.range.start.max(range.start);
            of.range.end.min(range.end).saturating_sub(from)
        };
        let best = found
            .iter()
            .filter(|of| overlap(of) > 0)
            .max_by_key(overlap);
        let ours = disagreements
            .iter()
            .find(|of| of.is_about(&line))
            .map(|of| of.ours.clone());
        Outcome {
            got: best.map_or(Vec::new(), |of| {
                of.candidates.iter().map(ToString::to_string).collect()
            }),
            words: best.map_or(String::new(), |of| of.words.clone()),
            ours,
            line,
        }
    };
    plain_lines(code).into_iter().map(outcome).collect()
}

/// A labelled record with a time, and what its evidence says.
pub struct Labelled {
    pub scenario: String,
    pub record: String,
    pub time: String,
    pub start: Moment,
    pub evidence: Vec<String>,
    /// Expressions of all evidence turns.
    pub found: Vec<Found>,
    /// Whether the labelled time is among the candidates.
    pub hit: bool,
    /// Whether it is the day, month or year of the session, which a state or value said as of now has without a word of
    /// time.
    pub session_day: bool,
}

/// All records with a time of the scenarios whose language begins with `code`.
pub fn labelled(code: &str, resolve: Resolve) -> Vec<Labelled> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let mut out = Vec::new();
    for file in files
        .iter()
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
    {
        let scenario = Scenario::from_path(file).unwrap();
        let language = scenario.transcript.language.clone().unwrap_or_default();
        if !language.starts_with(code) {
            continue;
        }
        for record in scenario
            .records
            .iter()
            .filter(|record| !record.dimension.time.is_empty())
        {
            let time = record.dimension.time.clone();
            let mut evidence = Vec::new();
            let mut found = Vec::new();
            let mut start = None;
            for session in &scenario.transcript.sessions {
                let Some(at) = session.start else { continue };
                for turn in &session.turns {
                    if record.evidence.contains(&turn.id) || record.source_turn == turn.id {
                        start = Some(at);
                        evidence.push(turn.text.clone());
                        found.extend(resolve(&turn.text, &at));
                    }
                }
            }
            let Some(start) = start else { continue };
            let hit = if time.starts_with(|c: char| c.is_ascii_digit()) {
                let value: TimeValue = time.parse().unwrap();
                found.iter().any(|of| of.candidates.contains(&value))
            } else {
                // A recurrence is found when its rhythm is, whatever its words and bounds.
                let rhythms: Vec<_> = resolve(&time, &start)
                    .into_iter()
                    .filter_map(|of| of.rhythm)
                    .collect();
                found
                    .iter()
                    .any(|of| of.rhythm.as_ref().is_some_and(|own| rhythms.contains(own)))
            };
            let day = start.date().to_string();
            let session_day = matches!(time.len(), 4 | 7 | 10) && day.starts_with(&time);
            out.push(Labelled {
                session_day,
                scenario: scenario.transcript.id.clone(),
                record: record.record_id.clone(),
                time,
                start,
                evidence,
                found,
                hit,
            });
        }
    }
    out
}
