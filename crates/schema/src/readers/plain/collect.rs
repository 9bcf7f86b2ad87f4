//! Joining the lines of a plain text to turns.

use jiff::{SignedDuration, civil::Date};

use super::super::fields::clean_name;
use super::super::stamps::Stamp;
use super::super::warnings::Warnings;
use super::line::Line;
use super::lines::{Lines, Mode, day_first};
use crate::transcript::Moment;

/// What stands between a turn and the one before it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Gap {
    None,
    Blank,
    Rule,
    Heading(Moment),
}

pub(super) struct Spoken {
    /// 1-based line where it begins.
    pub(super) line: usize,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) time: Option<Moment>,
    pub(super) gap: Gap,
}

/// Joins continuation lines to their turns and gives every turn its time.
pub(super) fn collect(lines: &Lines<'_>, warnings: &mut Warnings) -> Vec<Spoken> {
    let mut collector = Collector {
        lines,
        day_first: day_first(lines, warnings),
        spoken: Vec::new(),
        gap: Gap::None,
        between: String::new(),
        date: None,
        continues: false,
        notices: Vec::new(),
        lost: Vec::new(),
        undated: None,
        joined_heading: None,
    };
    for (index, line) in lines.lines.iter().enumerate() {
        match lines.opens_turn(line) {
            Some((name, text)) => collector.turn(index + 1, line, name, text),
            None => collector.between_turns(index, line),
        }
    }
    collector.warn(warnings);
    collector.spoken
}

/// The turns so far, and what the next line may continue.
struct Collector<'a> {
    lines: &'a Lines<'a>,
    day_first: bool,
    spoken: Vec<Spoken>,
    gap: Gap,
    /// Blank lines and rules since the last text; part of the turn if the turn goes on.
    between: String,
    /// Date of the last heading.
    date: Option<Date>,
    /// Whether other lines continue the last turn.
    continues: bool,
    /// Titles and lines of the exporting program.
    notices: Vec<usize>,
    /// Lines that may be part of what somebody said.
    lost: Vec<usize>,
    /// First line whose time cannot be known.
    undated: Option<usize>,
    /// First date on a line of its own that became part of a turn.
    joined_heading: Option<usize>,
}

