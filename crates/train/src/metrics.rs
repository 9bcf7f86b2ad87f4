//! What a run keeps of its course.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use mem_model::adapter;

use crate::error::{Error, Result};
use crate::sft::{Event, METRICS};

/// `metrics.jsonl`: one event a line, flushed at once.
pub(crate) struct Metrics {
    path: PathBuf,
    file: File,
    /// Dev loss before the first step and the latest; NaN before there is one.
    pub(crate) dev_losses: (f64, f64),
}

impl Metrics {
    /// Keeps the lines of the steps that a resumed run has behind it. The dev losses come from its checkpoint: after a
    /// kill lines may be missing.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(crate) fn open(
        output: &Path,
        start: usize,
        dev_losses: Option<(f64, f64)>,
    ) -> Result<Self> {
        let path = output.join(METRICS);
        let mut kept = Vec::new();
        if start > 0 {
            let text = match fs::read_to_string(&path) {
                Err(source) if source.kind() != ErrorKind::NotFound => {
                    return Err(Error::Read { path, source });
                }
                text => text.unwrap_or_default(),
            };
            for line in text.lines() {
                let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else {
                    continue;
                };
                if value["step"]
                    .as_u64()
                    .is_none_or(|step| step as usize > start)
                {
                    continue;
                }
                kept.extend_from_slice(line.as_bytes());
                kept.push(b'\n');
            }
        }
        adapter::write_beside(&path, &kept)?;
        let file = fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|source| Error::Write {
                path: path.clone(),
                source,
            })?;
        Ok(Self {
            path,
            file,
            dev_losses: dev_losses.unwrap_or((f64::NAN, f64::NAN)),
        })
    }

    /// Writes an event and shows it to `observe`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn record(&mut self, event: &Event, observe: &mut dyn FnMut(&Event)) -> Result<()> {
        if let Event::Eval { loss, .. } = event {
            let (before, latest) = &mut self.dev_losses;
            *latest = *loss;
            if before.is_nan() {
                *before = *loss;
            }
        }
        let mut write = || {
            let mut line = serde_json::to_vec(event)?;
            line.push(b'\n');
            self.file.write_all(&line)
        };
        write().map_err(|source| Error::Write {
            path: self.path.clone(),
            source,
        })?;
        observe(event);
        Ok(())
    }
}
