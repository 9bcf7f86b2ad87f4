//! Models that tests read: tiny ones of the repository, and the real one where it has been fetched.

use std::{
    collections::HashMap,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use candle_core::quantized::gguf_file::{Content, Value};

#[path = "../tests/real/mod.rs"]
mod real;

/// Folder of a tiny model, such as `tiny-qwen2`.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A JSON file among the fixtures.
pub(crate) fn json(name: &str) -> serde_json::Value {
    let file = File::open(folder(name)).expect(name);
    serde_json::from_reader(BufReader::new(file)).expect(name)
}

/// Metadata of the real model.
pub(crate) fn real_metadata() -> Option<HashMap<String, Value>> {
    let file = File::open(real::gguf()?).expect("the GGUF opens");
    Some(
        Content::read(&mut BufReader::new(file))
            .expect("the GGUF parses")
            .metadata,
    )
}
