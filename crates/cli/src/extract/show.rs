//! `memextract windows`: what would be sent to the model, without sending it.

use std::io::{self, Write};

use mem_schema::{
    generator::ChatMessage, prompt::extraction_messages, reply_schema::reply_schema,
    transcript::Role, window::Message,
};
use serde::Serialize;

use crate::say::count;

use super::{
    Error,
    args::InputArgs,
    inputs::{Inputs, Problems},
    settings::Settings,
};

/// Counts the tokens of a prompt; what went wrong as text.
pub type CountTokens<'a> = &'a dyn Fn(&[ChatMessage]) -> anyhow::Result<usize>;

/// One window, as `--json` prints it.
#[derive(Serialize)]
struct Shown<'a> {
    transcript: &'a str,
    window: usize,
    /// Messages at the head that are context only.
    overlap: usize,
    messages: Vec<ShownMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_tokens: Option<usize>,
    prompt: Vec<ChatMessage>,
    /// JSON schema that holds the reply.
    schema: serde_json::Value,
}

/// One message of a window: its number in the prompt and what it stands for.
#[derive(Serialize)]
struct ShownMessage<'a> {
    number: usize,
    session: &'a str,
    turn: &'a str,
    speaker: &'a str,
    time: String,
}

/// Prints every selected window with its prompt; as JSONL with `json`. Returns what was wrong with
/// the inputs.
///
/// # Errors
/// When nothing can be shown, or standard output cannot be written.
pub fn show(
    args: &InputArgs,
    json: bool,
    count_tokens: Option<CountTokens<'_>>,
    stdout: &mut dyn Write,
) -> anyhow::Result<Problems> {
    let settings = Settings::resolve(args)?;
    let inputs = Inputs::read(args)?;
    for window in inputs.windows(&settings.segmentation)? {
        let prompt = extraction_messages(&window, settings.instruction);
        let prompt_tokens = count_tokens.map(|count| count(&prompt)).transpose()?;
        let shown = Shown {
            transcript: &window.transcript_id,
            window: window.index,
            overlap: window.overlap_count,
            messages: window.messages.iter().map(ShownMessage::from).collect(),
            prompt_tokens,
            prompt,
            schema: reply_schema(&window),
        };
        match print(&shown, json, stdout) {
            Ok(()) => {}
            // Who has seen enough of the windows still learns by the exit code what is missing.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            Err(error) => return Err(Error::Stdout(error).into()),
        }
    }
    Ok(inputs.problems)
}

fn print(shown: &Shown<'_>, json: bool, stdout: &mut dyn Write) -> io::Result<()> {
    if json {
        serde_json::to_writer(&mut *stdout, shown)?;
        return writeln!(stdout);
    }
    write!(
        stdout,
        "# {} window {}: {}",
        shown.transcript,
        shown.window,
        count(shown.messages.len(), "message")
    )?;
    if let [first, .., last] = shown.messages.as_slice() {
        write!(stdout, ", turns {} to {}", first.turn, last.turn)?;
    }
    if shown.overlap > 0 {
        write!(stdout, ", {} of them for context", shown.overlap)?;
    }
    if let Some(tokens) = shown.prompt_tokens {
        write!(stdout, ", {tokens} tokens")?;
    }
    writeln!(stdout)?;
    for message in &shown.prompt {
        writeln!(
            stdout,
            "## {}\n{}",
            role_name(message.role),
            message.content
        )?;
    }
    writeln!(stdout)
}

impl<'a> From<&'a Message> for ShownMessage<'a> {
    fn from(message: &'a Message) -> Self {
        Self {
            number: message.number,
            session: &message.session_id,
            turn: &message.turn_id,
            speaker: &message.speaker,
            time: message
                .time
                .map_or_else(String::new, |time| time.to_string()),
        }
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::System => "system",
        Role::Tool => "tool",
    }
}
