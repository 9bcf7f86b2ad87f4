//! Cutting a transcript into overlapping windows of messages (DimMem specification, section 3).

use crate::transcript::{Moment, Role, Transcript};

/// How a transcript is cut into windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Messages in a window; at least 1.
    pub window: usize,
    /// Messages at the head of a window that repeat the end of the one before; less than `window`.
    pub overlap: usize,
    /// Append image captions to the text of their message.
    pub captions: bool,
}

/// One message of a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// 1-based number inside the window: what an extractor calls `source_id`.
    pub number: usize,
    /// 1-based number over all messages that were cut into windows.
    pub global_index: usize,
    /// Session of the turn.
    pub session_id: String,
    /// 1-based number within the session, counting only messages that are cut into windows.
    pub session_local_index: usize,
    /// Turn of the transcript.
    pub turn_id: String,
    /// Speaker of the turn.
    pub speaker: String,
    /// Role of the speaker.
    pub role: Role,
    /// When it was said; session start plus 0.5 s for each message before it, unless the turn has a time.
    pub time: Option<Moment>,
    /// Text after the cut of over-long messages, caption included where asked for.
    pub text: String,
}

/// A run of consecutive messages given to the extractor at once. Session borders do not cut windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Transcript that was cut.
    pub transcript_id: String,
    /// 0-based position in the transcript.
    pub index: usize,
    /// Messages at the head that are context only: memories must rest on later ones.
    pub overlap_count: usize,
    /// The messages, numbered from 1.
    pub messages: Vec<Message>,
}

impl Window {
    /// Number of the first message that memories may come from.
    pub fn extract_start(&self) -> usize {
        self.overlap_count + 1
    }
}

/// Cuts `transcript` into windows. No message is dropped; only user turns count in transcripts of kind assistant.
pub fn windows(_transcript: &Transcript, _segmentation: &Segmentation) -> Vec<Window> {
    Vec::new()
}
