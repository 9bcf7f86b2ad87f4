//! Normal forms of a memory's time: dates, ranges of two equal forms, recurrences in words.

use std::sync::LazyLock;

use regex::Regex;

/// First words of a recurrence that are followed by a blank.
const RECURRENCE_WORDS: &str = "every|each|cada|jeden|jedes|jede|chaque|tous|toutes|todos|todas|todo|toda|ogni|كل|hər|her|har|हर";
/// Beginnings of a recurrence that need no blank.
const RECURRENCE_PREFIXES: &str = "daily|매|毎|每|kaum|каж|หลังทุก";
/// Characters of a recurrence behind its first word, blanks not counted.
const RECURRENCE_CHARS: usize = 80;

/// Regular expression, anchored, of every normal form, `""` included.
///
/// `YYYY`, `YYYY-MM`, `YYYY-MM-DD`, `YYYY-MM-DDTHH:MM`, `A/B` of two equal forms, or a recurrence that begins with
/// *every* in one of our languages. That A lies before B is more than a regular expression can say.
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
    let words = RECURRENCE_CHARS - 1;
    format!(
        "^(|{spans}|({RECURRENCE_WORDS}) \\S( ?\\S){{0,{words}}}|({RECURRENCE_PREFIXES})( ?\\S){{0,{words}}})$"
    )
}

/// Whether `time` is written in a normal form; a range must not run backwards.
pub fn is_normal(time: &str) -> bool {
    static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&pattern()).ok());
    let in_order = match time.split_once('/') {
        Some((from, to)) if time.starts_with(|c: char| c.is_ascii_digit()) => from <= to,
        _ => true,
    };
    in_order
        && PATTERN
            .as_ref()
            .is_some_and(|pattern| pattern.is_match(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_forms_are_known() {
        let good = [
            "",
            "2024",
            "2024-02",
            "2024-02-29",
            "2024-02-29T07:05",
            "2024/2025",
            "2024-06/2024-08",
            "2024-05-06/2024-05-12",
            "every other Friday",
            "매주 목요일",
            "매 2주마다 목요일",
            "毎月1日",
            "每天六点半，2023年12月4日起",
            "jeden ersten Mittwoch im Monat",
            "हर दिन सुबह",
            "كل سبت مساءً",
            "daily",
        ];
        for time in good {
            assert!(is_normal(time), "{time}");
        }
    }

    #[test]
    fn other_forms_are_not() {
        let bad = [
            "May 2023",
            "2024-13",
            "2024-2",
            "2024-05-06/2024-05",
            "2024-08/2024-06",
            "2024-02-29T24:00",
            "every",
            "every  Friday",
            "every day ",
            "yesterday",
            "2024-01-01\n",
            " 2024",
        ];
        for time in bad {
            assert!(!is_normal(time), "{time}");
        }
    }
}
