//! Lines of text with a speaker, with or without times; also exports of KakaoTalk and WhatsApp.
//!
//! - With times, a pause of more than four hours begins a session.
//! - Without times, a session begins at a heading with a date (`# 2024-03-04`), at a rule (`---`), and at
//!   blank lines, unless blank lines separate all turns alike.
//! - Other lines continue the turn above them.
//! - Messages that only stand for a picture, a file or a deleted message are counted and left out.
//! - `04/03/2024` is the fourth of March unless other lines of the file rule that out.

mod lines;
mod placeholders;

use jiff::civil::Date;

use super::Source;
use super::fields::{clean_name, clean_text, role_of, role_word};
use super::sittings::Sittings;
use super::stamps::Stamp;
use super::warnings::Warnings;
use crate::transcript::{Kind, Moment, Role, Transcript, Turn};
pub(super) use lines::Lines;
use lines::{Line, Mode, day_first};

/// What stands between a turn and the one before it.
#[derive(Clone, Copy, PartialEq)]
enum Gap {
    None,
    Blank,
    Rule,
    Heading(Moment),
}

struct Spoken {
    /// 1-based line where it begins.
    line: usize,
    name: String,
    text: String,
    time: Option<Moment>,
    gap: Gap,
}

pub(super) fn read(lines: &Lines<'_>, source: &mut Source<'_>) -> Vec<Transcript> {
    let spoken = collect(lines, source.warnings);
    let timed = lines.are_timed();
    let blank_separates = spoken.iter().skip(1).any(|turn| turn.gap == Gap::None);
    let roles: Vec<_> = spoken.iter().map(|turn| role_of(&turn.name)).collect();
    let with_assistant = roles.contains(&Some(Role::User))
        && roles.contains(&Some(Role::Assistant))
        && roles.iter().all(Option::is_some);
    let kind = if with_assistant {
        Kind::Assistant
    } else {
        Kind::Dialogue
    };
    let mut sittings = Sittings::default();
    let mut participants: Vec<String> = Vec::new();
    for Spoken {
        line,
        name,
        text,
        time,
        gap,
    } in spoken
    {
        let role = role_of(&name)
            .filter(|_| with_assistant)
            .unwrap_or(Role::User);
        let speaker = if with_assistant {
            role_word(role).to_owned()
        } else {
            name
        };
        if role.may_hold_memories() && !participants.contains(&speaker) {
            participants.push(speaker.clone());
        }
        match gap {
            Gap::Heading(start) if time.is_none() => sittings.open(Some(start)),
            Gap::Rule if !timed => sittings.open(None),
            Gap::Blank if !timed && blank_separates => sittings.open(None),
            _ => {}
        }
        let mut text = clean_text(text);
        let export = lines.export;
        if let Some(rest) = export.and_then(|export| export.without_placeholder(&text)) {
            source.placeholders += 1;
            text = clean_text(rest.to_owned());
            if text.is_empty() {
                continue;
            }
        }
        if text.is_empty() {
            let place = format_args!("line {line}");
            source
                .warnings
                .add(place, "nothing is said; the turn was left out");
            continue;
        }
        sittings.push(Turn {
            id: String::new(),
            speaker,
            role,
            text,
            image_caption: None,
            time,
        });
    }
    let sessions = sittings.finish();
    vec![Transcript {
        id: source.stem.to_owned(),
        kind,
        language: None,
        participants,
        sessions,
    }]
}

/// Joins continuation lines to their turns and gives every turn its time.
fn collect(lines: &Lines<'_>, warnings: &mut Warnings) -> Vec<Spoken> {
    let mut collector = Collector {
        mode: lines.mode,
        day_first: day_first(lines, warnings),
        spoken: Vec::new(),
        gap: Gap::None,
        between: String::new(),
        date: None,
        continues: false,
        skipped: Vec::new(),
        undated: None,
    };
    for (index, line) in lines.lines.iter().enumerate() {
        match lines.opens_turn(line) {
            Some((name, text)) => collector.turn(index + 1, line, name, text),
            None => collector.between_turns(index + 1, line),
        }
    }
    collector.warn(warnings);
    collector.spoken
}

