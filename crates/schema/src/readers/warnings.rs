//! Collecting warnings without drowning in them.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use crate::error::Warning;

/// Warnings kept of one file; further ones are only counted.
const KEPT: usize = 100;

/// The warnings of one file.
pub(super) struct Warnings {
    path: PathBuf,
    kept: Vec<Warning>,
    more: usize,
    /// Lines and objects that could not be understood.
    pub(super) lost: usize,
}

impl Warnings {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            kept: Vec::new(),
            more: 0,
            lost: 0,
        }
    }

    pub(super) fn add(&mut self, location: impl Display, message: impl Display) {
        if self.kept.len() < KEPT {
            self.kept.push(Warning {
                path: self.path.clone(),
                location: location.to_string(),
                message: message.to_string(),
            });
        } else {
            self.more += 1;
        }
    }

    /// As [`Self::add`], of a line or object that is left out because it could not be understood.
    pub(super) fn lose(&mut self, location: impl Display, message: impl Display) {
        self.lose_many(1, location, message);
    }

    /// As [`Self::lose`], of `count` lines or objects at once.
    pub(super) fn lose_many(
        &mut self,
        count: usize,
        location: impl Display,
        message: impl Display,
    ) {
        self.lost += count;
        self.add(location, message);
    }

    pub(super) fn finish(mut self) -> Vec<Warning> {
        if self.more > 0 {
            self.kept.push(Warning {
                path: self.path,
                location: "whole file".to_owned(),
                message: format!("further warnings that are not shown: {}", self.more),
            });
        }
        self.kept
    }
}
