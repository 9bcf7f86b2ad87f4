//! Real models that tests compare with where they have been fetched. Without them a test says `skipped:` and passes.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::env;
use std::path::{Path, PathBuf};

/// The 0.5B model's file: `MEMLOOM_TEST_GGUF`, else the fetched one.
pub(crate) fn gguf() -> Option<PathBuf> {
    let name = "qwen2.5-coder-0.5b-instruct-q4_k_m";
    let file = format!("{name}.gguf");
    found("MEMLOOM_TEST_GGUF", Path::new(name).join(file))
}

/// The folder of all-MiniLM-L6-v2: `MEMLOOM_TEST_MINILM`, else the fetched one.
pub(crate) fn minilm() -> Option<PathBuf> {
    found("MEMLOOM_TEST_MINILM", "all-minilm-l6-v2".into())
}

fn found(variable: &str, path: PathBuf) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(path.into());
    }
    let home = env::var_os("MEMLOOM_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/share/memloom")));
    let place = home.map(|home| home.join("models").join(&path));
    let place = place.filter(|place| place.exists());
    if place.is_none() {
        eprintln!(
            "skipped: `{}` has not been fetched and {variable} is not set",
            path.display()
        );
    }
    place
}
