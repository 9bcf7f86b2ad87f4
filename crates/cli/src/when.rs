//! `memextract when`: what time expressions a text holds and what they mean.

use std::io::{self, Write};

use anyhow::Context;
use clap::Args;
use mem_schema::moment::Moment;
use mem_schema::time::resolve::{Found, Hemisphere, Language, Options, resolve};
use serde_json::json;

/// Which text, said when and in which language.
#[derive(Args, Debug)]
pub struct Arguments {
    /// A sentence, or several; `-` reads standard input
    text: String,
    /// When it was said, like `2024-03-04`, `2024-03-04T18:20` or `2024-03-04T18:20+09:00`; without it only absolute dates
    /// are resolved
    #[arg(long, value_name = "TIME", value_parser = at)]
    at: Option<Moment>,
    /// Its language, like `ko` or `pt-BR` [default: found out]
    #[arg(long, value_name = "CODE", value_parser = language)]
    lang: Option<Language>,
    /// Summer is December to February
    #[arg(long)]
    southern: bool,
    /// One JSON object an expression
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The text, from standard input where it is `-`.
    ///
    /// # Errors
    /// When what comes from there is no text.
    pub fn text(&self) -> anyhow::Result<String> {
        match self.text.as_str() {
            "-" => {
                io::read_to_string(io::stdin()).context("standard input could not be read as text")
            }
            text => Ok(text.to_owned()),
        }
    }
}

fn language(code: &str) -> Result<Language, String> {
    Language::from_code(code).ok_or_else(|| {
        let known: Vec<_> = Language::ALL
            .iter()
            .map(|language| language.code())
            .collect();
        format!("no table for it; there are {}", known.join(", "))
    })
}

/// A moment, or a day, whose beginning is meant.
fn at(text: &str) -> Result<Moment, String> {
    let moment = text.parse::<Moment>().or_else(|error| {
        let midnight = format!("{}T00:00", text.trim());
        midnight.parse().map_err(|_| error.to_string())
    })?;
    let seconds = moment.offset.map_or(0, |offset| offset.seconds().abs());
    match seconds <= 14 * 3600 {
        true => Ok(moment),
        false => Err("no clock is more than 14 hours from UTC".to_owned()),
    }
}

/// Writes a line for each expression: its words, then what they mean, the likeliest first.
///
/// # Errors
/// When the lines cannot be written.
pub fn run(arguments: &Arguments, text: &str, out: &mut dyn Write) -> io::Result<()> {
    let options = Options {
        language: arguments.lang,
        hemisphere: match arguments.southern {
            true => Hemisphere::Southern,
            false => Hemisphere::Northern,
        },
    };
    for found in resolve(text, arguments.at.as_ref(), &options) {
        match arguments.json {
            true => writeln!(out, "{}", as_json(&found))?,
            false => writeln!(out, "{}", as_line(&found))?,
        }
    }
    out.flush()
}

fn values(found: &Found) -> Vec<String> {
    found.candidates.iter().map(ToString::to_string).collect()
}

fn as_line(found: &Found) -> String {
    let values = values(found);
    let meaning = match values.as_slice() {
        [] => "not resolved".to_owned(),
        [value] if value.is_empty() => "too vague for a date".to_owned(),
        values => values.join(" or "),
    };
    format!("{}\t{meaning}", found.words)
}

fn as_json(found: &Found) -> serde_json::Value {
    json!({
        "words": found.words,
        "start": found.range.start,
        "end": found.range.end,
        "language": found.language.code(),
        "candidates": values(found),
        "sure": found.sure,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn run(line: &[&str]) -> String {
        let line = Line::try_parse_from([&["when"], line].concat()).unwrap();
        let mut out = Vec::new();
        super::run(&line.arguments, &line.arguments.text().unwrap(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn expressions_come_with_their_meaning() {
        let text = "I moved last Friday and the lease runs until 3 May 2025.";
        let at = ["--at", "2024-03-04T18:20"];
        let lines = run(&[&[text], &at[..]].concat());
        assert!(lines.starts_with("last Friday\t2024-03-01\n"), "{lines}");
        assert!(lines.contains("2025-05-03"), "{lines}");
        let json = run(&[&[text, "--json"], &at[..]].concat());
        let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!(first["candidates"], json!(["2024-03-01"]));
        assert_eq!(
            &text[first["start"].as_u64().unwrap() as usize..][..11],
            "last Friday"
        );
        let without = run(&[text]);
        assert!(
            without.starts_with("last Friday\tnot resolved\n"),
            "{without}"
        );
    }

    #[test]
    fn a_day_will_do() {
        let lines = run(&["yesterday", "--at", "2024-03-04"]);
        assert_eq!(lines, "yesterday\t2024-03-03\n");
    }

    #[test]
    fn what_is_wrong_on_the_line_is_said() {
        for line in [
            ["x", "--lang", "tlh"],
            ["x", "--at", "yesterday"],
            ["x", "--at", "2024-02-30"],
            ["x", "--at", "2024-03-04T18:20+14:30"],
        ] {
            assert!(Line::try_parse_from([&["when"], &line[..]].concat()).is_err());
        }
        assert!(language("tlh").unwrap_err().contains("en"));
    }
}
