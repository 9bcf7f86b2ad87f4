//! A sentence says the same with its relative date written out, in ten languages.

mod time_fuzz;
mod time_speech;

use jiff::civil::{Date, DateTime};
use mem_schema::moment::Moment;
use mem_schema::time::resolve::{Language, Options, resolve};
use mem_schema::time::value::{Point, TimeValue};
use time_speech::{SPEECH, Speech, first_words, months, weekdays};

/// Numbers of a range, always the same ones for a seed.
fn random(seed: u64) -> impl FnMut(std::ops::Range<i64>) -> i64 {
    let mut source = time_fuzz::Bytes(seed);
    move |range| {
        let mut bytes = Vec::new();
        source.next(2, &mut bytes);
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        range.start + i64::from(number) % (range.end - range.start)
    }
}

/// What a sentence with the words means, whose only expression they must be.
fn first(speech: &Speech, words: &str, at: &Moment) -> TimeValue {
    let options = Options {
        language: Language::from_code(speech.code),
        ..Options::default()
    };
    let text = speech.sentence.replace("{}", words);
    let found = resolve(&text, Some(at), &options);
    let [only] = &found[..] else {
        panic!("one expression in {text}, not {found:?}");
    };
    only.candidates.first().cloned().unwrap_or_default()
}

#[test]
fn a_sentence_with_its_date_written_out_says_the_same() {
    let mut random = random(7);
    for speech in &SPEECH {
        let first = |words: &str, at: &Moment| first(speech, words, at);
        let months = months(speech.code);
        let days = first_words(speech.code, "days");
        for _ in 0..300 {
            let date = Date::constant(2000, 1, 1)
                .checked_add(jiff::Span::new().days(random(0..12_000)))
                .unwrap();
            let at = Moment::local(date.at(14, 30, 0, 0));
            let n = random(3..10).to_string();
            let counted = speech.counted.map(|words| words.replace("{n}", &n));
            for words in counted.iter().chain(&days) {
                let value = first(words, &at);
                let TimeValue::Point(point) = value else {
                    panic!("{words} on {at} is {value}");
                };
                let written = speech.write(point, &months);
                for said in [
                    at,
                    Moment::local(date.at(0, 0, 0, 0)),
                    Moment::local(DateTime::constant(2015, 6, 1, 9, 0, 0, 0)),
                ] {
                    assert_eq!(
                        first(&written, &said),
                        value,
                        "{words} on {at} is {written}"
                    );
                }
                // The normal form of a day is read in every language too.
                if matches!(point, Point::Day(_)) {
                    assert_eq!(first(&value.to_string(), &at), value, "{words} on {at}");
                }
            }
        }
    }
}

/// Words of weeks, weekends, weekdays and ranges on many days, with what they mean.
#[test]
fn a_sentence_with_its_weeks_and_ranges_written_out_says_the_same() {
    let mut random = random(11);
    let mut wrong = std::collections::BTreeMap::new();
    for speech in &SPEECH {
        let (months, weekdays) = (months(speech.code), weekdays(speech.code));
        for _ in 0..60 {
            let date = Date::constant(2000, 1, 1)
                .checked_add(jiff::Span::new().days(random(0..12_000)))
                .unwrap();
            let at = Moment::local(date.at(14, 30, 0, 0));
            // Weeks run from Monday to Sunday; the last weekend is the last one that is over.
            let days = |from: i64, to: i64| {
                let monday = i64::from(date.weekday().to_monday_zero_offset());
                let [from, to] = [from, to].map(|days| {
                    let span = jiff::Span::new().days(days - monday);
                    Point::Day(date.checked_add(span).unwrap())
                });
                TimeValue::Range(from, to)
            };
            for (words, expected) in [
                (speech.weeks[0], days(-7, -1)),
                (speech.weeks[1], days(7, 13)),
                (speech.weeks[2], days(-2, -1)),
            ] {
                assert_eq!(first(speech, words, &at), expected, "{words} on {at}");
            }
            let mut pair = |names: &[String]| {
                let from = random(0..names.len() as i64 - 1);
                let to = random(from + 1..names.len() as i64);
                [from, to].map(|at| names[at as usize].clone())
            };
            let [day, end] = pair(&weekdays);
            let [month, last] = pair(&months);
            let fill = |form: &str, a: &str, b: &str| form.replace("{a}", a).replace("{b}", b);
            let mut said: Vec<String> = speech.weeks.iter().map(|&of| of.to_owned()).collect();
            said.extend(speech.weekdays.iter().map(|form| fill(form, &day, "")));
            said.push(fill(speech.ranges[0], &day, &end));
            said.push(fill(speech.ranges[1], &month, &last));
            for words in said {
                let value = first(speech, &words, &at);
                let Some(written) = speech.write_value(&value, &months) else {
                    wrong.insert(words.clone(), format!("{words} on {at} is {value}"));
                    continue;
                };
                for other in [
                    at,
                    Moment::local(DateTime::constant(2015, 6, 1, 9, 0, 0, 0)),
                ] {
                    let again = first(speech, &written, &other);
                    if again != value {
                        wrong.insert(
                            words.clone(),
                            format!("{words} on {at} is {value}, {written} on {other} is {again}"),
                        );
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
