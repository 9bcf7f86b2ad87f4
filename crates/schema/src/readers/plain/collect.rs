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
        joined_turn: None,
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
    /// First line with a time and a name that became part of a turn.
    joined_turn: Option<usize>,
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
                if !matches!(self.gap, Gap::Heading(_)) {
                    self.gap = Gap::Rule;
                }
            }
            Line::Rule(whole) if self.lines.mode == Mode::Clocked || !self.continues => {
                self.between.push('\n');
                self.between.push_str(whole);
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
                    if self.continues && self.lines.may_be_a_turn(line) {
                        self.joined_turn = self.joined_turn.or(Some(number));
                    }
                    self.continuation(number, whole);
                }
            }
        }
    }

    /// Whether a date on a line of its own stands over what follows; else somebody said it.
    fn is_heading(&self, index: usize, date: Moment, whole: &str) -> bool {
        let lines = &self.lines.lines;
        let below = &lines[index + 1..];
        let passes = |line: &&Line<'_>| !matches!(line, Line::Blank | Line::Rule(_));
        let next = below.iter().find(passes);
        let over_turn = || next.is_some_and(|line| self.lines.opens_turn(line).is_some());
        let over_notice = || matches!(next, Some(Line::Timed { said: None, .. }));
        let is_marked = whole.starts_with(['#', '-', '=', '*']);
        let above = index.checked_sub(1).map(|above| &lines[above]);
        let stands_out = is_marked || matches!(above, None | Some(Line::Blank | Line::Rule(_)));
        match self.lines.mode {
            Mode::Kakao => whole.starts_with("---"),
            _ if !self.continues => true,
            Mode::Dated => next
                .filter(|line| over_turn() || self.lines.is_notice(line))
                .and_then(|line| self.time_at(line))
                .is_some_and(|time| time.date() == date.date()),
            Mode::Clocked => is_marked || over_turn() || (stands_out && over_notice()),
            Mode::Named => {
                let is_close = !matches!(below.first(), Some(Line::Blank));
                is_marked || (over_turn() && (stands_out || is_close))
            }
            Mode::Roles => stands_out && over_turn(),
        }
    }

    /// Whether a line's date and time fit between those of the turns around it, up to minutes: programs write in order,
    /// what people make a note of lies on other days.
    fn is_in_order(&self, index: usize, line: &Line<'_>) -> bool {
        let is_dated =
            |line: &&Line<'_>| matches!(line, Line::Timed { form, .. } if form.is_dated());
        let Some(time) = Some(line)
            .filter(is_dated)
            .and_then(|line| self.time_at(line))
        else {
            return true;
        };
        let mut below = self.lines.lines[index + 1..].iter();
        let next = below
            .find(|line| self.lines.opens_turn(line).is_some())
            .filter(is_dated)
            .and_then(|line| self.time_at(line));
        let before = self.spoken.last().and_then(|turn| turn.time);
        let minutes = SignedDuration::from_mins(5);
        let after = |one: Moment, other: Moment| one.local.duration_since(other.local) > minutes;
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
        if let Some(first) = self.joined_turn {
            let message = "a time and a name, written otherwise than those of turns or out of order: taken as part of \
                           the turn above";
            warnings.add(format_args!("line {first}"), message);
        }
        if let Some(first) = self.undated {
            let message = "a time of day without a date above it, or a date that does not exist; \
                           such times stay unknown";
            warnings.add(format_args!("line {first}"), message);
        }
    }
}

/// How lines of KakaoTalk end that tell who came or went.
const COMINGS: [&str; 4] = [
    "님이 들어왔습니다.",
    "님이 나갔습니다.",
    "님을 초대했습니다.",
    "님을 내보냈습니다.",
];

/// Whether a line of a KakaoTalk export tells who came or went, or warns those who came.
pub(super) fn is_kakao_notice(line: &str) -> bool {
    COMINGS.iter().any(|ending| line.ends_with(ending)) || is_kakao_warning(line)
}

/// As [`is_kakao_notice`], of the message in a row of `user`: who came or went is told by the row of that person.
pub(super) fn is_kakao_notice_of(user: &str, message: &str) -> bool {
    let is_coming = || {
        let told = message.strip_prefix(user);
        told.is_some_and(|told| COMINGS.iter().any(|ending| told.ends_with(ending)))
    };
    !user.is_empty() && !message.contains('\n') && (is_coming() || is_kakao_warning(message))
}

fn is_kakao_warning(line: &str) -> bool {
    let warnings = [
        "타인, 기관 등의 사칭에 유의",
        "운영정책을 위반한 메시지로 신고",
    ];
    warnings.iter().any(|warning| line.starts_with(warning))
}
