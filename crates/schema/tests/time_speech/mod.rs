//! How ten languages speak of times, and how they write them out.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "shared by tests")]

use jiff::civil::Date;
use mem_schema::time::value::{Point, TimeValue};

/// How a language writes what is counted from today, and dates; `{n}` is a number, `{name}` a month's name.
pub struct Speech {
    pub code: &'static str,
    /// Around the expression.
    pub sentence: &'static str,
    /// Days, months and years ago, and days, months and years from now.
    pub counted: [&'static str; 6],
    /// A day, a month, a year.
    pub dates: [&'static str; 3],
    /// The last and the next week and weekend.
    pub weeks: [&'static str; 4],
    /// One weekday; the last and the next one.
    pub weekdays: [&'static str; 3],
    /// From weekday `{a}` to weekday `{b}`, and from month to month.
    pub ranges: [&'static str; 2],
    /// From date `{a}` to date `{b}`, days and months.
    pub written: [&'static str; 2],
}

pub const SPEECH: [Speech; 10] = [
    Speech {
        code: "en",
        sentence: "My brother, Zoya and I: {}, at the lake.",
        counted: [
            "{n} days ago",
            "{n} months ago",
            "{n} years ago",
            "in {n} days",
            "in {n} months",
            "in {n} years",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "{year}"],
        weeks: ["last week", "next week", "last weekend", "next weekend"],
        weekdays: ["on {a}", "last {a}", "next {a}"],
        ranges: ["from {a} to {b}", "between {a} and {b}"],
        written: ["from {a} to {b}", "from {a} to {b}"],
    },
    Speech {
        code: "ko",
        sentence: "우리 가족은 {} 호수에",
        counted: [
            "{n}일 전",
            "{n}개월 전",
            "{n}년 전",
            "{n}일 후",
            "{n}개월 후",
            "{n}년 후",
        ],
        dates: ["{year}년 {m}월 {d}일", "{year}년 {m}월", "{year}년"],
        weeks: ["지난주", "다음 주", "지난 주말", "다음 주말"],
        weekdays: ["{a}", "지난 {a}", "다음 주 {a}"],
        ranges: ["{a}부터 {b}까지", "{a}부터 {b}까지"],
        written: ["{a}부터 {b}까지", "{a}부터 {b}까지"],
    },
    Speech {
        code: "ja",
        sentence: "家族と{}に湖で。",
        counted: [
            "{n}日前",
            "{n}か月前",
            "{n}年前",
            "{n}日後",
            "{n}か月後",
            "{n}年後",
        ],
        dates: ["{year}年{m}月{d}日", "{year}年{m}月", "{year}年"],
        weeks: ["先週", "来週", "先週末", "来週末"],
        weekdays: ["{a}", "先週の{a}", "来週の{a}"],
        ranges: ["{a}から{b}まで", "{a}から{b}まで"],
        written: ["{a}から{b}まで", "{a}から{b}まで"],
    },
    Speech {
        code: "zh",
        sentence: "我们一家{}在湖边。",
        counted: [
            "{n}天前",
            "{n}个月前",
            "{n}年前",
            "{n}天后",
            "{n}个月后",
            "{n}年后",
        ],
        dates: ["{year}年{m}月{d}日", "{year}年{m}月", "{year}年"],
        weeks: ["上周", "下周", "上周末", "下周末"],
        weekdays: ["{a}", "上{a}", "下{a}"],
        ranges: ["从{a}到{b}", "从{a}到{b}"],
        written: ["从{a}到{b}", "从{a}到{b}"],
    },
    Speech {
        code: "ar",
        sentence: "الرحلة مع العائلة {} عند البحيرة.",
        counted: [
            "قبل {n} أيام",
            "قبل {n} أشهر",
            "قبل {n} سنوات",
            "بعد {n} أيام",
            "بعد {n} أشهر",
            "بعد {n} سنوات",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "عام {year}"],
        weeks: [
            "الأسبوع الماضي",
            "الأسبوع القادم",
            "نهاية الأسبوع الماضي",
            "نهاية الأسبوع القادم",
        ],
        weekdays: ["يوم {a}", "{a} الماضي", "{a} القادم"],
        ranges: ["من {a} إلى {b}", "بين {a} و{b}"],
        written: ["من {a} إلى {b}", "من {a} إلى {b}"],
    },
    Speech {
        code: "hi",
        sentence: "हमारा परिवार {} झील पर।",
        counted: [
            "{n} दिन पहले",
            "{n} महीने पहले",
            "{n} साल पहले",
            "{n} दिन बाद",
            "{n} महीने बाद",
            "{n} साल बाद",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "{year}"],
        weeks: ["पिछले हफ़्ते", "अगले हफ़्ते", "पिछले वीकेंड", "अगले वीकेंड"],
        weekdays: ["{a} को", "पिछले {a} को", "अगले {a} को"],
        ranges: ["{a} से {b} तक", "{a} से {b} तक"],
        written: ["{a} से {b} तक", "{a} से {b} तक"],
    },
    Speech {
        code: "de",
        sentence: "Die Familie, {}, am See.",
        counted: [
            "vor {n} Tagen",
            "vor {n} Monaten",
            "vor {n} Jahren",
            "in {n} Tagen",
            "in {n} Monaten",
            "in {n} Jahren",
        ],
        dates: ["{d}. {name} {year}", "{name} {year}", "{year}"],
        weeks: [
            "letzte Woche",
            "nächste Woche",
            "letztes Wochenende",
            "nächstes Wochenende",
        ],
        weekdays: ["am {a}", "letzten {a}", "nächsten {a}"],
        ranges: ["vom {a} bis zum {b}", "zwischen {a} und {b}"],
        written: ["vom {a} bis {b}", "von {a} bis {b}"],
    },
    Speech {
        code: "es",
        sentence: "La familia, {}, junto al lago.",
        counted: [
            "hace {n} días",
            "hace {n} meses",
            "hace {n} años",
            "dentro de {n} días",
            "dentro de {n} meses",
            "dentro de {n} años",
        ],
        dates: ["{d} de {name} de {year}", "{name} de {year}", "{year}"],
        weeks: [
            "la semana pasada",
            "la próxima semana",
            "el fin de semana pasado",
            "el próximo fin de semana",
        ],
        weekdays: ["el {a}", "el {a} pasado", "el próximo {a}"],
        ranges: ["del {a} al {b}", "entre {a} y {b}"],
        written: ["del {a} al {b}", "de {a} a {b}"],
    },
    Speech {
        code: "fr",
        sentence: "La famille, {}, près du lac.",
        counted: [
            "il y a {n} jours",
            "il y a {n} mois",
            "il y a {n} ans",
            "dans {n} jours",
            "dans {n} mois",
            "dans {n} ans",
        ],
        dates: ["{d} {name} {year}", "{name} {year}", "{year}"],
        weeks: [
            "la semaine dernière",
            "la semaine prochaine",
            "le week-end dernier",
            "le week-end prochain",
        ],
        weekdays: ["{a}", "{a} dernier", "{a} prochain"],
        ranges: ["de {a} à {b}", "entre {a} et {b}"],
        written: ["du {a} au {b}", "de {a} à {b}"],
    },
    Speech {
        code: "pt",
        sentence: "A família, {}, perto do lago.",
        counted: [
            "há {n} dias",
            "há {n} meses",
            "há {n} anos",
            "daqui a {n} dias",
            "daqui a {n} meses",
            "daqui a {n} anos",
        ],
        dates: ["{d} de {name} de {year}", "{name} de {year}", "{year}"],
        weeks: [
            "na semana passada",
            "na próxima semana",
            "no fim de semana passado",
            "no próximo fim de semana",
        ],
        weekdays: ["na {a}", "na {a} passada", "na próxima {a}"],
        ranges: ["da {a} ao {b}", "entre {a} e {b}"],
        written: ["de {a} a {b}", "de {a} a {b}"],
    },
];

/// A table of time words.
fn table(code: &str) -> toml::Table {
    let file = format!("{}/time/{code}.toml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).unwrap().parse().unwrap()
}

/// First words of the lists of a section of a table.
pub fn first_words(code: &str, section: &str) -> Vec<String> {
    let lists = table(code)[section].as_table().unwrap().clone();
    lists
        .values()
        .map(|words| words[0].as_str().unwrap().to_owned())
        .collect()
}

/// First words of the lists that a section has under the names of days, as English writes them.
fn names(code: &str, section: &str, days: impl Iterator<Item = Date>, name: &str) -> Vec<String> {
    let table = table(code);
    let word = |day: Date| {
        let name = day.strftime(name).to_string().to_lowercase();
        table[section][name.as_str()][0]
            .as_str()
            .unwrap()
            .to_owned()
    };
    days.map(word).collect()
}

/// The months of a language, January first.
pub fn months(code: &str) -> Vec<String> {
    let days = (1..=12).map(|month| Date::constant(2024, month, 1));
    names(code, "months", days, "%B")
}

/// The weekdays of a language, Monday first.
pub fn weekdays(code: &str) -> Vec<String> {
    let days = (1..=7).map(|day| Date::constant(2024, 1, day));
    names(code, "weekdays", days, "%A")
}

impl Speech {
    /// The date in words.
    pub fn write(&self, point: Point, months: &[String]) -> String {
        let form = match point {
            Point::Year(_) => self.dates[2],
            Point::Month { .. } => self.dates[1],
            _ => self.dates[0],
        };
        let date = point.first();
        form.replace("{d}", &date.day().to_string())
            .replace("{m}", &date.month().to_string())
            .replace("{name}", &months[date.month() as usize - 1])
            .replace("{year}", &date.year().to_string())
    }

    /// A point or a range in words.
    pub fn write_value(&self, value: &TimeValue, months: &[String]) -> Option<String> {
        match *value {
            TimeValue::Point(point) => Some(self.write(point, months)),
            TimeValue::Range(from, to) => {
                let form = self.written[usize::from(matches!(from, Point::Month { .. }))];
                let (from, to) = (self.write(from, months), self.write(to, months));
                Some(form.replace("{a}", &from).replace("{b}", &to))
            }
            _ => None,
        }
    }
}
