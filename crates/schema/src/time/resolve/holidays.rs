//! Dates of holidays: `crates/schema/time/holidays.toml`.

use std::{collections::BTreeMap, sync::LazyLock};

use jiff::{ToSpan, civil::Date};
use serde::Deserialize;

use super::{
    calendar::{Val, plus_days},
    table::WEEKDAYS,
};

/// The list of holidays as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    fixed: BTreeMap<String, String>,
    easter: BTreeMap<String, i64>,
    orthodox_easter: BTreeMap<String, i64>,
    weekday: BTreeMap<String, String>,
    table: BTreeMap<String, Vec<Date>>,
    span: BTreeMap<String, String>,
}

/// How the date of a holiday is found.
#[derive(Debug)]
enum Rule {
    Fixed {
        month: i8,
        day: i8,
    },
    Easter(i64),
    OrthodoxEaster(i64),
    /// The nth weekday (0 is Monday) of a month, and days more.
    Nth {
        month: i8,
        weekday: i8,
        nth: i8,
        more: i64,
    },
    /// The last weekday (0 is Monday) before a day of a month.
    Before {
        month: i8,
        weekday: i8,
        day: i8,
    },
    Table(Vec<Date>),
    /// From some days after another holiday of the list to some days after it; negative days lie before it.
    Span {
        of: usize,
        from: i64,
        to: i64,
    },
}

static HOLIDAYS: LazyLock<Vec<(String, Rule)>> =
    LazyLock::new(|| parse(include_str!("../../../time/holidays.toml")).unwrap_or_default());

/// Where the holiday with this name stands in the list.
pub(super) fn position(name: &str) -> Option<i32> {
    let at = HOLIDAYS.iter().position(|(of, _)| of == name)?;
    i32::try_from(at).ok()
}

/// When the holiday falls in a year, a day or several; nothing where the table does not know.
pub(super) fn days(holiday: i32, year: i16) -> Vec<Val> {
    let Some((_, rule)) = usize::try_from(holiday)
        .ok()
        .and_then(|at| HOLIDAYS.get(at))
    else {
        return Vec::new();
    };
    let (base, from, to) = match rule {
        Rule::Span { of, from, to } => (&HOLIDAYS[*of].1, *from, *to),
        rule => (rule, 0, 0),
    };
    let span = |date: Date| Val::days(plus_days(date, from)?, plus_days(date, to)?);
    dates(base, year).into_iter().filter_map(span).collect()
}

/// The dates of a rule in a year.
fn dates(rule: &Rule, year: i16) -> Vec<Date> {
    let moved = |date: Option<Date>, days: i64| date?.checked_add(days.days()).ok();
    let one = match rule {
        Rule::Fixed { month, day } => Date::new(year, *month, *day).ok(),
        Rule::Easter(days) => moved(easter(year), *days),
        Rule::OrthodoxEaster(days) => moved(orthodox_easter(year), *days),
        Rule::Nth {
            month,
            weekday,
            nth,
            more,
        } => moved(nth_weekday(year, *month, *weekday, *nth), *more),
        Rule::Before {
            month,
            weekday,
            day,
        } => Date::new(year, *month, *day).ok().and_then(|date| {
            let back = (date.weekday().to_monday_zero_offset() - weekday - 1).rem_euclid(7) + 1;
            date.checked_sub(i64::from(back).days()).ok()
        }),
        // A span of a span is not read.
        Rule::Span { .. } => None,
        Rule::Table(dates) => {
            return dates
                .iter()
                .filter(|date| date.year() == year)
                .copied()
                .collect();
        }
    };
    one.into_iter().collect()
}

/// The nth weekday (0 is Monday; -1 the last) of a month.
pub(super) fn nth_weekday(year: i16, month: i8, weekday: i8, nth: i8) -> Option<Date> {
    let first = Date::new(year, month, 1).ok()?;
    let weekday = jiff::civil::Weekday::from_monday_zero_offset(weekday).ok()?;
    first.nth_weekday_of_month(nth, weekday).ok()
}

