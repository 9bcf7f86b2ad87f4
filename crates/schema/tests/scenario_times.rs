//! The times of the scenarios that ship: labels have normal forms, limits of questions can be read.

use std::{fs, path::Path};

use mem_schema::{
    clean::Mode,
    time::{limit::TimeLimit, value::TimeValue},
};
use serde_json::Value;

#[test]
fn labels_are_normal_and_limits_readable() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../datasets/scenarios");
    let (mut labels, mut limits) = (0, 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let file: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for record in file["records"].as_array().unwrap() {
            let time = record["dimension"]["time"].as_str().unwrap();
            match time.parse::<TimeValue>() {
                Ok(value) => assert_eq!(value.to_string(), time),
                Err(error) => panic!("{} {}: {error}", path.display(), record["record_id"]),
            }
            labels += usize::from(!time.is_empty());
        }
        for question in file["questions"].as_array().unwrap() {
            let limit = question["parse"]["dimension"]["time"].as_str().unwrap();
            if !limit.is_empty() {
                TimeLimit::read(limit, Mode::Default).unwrap();
                limits += 1;
            }
        }
    }
    assert!(labels > 2000 && limits > 100, "{labels} {limits}");
}
