//! A look at the header of a GGUF file before candle's reader takes its word. That reader compares most counts with the
//! size of the file, but it divides by `general.alignment`, and it makes 32 bytes of memory of every value of a list,
//! of which a large file can claim hundreds of millions.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::error::{Error, Result};

/// Fields and tensors of a file, each; real ones have some hundreds.
const MOST_ENTRIES: u64 = 1 << 16;

/// Values of all lists together; a vocabulary of 262,144 tokens with its merges has about a million.
const MOST_VALUES: u64 = 1 << 22;

/// Bytes of one text; chat templates have some thousands.
const MOST_TEXT_BYTES: u64 = 1 << 24;

/// Refuses a file whose header would make candle's reader panic or take memory without bound. What else is wrong with
/// it, that reader says.
///
/// # Errors
/// [`Error::GgufHeader`] with the file and the field.
pub(crate) fn check(file: &File, path: &Path) -> Result<()> {
    let mut header = Header {
        reader: BufReader::new(file),
        wide: true,
        values: 0,
    };
    match header.read() {
        Err(Fault::Refused(problem)) => Err(Error::GgufHeader {
            path: path.to_owned(),
            problem,
        }),
        Ok(()) | Err(Fault::Unreadable) => Ok(()),
    }
}

/// Why a header is not read to its end.
enum Fault {
    /// It ends early or has a form that candle's reader refuses at this place too.
    Unreadable,
    /// What candle's reader would not survive.
    Refused(String),
}

impl From<io::Error> for Fault {
    fn from(_: io::Error) -> Self {
        Self::Unreadable
    }
}

struct Header<R> {
    reader: R,
    /// Whether lengths have eight bytes, as since version 2.
    wide: bool,
    /// Values of lists so far.
    values: u64,
}

impl<R: Read> Header<R> {
    fn read(&mut self) -> Result<(), Fault> {
        let _magic = self.number(4)?;
        self.wide = self.number(4)? != 1;
        let (tensors, fields) = (self.length()?, self.length()?);
        if tensors > MOST_ENTRIES || fields > MOST_ENTRIES {
            return Err(Fault::Refused(format!(
                "it claims {tensors} tensors and {fields} fields"
            )));
        }
        for _ in 0..fields {
            let key = self.text("the name of a field")?;
            let name = format!("field `{key}`");
            match self.number(4)? {
                // The kinds of integer that candle's reader takes for an alignment.
                kind @ 0..=5 => {
                    let value = self.number(size(kind)?)?;
                    if key == "general.alignment" && value == 0 {
                        return Err(Fault::Refused(format!("{name} is 0")));
                    }
                }
                kind => self.value(kind, &name, 0)?,
            }
        }
        Ok(())
    }

    /// Passes over a value of field `name`.
    fn value(&mut self, kind: u64, name: &str, depth: usize) -> Result<(), Fault> {
        /// Candle's reader goes no deeper either.
        const DEEPEST: usize = 64;
        match kind {
            8 => self.text(name).map(drop),
            9 if depth <= DEEPEST => {
                let (kind, length) = (self.number(4)?, self.length()?);
                self.values = self.values.saturating_add(length);
                if self.values > MOST_VALUES {
                    let problem = format!("{name} is a list of {length} values");
                    return Err(Fault::Refused(problem));
                }
                (0..length).try_for_each(|_| self.value(kind, name, depth + 1))
            }
            kind => self.number(size(kind)?).map(drop),
        }
    }

    fn text(&mut self, name: &str) -> Result<String, Fault> {
        let length = self.length()?;
        if length > MOST_TEXT_BYTES {
            return Err(Fault::Refused(format!("{name} has {length} bytes")));
        }
        let mut bytes = Vec::new();
        self.reader.by_ref().take(length).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < length {
            return Err(Fault::Unreadable);
        }
        // As candle's reader reads it, so that no other spelling of a key gets past this check.
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn length(&mut self) -> Result<u64, Fault> {
        self.number(if self.wide { 8 } else { 4 })
    }

    fn number(&mut self, bytes: usize) -> Result<u64, Fault> {
        let mut number = [0; 8];
        self.reader.read_exact(&mut number[..bytes])?;
        Ok(u64::from_le_bytes(number))
    }
}

/// Bytes of a value that is neither a text nor a list.
fn size(kind: u64) -> Result<usize, Fault> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(Fault::Unreadable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of no tensors and one field: its key, its kind and the bytes of its value.
    fn header(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
        let mut bytes = b"GGUF\x03\0\0\0".to_vec();
        for count in [0, 1, key.len() as u64] {
            bytes.extend(count.to_le_bytes());
        }
        bytes.extend(key.as_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
        bytes
    }

    /// What is refused about a header.
    fn refused(bytes: &[u8]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        std::fs::write(&path, bytes).unwrap();
        let error = check(&File::open(&path).unwrap(), &path).err()?;
        let message = error.to_string();
        assert!(message.contains("model.gguf"), "{message}");
        Some(message)
    }

    #[test]
    fn an_alignment_of_nothing_is_refused_by_name() {
        for (kind, bytes) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 4), (5, 4)] {
            for key in ["general.alignment", "general.alignment\0"] {
                let message = refused(&header(key, kind, &[0; 4][..bytes])).unwrap();
                assert!(message.contains("`general.alignment` is 0"), "{message}");
            }
            assert_eq!(
                refused(&header("general.other", kind, &[0; 4][..bytes])),
                None
            );
        }
        assert_eq!(
            refused(&header("general.alignment", 4, &[32, 0, 0, 0])),
            None
        );
    }

    #[test]
    fn what_no_model_has_is_refused_before_memory_is_taken() {
        let list =
            |kind: u32, length: u64| [&kind.to_le_bytes()[..], &length.to_le_bytes()].concat();
        let message = refused(&header("a.list", 9, &list(0, 1 << 23))).unwrap();
        assert!(message.contains("field `a.list`"), "{message}");
        // Lists of lists count together.
        let lists = [list(9, 3), list(0, 2), vec![7; 2], list(0, MOST_VALUES)].concat();
        assert!(refused(&header("a.list", 9, &lists)).is_some());
        let message = refused(&header("a.text", 8, &u64::MAX.to_le_bytes())).unwrap();
        assert!(message.contains("field `a.text`"), "{message}");
        let mut counts = header("a.flag", 7, &[1]);
        counts[8..16].copy_from_slice(&(1u64 << 40).to_le_bytes());
        let message = refused(&counts).unwrap();
        assert!(message.contains("1099511627776 tensors"), "{message}");
    }

    #[test]
    fn a_file_cut_off_anywhere_is_left_to_the_reader() {
        let list = b"\x08\0\0\0\x01\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0text";
        let bytes = header("a.list", 9, list);
        for length in 0..=bytes.len() {
            assert_eq!(refused(&bytes[..length]), None, "{length}");
        }
        // Lists inside lists without end: the reader refuses them at the same depth.
        let deep = [9u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec()].concat();
        assert_eq!(refused(&header("a.list", 9, &deep.repeat(1000))), None);
    }
}
