//! Lines of text with a speaker, with or without times; also exports of KakaoTalk and WhatsApp.
//!
//! - With times, a pause of more than four hours begins a session.
//! - Without times, a session begins at a heading with a date (`# 2024-03-04`), at a rule (`---`), and at
//!   blank lines, unless blank lines separate all turns alike.
//! - Other lines continue the turn above them.
//! - `04/03/2024` is the fourth of March unless other lines of the file rule that out.

use super::Source;
use super::fields::{clean_name, clean_text, role_of, role_word};
use super::sittings::Sittings;
use super::stamps::{self, Stamp};
use super::warnings::Warnings;
use crate::transcript::{Kind, Moment, Role, Transcript, Turn};

/// Timed lines are looked for among this many first lines that are not blank.
const PROBE_LINES: usize = 20;
/// Longest name of a speaker, in characters.
const NAME_CHARS: usize = 40;

/// A line, by what it may be.
enum Line<'a> {
    Blank,
    /// `---` or the like.
    Rule(&'a str),
    /// A date on its own line.
    Heading(Moment),
    /// A time, and a speaker with text; without a speaker it is a notice of the program.
    Timed {
        stamp: Stamp,
        said: Option<(&'a str, &'a str)>,
        whole: &'a str,
    },
    /// A speaker with text, without a time.
    Named {
        name: &'a str,
        text: &'a str,
        whole: &'a str,
    },
    Other(&'a str),
}

/// Which lines begin a turn.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// Those with date and time (or KakaoTalk's name and time).
    Dated,
    /// Those with a time of day.
    Clocked,
    /// Those with a speaker.
    Named,
    /// Those whose speaker is `user`, `assistant` or another role; `Note: …` continues a turn.
    Roles,
}

/// A text, line by line.
pub(super) struct Lines<'a> {
    lines: Vec<Line<'a>>,
    mode: Mode,
}

impl<'a> Lines<'a> {
    pub(super) fn scan(text: &'a str) -> Self {
        let lines: Vec<_> = text.lines().map(line).collect();
        let timed = |wanted: fn(&Stamp) -> bool| {
            lines.iter().any(
                |line| matches!(line, Line::Timed { stamp, said: Some(_), .. } if wanted(stamp)),
            )
        };
        let has_role = |role| {
            lines
                .iter()
                .any(|line| matches!(line, Line::Named { name, .. } if role_of(name) == Some(role)))
        };
        let kakao = text.lines().any(|line| stamps::kakao(line).is_some());
        let mode = if kakao || timed(|stamp| !matches!(stamp, Stamp::Clock(_))) {
            Mode::Dated
        } else if timed(|_| true) {
            Mode::Clocked
        } else if has_role(Role::User) && has_role(Role::Assistant) {
            Mode::Roles
        } else {
            Mode::Named
        };
        Self { lines, mode }
    }

    /// Whether a line opens with a time and a speaker, so that its `[` does not open a JSON list.
    pub(super) fn is_timed(first_line: &str) -> bool {
        matches!(line(first_line), Line::Timed { said: Some(_), .. })
    }

    /// Number of turns.
    pub(super) fn turns(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| self.opens_turn(line).is_some())
            .count()
    }

    /// The speaker and the text of a line that begins a turn.
    fn opens_turn(&self, line: &Line<'a>) -> Option<(&'a str, &'a str)> {
        match (self.mode, line) {
            (
                Mode::Dated,
                Line::Timed {
                    stamp: Stamp::Clock(_),
                    said,
                    whole,
                },
            ) => {
                // Of times without a date only KakaoTalk's lines count here.
                said.filter(|_| stamps::kakao(whole).is_some())
            }
            (Mode::Dated | Mode::Clocked, Line::Timed { said, .. }) => *said,
            (Mode::Named, Line::Named { name, text, .. }) => Some((name, text)),
            (Mode::Roles, Line::Named { name, text, .. }) if role_of(name).is_some() => {
                Some((name, text))
            }
            _ => None,
        }
    }

    /// Whether this is a conversation and not prose, a list or a configuration file.
    pub(super) fn look_like_a_transcript(&self) -> bool {
        let mut visible = self
            .lines
            .iter()
            .filter(|line| !matches!(line, Line::Blank));
        if matches!(self.mode, Mode::Dated | Mode::Clocked) {
            return visible
                .take(PROBE_LINES)
                .any(|line| self.opens_turn(line).is_some());
        }
        // A title may stand above.
        let title = |line: &&Line<'_>| match line {
            Line::Heading(_) | Line::Rule(_) => true,
            Line::Other(whole) => whole.starts_with('#'),
            _ => false,
        };
        let first = visible.find(|line| !title(line));
        let names: Vec<_> = self
            .lines
            .iter()
            .filter_map(|line| Some(self.opens_turn(line)?.0))
            .collect();
        let distinct = names.iter().collect::<std::collections::HashSet<_>>().len();
        first.is_some_and(|line| self.opens_turn(line).is_some())
            && names.len() >= 2
            && distinct <= 2.max(names.len() / 2)
    }
}

