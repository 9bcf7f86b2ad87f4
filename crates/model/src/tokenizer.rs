//! Text to token ids and back, for byte-level BPE tokenizers of the Qwen family.
//!
//! Two encodings, because a prompt mixes text that may steer the model with text that must not:
//! [`Tokenizer::encode_text`] never yields a control token, whatever the text says;
//! [`Tokenizer::encode_rendered`] yields them where the chat template wrote them and nowhere else.
//! Between the two stands a *mark*, a character that occurs in no input: [`Tokenizer::shield`] puts
//! it into foreign text after every character that could begin a control token, the template is
//! rendered, control tokens are looked for in the marked text, and the marks are taken out again
//! before anything is tokenised. So the ids are those of the ordinary encoding of the same prompt,
//! except that foreign text which looks like a control token stays text.

mod bytes;
mod gguf;

use std::{collections::HashMap, fs, path::Path, sync::Arc};

use candle_core::quantized::gguf_file::Value;
use tokenizers::{
    Model, Normalizer, OffsetType, PreTokenizedString, PreTokenizer, tokenizer::NormalizedString,
};

use crate::error::{Error, Result};
pub use bytes::TextStream;
use bytes::TokenBytes;

/// Ends a turn in every chat model of the family.
pub const END_OF_TURN: &str = "<|im_end|>";
/// Ends a document; base models were trained with it.
const END_OF_TEXT: &str = "<|endoftext|>";

/// A tokenizer; clones share the tables.
#[derive(Clone)]
pub struct Tokenizer(Arc<Tables>);

struct Tables {
    inner: tokenizers::Tokenizer,
    /// Longest first, so that the first that fits is the one the reference takes.
    controls: Vec<Control>,
    bytes: TokenBytes,
    /// End of turn first.
    end_tokens: Vec<u32>,
}

/// A token that stands for itself and is never made by merging: `<|im_start|>`, `<think>`, …
struct Control {
    text: String,
    id: u32,
    /// Left out of decoded text.
    hidden: bool,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a model folder, and the end tokens of its `generation_config.json`
    /// where there is one.
    ///
    /// # Errors
    /// When a file cannot be read or parsed, or the tokenizer is none of the family.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let path = folder.join("tokenizer.json");
        let json = fs::read(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let origin = path.display().to_string();
        let inner = tokenizers::Tokenizer::from_bytes(json).map_err(|source| Error::Tokenizer {
            origin: origin.clone(),
            source,
        })?;
        Self::new(inner, &origin, &generation_ends(folder)?)
    }

    /// Builds the tokenizer from a GGUF's own metadata.
    ///
    /// # Errors
    /// When a field is missing or malformed, or asks for a tokenizer of another family.
    pub fn from_gguf(metadata: &HashMap<String, Value>) -> Result<Self> {
        Self::new(
            gguf::tokenizer(metadata)?,
            gguf::ORIGIN,
            &gguf::end_tokens(metadata)?,
        )
    }

