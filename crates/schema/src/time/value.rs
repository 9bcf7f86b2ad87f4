//! The time of a memory in its normal forms: a point, a range of two equal forms, a recurrence in words.

mod point;
mod recurrence;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, fmt, str::FromStr};

use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use point::{FIRST, LAST, Point};
pub use recurrence::Recurrence;
use recurrence::recurrence_pattern;

/// When something held, happened, is planned or recurs.
///
/// The text forms are those of [`Point`], `A/B` of two points of the same form, the words of a [`Recurrence`], and
/// `""` where no time is known. Build ranges with [`TimeValue::range`], which checks them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeValue {
    /// No time is known.
    #[default]
    Empty,
    /// One year, month, day or minute.
    Point(Point),
    /// From the first instant of one point to the last of another of the same form.
    Range(Point, Point),
    /// Something that comes again and again.
    Recurrence(Recurrence),
}

/// Why a text or a pair of points is no time value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeValueError {
    /// The text has no normal form.
    #[error(
        "`{0}` is no time: write YYYY, YYYY-MM, YYYY-MM-DD, YYYY-MM-DDTHH:MM, a range A/B of two of these, or words \
         that begin with `every`"
    )]
    Form(String),
    /// A year, month, day or minute that the calendar from 0001 to 9999 does not have.
    #[error("`{0}` is not in the calendar")]
    Calendar(String),
    /// The ends of a range have different forms.
    #[error("the range `{0}/{1}` has two forms: write both ends as years, months, days or minutes")]
    Mixed(Point, Point),
    /// A range ends before it begins.
    #[error("the range `{0}/{1}` runs backwards: write the earlier end first")]
    Backwards(Point, Point),
}

impl TimeValue {
    /// The range from `from` to `to`, both included.
    ///
    /// # Errors
    /// When the two have different forms or the range runs backwards.
    pub fn range(from: Point, to: Point) -> Result<Self, TimeValueError> {
        if !from.same_form(&to) {
            Err(TimeValueError::Mixed(from, to))
        } else if from > to {
            Err(TimeValueError::Backwards(from, to))
        } else {
            Ok(Self::Range(from, to))
        }
    }

    /// The recurrence in these words.
    ///
    /// # Errors
    /// As [`Recurrence::new`].
    pub fn recurrence(words: &str) -> Result<Self, TimeValueError> {
        Recurrence::new(words).map(Self::Recurrence)
    }

    /// First and last instant, the last to the microsecond.
    ///
    /// `None` for no time and for a recurrence whose words give no bound; a recurrence with one bound reaches to
    /// the end of the calendar ([`FIRST`], [`LAST`]) on the other side.
    pub fn span(&self) -> Option<(DateTime, DateTime)> {
        match self {
            Self::Empty => None,
            Self::Point(point) => Some(point.span()),
            Self::Range(from, to) => Some((from.first(), to.last())),
            Self::Recurrence(recurrence) => match recurrence.bounds() {
                (None, None) => None,
                (from, until) => Some((
                    from.map_or(FIRST, |point| point.first()),
                    until.map_or(LAST, |point| point.last()),
                )),
            },
        }
    }

    /// Whether the two share an instant; what has no span shares none.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.span(), other.span()) {
            (Some(one), Some(two)) => one.0 <= two.1 && two.0 <= one.1,
            _ => false,
        }
    }

    /// Whether no time is known.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Empty)
    }
}

impl Ord for TimeValue {
    /// By first instant, then by last; what has no span comes first; what covers the same instants is told apart
    /// by its text.
    fn cmp(&self, other: &Self) -> Ordering {
        let parts = |value: &Self| match value {
            Self::Empty => (0, None),
            Self::Point(point) => (1, Some((*point, *point))),
            Self::Range(from, to) => (2, Some((*from, *to))),
            Self::Recurrence(_) => (3, None),
        };
        let words = |value: &Self| match value {
            Self::Recurrence(recurrence) => recurrence.as_str().to_owned(),
            _ => String::new(),
        };
        self.span()
            .cmp(&other.span())
            .then_with(|| parts(self).cmp(&parts(other)))
            .then_with(|| words(self).cmp(&words(other)))
    }
}

impl PartialOrd for TimeValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<Point> for TimeValue {
    fn from(point: Point) -> Self {
        Self::Point(point)
    }
}

impl fmt::Display for TimeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Point(point) => point.fmt(f),
            Self::Range(from, to) => write!(f, "{from}/{to}"),
            Self::Recurrence(recurrence) => recurrence.fmt(f),
        }
    }
}

impl FromStr for TimeValue {
    type Err = TimeValueError;

    /// Reads a normal form, exactly: blanks around it, days that do not exist and ranges that run backwards are
    /// refused.
    ///
    /// # Errors
    /// When the text has no normal form; the error says what is wrong.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Ok(Self::Empty);
        }
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Self::recurrence(text);
        }
        match text.split_once('/') {
            Some((from, to)) => Self::range(from.parse()?, to.parse()?),
            None => text.parse().map(Self::Point),
        }
    }
}

impl Serialize for TimeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Regular expression, anchored, of every normal form, `""` included.
///
/// `YYYY`, `YYYY-MM`, `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM`, `A/B` of two equal forms, or a recurrence that begins with
/// *every* in one of our languages. That A lies before B, that there is no year 0000 and how many days a month has
/// is more than the expression says; [`is_normal`] knows.
pub fn pattern() -> String {
    let year = "[0-9]{4}";
    let month = "-(0[1-9]|1[0-2])";
    let day = "-(0[1-9]|[12][0-9]|3[01])";
    let minute = "T([01][0-9]|2[0-3]):[0-5][0-9]";
    let forms = [
        year.to_owned(),
        format!("{year}{month}"),
        format!("{year}{month}{day}"),
        format!("{year}{month}{day}{minute}"),
    ];
    let spans = forms.map(|form| format!("{form}(/{form})?")).join("|");
    format!("^(|{spans}|{})$", recurrence_pattern())
}

/// Whether `time` is written in a normal form: it has one exactly when it reads as a [`TimeValue`].
pub fn is_normal(time: &str) -> bool {
    time.parse::<TimeValue>().is_ok()
}

/// The beginning of `text`, short enough for a message.
fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}
