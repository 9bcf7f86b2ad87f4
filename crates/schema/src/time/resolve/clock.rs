//! The time of day, as far as it is known.

use super::{names::Part, when::either};

/// A time of day, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) hour: Option<i8>,
    pub(super) minute: Option<i8>,
    pub(super) pm: Option<bool>,
    pub(super) part: Option<Part>,
    /// Whether the hour was said as one of 24.
    pub(super) full: bool,
}

impl Clock {
    /// Both together; `None` when they contradict each other.
    pub(super) fn merge(self, other: Self) -> Option<Self> {
        let merged = || -> Result<Self, ()> {
            Ok(Self {
                hour: either(self.hour, other.hour)?,
                minute: either(self.minute, other.minute)?,
                pm: either(self.pm, other.pm)?,
                part: self.part.or(other.part),
                full: self.full || other.full,
            })
        };
        merged().ok()
    }

    /// Whether it tells a time and not a part of the day alone.
    pub(super) fn has_times(&self) -> bool {
        self.hour.is_some() || matches!(self.part, Some(Part::Noon | Part::Midnight))
    }

    /// Hours and minutes that it may mean, the likelier first.
    pub(super) fn times(&self) -> Vec<(i8, i8)> {
        let minute = self.minute.unwrap_or(0);
        let Some(hour) = self.hour else {
            return match self.part {
                Some(Part::Noon) => vec![(12, 0)],
                Some(Part::Midnight) => vec![(0, 0)],
                _ => Vec::new(),
            };
        };
        if !(0..=24).contains(&hour) || !(0..=59).contains(&minute) {
            return Vec::new();
        }
        if hour == 0 || hour > 12 {
            return vec![(hour % 24, minute)];
        }
        let (am, pm) = ((hour % 12, minute), (hour % 12 + 12, minute));
        match (self.pm, self.part) {
            (Some(false), _) => vec![am],
            (Some(true), _) => vec![pm],
            (None, Some(Part::Dawn | Part::Morning | Part::Midnight)) => {
                vec![if hour == 12 && self.part == Some(Part::Morning) {
                    pm
                } else {
                    am
                }]
            }
            (None, Some(Part::Afternoon | Part::Evening)) => {
                vec![if hour == 12 && self.part == Some(Part::Evening) {
                    am
                } else {
                    pm
                }]
            }
            (None, Some(Part::Noon)) => vec![if hour == 11 { am } else { pm }],
            (None, Some(Part::Night)) => vec![if (6..12).contains(&hour) { pm } else { am }],
            (None, None) if self.full => vec![(hour, minute)],
            (None, None) if (7..12).contains(&hour) => vec![am, pm],
            (None, None) => vec![pm, am],
        }
    }
}
