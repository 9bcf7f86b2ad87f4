//! Cutting a transcript into overlapping windows of messages (DimMem specification, section 3).

use std::{borrow::Cow, fmt::Write as _};

use crate::transcript::{Kind, Moment, Role, Session, Transcript, Turn};

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

/// A segmentation that would not advance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentationError {
    /// `window` is 0.
    #[error("a window of 0 messages holds nothing: choose a window of at least 1")]
    EmptyWindow,
    /// `overlap` is not less than `window`.
    #[error("an overlap of {overlap} leaves nothing new in a window of {window} messages: choose an overlap of at most {}", window - 1)]
    OverlapTooLarge {
        /// Messages in a window.
        window: usize,
        /// Messages repeated.
        overlap: usize,
    },
}

impl Segmentation {
    /// The reference's cut of LoCoMo: all turns, 25 messages, 5 repeated, captions unseen.
    pub const LOCOMO: Self = Self {
        window: 25,
        overlap: 5,
        captions: false,
    };
    /// The reference's cut of LongMemEval: user turns, 15 messages, 3 repeated.
    pub const LONGMEMEVAL: Self = Self {
        window: 15,
        overlap: 3,
        captions: false,
    };

    /// Checks what a person asked for.
    ///
    /// # Errors
    /// When the window is empty or the overlap is not smaller than it.
    pub fn check(&self) -> Result<(), SegmentationError> {
        if self.window == 0 {
            Err(SegmentationError::EmptyWindow)
        } else if self.overlap >= self.window {
            Err(SegmentationError::OverlapTooLarge {
                window: self.window,
                overlap: self.overlap,
            })
        } else {
            Ok(())
        }
    }
}

/// The overlap for a window: `explicit` if given, else `window * ratio` rounded half to even; at most `window - 1`.
pub fn resolve_overlap(window: usize, explicit: Option<usize>, ratio: f64) -> usize {
    let wanted = explicit.unwrap_or_else(|| (window as f64 * ratio).round_ties_even() as usize);
    wanted.min(window.saturating_sub(1))
}

/// How over-long texts are shortened; all lengths in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongTextCut {
    /// Texts up to this length stay whole.
    pub threshold: usize,
    /// Characters kept from the start.
    pub head: usize,
    /// Characters kept from the middle.
    pub middle: usize,
    /// Characters kept from the end.
    pub tail: usize,
    /// With all three parts 0 the text stays whole (the reference's LongMemEval form) instead of
    /// becoming empty (its LoCoMo form).
    pub whole_if_no_parts: bool,
}

impl LongTextCut {
    /// What [`windows`] applies to every message.
    pub const DEFAULT: Self = Self {
        threshold: 8000,
        head: 500,
        middle: 200,
        tail: 300,
        whole_if_no_parts: true,
    };

    /// Whether [`Self::apply`] shortens `text`.
    pub fn shortens(&self, text: &str) -> bool {
        let no_parts = self.head + self.middle + self.tail == 0;
        text.chars().count() > self.threshold && !(no_parts && self.whole_if_no_parts)
    }

    /// Shortens `text` if it is longer than the threshold: head, middle and tail joined by `\n...\n`.
    pub fn apply(&self, text: &str) -> String {
        if !self.shortens(text) {
            return text.to_owned();
        }
        let length = text.chars().count();
        let part = |start: usize, count: usize| -> String {
            text.chars().skip(start).take(count).collect()
        };
        let parts = [
            part(0, self.head),
            part(length.saturating_sub(self.middle) / 2, self.middle),
            part(length.saturating_sub(self.tail), self.tail),
        ];
        let kept: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        kept.join("\n...\n")
    }
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
    /// What was said and, where asked for, shown; after the cut of over-long messages.
    pub text: String,
}