    fn new(inner: tokenizers::Tokenizer, origin: &str, more_ends: &[u32]) -> Result<Self> {
        let foreign = |problem| Error::ForeignTokenizer {
            origin: origin.to_owned(),
            problem,
        };
        let mut controls = Vec::new();
        for (id, token) in inner.get_added_tokens_decoder() {
            if token.single_word || token.lstrip || token.rstrip {
                return Err(foreign(format!(
                    "token `{}` takes spaces with it",
                    token.content
                )));
            }
            controls.push(Control {
                text: token.content,
                id,
                hidden: token.special,
            });
        }
        controls.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then(a.id.cmp(&b.id)));
        let bytes = TokenBytes::new(&inner.get_vocab(false), &controls).map_err(foreign)?;
        let end_of_turn = inner
            .token_to_id(END_OF_TURN)
            .ok_or_else(|| foreign(format!("it has no token `{END_OF_TURN}`")))?;
        let mut end_tokens = vec![end_of_turn];
        for id in inner
            .token_to_id(END_OF_TEXT)
            .into_iter()
            .chain(more_ends.iter().copied())
        {
            if id as usize >= bytes.len() {
                return Err(foreign(format!(
                    "end token {id} is none of its {} tokens",
                    bytes.len()
                )));
            }
            if !end_tokens.contains(&id) {
                end_tokens.push(id);
            }
        }
        Ok(Self(Arc::new(Tables {
            inner,
            controls,
            bytes,
            end_tokens,
        })))
    }

    /// Ids of plain text; text that looks like a control token is encoded as ordinary characters.
    ///
    /// # Errors
    /// [`Error::Encode`] when the tokenizer's pipeline fails.
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>> {
        let fail = |source| Error::Encode {
            len_bytes: text.len(),
            source,
        };
        let inner = &self.0.inner;
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = inner.get_normalizer() {
            normalizer.normalize(&mut normalized).map_err(fail)?;
        }
        let mut pieces = PreTokenizedString::from(normalized);
        if let Some(pre_tokenizer) = inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces).map_err(fail)?;
        }
        let model = inner.get_model();
        pieces
            .tokenize(|piece| model.tokenize(piece.get()))
            .map_err(fail)?;
        let encoding = pieces
            .into_encoding(None, 0, OffsetType::None)
            .map_err(fail)?;
        Ok(encoding.get_ids().to_vec())
    }

    /// `text` with `mark` after every character that begins a control token. See the module's head.
    pub fn shield(&self, text: &str, mark: char) -> String {
        let mut shielded = String::with_capacity(text.len() + 16);
        for character in text.chars() {
            shielded.push(character);
            if self
                .0
                .controls
                .iter()
                .any(|control| control.text.starts_with(character))
            {
                shielded.push(mark);
            }
        }
        shielded
    }

    /// Ids of a rendered prompt whose foreign parts went through [`Tokenizer::shield`] with the
    /// same `mark`: control tokens become single ids, the rest is plain text.
    ///
    /// # Errors
    /// [`Error::Encode`] as for [`Tokenizer::encode_text`].
    pub fn encode_rendered(&self, rendered: &str, mark: char) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(rendered.len() / 3);
        let mut rest = rendered;
        while !rest.is_empty() {
            let (at, control) = match self.next_control(rest, mark) {
                Some((at, control)) => (at, Some(control)),
                None => (rest.len(), None),
            };
            let (text, tail) = rest.split_at(at);
            ids.extend(self.encode_text(&text.replace(mark, ""))?);
            ids.extend(control.map(|control| control.id));
            rest = &tail[control.map_or(0, |control| control.text.len())..];
        }
        Ok(ids)
    }

    /// First control token in `text`, the longest where several begin.
    fn next_control(&self, text: &str, mark: char) -> Option<(usize, &Control)> {
        text.char_indices().find_map(|(at, first)| {
            let rest = &text[at..];
            let marked = rest[first.len_utf8()..].starts_with(mark);
            let fits = |control: &&Control| !marked && rest.starts_with(&control.text);
            self.0
                .controls
                .iter()
                .find(fits)
                .map(|control| (at, control))
        })
    }

    /// Text of `ids` without control tokens; bytes that are no UTF-8 become U+FFFD. For text that
    /// is still growing, see [`TextStream`].
    pub fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids
            .iter()
            .flat_map(|&id| self.visible_bytes(id))
            .copied()
            .collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Bytes that a token stands for, a control token's name included; empty for unknown ids.
    pub fn token_bytes(&self, id: u32) -> &[u8] {
        self.0.bytes.get(id)
    }

    /// Bytes that a token adds to decoded text: none for a special token.
    pub fn visible_bytes(&self, id: u32) -> &[u8] {
        let hidden = self
            .0
            .controls
            .iter()
            .any(|control| control.hidden && control.id == id);
        if hidden { &[] } else { self.token_bytes(id) }
    }

    /// Whether the token is a control token, which no text encodes to.
    pub fn is_control(&self, id: u32) -> bool {
        self.0.controls.iter().any(|control| control.id == id)
    }

    /// One more than the highest id; a model's logits are often wider.
    pub fn vocab_size(&self) -> usize {
        self.0.bytes.len()
    }

    /// Tokens that end a reply: `<|im_end|>` first, `<|endoftext|>`, and what the model adds.
    pub fn end_tokens(&self) -> &[u32] {
        &self.0.end_tokens
    }

    /// Id of `<|im_end|>`, which training puts behind every answer.
    pub fn end_of_turn(&self) -> u32 {
        self.0.end_tokens[0]
    }
}

/// `eos_token_id` of `generation_config.json`: one id or a list; none without the file.
fn generation_ends(folder: &Path) -> Result<Vec<u32>> {
    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum OneOrMany {
        One(u32),
        Many(Vec<u32>),
    }
    #[derive(serde::Deserialize)]
    struct GenerationConfig {
        eos_token_id: Option<OneOrMany>,
    }
    let path = folder.join("generation_config.json");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let json = fs::read(&path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let config: GenerationConfig =
        serde_json::from_slice(&json).map_err(|source| Error::Json { path, source })?;
    Ok(match config.eos_token_id {
        None => Vec::new(),
        Some(OneOrMany::One(id)) => vec![id],
        Some(OneOrMany::Many(ids)) => ids,
    })
}

#[cfg(test)]
mod tests;
