//! A conversation as every reader delivers it and every stage consumes it.

use serde::{Deserialize, Serialize};

pub use crate::moment::{Moment, MomentError};

/// One conversation: an ordered list of sessions between the same participants.
#[derive(Clone, Debug, PartialEq)]
pub struct Transcript {
    /// Identifier, unique among the transcripts of one run.
    pub id: String,
    /// Whether people talk to each other or one user talks to an assistant.
    pub kind: Kind,
    /// BCP 47 language tag, where the file states it.
    pub language: Option<String>,
    /// Speakers in the order of the file, or of first appearance.
    pub participants: Vec<String>,
    /// Sessions in the order in which they took place.
    pub sessions: Vec<Session>,
}

/// What sort of conversation a transcript holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// People talk to each other; every turn may hold memories.
    Dialogue,
    /// One user and an AI assistant; memories come from what the user says.
    Assistant,
}

/// One sitting: consecutive turns with a common start.
#[derive(Clone, Debug, PartialEq)]
pub struct Session {
    /// Identifier, unique within the transcript.
    pub id: String,
    /// When the session began, if known.
    pub start: Option<Moment>,
    /// Turns in order.
    pub turns: Vec<Turn>,
}

/// One utterance.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    /// Identifier, unique within the transcript (`S1:3`, `D1:3`).
    pub id: String,
    /// Name of the speaker; for chat messages without a name, the role.
    pub speaker: String,
    /// Part that the speaker plays.
    pub role: Role,
    /// What was said.
    pub text: String,
    /// What a shared picture shows.
    pub image_caption: Option<String>,
    /// When it was said, where the file gives a time for the turn itself.
    pub time: Option<Moment>,
}

/// Part that a speaker plays in a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person.
    User,
    /// An AI assistant.
    Assistant,
    /// Instructions to an assistant; never a source of memories.
    System,
    /// Output of a tool; never a source of memories.
    Tool,
}

impl Role {
    /// Whether what the speaker says can be a source of memories at all.
    pub fn may_hold_memories(self) -> bool {
        matches!(self, Self::User | Self::Assistant)
    }
}
