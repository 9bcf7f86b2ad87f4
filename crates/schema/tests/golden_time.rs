//! The specification's vectors for time limits (section 8.3).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mem_schema::clean::Mode;
use mem_schema::time::limit::{TimeLimit, TimeLimits, TimeSource};
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("golden/time_constraints.json");

/// What binds: the mended answer where the reference is defective.
fn binding(case: &Value) -> &Value {
    case.get("correct").unwrap_or(&case["reference"])
}

fn cases(kind: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    golden[kind].as_array().unwrap().clone()
}

fn read(case: &Value, mode: Mode) -> Value {
    match TimeLimit::read(case["constraint"].as_str().unwrap(), mode) {
        Ok(limit) => json!(limit),
        Err(_) => Value::Null,
    }
}

fn score(case: &Value, mode: Mode) -> Value {
    let limits = case["constraints"].as_array().unwrap();
    let limits = TimeLimits::read(limits.iter().map(|limit| limit.as_str().unwrap()), mode);
    let record = &case["record"];
    let time = record["dimension"]["time"].as_str().unwrap_or_default();
    let source_time = record["source_time"].as_str().unwrap_or_default();
    json!(limits.score(time, source_time, TimeSource::Any))
}

#[test]
fn limits_are_read() {
    let cases = cases("parse");
    assert_eq!(cases.len(), 90);
    for case in &cases {
        assert_eq!(&read(case, Mode::Default), binding(case), "{case}");
    }
}

#[test]
fn records_are_scored() {
    let cases = cases("match");
    assert_eq!(cases.len(), 88);
    for case in &cases {
        assert_eq!(&score(case, Mode::Default), binding(case), "{case}");
    }
}

#[test]
fn the_reference_is_reproduced_wherever_it_answers() {
    let answers = |case: &&Value| case["reference"].get("raises").is_none();
    let mut defects = 0;
    for case in cases("parse").iter().filter(answers) {
        assert_eq!(read(case, Mode::Compat), case["reference"], "{case}");
        defects += usize::from(case["reference_defect"] == true);
    }
    for case in cases("match").iter().filter(answers) {
        assert_eq!(score(case, Mode::Compat), case["reference"], "{case}");
        defects += usize::from(case["reference_defect"] == true);
    }
    assert_eq!(defects, 4 + 11, "ranges that the reference cannot read");
}

#[test]
fn the_time_of_the_source_turn_can_stand_back() {
    let limits = TimeLimits::read(["on 2023-05"], Mode::Default);
    let score = |time: &str, source| limits.score(time, "2023-05-20T10:00:00", source).score;
    assert_eq!(score("2023-08", TimeSource::Any), 1.0);
    assert_eq!(score("2023-08", TimeSource::DimensionFirst), 0.0);
    assert_eq!(score("every Saturday", TimeSource::DimensionFirst), 1.0);
}

#[test]
fn words_that_cannot_be_read_are_reported() {
    let limits = TimeLimits::read([" last spring ", "", "after 2022"], Mode::Default);
    let words: Vec<_> = limits.unreadable().map(|limit| &limit.words).collect();
    assert_eq!(words, ["last spring"]);
    assert_eq!(limits.readable().count(), 1);
    assert!(!TimeLimits::read(["last spring"], Mode::Default).is_empty());
    assert!(TimeLimits::read(["", " "], Mode::Default).is_empty());
    let message = limits.unreadable().next().unwrap().to_string();
    assert!(message.starts_with("`last spring` is no time limit: write `on|before"));
}
