//! The labels of a scenario: what a perfect extractor, updater and answerer would say about it.

use serde::Deserialize;

use crate::record::Dimension;

/// One memory worth keeping.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// Identifier, unique in the scenario.
    pub record_id: String,
    /// Turn that states it; the later one when it takes two.
    pub source_turn: String,
    /// Speaker of that turn.
    pub source_speaker: String,
    /// One self-contained sentence.
    pub content: String,
    /// Its dimensions.
    pub dimension: Dimension,
    /// Every turn that is needed, the source turn among them.
    pub evidence: Vec<String>,
    /// Records that this one makes outdated.
    #[serde(default)]
    pub supersedes: Vec<String>,
}

/// How people or events bear on each other, by one turn.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    /// Turn that supports it.
    pub source_turn: String,
    /// One sentence.
    pub text: String,
}

/// What ties events of two or more sessions together.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Synthesis {
    /// Session after which it can be said.
    pub after_session: String,
    /// One or two sentences.
    pub text: String,
    /// Turns that support it, of at least two sessions.
    pub evidence_turns: Vec<String>,
}

/// A pair of records that look alike and need a decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Update {
    /// The older record.
    pub old: String,
    /// The newer record.
    pub new: String,
    /// What becomes of them.
    pub decision: Decision,
    /// The union of both, for [`Decision::Merge`].
    #[serde(default)]
    pub merged_content: String,
}

/// What becomes of two records that look alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// The new one makes the old one untrue.
    Replace,
    /// Both say the same thing in part.
    Merge,
    /// Both hold.
    KeepBoth,
    /// The person asked to forget the old one.
    Delete,
}

/// A question that needs the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// Identifier, unique in the scenario.
    pub question_id: String,
    /// The question.
    pub question: String,
    /// Day on which it is asked, `YYYY-MM-DD`.
    pub question_date: String,
    /// `single_hop`, `multi_hop`, `temporal`, `open_domain`, `update`, `preference`, `assistant`, `unanswerable`.
    pub category: String,
    /// The answer, short.
    pub answer: String,
    /// Turns that support the answer.
    pub evidence_turns: Vec<String>,
    /// Records that support the answer.
    pub evidence_records: Vec<String>,
    /// The question taken apart.
    pub parse: QuestionParse,
    /// A near miss, then a vague answer.
    pub wrong_answers: Vec<String>,
}

/// A question taken apart, as the query prompt's reply has it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionParse {
    /// The question as one statement of what to find.
    pub query_anchor: String,
    /// The answer lies in what the assistant said.
    pub need_assistant_context: bool,
    /// What limits the search.
    pub dimension: QuestionDimension,
    /// Dimension that answers the question, or `""`.
    pub answer_dim: String,
}

/// What limits a search.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuestionDimension {
    /// Memory types to look among.
    pub target_memory_type: Vec<String>,
    /// Entities and topics.
    pub keywords: Vec<String>,
    /// Limit of time, or `""`.
    pub time: String,
    /// Limit of place, or `""`.
    pub location: String,
}