/// The turns so far, and what the next line may continue.
struct Collector {
    mode: Mode,
    day_first: bool,
    spoken: Vec<Spoken>,
    gap: Gap,
    /// Blank lines and rules since the last text; part of the turn if the turn goes on.
    between: String,
    /// Date of the last heading.
    date: Option<Date>,
    /// Whether other lines continue the last turn.
    continues: bool,
    /// Lines that belong to no turn.
    skipped: Vec<usize>,
    /// First line whose time cannot be known.
    undated: Option<usize>,
}

impl Collector {
    fn turn(&mut self, number: usize, line: &Line<'_>, name: &str, text: &str) {
        let stamp = match line {
            Line::Timed { stamp, .. } => Some(*stamp),
            _ => None,
        };
        let time = stamp.and_then(|stamp| self.time_of(stamp));
        if stamp.is_some() && time.is_none() {
            self.undated = self.undated.or(Some(number));
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

    fn between_turns(&mut self, number: usize, line: &Line<'_>) {
        match line {
            Line::Blank => {
                self.between.push('\n');
                if self.gap == Gap::None {
                    self.gap = Gap::Blank;
                }
            }
            Line::Rule(whole) if self.mode == Mode::Named => {
                self.between.push('\n');
                self.between.push_str(whole);
                if !matches!(self.gap, Gap::Heading(_)) {
                    self.gap = Gap::Rule;
                }
            }
            Line::Heading(moment) => {
                self.gap = Gap::Heading(*moment);
                self.date = Some(moment.date());
                self.continues = false;
            }
            Line::Timed { stamp, whole, said } => {
                let dated = !matches!(stamp, Stamp::Clock(_));
                if said.is_none() && dated && self.mode == Mode::Dated {
                    self.continues = false;
                }
                self.continuation(number, whole);
            }
            Line::Rule(whole) | Line::Named { whole, .. } | Line::Other(whole) => {
                self.continuation(number, whole);
            }
        }
    }

    fn continuation(&mut self, number: usize, whole: &str) {
        let belongs = self.continues && !(self.mode == Mode::Dated && is_kakao_notice(whole));
        match self.spoken.last_mut().filter(|_| belongs) {
            Some(turn) => {
                turn.text.push_str(&self.between);
                turn.text.push('\n');
                turn.text.push_str(whole);
                self.gap = Gap::None;
            }
            None => self.skipped.push(number),
        }
        self.between.clear();
    }

    fn time_of(&self, stamp: Stamp) -> Option<Moment> {
        match stamp {
            Stamp::Full(moment) => Some(moment),
            Stamp::Clock(time) => Some(Moment::local(self.date?.to_datetime(time))),
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
                Some(Moment::local(date.to_datetime(time)))
            }
        }
    }

    fn warn(&self, warnings: &mut Warnings) {
        if let Some(first) = self.skipped.first() {
            let count = match self.skipped.len() {
                1 => "the line belongs".to_owned(),
                n => format!("this line and {} more belong", n - 1),
            };
            let message = format!("{count} to no speaker (a title or a notice); left out");
            warnings.add(format_args!("line {first}"), message);
        }
        if let Some(first) = self.undated {
            let message = "a time of day without a date above it, or a date that does not exist; \
                           such times stay unknown";
            warnings.add(format_args!("line {first}"), message);
        }
    }
}

/// Whether a line of a KakaoTalk export tells who came or went.
fn is_kakao_notice(line: &str) -> bool {
    let endings = [
        "님이 들어왔습니다.",
        "님이 나갔습니다.",
        "님을 초대했습니다.",
        "님을 내보냈습니다.",
    ];
    endings.iter().any(|ending| line.ends_with(ending))
}
