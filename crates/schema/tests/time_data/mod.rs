//! Test data for time expressions: sentences with dates, and labelled scenarios.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "shared by a test and an example, each of which uses a part"
)]

use std::{fs, path::Path};

use jiff::Span;
use mem_schema::{
    moment::Moment,
    scenario::Scenario,
    time::{
        evidence::{Evidence, Origin, Said},
        resolve::{Found, Language, Options, resolve},
        value::{Point, TimeValue},
    },
};
use serde::Deserialize;

/// Reads a text spoken at a time.
pub type Resolve<'a> = &'a dyn Fn(&str, &Moment) -> Vec<Found>;

/// Reads in the language of a code.
pub fn read(code: &str) -> impl Fn(&str, &Moment) -> Vec<Found> {
    let options = Options {
        language: Language::from_code(code),
        ..Options::default()
    };
    move |text, at| resolve(text, Some(at), &options)
}

pub fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

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
    pub time: TimeValue,
    pub texts: Vec<String>,
    pub said: Vec<Said>,
    pub evidence: Evidence,
}

impl Labelled {
    /// How the labelled time comes about.
    pub fn origin(&self) -> Option<Origin> {
        self.evidence.origin(&self.time)
    }

    /// Whether words of time alone give it.
    pub fn is_said(&self) -> bool {
        matches!(self.origin(), Some(Origin::Meant | Origin::Possible))
    }
}

/// All scenarios whose language begins with `code`.
pub fn scenarios(code: &str) -> Vec<Scenario> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .collect();
    files.sort();
    let scenarios = files.iter().map(|file| Scenario::from_path(file).unwrap());
    scenarios
        .filter(|scenario| {
            let language = scenario.transcript.language.as_deref();
            language.is_some_and(|language| language.starts_with(code))
        })
        .collect()
}

/// All records with a time of the scenarios whose language begins with `code`.
pub fn labelled(code: &str, resolve: Resolve) -> Vec<Labelled> {
    let options = Options {
        language: Language::from_code(code),
        ..Options::default()
    };
    let mut out = Vec::new();
    for scenario in scenarios(code) {
        for label in &scenario.records {
            if label.dimension.time.is_empty() {
                continue;
            }
            let mut texts = Vec::new();
            let mut said = Vec::new();
            for session in &scenario.transcript.sessions {
                let Some(at) = session.start else { continue };
                for turn in &session.turns {
                    if label.evidence.contains(&turn.id) || label.source_turn == turn.id {
                        let caption = turn.image_caption.as_deref().unwrap_or_default();
                        let text = format!("{}\n{caption}", turn.text);
                        let found = resolve(&text, &at);
                        texts.push(text);
                        said.push(Said {
                            at: Some(at),
                            found,
                        });
                    }
                }
            }
            out.push(Labelled {
                scenario: scenario.transcript.id.clone(),
                record: label.record_id.clone(),
                time: label.dimension.time.parse().unwrap(),
                evidence: Evidence::of(&said, &options),
                texts,
                said,
            });
        }
    }
    out
}

/// A value moved by days and by calendar months; `None` where it stays what it is or has no such neighbour.
pub fn moved(value: &TimeValue, days: i64, months: i64) -> Option<TimeValue> {
    let point = |point: &Point| -> Option<Point> {
        match *point {
            Point::Year(_) | Point::Month { .. } if days != 0 => None,
            Point::Year(_) if months % 12 != 0 => None,
            Point::Year(_) => point.shift(months / 12),
            Point::Month { .. } => point.shift(months),
            Point::Day(date) => {
                let date = date
                    .checked_add(Span::new().days(days).months(months))
                    .ok()?;
                Some(Point::Day(date))
            }
            Point::Minute(time) => {
                let time = time
                    .checked_add(Span::new().days(days).months(months))
                    .ok()?;
                Some(Point::Minute(time))
            }
        }
    };
    match value {
        TimeValue::Point(of) => point(of).map(TimeValue::Point),
        TimeValue::Range(from, to) => TimeValue::range(point(from)?, point(to)?).ok(),
        TimeValue::Empty | TimeValue::Recurrence(_) => None,
    }
}
