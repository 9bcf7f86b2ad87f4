//! The memory record and its parts (DimMem specification, section 1).

use serde::{Deserialize, Serialize};

use crate::time::check::TimeChecked;

/// Version of the record layout that this build writes.
pub const RECORD_VERSION: u32 = 2;

/// JSON schema (draft 2020-12) of one line of output: one serialised [`Record`].
pub const RECORD_SCHEMA: &str = include_str!("../record.schema.json");

/// One memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Layout version, [`RECORD_VERSION`].
    pub version: u32,
    /// `w%04dm%03d` of window and position in it; unique within a transcript.
    pub id: String,
    /// One self-contained sentence.
    pub content: String,
    /// What the memory is about, dimension by dimension.
    pub dimension: Dimension,
    /// Where the memory comes from.
    pub source: Source,
    /// Speaker of the source turn.
    pub source_speaker: String,
    /// Time of the source turn as rendered in the window, `""` if unknown.
    pub source_time: String,
    /// Turns that the memory needs, in conversation order; holds the source turn.
    pub evidence: Vec<String>,
    /// What came of checking the time against the evidence; version 1 had no such field.
    #[serde(default)]
    pub time_checked: TimeChecked,
}

/// Pointer back into the transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// Transcript identifier.
    pub transcript: String,
    /// Session identifier.
    pub session: String,
    /// Turn identifier.
    pub turn: String,
    /// 0-based window index.
    pub window: usize,
}

/// The dimensions of a memory; text fields are `""` when unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// `fact`, `episodic`, `profile`, or `""` where the extractor gave anything else.
    pub memory_type: String,
    /// Time in a normal form.
    pub time: String,
    /// Place, platform, organisation or setting.
    pub location: String,
    /// Cause or background.
    pub reason: String,
    /// Aim.
    pub purpose: String,
    /// Short terms that a searcher would type.
    pub keywords: Vec<String>,
}
