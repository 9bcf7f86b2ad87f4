//! Models that tests read: tiny ones of the repository, and the real one where it has been fetched.

use std::{
    collections::HashMap,
    env,
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
};

use candle_core::quantized::gguf_file::{Content, Value};

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

/// `MEMLOOM_TEST_GGUF`, else the 0.5B model in the models' home. Says on stderr when there is none;
/// the test then passes without it.
pub(crate) fn real_gguf() -> Option<PathBuf> {
    const NAME: &str = "qwen2.5-coder-0.5b-instruct-q4_k_m";
    if let Some(path) = env::var_os("MEMLOOM_TEST_GGUF") {
        return Some(path.into());
    }
    let home = env::var_os("MEMLOOM_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(Path::new(&env::var_os("HOME")?).join(".local/share/memloom")))?;
    let entries = home
        .join("models")
        .join(NAME)
        .read_dir()
        .into_iter()
        .flatten();
    let found = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| {
            path.extension()
                .is_some_and(|extension| extension == "gguf")
        });
    if found.is_none() {
        eprintln!("skipped: `{NAME}` has not been fetched and MEMLOOM_TEST_GGUF is not set");
    }
    found
}

/// Metadata of the real model.
pub(crate) fn real_metadata() -> Option<HashMap<String, Value>> {
    let file = File::open(real_gguf()?).expect("the GGUF opens");
    Some(
        Content::read(&mut BufReader::new(file))
            .expect("the GGUF parses")
            .metadata,
    )
}