/// Western Easter Sunday (the anonymous Gregorian algorithm, Nature, 1876).
fn easter(year: i16) -> Option<Date> {
    let year32 = i32::from(year);
    let (a, b, c) = (year32 % 19, year32 / 100, year32 % 100);
    let g = (8 * b + 13) / 25;
    let h = (19 * a + b - b / 4 - g + 15) % 30;
    let l = (32 + 2 * (b % 4) + 2 * (c / 4) - h - c % 4) % 7;
    let m = (a + 11 * h + 19 * l) / 433;
    let month = (h + l - 7 * m + 90) / 25;
    let day = (h + l - 7 * m + 33 * month + 19) % 32;
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

/// Orthodox Easter Sunday in the Gregorian calendar (Meeus, Astronomical Algorithms, chapter 8; from 1900 to 2099).
fn orthodox_easter(year: i16) -> Option<Date> {
    let year32 = i32::from(year);
    let d = (19 * (year32 % 19) + 15) % 30;
    let e = (2 * (year32 % 4) + 4 * (year32 % 7) - d + 34) % 7;
    let julian = d + e + 114;
    let (month, day) = (julian / 31, julian % 31 + 1);
    let date = Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()?;
    date.checked_add(13.days()).ok()
}

fn parse(text: &str) -> Result<Vec<(String, Rule)>, String> {
    let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    for (name, day) in written.fixed {
        let rule = day.split_once('-').and_then(|(month, day)| {
            let (month, day) = (month.parse().ok()?, day.parse().ok()?);
            Date::new(2000, month, day).ok()?;
            Some(Rule::Fixed { month, day })
        });
        out.push((name, rule.ok_or(format!("`{day}` is no month-day"))?));
    }
    for (name, days) in written.easter {
        out.push((name, Rule::Easter(days)));
    }
    for (name, days) in written.orthodox_easter {
        out.push((name, Rule::OrthodoxEaster(days)));
    }
    for (name, words) in written.weekday {
        let rule = weekday_rule(&words).ok_or(format!("`{words}` is no weekday of a month"))?;
        out.push((name, rule));
    }
    for (name, dates) in written.table {
        out.push((name, Rule::Table(dates)));
    }
    for (name, words) in written.span {
        let rule = span_rule(&words, &mut out).ok_or(format!("`{words}` is no span"))?;
        out.push((name, rule));
    }
    Ok(out)
}

/// A holiday of the list or a month-day, and the first and last day counted from it.
fn span_rule(words: &str, out: &mut Vec<(String, Rule)>) -> Option<Rule> {
    let words: Vec<&str> = words.split(' ').collect();
    let [of, from, to] = words[..] else {
        return None;
    };
    let at = match out.iter().position(|(name, _)| name == of) {
        Some(at) => at,
        None => {
            let (month, day) = of.split_once('-')?;
            let (month, day) = (month.parse().ok()?, day.parse().ok()?);
            Date::new(2000, month, day).ok()?;
            out.push((of.to_owned(), Rule::Fixed { month, day }));
            out.len() - 1
        }
    };
    Some(Rule::Span {
        of: at,
        from: from.parse().ok()?,
        to: to.parse().ok()?,
    })
}

fn weekday_rule(words: &str) -> Option<Rule> {
    let words: Vec<&str> = words.split(' ').collect();
    let month: i8 = words.first()?.parse().ok()?;
    let weekday = WEEKDAYS
        .iter()
        .position(|name| Some(name) == words.get(1))?;
    let weekday = i8::try_from(weekday).ok()?;
    if *words.get(2)? == "before" {
        let day = words.get(3)?.parse().ok()?;
        return Some(Rule::Before {
            month,
            weekday,
            day,
        });
    }
    Some(Rule::Nth {
        month,
        weekday,
        nth: words[2].parse().ok()?,
        more: words.get(3).map_or(Some(0), |more| more.parse().ok())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(name: &str, year: i16) -> String {
        let at = position(name).unwrap_or_else(|| panic!("{name}"));
        days(at, year)[0].value().to_string()
    }

    #[test]
    fn the_list_is_read() {
        assert!(
            parse(include_str!("../../../time/holidays.toml"))
                .unwrap()
                .len()
                > 60
        );
        assert!(parse("[fixed]\nx = \"13-01\"").is_err());
    }

    #[test]
    fn movable_feasts_fall_where_calendars_print_them() {
        for (name, year, date) in [
            ("easter", 2024, "2024-03-31"),
            ("easter", 2019, "2019-04-21"),
            ("easter", 2038, "2038-04-25"),
            ("orthodox_easter", 2024, "2024-05-05"),
            ("good_friday", 2025, "2025-04-18"),
            ("carnival_sunday", 2018, "2018-02-11"),
            ("thanksgiving", 2023, "2023-11-23"),
            ("black_friday", 2024, "2024-11-29"),
            ("labor_day_us", 2021, "2021-09-06"),
            ("memorial_day_us", 2021, "2021-05-31"),
            ("victoria_day", 2023, "2023-05-22"),
            ("first_advent", 2023, "2023-12-03"),
            ("fourth_advent", 2023, "2023-12-24"),
            ("totensonntag", 2020, "2020-11-22"),
            ("lunar_new_year", 2027, "2027-02-06"),
            ("seollal", 2027, "2027-02-07"),
            ("chuseok", 2024, "2024-09-17"),
            ("eid_al_fitr", 2022, "2022-05-02"),
            ("eid_al_adha", 2015, "2015-09-24"),
            ("diwali", 2024, "2024-10-31"),
            ("chuseok_days", 2024, "2024-09-16/2024-09-18"),
            ("national_week_china", 2024, "2024-10-01/2024-10-07"),
            ("chinese_new_years_eve", 2025, "2025-01-28"),
        ] {
            assert_eq!(day(name, year), date, "{name} {year}");
        }
    }
}