/// A run of consecutive messages given to the extractor at once. Session borders do not cut windows.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Transcript that was cut.
    pub transcript_id: String,
    /// Kind of that transcript; decides how speakers are written.
    pub kind: Kind,
    /// 0-based position in the transcript.
    pub index: usize,
    /// Messages at the head that are context only: memories must rest on later ones.
    pub overlap_count: usize,
    /// The messages, numbered from 1.
    pub messages: Vec<Message>,
}

/// How a window is written out for a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowStyle {
    /// The specification's lines: `[2023-05-08T13:56:00, Mon] 1.Caroline: …`; in transcripts of kind
    /// assistant the speaker is `User`. Without a time the bracket is left out.
    Reference,
    /// Shorter, for small tuned models: `[2023-05-08 Mon 13:56]` on a line of its own where the session
    /// or the date changes, then `1 Caroline: …`; in transcripts of kind assistant the speaker is
    /// `user`. Lines of a text after its first are indented by two spaces, so that a text cannot pass
    /// for another message.
    Compact,
}

impl Window {
    /// Number of the first message that memories may come from.
    pub fn extract_start(&self) -> usize {
        self.overlap_count + 1
    }

    /// The window as the model reads it: one line per message (texts may hold line breaks), no final newline.
    pub fn text(&self, style: WindowStyle) -> String {
        match style {
            WindowStyle::Reference => self.reference_text(),
            WindowStyle::Compact => self.compact_text(),
        }
    }

    fn reference_text(&self) -> String {
        let lines = self.messages.iter().map(|message| {
            let speaker = match self.kind {
                Kind::Dialogue => &message.speaker,
                Kind::Assistant => "User",
            };
            let stamp = message
                .time
                .map_or_else(String::new, |t| format!("[{t}, {}] ", t.weekday()));
            format!("{stamp}{}.{speaker}: {}", message.number, message.text)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn compact_text(&self) -> String {
        let mut lines = Vec::with_capacity(self.messages.len());
        let mut under = None;
        for message in &self.messages {
            let place = (&message.session_id, message.time.map(|time| time.date()));
            match message.time {
                Some(t) if under != Some(place) => {
                    let mut header = String::new();
                    // Writing to a String cannot fail.
                    let _ = write!(
                        header,
                        "[{} {} {:02}:{:02}]",
                        t.date(),
                        t.weekday(),
                        t.local.hour(),
                        t.local.minute()
                    );
                    lines.push(header);
                }
                // Without this line the messages would seem to fall under the header above.
                None if matches!(under, Some((_, Some(_)))) => {
                    lines.push("[date unknown]".to_owned())
                }
                _ => {}
            }
            under = Some(place);
            let speaker = match self.kind {
                Kind::Dialogue => &message.speaker,
                Kind::Assistant => "user",
            };
            let text = message.text.replace('\n', "\n  ");
            lines.push(format!("{} {speaker}: {text}", message.number));
        }
        lines.join("\n")
    }
}

/// What the assistant said right after one message of a window (specification, section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssistantReply {
    /// `w%04du%02d` of window and message number.
    pub uid: String,
    /// Number of the message in the window.
    pub source_id: usize,
    /// 1-based number over all messages that were cut into windows.
    pub global_index: usize,
    /// Session of the message.
    pub session_id: String,
    /// 1-based number within the session.
    pub session_local_index: usize,
    /// The reply; `""` where the next turn of the session is not the assistant's.
    pub text: String,
}

/// The reply to every message of `window`, in window order. Found by position, not by session
/// identifier: the reference gives sessions of one name the later one's replies.
pub fn assistant_replies(transcript: &Transcript, window: &Window) -> Vec<AssistantReply> {
    let places: Vec<_> = message_places(transcript).collect();
    let reply_after = |message: &Message| -> Option<&str> {
        let place = places.get(message.global_index.checked_sub(1)?)?;
        let next = place.session.turns.get(place.turn_index + 1)?;
        (next.role == Role::Assistant).then_some(next.text.as_str())
    };
    let replies = window.messages.iter().map(|message| AssistantReply {
        uid: format!("w{:04}u{:02}", window.index, message.number),
        source_id: message.number,
        global_index: message.global_index,
        session_id: message.session_id.clone(),
        session_local_index: message.session_local_index,
        text: reply_after(message).unwrap_or_default().to_owned(),
    });
    replies.collect()
}

/// A turn that becomes a message, and where it stands.
struct Place<'a> {
    session: &'a Session,
    turn_index: usize,
    turn: &'a Turn,
    session_local_index: usize,
}

/// Turns that become messages: what users say in transcripts of kind assistant, else everything that
/// people (or bots among them) say or show.
fn message_places(transcript: &Transcript) -> impl Iterator<Item = Place<'_>> {
    let counts = |turn: &Turn| match transcript.kind {
        Kind::Assistant => turn.role == Role::User,
        Kind::Dialogue => {
            turn.role.may_hold_memories() && !(turn.text.is_empty() && turn.image_caption.is_none())
        }
    };
    transcript.sessions.iter().flat_map(move |session| {
        let turns = session
            .turns
            .iter()
            .enumerate()
            .filter(move |(_, turn)| counts(turn));
        turns
            .enumerate()
            .map(move |(before, (turn_index, turn))| Place {
                session,
                turn_index,
                turn,
                session_local_index: before + 1,
            })
    })
}

