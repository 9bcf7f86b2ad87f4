//! Everyday sentences of German, Spanish, French and Portuguese with one time expression each.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

use mem_schema::{
    moment::Moment,
    time::resolve::{Language, Options, resolve},
};
use serde::Deserialize;

/// A line of `time_data/european.jsonl`. All are said on Wednesday, 6 March 2024.
#[derive(Deserialize)]
struct Sentence {
    language: String,
    text: String,
    /// The first candidate must be one of these; none stands for an expression that cannot be resolved.
    expect_any: Vec<String>,
}

fn sentences() -> Vec<Sentence> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/time_data/european.jsonl");
    let text = fs::read_to_string(file).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn everyday_sentences_are_resolved() {
    let at: Moment = "2024-03-06T10:00:00".parse().unwrap();
    let mut wrong = Vec::new();
    for of in sentences() {
        let language = Language::from_code(&of.language);
        assert!(language.is_some(), "{}", of.language);
        let options = Options {
            language,
            ..Options::default()
        };
        let found = resolve(&of.text, Some(&at), &options);
        let firsts: Vec<Option<String>> = found
            .iter()
            .map(|found| found.candidates.first().map(ToString::to_string))
            .collect();
        let right = match &firsts[..] {
            [None] => of.expect_any.is_empty(),
            [Some(value)] => of.expect_any.contains(value),
            _ => false,
        };
        if !right {
            wrong.push(format!("{}: {} gives {firsts:?}", of.language, of.text));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_language_is_found_by_its_words() {
    let at: Moment = "2024-03-06T10:00:00".parse().unwrap();
    for (text, code) in [
        ("Ich war letzte Woche beim Arzt", "de"),
        ("La semana pasada fui al médico", "es"),
        ("La semaine dernière je suis allé chez le médecin", "fr"),
        ("Na semana passada fui ao médico", "pt"),
    ] {
        let found = resolve(text, Some(&at), &Options::default());
        let codes: Vec<&str> = found.iter().map(|found| found.language.code()).collect();
        assert_eq!(codes, [code], "{text}");
        assert_eq!(
            found[0].candidates[0].to_string(),
            "2024-02-26/2024-03-03",
            "{text}"
        );
    }
}
