//! Session dates of the two benchmarks against the golden cases.

use serde_json::Value;

use crate::transcript::Moment;

/// Checks that `parse` reads the `count` golden dates of `format` and none of `bad`.
pub(super) fn check(format: &str, count: usize, parse: fn(&str) -> Option<Moment>, bad: &[&str]) {
    let golden = include_str!("../../tests/golden/segmentation_helpers.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let cases = golden["session_time"].as_array().unwrap();
    let cases: Vec<_> = cases
        .iter()
        .filter(|case| case["format"] == format)
        .collect();
    assert_eq!(cases.len(), count);
    for case in cases {
        let date = parse(case["raw"].as_str().unwrap()).unwrap();
        assert_eq!(date.to_string(), case["iso"].as_str().unwrap(), "{case}");
    }
    for bad in bad {
        assert_eq!(parse(bad), None, "{bad}");
    }
}
