//! Lists of weekdays: every one of them is in the one recurrence that is returned.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mem_schema::time::resolve::{Found, Language, Options, resolve};

fn found(code: &str, text: &str) -> Vec<Found> {
    let options = Options {
        language: Some(Language::from_code(code).unwrap()),
        ..Options::default()
    };
    let at = "2024-06-15T10:00:00".parse().unwrap();
    resolve(text, Some(&at), &options)
}

/// The weekdays, 1 for Monday, of the one recurrence in a text; none where there is another expression too.
fn weekdays(code: &str, text: &str) -> Vec<i32> {
    match &found(code, text)[..] {
        [only] if only.candidates.len() == 1 => {
            only.rhythm.clone().map_or(Vec::new(), |of| of.weekdays)
        }
        _ => Vec::new(),
    }
}

#[test]
fn every_weekday_of_a_list_is_meant() {
    let mut wrong = Vec::new();
    for (code, text, days) in [
        ("en", "I swim every Monday and Thursday.", &[1, 4][..]),
        (
            "en",
            "I swim every Monday, Wednesday and Friday.",
            &[1, 3, 5],
        ),
        (
            "en",
            "I swim every Monday, Wednesday, and Friday.",
            &[1, 3, 5],
        ),
        ("en", "I swim each Tuesday and Thursday.", &[2, 4]),
        ("en", "I swim on Mondays and Thursdays.", &[1, 4]),
        (
            "en",
            "I swim on Mondays, Wednesdays and Fridays.",
            &[1, 3, 5],
        ),
        ("en", "I swim every Mon, Wed, Thu and Fri.", &[1, 3, 4, 5]),
        ("en", "I swim every Mon/Wed/Fri.", &[1, 3, 5]),
        (
            "en",
            "I swim every Monday, Tuesday, Wednesday, Thursday and Friday.",
            &[1, 2, 3, 4, 5],
        ),
        ("ko", "매주 월수금 수영", &[1, 3, 5]),
        ("ko", "매주 월, 수, 금 수영", &[1, 3, 5]),
        ("ko", "매주 화금일 저녁 수영", &[2, 5, 7]),
        ("ko", "매주 월화수목금토 수영", &[1, 2, 3, 4, 5, 6]),
        (
            "ko",
            "매주 월요일과 목요일 그리고 금요일에 수영",
            &[1, 4, 5],
        ),
        ("ja", "毎週月水金に泳ぐ", &[1, 3, 5]),
        ("ja", "毎週火木土日の朝に泳ぐ", &[2, 4, 6, 7]),
        ("ja", "毎週月・水・金に泳ぐ", &[1, 3, 5]),
        ("ja", "毎週月曜と水曜と金曜に泳ぐ", &[1, 3, 5]),
        ("zh", "我每周一三五游泳", &[1, 3, 5]),
        ("zh", "我每周一、三、五游泳", &[1, 3, 5]),
        ("zh", "我每周二四六晚上游泳", &[2, 4, 6]),
        ("zh", "我每周二、四游泳", &[2, 4]),
        ("zh", "我每周一、周三和周五游泳", &[1, 3, 5]),
        ("ar", "أسبح كل اثنين وخميس", &[1, 4]),
        ("ar", "أسبح كل يوم اثنين وأربعاء وجمعة", &[1, 3, 5]),
        ("hi", "मैं हर सोमवार और गुरुवार को तैरता हूँ", &[1, 4]),
        ("hi", "मैं हर सोमवार, बुधवार और शुक्रवार को तैरता हूँ", &[1, 3, 5]),
        ("de", "Ich schwimme montags und donnerstags.", &[1, 4]),
        (
            "de",
            "Ich schwimme montags, mittwochs, donnerstags und freitags.",
            &[1, 3, 4, 5],
        ),
        (
            "de",
            "Ich schwimme jeden Montag, Mittwoch und Freitag.",
            &[1, 3, 5],
        ),
        (
            "de",
            "Ich schwimme jeden Montag, Mittwoch, Donnerstag und Freitag.",
            &[1, 3, 4, 5],
        ),
        ("es", "Nado todos los lunes y jueves.", &[1, 4]),
        ("es", "Nado los lunes, miércoles y viernes.", &[1, 3, 5]),
        (
            "es",
            "Nado todos los lunes, miércoles, jueves y viernes.",
            &[1, 3, 4, 5],
        ),
        ("fr", "Je nage tous les lundis et jeudis.", &[1, 4]),
        (
            "fr",
            "Je nage tous les lundis, mercredis et vendredis.",
            &[1, 3, 5],
        ),
        (
            "fr",
            "Je nage tous les lundis, mercredis, jeudis et vendredis.",
            &[1, 3, 4, 5],
        ),
        ("fr", "Je nage chaque lundi et jeudi.", &[1, 4]),
        ("es", "Trabajo de martes a sábado.", &[2, 3, 4, 5, 6]),
        ("pt", "Trabalho de terça a sábado.", &[2, 3, 4, 5, 6]),
        ("pt", "Nado toda segunda e quinta.", &[1, 4]),
        (
            "pt",
            "Nado todas as segundas, quartas e sextas.",
            &[1, 3, 5],
        ),
        (
            "pt",
            "Nado toda segunda, quarta, quinta e sexta.",
            &[1, 3, 4, 5],
        ),
    ] {
        let got = weekdays(code, text);
        if got != days {
            wrong.push(format!("{text}: {got:?} of {:?}", found(code, text)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_number_behind_a_weekday_is_none() {
    for (text, days) in [
        ("我每周五一起吃饭", &[5][..]),
        ("我每周一三点开会", &[1]),
        ("我每周三四次去跑步", &[]),
    ] {
        assert_eq!(
            weekdays("zh", text),
            days,
            "{text}: {:?}",
            found("zh", text)
        );
    }
}
