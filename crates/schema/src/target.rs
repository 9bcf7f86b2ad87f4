//! The reply that a perfect extractor would give: what training examples end with.

use serde::Serialize;

use crate::{
    labels::Label,
    record::Dimension,
    reply_schema::{EVIDENCE, fits, most_memories},
    scenario::Scenario,
    window::Window,
};

/// The answer of a training example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetReply {
    /// Compact JSON that [`reply_schema`](crate::reply_schema::reply_schema) accepts.
    pub text: String,
    /// Memories in it.
    pub memories: usize,
    /// Labels of the window that do not fit the schema's bounds.
    pub left_out: usize,
}

/// The reply about `window`, a window of the scenario's transcript: every label whose source turn is an extractable
/// message, in message order, then label order.
pub fn target_reply(scenario: &Scenario, window: &Window) -> TargetReply {
    let extractable = window
        .messages
        .iter()
        .filter(|message| message.number >= window.extract_start());
    let labels = extractable.flat_map(|message| {
        let of_message = scenario
            .records
            .iter()
            .filter(|label| label.source_turn == message.turn_id);
        of_message.map(move |label| (message.number, label))
    });
    let (fitting, others): (Vec<_>, Vec<_>) = labels.partition(|(_, label)| fits(label));
    let mut reply = Reply {
        memories: Vec::new(),
    };
    let mut left_out = others.len();
    for (source_id, label) in fitting {
        let evidence = further_evidence(window, label, source_id);
        if reply.memories.len() == most_memories(window) || evidence.len() > EVIDENCE {
            left_out += 1;
            continue;
        }
        reply.memories.push(Memory {
            source_id,
            evidence,
            content: &label.content,
            dimension: dimension(scenario, label),
        });
    }
    TargetReply {
        text: serde_json::to_string(&reply).unwrap_or_default(),
        memories: reply.memories.len(),
        left_out,
    }
}

/// Numbers of the messages that a label needs besides its source, as far as the window shows them.
fn further_evidence(window: &Window, label: &Label, source_id: usize) -> Vec<usize> {
    let needed = window
        .messages
        .iter()
        .filter(|message| message.number != source_id && label.evidence.contains(&message.turn_id));
    needed.map(|message| message.number).collect()
}

/// Fields in the order of the reply schema.
#[derive(Serialize)]
struct Reply<'a> {
    memories: Vec<Memory<'a>>,
}

#[derive(Serialize)]
struct Memory<'a> {
    source_id: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evidence: Vec<usize>,
    content: &'a str,
    dimension: Dimension,
}

fn dimension(scenario: &Scenario, label: &Label) -> Dimension {
    let mut dimension = label.dimension.clone();
    if crate::time::words::wanted() {
        let turns: Vec<_> = scenario
            .transcript
            .sessions
            .iter()
            .flat_map(|session| session.turns.iter().map(move |turn| (turn, session.start)))
            .filter(|(turn, _)| turn.id == label.source_turn || label.evidence.contains(&turn.id))
            .map(|(turn, start)| (turn.text.as_str(), start))
            .collect();
        dimension.time = crate::time::words::to_words(&dimension.time, &turns);
    }
    dimension
}
