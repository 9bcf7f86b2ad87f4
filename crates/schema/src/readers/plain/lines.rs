//! Which lines of a plain text begin a turn.

use std::collections::{HashMap, HashSet};

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime};

use super::super::fields::role_of;
use super::super::stamps::{self, Stamp};
use super::super::warnings::Warnings;
use super::line::{Form, Line, Sort, line, quoted_name};
use super::placeholders::Export;
use crate::transcript::Role;

/// A turn stands among this many first lines that are not blank.
const PROBE_LINES: usize = 20;

/// Which lines begin a turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// Those with date and time.
    Dated,
    /// Those with a time of day.
    Clocked,
    /// Those with KakaoTalk's name and time.
    Kakao,
    /// Those with a speaker.
    Named,
    /// Those whose speaker is `user`, `assistant` or another role; `Note: …` continues a turn.
    Roles,
}

/// A text, line by line.
pub(in crate::readers) struct Lines<'a> {
    pub(super) lines: Vec<Line<'a>>,
    pub(super) mode: Mode,
    /// The program that may have exported the text.
    pub(super) export: Option<Export>,
    /// How the first turn's time is written.
    main: Option<Form>,
    /// Speakers of lines like the first turn.
    speakers: HashSet<&'a str>,
    /// How the times of turns are written.
    forms: HashSet<Form>,
}

impl<'a> Lines<'a> {
    pub(in crate::readers) fn scan(text: &'a str) -> Self {
        let mut lines: Vec<_> = text.lines().map(line).collect();
        add_quoted_names(&mut lines);
        let mode = mode(&lines);
        let export = match mode {
            Mode::Kakao => Some(Export::KakaoTalk),
            Mode::Dated if text.lines().any(stamps::is_kakao_of_telephone) => {
                Some(Export::KakaoTalk)
            }
            Mode::Dated if text.contains('\u{200e}') => Some(Export::WhatsApp),
            Mode::Dated => Some(Export::Unknown),
            _ => None,
        };
        let spoken = lines.iter().filter_map(|line| match line {
            Line::Timed {
                form,
                said: Some((name, _)),
                ..
            } => Some((*form, *name)),
            _ => None,
        });
        let fits = |form: &Form| match mode {
            Mode::Dated => form.is_dated(),
            Mode::Clocked => form.sort == Sort::Clock,
            Mode::Kakao => form.sort == Sort::Kakao,
            Mode::Named | Mode::Roles => false,
        };
        let main = spoken.clone().map(|(form, _)| form).find(fits);
        let export = if export == Some(Export::Unknown) && main.is_some_and(Form::is_of_whatsapp) {
            Some(Export::WhatsApp)
        } else {
            export
        };
        let speakers = spoken
            .filter(|(form, _)| main.is_some_and(|main| alike(main, *form)))
            .map(|(_, name)| name)
            .collect();
        let mut scanned = Self {
            lines,
            mode,
            export,
            main,
            speakers,
            forms: HashSet::new(),
        };
        scanned.add_speakers_in_order();
        let turns = scanned
            .lines
            .iter()
            .filter(|line| scanned.opens_turn(line).is_some());
        let forms = turns.filter_map(|line| match line {
            Line::Timed { form, .. } => Some(*form),
            _ => None,
        });
        scanned.forms = forms.collect();
        scanned
    }

    /// Whether a line opens with a time and a speaker, so that its `[` does not open a JSON list.
    pub(in crate::readers) fn is_timed(first_line: &str) -> bool {
        matches!(line(first_line), Line::Timed { said: Some(_), .. })
    }

    /// Number of turns.
    pub(in crate::readers) fn turns(&self) -> usize {
        self.lines
            .iter()
            .filter(|line| self.opens_turn(line).is_some())
            .count()
    }

