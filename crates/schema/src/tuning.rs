//! What an adapter was tuned with, so that extraction can show it the same.

use serde::{Deserialize, Serialize};

use crate::window::Segmentation;

/// Settings that lie beside an adapter's weights as [`Tuning::FILE`]: `memtrain` writes them, `memextract`
/// takes its defaults from them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// Version of the prompts; a model tuned with another version is not used.
    pub prompt_version: u32,
    /// Which instruction the examples began with.
    pub instruction: Instruction,
    /// Messages in a window.
    pub window: usize,
    /// Messages repeated from the window before.
    pub overlap: usize,
    /// Whether image captions were shown.
    pub captions: bool,
}

impl Tuning {
    /// Name of the file in the adapter's folder.
    pub const FILE: &str = "memloom.json";

    /// How the examples' transcripts were cut.
    pub fn segmentation(&self) -> Segmentation {
        Segmentation {
            window: self.window,
            overlap: self.overlap,
            captions: self.captions,
        }
    }
}

/// How much the instruction of an extraction prompt explains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Instruction {
    /// The task in a few lines, for a model that was tuned for it.
    Short,
    /// The task in full, for a model that was not.
    Long,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_back_and_unknown_keys_are_refused() {
        let json =
            r#"{"prompt_version":1,"instruction":"short","window":10,"overlap":2,"captions":true}"#;
        let tuning: Tuning = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&tuning).unwrap(), json);
        assert_eq!(tuning.segmentation().check(), Ok(()));
        assert!(serde_json::from_str::<Tuning>(&json.replace("captions", "pictures")).is_err());
    }
}
