//! A tokenizer out of a GGUF's metadata, equal to the `tokenizer.json` it was made from.
//!
//! candle has such a reader too, but it falls back to GPT-2's splitting without a word when it does
//! not know the file's kind.

use std::collections::HashMap;

use candle_core::quantized::gguf_file::Value;
use tokenizers::{
    AddedToken, SplitDelimiterBehavior, Tokenizer,
    decoders::byte_level::ByteLevel,
    models::bpe::{BPE, Merges, Vocab},
    normalizers::unicode::NFC,
    pre_tokenizers::{
        PreTokenizerWrapper,
        sequence::Sequence,
        split::{Split, SplitPattern},
    },
};

use crate::error::{Cause, Error, Result};

/// How messages name the place the tokenizer comes from.
pub(super) const ORIGIN: &str = "GGUF metadata";

/// Qwen2's splitting of text before merging, as in its `tokenizer.json`.
const QWEN2_SPLIT: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

// Kinds of token, as llama.cpp numbers them.
const NORMAL: i64 = 1;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;

/// Reads `tokenizer.ggml.*`.
pub(super) fn tokenizer(metadata: &HashMap<String, Value>) -> Result<Tokenizer> {
    let model = string(metadata, "tokenizer.ggml.model")?;
    if model != "gpt2" {
        let problem = format!("is `{model}`, only `gpt2` (byte-level BPE) is known");
        return Err(field("tokenizer.ggml.model", problem));
    }
    let pre = string(metadata, "tokenizer.ggml.pre")?;
    if pre != "qwen2" {
        return Err(Error::PreTokenizer {
            name: pre.to_owned(),
        });
    }
    let tokens = strings(metadata, "tokenizer.ggml.tokens")?;
    let kinds = match metadata.get("tokenizer.ggml.token_type") {
        Some(_) => integers(metadata, "tokenizer.ggml.token_type")?,
        None => vec![NORMAL; tokens.len()],
    };
    if kinds.len() != tokens.len() {
        let problem = format!("has {} entries for {} tokens", kinds.len(), tokens.len());
        return Err(field("tokenizer.ggml.token_type", problem));
    }
    build(&tokens, &kinds, merges(metadata)?).map_err(|source| Error::Tokenizer {
        origin: ORIGIN.to_owned(),
        source,
    })
}

/// End tokens that the GGUF names.
pub(super) fn end_tokens(metadata: &HashMap<String, Value>) -> Result<Vec<u32>> {
    let mut ids = Vec::new();
    for key in ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"] {
        if let Some(value) = metadata.get(key) {
            let id = integer(value).and_then(|id| u32::try_from(id).ok());
            ids.push(id.ok_or_else(|| field(key, "is no token id".to_owned()))?);
        }
    }
    Ok(ids)
}

fn build(tokens: &[&str], kinds: &[i64], merges: Merges) -> Result<Tokenizer, Cause> {
    let entries = || (0u32..).zip(tokens).zip(kinds);
    // Padding rows (`[PAD151665]`) have an id in the file but are no tokens.
    let vocab: Vocab = entries()
        .filter(|&(_, &kind)| kind != UNUSED)
        .map(|((id, &token), _)| (token.to_owned(), id))
        .collect();
    let bpe = BPE::builder().vocab_and_merges(vocab, merges).build()?;
    let mut tokenizer = Tokenizer::new(bpe);
    tokenizer.with_normalizer(Some(NFC))?;
    let pattern = SplitPattern::Regex(QWEN2_SPLIT.to_owned());
    let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?;
    let steps: Vec<PreTokenizerWrapper> =
        vec![split.into(), ByteLevel::new(false, false, false).into()];
    tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
    tokenizer.with_decoder(Some(ByteLevel::new(false, false, false)));
    let added = entries()
        .filter(|&(_, &kind)| kind == CONTROL || kind == USER_DEFINED)
        .map(|((_, &token), &kind)| AddedToken::from(token, kind == CONTROL).normalized(false));
    tokenizer.add_tokens(added)?;
    Ok(tokenizer)
}

fn merges(metadata: &HashMap<String, Value>) -> Result<Merges> {
    const KEY: &str = "tokenizer.ggml.merges";
    strings(metadata, KEY)?
        .into_iter()
        .map(|merge| {
            let (left, right) = merge
                .split_once(' ')
                .ok_or_else(|| field(KEY, format!("has an entry without a space, `{merge}`")))?;
            Ok((left.to_owned(), right.to_owned()))
        })
        .collect()
}

fn field(key: &str, problem: String) -> Error {
    Error::GgufField {
        key: key.to_owned(),
        problem,
    }
}

fn required<'a>(metadata: &'a HashMap<String, Value>, key: &str) -> Result<&'a Value> {
    metadata
        .get(key)
        .ok_or_else(|| field(key, "is missing".to_owned()))
}

fn string<'a>(metadata: &'a HashMap<String, Value>, key: &str) -> Result<&'a str> {
    match required(metadata, key)? {
        Value::String(text) => Ok(text),
        _ => Err(field(key, "is not a string".to_owned())),
    }
}

fn array<'a>(metadata: &'a HashMap<String, Value>, key: &str) -> Result<&'a [Value]> {
    match required(metadata, key)? {
        Value::Array(values) => Ok(values),
        _ => Err(field(key, "is not a list".to_owned())),
    }
}

fn strings<'a>(metadata: &'a HashMap<String, Value>, key: &str) -> Result<Vec<&'a str>> {
    let text = |value: &'a Value| match value {
        Value::String(text) => Some(text.as_str()),
        _ => None,
    };
    let all: Option<Vec<_>> = array(metadata, key)?.iter().map(text).collect();
    all.ok_or_else(|| field(key, "holds something else than strings".to_owned()))
}

fn integers(metadata: &HashMap<String, Value>, key: &str) -> Result<Vec<i64>> {
    let all: Option<Vec<_>> = array(metadata, key)?.iter().map(integer).collect();
    all.ok_or_else(|| field(key, "holds something else than integers".to_owned()))
}

/// Writers disagree on the width of integers.
fn integer(value: &Value) -> Option<i64> {
    match *value {
        Value::U8(value) => Some(value.into()),
        Value::I8(value) => Some(value.into()),
        Value::U16(value) => Some(value.into()),
        Value::I16(value) => Some(value.into()),
        Value::U32(value) => Some(value.into()),
        Value::I32(value) => Some(value.into()),
        Value::U64(value) => value.try_into().ok(),
        Value::I64(value) => Some(value),
        _ => None,
    }
}
