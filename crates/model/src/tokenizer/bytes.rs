//! The bytes behind each token, and text that grows token by token.

use std::collections::HashMap;

use super::Control;

/// No vocabulary of the family comes near it.
const LARGEST_VOCABULARY: u32 = 1 << 20;

/// Bytes of every token in one block; 151,936 separate vectors would cost ten times the memory.
pub(super) struct TokenBytes {
    data: Vec<u8>,
    /// Token `id` ends at `ends[id]` and begins where the one before it ends.
    ends: Vec<u32>,
}

impl TokenBytes {
    /// From the vocabulary's names, in which each byte is written as one printable character.
    pub(super) fn new(vocab: &HashMap<String, u32>, controls: &[Control]) -> Result<Self, String> {
        let byte_of: HashMap<char, u8> = byte_characters().into_iter().zip(0..=255).collect();
        let highest = vocab
            .values()
            .copied()
            .chain(controls.iter().map(|control| control.id))
            .max();
        // A damaged file may name an id for which no table would fit into memory.
        if let Some(id) = highest.filter(|&id| id >= LARGEST_VOCABULARY) {
            return Err(format!("token id {id} is out of range"));
        }
        let mut names: Vec<Option<&str>> = vec![None; highest.map_or(0, |id| id as usize + 1)];
        for (name, &id) in vocab {
            names[id as usize] = Some(name);
        }
        for control in controls {
            names[control.id as usize] = None;
        }
        let control_names: HashMap<u32, &str> = controls
            .iter()
            .map(|control| (control.id, control.text.as_str()))
            .collect();
        let mut table = Self {
            data: Vec::new(),
            ends: Vec::with_capacity(names.len()),
        };
        for (id, name) in (0u32..).zip(names) {
            if let Some(text) = control_names.get(&id) {
                table.data.extend(text.as_bytes());
            }
            for character in name.unwrap_or_default().chars() {
                let byte = byte_of.get(&character).ok_or_else(|| {
                    let name = name.unwrap_or_default();
                    format!("token {id} `{name}` is not written in byte-level characters")
                })?;
                table.data.push(*byte);
            }
            table.ends.push(table.data.len() as u32);
        }
        Ok(table)
    }

    /// One more than the highest id.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of one token; empty for unknown ids.
    pub(super) fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else {
            return &[];
        };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.data[start as usize..end as usize]
    }
}

/// GPT-2's characters for the bytes 0 to 255: printable Latin-1 stands for itself, the rest is
/// moved to U+0100 and up, in order.
fn byte_characters() -> Vec<char> {
    let mut moved = '\u{100}'..;
    (0u8..=255)
        .filter_map(|byte| match byte {
            b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF => Some(char::from(byte)),
            _ => moved.next(),
        })
        .collect()
}

/// Text that grows by token bytes. A character split over two tokens appears once it is whole.
#[derive(Debug, Default)]
pub struct TextStream {
    text: String,
    /// Beginning of a character whose other bytes have not come yet; at most 3 bytes.
    partial: Vec<u8>,
}

impl TextStream {
    /// Adds a token's bytes; says whether the text grew.
    pub fn push(&mut self, bytes: &[u8]) -> bool {
        let before = self.text.len();
        self.partial.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.partial);
        let mut chunks = pending.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let unfinished = chunks.peek().is_none()
                && std::str::from_utf8(chunk.invalid())
                    .is_err_and(|error| error.error_len().is_none());
            if unfinished {
                self.partial = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.text.len() > before
    }

    /// The text so far, whole characters only.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The whole text; a character that never became whole is U+FFFD.
    pub fn finish(mut self) -> String {
        self.text.push_str(&String::from_utf8_lossy(&self.partial));
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character() {
        let characters = byte_characters();
        assert_eq!(characters.len(), 256);
        assert_eq!(
            (characters[b' ' as usize], characters[b'\n' as usize]),
            ('Ġ', 'Ċ')
        );
        assert_eq!(
            (characters[b'a' as usize], characters[0xAD]),
            ('a', '\u{143}')
        );
        let distinct: std::collections::HashSet<_> = characters.iter().collect();
        assert_eq!(distinct.len(), 256);
    }

    #[test]
    fn a_stream_shows_whole_characters_only() {
        let mut stream = TextStream::default();
        let text = "a한😀";
        let grew: Vec<bool> = text
            .as_bytes()
            .chunks(1)
            .map(|byte| stream.push(byte))
            .collect();
        assert_eq!(grew, [true, false, false, true, false, false, false, true]);
        assert_eq!(stream.finish(), text);
    }

    #[test]
    fn a_stream_ends_as_lossy_decoding_does() {
        for bytes in [
            &b"\xED\x95"[..],
            b"a\xFFb",
            b"\xF0\x9Fx\xE2",
            b"\x80\x80",
            b"",
            b"\xE2\x28\xA1",
        ] {
            for size in 1..=3 {
                let mut stream = TextStream::default();
                for chunk in bytes.chunks(size) {
                    stream.push(chunk);
                }
                assert_eq!(
                    stream.finish(),
                    String::from_utf8_lossy(bytes),
                    "{bytes:?} by {size}"
                );
            }
        }
    }
}