    /// The speaker and the text of a line that begins a turn.
    pub(super) fn opens_turn(&self, line: &Line<'a>) -> Option<(&'a str, &'a str)> {
        match (self.mode, line) {
            (Mode::Dated | Mode::Clocked | Mode::Kakao, Line::Timed { form, said, .. }) => {
                said.filter(|(name, _)| self.fits(*form, name))
            }
            (Mode::Named, Line::Named { name, text, .. }) => Some((name, text)),
            (Mode::Roles, Line::Named { name, text, .. }) if role_of(name).is_some() => {
                Some((name, text))
            }
            _ => None,
        }
    }

    /// Whether a time of this form before this name begins a turn: if it is like that of the first turn, or if
    /// somebody speaks who speaks in such lines too. Else it is part of what somebody tells.
    fn fits(&self, form: Form, name: &str) -> bool {
        let Some(main) = self.main else { return false };
        self.sort_fits(form)
            && (alike(main, form)
                || (form.is_dated() && form.bracket && (main.is_dated() || main.bracket))
                || self.speakers.contains(name))
    }

    fn sort_fits(&self, form: Form) -> bool {
        match self.mode {
            Mode::Dated => form.is_dated(),
            Mode::Kakao => form.sort == Sort::Kakao,
            Mode::Clocked => form.sort != Sort::Kakao,
            Mode::Named | Mode::Roles => false,
        }
    }

    /// Adds those who speak only in lines that are written otherwise than the first turn, if the time of one of these
    /// lines lies where it stands.
    fn add_speakers_in_order(&mut self) {
        let mut before = None;
        for (index, line) in self.lines.iter().enumerate() {
            let Line::Timed {
                stamp,
                form,
                said: Some((name, _)),
                ..
            } = line
            else {
                continue;
            };
            if !self.fits(*form, name) {
                let mut below = self.lines[index + 1..].iter();
                let after = below.find_map(|line| match line {
                    Line::Timed { stamp, .. } => self.opens_turn(line).map(|_| *stamp),
                    _ => None,
                });
                if !self.sort_fits(*form) || !lies_between(before, *stamp, after, form.bracket) {
                    continue;
                }
                self.speakers.insert(name);
            }
            before = Some(*stamp);
        }
    }

    /// Whether a line with a time and a speaker is written as no turn is.
    pub(super) fn may_be_a_turn(&self, line: &Line<'a>) -> bool {
        match line {
            Line::Timed { form, said, .. } => {
                said.is_some_and(|(name, _)| self.sort_fits(*form) && !self.fits(*form, name))
            }
            _ => false,
        }
    }

    /// Whether a line with a time but without a speaker is the exporting program's and not part of a message.
    pub(super) fn is_notice(&self, line: &Line<'_>) -> bool {
        match line {
            // `9:00 gym` stands in many a message.
            Line::Timed {
                form, said: None, ..
            } => (form.is_dated() || form.bracket) && self.forms.contains(form),
            _ => false,
        }
    }

    /// Whether the turns have times of their own.
    pub(super) fn are_timed(&self) -> bool {
        matches!(self.mode, Mode::Dated | Mode::Clocked | Mode::Kakao)
    }

    /// Whether this is a conversation and not prose, a list or a configuration file.
    pub(in crate::readers) fn look_like_a_transcript(&self) -> bool {
        let mut visible = self
            .lines
            .iter()
            .filter(|line| !matches!(line, Line::Blank));
        if self.are_timed() {
            return visible
                .take(PROBE_LINES)
                .any(|line| self.opens_turn(line).is_some())
                && self.most_times_have_a_speaker();
        }
        // A title may stand above.
        let title = |line: &&Line<'_>| match line {
            Line::Heading { .. } | Line::Rule(_) => true,
            Line::Other(whole) => whole.starts_with('#'),
            _ => false,
        };
        let first = visible.find(|line| !title(line));
        let names: Vec<_> = self
            .lines
            .iter()
            .filter_map(|line| Some(self.opens_turn(line)?.0))
            .collect();
        let distinct = names.iter().collect::<HashSet<_>>().len();
        first.is_some_and(|line| self.opens_turn(line).is_some())
            && names.len() >= 2
            && distinct <= 2.max(names.len() / 2)
    }

    /// In a log or an export of another program a colon stands in few lines, and not behind a name.
    fn most_times_have_a_speaker(&self) -> bool {
        let timed = self.lines.iter().filter_map(|line| match line {
            Line::Timed { form, said, .. } if self.forms.contains(form) => Some(said.is_some()),
            _ => None,
        });
        let (with, all) = timed.fold((0, 0), |(with, all), speaker| {
            (with + usize::from(speaker), all + 1)
        });
        with * 2 >= all
    }
}

