//! Cutting a stream of turns into sessions where the file does not name them.

use jiff::SignedDuration;

use crate::transcript::{Moment, Session, Turn};

/// Two turns further apart than this belong to different sessions.
const LONGEST_PAUSE: SignedDuration = SignedDuration::from_hours(4);

/// Sessions `S1`, `S2`, … with turns `S1:1`, `S1:2`, …
#[derive(Default)]
pub(super) struct Sittings {
    sessions: Vec<Session>,
    last_time: Option<Moment>,
    /// Start of the session that the next turn opens, however close it follows.
    opening: Option<Option<Moment>>,
}

impl Sittings {
    /// Makes the next turn open a session that begins at `start`, or at the turn's own time.
    pub(super) fn open(&mut self, start: Option<Moment>) {
        self.opening = Some(start);
    }

    /// Adds a turn; its identifier is set here.
    pub(super) fn push(&mut self, mut turn: Turn) {
        let paused = match (self.last_time, turn.time) {
            (Some(before), Some(now)) => pause(before, now).abs() > LONGEST_PAUSE,
            _ => false,
        };
        let opening = self.opening.take();
        if self.sessions.is_empty() || opening.is_some() || paused {
            let id = format!("S{}", self.sessions.len() + 1);
            let start = opening.flatten().or(turn.time);
            self.sessions.push(Session {
                id,
                start,
                turns: Vec::new(),
            });
        }
        self.last_time = turn.time.or(self.last_time);
        if let Some(session) = self.sessions.last_mut() {
            turn.id = format!("{}:{}", session.id, session.turns.len() + 1);
            session.turns.push(turn);
        }
    }

    pub(super) fn finish(self) -> Vec<Session> {
        self.sessions
    }
}

/// Time from `before` to `now`: of the instants where both offsets are known, else of the wall clocks.
fn pause(before: Moment, now: Moment) -> SignedDuration {
    let clocks = now.local.duration_since(before.local);
    match (before.offset, now.offset) {
        (Some(before), Some(now)) => {
            let shift = i64::from(now.seconds()) - i64::from(before.seconds());
            clocks.saturating_sub(SignedDuration::from_secs(shift))
        }
        _ => clocks,
    }
}
