//! How one window went.

use mem_schema::{extraction::Drops, generator::Finish, record::Record};
use serde::{Deserialize, Serialize};

/// How one window went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// A reply was read.
    Done(Done),
    /// There was no reply, or none that holds memories.
    Failed(Failed),
}

/// A window that was read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Done {
    /// Its records in the order of the reply.
    pub(super) records: Vec<Record>,
    /// Memories of the reply that became no record, by reason.
    pub(super) drops: Drops,
    /// The reply was cut off; complete records before the cut were kept.
    pub(super) salvaged: bool,
    /// Why the reply ended.
    pub(super) finish: Finish,
    /// What it took.
    pub(super) cost: Cost,
}

/// A window without a usable reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Failed {
    /// Why, for a person.
    pub(super) reason: String,
    /// What it took.
    pub(super) cost: Cost,
}

/// Work spent on a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Cost {
    /// Tokens of the prompt.
    pub(super) prompt_tokens: usize,
    /// Tokens generated.
    pub(super) new_tokens: usize,
    /// The window's share of the wall-clock time: an instant in which several windows are in work counts for each in
    /// equal parts, so that the shares of all windows add up to the time that they took together.
    pub(super) seconds: f64,
}

impl Outcome {
    /// Whether the window needs no second try.
    pub(super) fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }

    /// Whether records may be missing that a limit above `max_new_tokens` would bring.
    pub(super) fn is_cut_off(&self, max_new_tokens: usize) -> bool {
        let at_the_limit = self.cost().new_tokens >= max_new_tokens;
        matches!(self, Self::Done(done) if done.salvaged && done.finish == Finish::Length && at_the_limit)
    }

    /// Whether the window would end the same way with a limit of `max_new_tokens`, which may have been raised
    /// since because replies were cut off.
    pub(super) fn holds_at(&self, max_new_tokens: usize) -> bool {
        let used = self.cost().new_tokens;
        match self {
            Self::Done(done) if done.finish == Finish::Length => used == max_new_tokens,
            Self::Done(_) => used <= max_new_tokens,
            Self::Failed(_) => false,
        }
    }

    /// What came of it.
    pub(super) fn records(&self) -> &[Record] {
        match self {
            Self::Done(done) => &done.records,
            Self::Failed(_) => &[],
        }
    }

    /// What the window took.
    pub(super) fn cost(&self) -> Cost {
        match self {
            Self::Done(done) => done.cost,
            Self::Failed(failed) => failed.cost,
        }
    }
}