/// Lets people speak whose names hold a single quote: who has written more than once is no notice with a quotation.
fn add_quoted_names(lines: &mut [Line<'_>]) {
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (name, _) in lines.iter().filter_map(quoted_name) {
        *known.entry(name).or_default() += 1;
    }
    for line in lines {
        let speaks = |(name, _): &(&str, &str)| known.get(name).is_some_and(|count| *count > 1);
        let found = quoted_name(line).filter(speaks);
        if let Line::Timed { said, .. } = line {
            *said = said.or(found);
        }
    }
}

/// Whether two times consist of the same and both stand in brackets or neither.
fn alike(one: Form, other: Form) -> bool {
    let same_sort = one.sort == other.sort || (one.is_dated() && other.is_dated());
    same_sort && one.bracket == other.bracket
}

/// Whether a time is not before that of the turn above and not after that of the turn below. Under the last turn it has
/// to follow soon; there, a time of day without brackets may be a plan.
fn lies_between(before: Option<Stamp>, time: Stamp, after: Option<Stamp>, bracket: bool) -> bool {
    let follows = |one: Stamp, other: Stamp, longest: SignedDuration| {
        moments(one).iter().any(|one| {
            let mut others = moments(other).into_iter();
            others.any(|other| {
                let pause = other.duration_since(*one);
                !pause.is_negative() && pause <= longest
            })
        })
    };
    let is_clock = matches!(time, Stamp::Clock(_));
    match (before, after) {
        (Some(before), Some(after)) => {
            follows(before, time, SignedDuration::MAX) && follows(time, after, SignedDuration::MAX)
        }
        (Some(before), None) => {
            (bracket || !is_clock) && follows(before, time, SignedDuration::from_hours(4))
        }
        (None, Some(after)) => follows(time, after, SignedDuration::from_hours(4)),
        (None, None) => false,
    }
}

/// The times that a stamp may stand for; times of day are of one day.
fn moments(stamp: Stamp) -> Vec<DateTime> {
    match stamp {
        Stamp::Full(moment) => moment.map(|moment| moment.local).into_iter().collect(),
        Stamp::Clock(time) => {
            let times = time.into_iter();
            times.map(|time| Date::MIN.to_datetime(time)).collect()
        }
        Stamp::DayMonth {
            first,
            second,
            year,
            time,
        } => {
            let orders = [(second, first), (first, second)].into_iter();
            let dates = orders.filter_map(|(month, day)| Date::new(year, month, day).ok());
            dates
                .filter_map(|date| Some(date.to_datetime(time?)))
                .collect()
        }
    }
}

/// What most of a text's turns begin with, by the first line that somebody speaks.
fn mode(lines: &[Line<'_>]) -> Mode {
    let names = || {
        lines.iter().filter_map(|line| match line {
            Line::Named { name, .. } => Some(*name),
            _ => None,
        })
    };
    let has_role = |role| names().any(|name| role_of(name) == Some(role));
    let untimed = if has_role(Role::User) && has_role(Role::Assistant) {
        Mode::Roles
    } else {
        Mode::Named
    };
    let timed: Vec<_> = lines
        .iter()
        .filter_map(|line| match line {
            Line::Timed {
                form,
                said: Some((name, _)),
                ..
            } => Some((*form, *name)),
            _ => None,
        })
        .collect();
    let Some((main, _)) = timed.first() else {
        return untimed;
    };
    if speak_untimed(lines, &timed, untimed == Mode::Roles) {
        return untimed;
    }
    match main.sort {
        Sort::Full | Sort::DayMonth => Mode::Dated,
        Sort::Kakao => Mode::Kakao,
        Sort::Clock => Mode::Clocked,
    }
}

/// Whether people speak in lines without times although some lines have times. Lines like `Date saved: …` or `Channel: …`
/// stand above lines with times, too; who speaks without a time does so among others and mostly speaks again.
fn speak_untimed(lines: &[Line<'_>], timed: &[(Form, &str)], with_roles: bool) -> bool {
    let Some((main, _)) = timed.first() else {
        return true;
    };
    if timed.iter().any(|(form, _)| form.sort == Sort::Kakao) {
        return false;
    }
    let first_timed = lines
        .iter()
        .position(|line| matches!(line, Line::Timed { said: Some(_), .. }));
    let mut names = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if let Line::Named { name, .. } = line {
            names.push((index, *name));
        }
    }
    if with_roles {
        names.retain(|(_, name)| role_of(name).is_some());
    }
    let first = names.first().map(|(index, _)| *index);
    if first.is_none_or(|first| first_timed.is_some_and(|timed| timed < first)) {
        return false;
    }
    let recurs = |name: &str| names.iter().filter(|(_, other)| *other == name).count() > 1;
    let recurring = names.iter().filter(|(_, name)| recurs(name)).count();
    let distinct: HashSet<_> = names.iter().map(|(_, name)| *name).collect();
    // A time of day may head a line of a plan; whoever speaks there speaks again.
    let is_stamped = main.is_dated() || main.bracket;
    let spoken_at_times = timed.iter().filter(|(_, name)| {
        is_stamped || timed.iter().filter(|(_, other)| other == name).count() > 1
    });
    let spoken_at_times = spoken_at_times.count();
    if with_roles {
        return names.len() >= spoken_at_times;
    }
    let go_on = names
        .last()
        .is_some_and(|(last, _)| first_timed.is_some_and(|timed| timed < *last));
    let few_timed = if is_stamped {
        timed.len() == 1 && !main.bracket
    } else {
        timed.len() <= names.len()
    };
    distinct.len() >= 2
        && distinct.len() <= 2.max(names.len() / 2)
        && go_on
        && (recurring > spoken_at_times || few_timed)
}

/// Whether a text is an export of LINE: time, name and text with tabs between them.
pub(in crate::readers) fn is_of_line(text: &str) -> bool {
    let is_clock = |time: &str| {
        let digits = |part: &str| (1..=2).contains(&part.len()) && part.parse::<u8>().is_ok();
        let halves = ["午前", "午後", "오전", "오후", "上午", "下午", "AM", "PM"];
        let half = halves.iter().find_map(|half| time.strip_prefix(half));
        let time = half.unwrap_or(time).trim_start();
        let time = time.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        time.split_once(':')
            .is_some_and(|(hour, minute)| digits(hour) && digits(minute))
    };
    let is_turn = |line: &&str| {
        let mut parts = line.split('\t');
        parts.next().is_some_and(is_clock) && parts.nth(1).is_some()
    };
    let turns = text.lines().filter(is_turn).count();
    let is_other = |text: &&str| {
        !is_turn(text) && matches!(line(text), Line::Timed { .. } | Line::Named { .. })
    };
    text.starts_with("[LINE]") || (turns > 1 && turns > text.lines().filter(is_other).count())
}

/// Whether days stand before months: yes, unless some line rules it out and none rules out the contrary.
pub(super) fn day_first(lines: &Lines<'_>, warnings: &mut Warnings) -> bool {
    let turns = lines
        .lines
        .iter()
        .enumerate()
        .filter(|(_, line)| lines.opens_turn(line).is_some());
    let pairs: Vec<_> = turns
        .filter_map(|(index, line)| match line {
            Line::Timed {
                stamp: Stamp::DayMonth { first, second, .. },
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
