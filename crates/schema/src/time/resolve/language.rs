//! The languages with tables, and which of them a text is in.

use std::{collections::HashMap, sync::LazyLock};

use foldhash::fast::FixedState;

use super::{
    table::{self, Table},
    text::{self, Kind, Tokens},
};

macro_rules! languages {
    ($($(#[$doc:meta])* $variant:ident $code:literal,)*) => {
        /// A language that time expressions are read in.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Language { $($(#[$doc])* $variant,)* }

        impl Language {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The code, BCP 47.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The language of a BCP 47 tag ("en", "pt-BR"); `None` for languages without a table.
            pub fn from_code(tag: &str) -> Option<Self> {
                let code = tag.split(['-', '_']).next().unwrap_or(tag);
                Self::ALL.iter().copied().find(|language| language.code().eq_ignore_ascii_case(code))
            }

            /// The text of its table.
            pub(in crate::time) fn written(self) -> &'static str {
                match self { $(Self::$variant => include_str!(concat!("../../../time/", $code, ".toml")),)* }
            }
        }

        static TABLES: [LazyLock<Result<Table, String>>; Language::ALL.len()] =
            [$(LazyLock::new(|| Table::parse(Language::$variant.written())),)*];
    };
}

languages! {
    /// English.
    English "en",
    /// Korean.
    Korean "ko",
    /// Japanese.
    Japanese "ja",
    /// Chinese.
    Chinese "zh",
    /// Arabic.
    Arabic "ar",
    /// Hindi.
    Hindi "hi",
    /// German.
    German "de",
    /// Spanish.
    Spanish "es",
    /// French.
    French "fr",
    /// Portuguese.
    Portuguese "pt",
}

/// Common words with the languages that they are common in.
static FUNCTION_WORDS: LazyLock<HashMap<String, Vec<Language>, FixedState>> = LazyLock::new(|| {
    let mut out: HashMap<String, Vec<Language>, FixedState> = HashMap::default();
    for &language in Language::ALL {
        for word in table::function_words(language.written()).unwrap_or_default() {
            let of = out.entry(word).or_default();
            if !of.contains(&language) {
                of.push(language);
            }
        }
    }
    out
});

impl Language {
    /// Its table, read once; `None` when the table is wrong, which a test rules out.
    pub(super) fn table(self) -> Option<&'static Table> {
        TABLES[self as usize].as_ref().ok()
    }
}

/// The languages to read `text` in: the given one, and those whose script or common words are in it.
pub(super) fn of_text(tokens: &Tokens<'_>, given: Option<Language>) -> Vec<Language> {
    let mut counts = [0usize; Language::ALL.len()];
    let mut scripts = Scripts::default();
    for at in 0..tokens.tokens.len() {
        let word = tokens.text(at);
        match tokens.tokens[at].kind {
            Kind::Char => scripts.char(word.chars().next().unwrap_or(' ')),
            Kind::Word => {
                scripts.word(word);
                for &language in FUNCTION_WORDS.get(word).map_or(&[][..], Vec::as_slice) {
                    counts[language as usize] += 1;
                }
            }
            Kind::Digits | Kind::Mark => {}
        }
    }
    let mut out: Vec<Language> = given.into_iter().collect();
    let mut add = |language: Option<Language>| {
        if let Some(language) = language
            && !out.contains(&language)
        {
            out.push(language);
        }
    };
    let code = Language::from_code;
    if scripts.hangul {
        add(code("ko"));
    }
    if scripts.kana {
        add(code("ja"));
    } else if scripts.han && given != code("ja") && given != code("ko") {
        add(code("zh"));
    }
    if scripts.arabic {
        add(code("ar"));
    }
    if scripts.devanagari {
        add(code("hi"));
    }
    if scripts.latin {
        // Of the languages in Latin letters: those with the most common words, and any with half as many.
        let latin =
            |language: &Language| !["ko", "ja", "zh", "ar", "hi"].contains(&language.code());
        let most = Language::ALL
            .iter()
            .filter(|l| latin(l))
            .map(|l| counts[*l as usize])
            .max();
        let most = most.unwrap_or(0);
        let given_latin = given.is_some_and(|language| latin(&language));
        for language in Language::ALL.iter().filter(|language| latin(language)) {
            let count = counts[*language as usize];
            if (count > 0 && count * 2 >= most && (!given_latin || count >= 2))
                || (most == 0 && !given_latin && language.code() == "en")
            {
                add(Some(*language));
            }
        }
    }
    if out.is_empty() {
        out.push(Language::English);
    }
    out
}

/// Scripts that were seen.
#[derive(Default)]
struct Scripts {
    latin: bool,
    han: bool,
    kana: bool,
    hangul: bool,
    arabic: bool,
    devanagari: bool,
}

impl Scripts {
    fn char(&mut self, c: char) {
        match c {
            _ if text::is_hangul(c) => self.hangul = true,
            '\u{3040}'..='\u{30ff}' => self.kana = true,
            _ => self.han = true,
        }
    }

    fn word(&mut self, word: &str) {
        match word.chars().next().unwrap_or(' ') {
            '\u{600}'..='\u{6ff}' => self.arabic = true,
            '\u{900}'..='\u{97f}' => self.devanagari = true,
            c if c < '\u{250}' => self.latin = true,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_are_right() {
        for language in Language::ALL {
            if let Err(why) = Table::parse(language.written()) {
                panic!("{}.toml: {why}", language.code());
            }
        }
    }

    #[test]
    fn mistakes_in_a_table_are_refused() {
        let good = Language::English.written();
        for (from, to, why) in [
            (
                "[weekdays]\nmonday",
                "[weekdays]\nmoonday",
                "there is no `moonday`",
            ),
            ("[units]\nsecond", "[units]\nsecund", "there is no `secund`"),
            (
                "[rules]\n",
                "[rules]\nleap = [\"x\"]\n",
                "there is no action `leap`",
            ),
            (
                "{length} ago",
                "{lenght} ago",
                "there is no slot `{lenght}`",
            ),
            ("joiners =", "joyners =", "unknown field `joyners`"),
            ("easter = [", "oester = [", "there is no `oester`"),
        ] {
            assert!(good.contains(from), "{from}");
            let message = Table::parse(&good.replacen(from, to, 1)).unwrap_err();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn languages_are_found_by_script_and_common_words() {
        let of = |text: &str| -> Vec<&str> {
            let languages = of_text(&text::tokenise(text), None);
            languages.into_iter().map(Language::code).collect()
        };
        assert_eq!(of("We met on the 3rd of May"), ["en"]);
        assert_eq!(of("10-11am tomorrow"), ["en", "de"]);
        assert_eq!(of("anteayer por la noche"), ["es"]);
        assert_eq!(of(""), ["en"]);
        assert_eq!(Language::from_code("en-GB"), Some(Language::English));
        assert_eq!(Language::from_code("tlh"), None);
    }
}