fn line(text: &str) -> Line<'_> {
    // Messengers put invisible direction marks before some lines.
    let text = text
        .trim_start_matches(['\u{200e}', '\u{200f}', '\u{feff}'])
        .trim_end();
    if text.trim().is_empty() {
        return Line::Blank;
    }
    if text.len() >= 3
        && ['-', '=', '*', '_']
            .iter()
            .any(|rule| text.chars().all(|c| c == *rule))
    {
        return Line::Rule(text);
    }
    if let Some((name, time, said)) = stamps::kakao(text) {
        return Line::Timed {
            stamp: Stamp::Clock(time),
            said: Some((name, said)),
            whole: text,
        };
    }
    if let Some(moment) = stamps::heading(text) {
        return Line::Heading(moment);
    }
    if let Some((stamp, rest)) = stamps::stamp(text) {
        return Line::Timed {
            stamp,
            said: after_stamp(rest),
            whole: text,
        };
    }
    match speaker(text) {
        Some((name, said)) => Line::Named {
            name,
            text: said,
            whole: text,
        },
        None => Line::Other(text),
    }
}

/// Splits `Mina: text` at the first colon; after a time nearly every name will do.
fn after_stamp(text: &str) -> Option<(&str, &str)> {
    let (name, said) = text.split_once([':', '：'])?;
    let name = name.trim().trim_start_matches('~').trim_start();
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS + 20;
    (fits && !said.starts_with("//")).then_some((name, said.trim_start()))
}