fn message(place: &Place<'_>, global_index: usize, captions: bool) -> Message {
    let Place {
        session,
        turn,
        session_local_index,
        ..
    } = *place;
    let since_start = 500 * i64::try_from(session_local_index - 1).unwrap_or(0);
    Message {
        number: 0,
        global_index,
        session_id: session.id.clone(),
        session_local_index,
        turn_id: turn.id.clone(),
        speaker: turn.speaker.clone(),
        role: turn.role,
        time: turn.time.or_else(|| {
            session
                .start
                .map(|start| start.plus_milliseconds(since_start))
        }),
        text: LongTextCut::DEFAULT.apply(&shown(turn, captions)),
    }
}

/// What a turn says and, where asked for, shows.
fn shown(turn: &Turn, captions: bool) -> Cow<'_, str> {
    let text = turn.text.as_str();
    match turn.image_caption.as_ref().filter(|_| captions) {
        Some(caption) if text.is_empty() => format!("[image: {caption}]").into(),
        Some(caption) => format!("{text} [image: {caption}]").into(),
        None => text.into(),
    }
}

/// How many messages of `transcript` [`windows`] shortens, each counted once; `captions` as in [`Segmentation`].
pub fn shortened(transcript: &Transcript, captions: bool) -> usize {
    message_places(transcript)
        .filter(|place| LongTextCut::DEFAULT.shortens(&shown(place.turn, captions)))
        .count()
}

/// Cuts `transcript` into windows. No message is dropped; only user turns count in transcripts of kind assistant.
///
/// A segmentation that [`Segmentation::check`] refuses is clamped: a window to at least 1 message, an
/// overlap to less than the window.
pub fn windows(transcript: &Transcript, segmentation: &Segmentation) -> Vec<Window> {
    let size = segmentation.window.max(1);
    let overlap = segmentation.overlap.min(size - 1);
    let messages: Vec<_> = message_places(transcript)
        .enumerate()
        .map(|(before, place)| message(&place, before + 1, segmentation.captions))
        .collect();
    let mut windows = Vec::new();
    let mut start = 0;
    while start < messages.len() {
        let end = messages.len().min(start.saturating_add(size));
        let numbered = messages[start..end].iter().cloned().enumerate();
        let index = windows.len();
        windows.push(Window {
            transcript_id: transcript.id.clone(),
            kind: transcript.kind,
            index,
            overlap_count: if index == 0 { 0 } else { overlap },
            messages: numbered
                .map(|(before, m)| Message {
                    number: before + 1,
                    ..m
                })
                .collect(),
        });
        if end == messages.len() {
            break;
        }
        start += size - overlap;
    }
    windows
}