impl Collector<'_> {
    fn turn(&mut self, number: usize, line: &Line<'_>, name: &str, text: &str) {
        let time = self.time_at(line);
        if matches!(line, Line::Timed { .. }) && time.is_none() {
            self.undated = self.undated.or(Some(number));
        }
        if let (Mode::Clocked, Some(time)) = (self.lines.mode, time) {
            self.date = Some(time.date());
        }
        self.spoken.push(Spoken {
            line: number,
            name: clean_name(name),
            text: text.to_owned(),
            time,
            gap: self.gap,
        });
        self.gap = Gap::None;
        self.continues = true;
        self.between.clear();
    }

    fn between_turns(&mut self, index: usize, line: &Line<'_>) {
        let number = index + 1;
        match line {
            Line::Blank => {
                self.between.push('\n');
                if self.gap == Gap::None {
                    self.gap = Gap::Blank;
                }
            }
            Line::Rule(whole) if self.lines.mode == Mode::Named => {
                self.between.push('\n');
                self.between.push_str(whole);
                self.gap = Gap::Rule;
            }
            Line::Heading { date, whole } => {
                if self.is_heading(index, *date, whole) {
                    self.gap = Gap::Heading(*date);
                    self.date = Some(date.date());
                    self.continues = false;
                } else {
                    let unclear = !matches!(self.lines.mode, Mode::Dated | Mode::Kakao);
                    if unclear && self.continues {
                        self.joined_heading = self.joined_heading.or(Some(number));
                    }
                    self.continuation(number, whole);
                }
            }
            Line::Timed { .. } if self.lines.is_notice(line) && self.is_in_order(index, line) => {
                self.notice(number);
            }
            Line::Timed { whole, .. }
            | Line::Rule(whole)
            | Line::Named { whole, .. }
            | Line::Other(whole) => {
                if self.lines.mode == Mode::Kakao && is_kakao_notice(whole) {
                    self.notice(number);
                } else {
                    self.continuation(number, whole);
                }
            }
        }
    }

    /// Whether a date on a line of its own stands over what follows; else somebody said it.
    fn is_heading(&self, index: usize, date: Moment, whole: &str) -> bool {
        let lines = &self.lines.lines;
        let mut below = lines[index + 1..].iter();
        let next = below.find(|line| !matches!(line, Line::Blank));
        let over_turn = || next.is_some_and(|line| self.lines.opens_turn(line).is_some());
        let stands_out = || {
            let above = index.checked_sub(1).map(|above| &lines[above]);
            whole.starts_with(['#', '-', '=', '*'])
                || matches!(above, None | Some(Line::Blank | Line::Rule(_)))
        };
        match self.lines.mode {
            Mode::Kakao => whole.starts_with("---"),
            _ if !self.continues => true,
            Mode::Dated => next
                .filter(|line| over_turn() || self.lines.is_notice(line))
                .and_then(|line| self.time_at(line))
                .is_some_and(|time| time.date() == date.date()),
            Mode::Clocked => over_turn(),
            Mode::Named | Mode::Roles => stands_out() && over_turn(),
        }
    }

    /// Whether a line's time fits between those of the lines around it, by and large: programs write in order, what
    /// people make a note of lies in other months.
    fn is_in_order(&self, index: usize, line: &Line<'_>) -> bool {
        let Some(time) = self.time_at(line) else {
            return true;
        };
        let is_stamped =
            |line: &&Line<'_>| self.lines.opens_turn(line).is_some() || self.lines.is_notice(line);
        let mut below = self.lines.lines[index + 1..].iter();
        let next = below.find(is_stamped).and_then(|line| self.time_at(line));
        let before = self.spoken.last().and_then(|turn| turn.time);
        let day = SignedDuration::from_hours(24);
        let after = |one: Moment, other: Moment| one.local.duration_since(other.local) > day;
        !next.is_some_and(|next| after(time, next))
            && !before.is_some_and(|before| after(before, time))
    }

    fn notice(&mut self, number: usize) {
        self.notices.push(number);
        self.continues = false;
        self.between.clear();
    }

    fn continuation(&mut self, number: usize, whole: &str) {
        match self.spoken.last_mut() {
            Some(turn) if self.continues => {
                turn.text.push_str(&self.between);
                turn.text.push('\n');
                turn.text.push_str(whole);
                self.gap = Gap::None;
            }
            Some(_) => self.lost.push(number),
            None => self.notices.push(number),
        }
        self.between.clear();
    }

    fn time_at(&self, line: &Line<'_>) -> Option<Moment> {
        match line {
            Line::Timed { stamp, .. } => self.time_of(*stamp),
            _ => None,
        }
    }

    fn time_of(&self, stamp: Stamp) -> Option<Moment> {
        match stamp {
            Stamp::Full(moment) => moment,
            Stamp::Clock(time) => Some(Moment::local(self.date?.to_datetime(time?))),
            Stamp::DayMonth {
                first,
                second,
                year,
                time,
            } => {
                let month_first = if self.day_first {
                    second > 12
                } else {
                    first <= 12
                };
                let (month, day) = if month_first {
                    (first, second)
                } else {
                    (second, first)
                };
                let date = Date::new(year, month, day).ok()?;
                Some(Moment::local(date.to_datetime(time?)))
            }
        }
    }

    fn warn(&self, warnings: &mut Warnings) {
        let these = |numbers: &[usize]| match numbers.len() {
            1 => "the line belongs".to_owned(),
            n => format!("this line and {} more belong", n - 1),
        };
        if let Some(first) = self.notices.first() {
            let message = format!(
                "{} to no speaker (a title or a notice); left out",
                these(&self.notices)
            );
            warnings.add(format_args!("line {first}"), message);
        }
        if let Some(first) = self.lost.first() {
            let message = format!(
                "{} to no speaker, after a line that ends what was said before; left out",
                these(&self.lost)
            );
            warnings.lose_many(self.lost.len(), format_args!("line {first}"), message);
        }
        if let Some(first) = self.joined_heading {
            let message = "a date on a line of its own, and no turn under it: taken as part of the turn above, \
                           not as a heading";
            warnings.add(format_args!("line {first}"), message);
        }
        if let Some(first) = self.undated {
            let message = "a time of day without a date above it, or a date that does not exist; \
                           such times stay unknown";
            warnings.add(format_args!("line {first}"), message);
        }
    }
}

/// Whether a line of a KakaoTalk export tells who came or went, or warns those who came.
pub(super) fn is_kakao_notice(line: &str) -> bool {
    let endings = [
        "님이 들어왔습니다.",
        "님이 나갔습니다.",
        "님을 초대했습니다.",
        "님을 내보냈습니다.",
    ];
    let warnings = [
        "타인, 기관 등의 사칭에 유의",
        "운영정책을 위반한 메시지로 신고",
    ];
    endings.iter().any(|ending| line.ends_with(ending))
        || warnings.iter().any(|warning| line.starts_with(warning))
}
