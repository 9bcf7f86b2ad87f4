//! Texts made of bytes, to look for inputs that the reading of time expressions cannot bear: for the tests, for
//! `examples/time_fuzz.rs` and for the target of `cargo fuzz`.

#![allow(
    clippy::unwrap_used,
    dead_code,
    unreachable_pub,
    reason = "shared by programs that use a part each"
)]

use std::sync::LazyLock;

use jiff::civil::DateTime;
use mem_schema::{
    moment::Moment,
    time::resolve::{Found, Hemisphere, Language, Options, resolve},
};

/// What no table holds: numbers at limits, marks, letters of every kind.
const ODD: &[&str] = &[
    "99999999999999",
    "9999999999999999999999",
    "2024",
    "1999",
    "31",
    "30",
    "29",
    "12",
    "0",
    "00",
    "7",
    "2024-02-29",
    "9999-12-31",
    "0001-01-01",
    "23:59",
    "24:00",
    "12/31",
    "4/5",
    "٣",
    "३",
    "３",
    "年",
    "月",
    "日",
    "월",
    "일",
    "금",
    "年間",
    "é",
    "İ",
    "ß",
    "ﬁ",
    "\u{301}",
    "\u{93c}",
    "\u{640}",
    "\u{64b}",
    "\u{200d}",
    "\u{200b}",
    "\u{feff}",
    "👩‍👩‍👧",
    "\u{0}",
    "-",
    "–",
    "/",
    ":",
    ".",
    ",",
    "、",
    "$",
    "€",
    "'",
    "’",
    "(",
    ")",
    "!",
    "?",
    "。",
    "\n",
    "%",
    "th",
    "st",
];

/// Words of the tables, by language, with all of [`ODD`].
static WORDS: LazyLock<Vec<Vec<String>>> = LazyLock::new(|| {
    let words = |language: &Language| {
        let file = format!("{}/time/{}.toml", root(), language.code());
        let text = std::fs::read_to_string(file).unwrap();
        let is_edge = |c: char| c.is_whitespace() || "\"[]{}()<>|\\,=".contains(c);
        let words = text.split(is_edge).filter(|word| !word.is_empty());
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        words.sort();
        words.dedup();
        words.extend(ODD.iter().map(|&odd| odd.to_owned()));
        words
    };
    Language::ALL.iter().map(words).collect()
});

/// The folder of the crate, for programs inside it and for the fuzzer's own package below it.
fn root() -> &'static str {
    env!("CARGO_MANIFEST_DIR").trim_end_matches("/fuzz")
}

/// A text with the way to read it.
#[derive(Debug)]
pub struct Case {
    pub text: String,
    pub anchor: Option<Moment>,
    pub options: Options,
}

/// The case that bytes stand for: four bytes say how to read, the others are words of a table with what lies between
/// them, or a text as it is.
pub fn case(bytes: &[u8]) -> Case {
    let byte = |at: usize| usize::from(bytes.get(at).copied().unwrap_or(0));
    let rest = bytes.get(4..).unwrap_or_default();
    let own = byte(0) % Language::ALL.len();
    let language =
        (byte(1) % 4 != 0).then(|| Language::ALL[(own + byte(1) / 64) % Language::ALL.len()]);
    let hemisphere = [Hemisphere::Northern, Hemisphere::Southern][byte(1) / 4 % 2];
    let text = if byte(2) % 8 == 0 {
        String::from_utf8_lossy(rest).into_owned()
    } else {
        let words = &WORDS[own];
        let mut text = String::new();
        for of in rest.chunks(2) {
            let number = usize::from(of[0]) << 8 | usize::from(of.get(1).copied().unwrap_or(0));
            // The three highest bits choose what lies before the word and whether it is an odd one.
            let glue = ["", " ", " ", ", "][number >> 14];
            let place = if number >> 13 & 1 == 0 {
                words.len() - 1 - number % ODD.len()
            } else {
                number % words.len()
            };
            text.push_str(glue);
            text.push_str(&words[place]);
        }
        text
    };
    let anchor = match byte(3) {
        0..32 => None,
        32..48 => Some(DateTime::constant(9999, 12, 31, 23, 59, 59, 999_999_999)),
        48..64 => Some(DateTime::constant(1, 1, 1, 0, 0, 0, 0)),
        64..80 => Some(DateTime::MIN),
        80..96 => Some(DateTime::MAX),
        96..112 => Some(DateTime::constant(2024, 2, 29, 23, 59, 0, 0)),
        day => {
            let day = day as i16 * 16 + byte(2) as i16;
            let date = jiff::civil::Date::constant(2020, 1, 1);
            let date = date.checked_add(jiff::Span::new().days(day)).unwrap();
            Some(date.at(10, 30, 0, 0))
        }
    };
    Case {
        text,
        anchor: anchor.map(Moment::local),
        options: Options {
            language,
            hemisphere,
        },
    }
}

impl Case {
    /// Reads the text and checks what holds for all texts.
    pub fn check(&self) -> Vec<Found> {
        let found = resolve(&self.text, self.anchor.as_ref(), &self.options);
        let mut end = 0;
        for of in &found {
            assert!(
                end <= of.range.start && of.range.start < of.range.end,
                "{self:?}: {found:?}"
            );
            assert_eq!(
                self.text.get(of.range.clone()),
                Some(of.words.as_str()),
                "{self:?}"
            );
            for value in &of.candidates {
                assert_eq!(value.to_string().parse().as_ref(), Ok(value), "{self:?}");
            }
            end = of.range.end;
        }
        found
    }
}

/// Bytes from a seed, the same on every machine.
pub struct Bytes(pub u64);

impl Bytes {
    /// Bytes of the next case: up to `most` words.
    pub fn next(&mut self, most: usize, out: &mut Vec<u8>) {
        out.clear();
        let words = 1 + self.number() as usize % most;
        while out.len() < 4 + 2 * words {
            out.extend(self.number().to_le_bytes());
        }
        out.truncate(4 + 2 * words);
    }

    /// The next number (xorshift64*, Vigna 2016).
    fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