/// Splits `Mina: text` (also `**Mina:** text`) if what stands before the colon can be a name: short, few
/// words, no marks of a sentence.
fn speaker(text: &str) -> Option<(&str, &str)> {
    let bold = text.strip_prefix("**");
    let (name, said) = bold.unwrap_or(text).split_once([':', '：'])?;
    let (name, said) = match bold {
        Some(_) => (name.trim_end_matches("**"), said.trim_start_matches("**")),
        None => (name, said),
    };
    let name = name.trim();
    let short_word = |word: &str| !word.contains('.') || word.chars().count() <= 4;
    let fits = name.chars().next().is_some_and(char::is_alphabetic)
        && name.chars().count() <= NAME_CHARS
        && name.split_whitespace().count() <= 4
        && name.split_whitespace().all(short_word)
        && !name.contains(|c: char| {
            ",;!?\"`“”„…。、，！？；*#<>{}[]|\\/=+@~^%$".contains(c) || c.is_control()
        })
        && !said.starts_with("//");
    fits.then_some((name, said.trim_start()))
}

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
    let timed = matches!(lines.mode, Mode::Dated | Mode::Clocked);
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
        let text = clean_text(text);
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
    let day_first = day_first(lines, warnings);
    let mut spoken: Vec<Spoken> = Vec::new();
    let mut gap = Gap::None;
    let mut date = None;
    let mut between = String::new();
    let mut skipped: Vec<usize> = Vec::new();
    let mut continues = false;
    let mut undated = None;
    for (index, line) in lines.lines.iter().enumerate() {
        if let Some((name, text)) = lines.opens_turn(line) {
            let stamp = match line {
                Line::Timed { stamp, .. } => Some(*stamp),
                _ => None,
            };
            let time = stamp.and_then(|stamp| time_of(stamp, date, day_first));
            if stamp.is_some() && time.is_none() {
                undated = undated.or(Some(index + 1));
            }
            spoken.push(Spoken {
                line: index + 1,
                name: clean_name(name),
                text: text.to_owned(),
                time,
                gap,
            });
            (gap, continues) = (Gap::None, true);
            between.clear();
            continue;
        }
        let whole = match line {
            Line::Blank => {
                between.push('\n');
                gap = if gap == Gap::None { Gap::Blank } else { gap };
                continue;
            }
            Line::Rule(whole) if lines.mode == Mode::Named => {
                between.push('\n');
                between.push_str(whole);
                gap = if matches!(gap, Gap::Heading(_)) {
                    gap
                } else {
                    Gap::Rule
                };
                continue;
            }
            Line::Heading(moment) => {
                gap = Gap::Heading(*moment);
                date = Some(moment.date());
                continues = false;
                continue;
            }
            Line::Timed { stamp, whole, said } => {
                let notice = said.is_none()
                    && lines.mode == Mode::Dated
                    && !matches!(stamp, Stamp::Clock(_));
                continues &= !notice;
                *whole
            }
            Line::Rule(whole) | Line::Named { whole, .. } | Line::Other(whole) => whole,
        };
        match spoken
            .last_mut()
            .filter(|_| continues && !is_kakao_notice(lines.mode, whole))
        {
            Some(turn) => {
                turn.text.push_str(&between);
                turn.text.push('\n');
                turn.text.push_str(whole);
            }
            None => skipped.push(index + 1),
        }
        between.clear();
        gap = Gap::None;
    }
    if let Some(first) = skipped.first() {
        let count = match skipped.len() {
            1 => "the line belongs".to_owned(),
            n => format!("this line and {} more belong", n - 1),
        };
        let message = format!("{count} to no speaker (a title or a notice); left out");
        warnings.add(format_args!("line {first}"), message);
    }
    if let Some(first) = undated {
        let message = "a time of day without a date above it, or a date that does not exist; such times stay unknown";
        warnings.add(format_args!("line {first}"), message);
    }
    spoken
}

fn is_kakao_notice(mode: Mode, line: &str) -> bool {
    let endings = [
        "님이 들어왔습니다.",
        "님이 나갔습니다.",
        "님을 초대했습니다.",
        "님을 내보냈습니다.",
    ];
    mode == Mode::Dated && endings.iter().any(|ending| line.ends_with(ending))
}

fn time_of(stamp: Stamp, date: Option<jiff::civil::Date>, day_first: bool) -> Option<Moment> {
    match stamp {
        Stamp::Full(moment) => Some(moment),
        Stamp::Clock(time) => date.map(|date| Moment::local(date.to_datetime(time))),
        Stamp::DayMonth {
            first,
            second,
            year,
            time,
        } => {
            let swap = if day_first { second > 12 } else { first <= 12 };
            let (day, month) = if swap {
                (second, first)
            } else {
                (first, second)
            };
            let date = jiff::civil::Date::new(year, month, day).ok()?;
            Some(Moment::local(date.to_datetime(time)))
        }
    }
}

/// Whether days stand before months: yes, unless some line rules it out and none rules out the contrary.
fn day_first(lines: &Lines<'_>, warnings: &mut Warnings) -> bool {
    let pairs: Vec<_> = lines
        .lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| match line {
            Line::Timed {
                stamp: Stamp::DayMonth { first, second, .. },
                said: Some(_),
                ..
            } => Some((index + 1, *first, *second)),
            _ => None,
        })
        .collect();
    let day_led = pairs.iter().any(|(_, first, _)| *first > 12);
    let month_led = pairs.iter().any(|(_, _, second)| *second > 12);
    if let Some((line, first, second)) = pairs.first()
        && day_led == month_led
    {
        let message = format!(
            "`{first:02}/{second:02}` may be day and month or month and day; read as day and month"
        );
        warnings.add(format_args!("line {line}"), message);
    }
    day_led || !month_led
}
