//! What exports of KakaoTalk and WhatsApp write in place of pictures, files, calls and deleted messages, and below edited
//! ones, in the language of the telephone that exported. Nobody said these words.
//!
//! The words are those of the programs' own translations and of exports that people have published.

use std::sync::LazyLock;

use regex::Regex;

use super::phrases::WHATSAPP;

/// The program that a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Export {
    /// Stand-ins are whole messages of common words: `사진`.
    KakaoTalk,
    /// Stand-ins are phrases that nobody writes, or names of files; a caption may stand below them.
    WhatsApp,
    /// WhatsApp or none: stand-ins are as WhatsApp's, but words that people write, too, are theirs.
    Unknown,
}

impl Export {
    /// What was said in a message that begins with a stand-in, mostly nothing; `None` if it begins with none.
    pub(super) fn without_placeholder(self, message: &str) -> Option<&str> {
        match self {
            Self::KakaoTalk => KAKAOTALK.is_match(message.trim()).then_some(""),
            Self::WhatsApp | Self::Unknown => {
                let (line, caption) = message.split_once('\n').unwrap_or((message, ""));
                let is_certain = self == Self::WhatsApp || line.contains('\u{200e}');
                (is_whatsapp(line) && (is_certain || !may_be_said(line))).then_some(caption)
            }
        }
    }

    /// What was said in a message that ends with the mark of an edited one; `None` if it does not.
    pub(super) fn without_edit_mark(self, message: &str) -> Option<&str> {
        if self == Self::KakaoTalk {
            return None;
        }
        let said = &message[..EDITED.find(message)?.start()];
        (!said.is_empty()).then_some(said)
    }
}

static KAKAOTALK: LazyLock<Regex> = LazyLock::new(|| {
    one_of(&[
        r"사진(?: \d+장)?",
        r"동영상(?: \d+개)?",
        r"<(?:사진|동영상) 읽지 않음>",
        r"이모티콘|\(이모티콘\)",
        r"음성 ?메시지",
        r"파일: .+",
        r"카카오톡 프로필",
        r"(?:보이스톡|페이스톡) (?:해요\.?|부재중|취소|거절|\d+(?::\d{2}){1,2})",
        r"삭제된 메시지입니다\.?|메시지가 삭제되었습니다\.?",
        r"채팅방 관리자가 메시지를 가렸습니다\.?",
        r"Photos?(?: \d+)?",
        r"[Vv]ideos?",
        r"Emoticons?",
        r"Voice Note",
        r"File: .+",
        r"(?:Voice|Video) Call \d+(?::\d{2}){1,2}",
        r"This message was deleted\.?",
    ])
});

/// Files that came along: their names are WhatsApp's own, or stand before or behind the word for it.
static WHATSAPP_FILE: LazyLock<Regex> = LazyLock::new(|| {
    let attached = [
        "file attached",
        "파일 첨부(?:됨)?",
        "添付ファイル|ファイル添付",
        "文件附件|附件檔案",
        "archivo adjunto",
        "Datei angehängt",
        "fichier joint",
        "(?:arquivo|ficheiro) anexado",
        "(?:ال)?ملف مرفق",
        "फ़ाइल संलग्न(?: है)?",
    ];
    let before = "attached|첨부|添付|附件|adjunto|Anhang|pièce jointe|anexado|مرفق|संलग्न";
    one_of(&[
        r"(?:IMG|VID|PTT|AUD|STK|DOC)-\d{8}-WA\d+\.\w+ \(.+\)",
        &format!(r".+\.\w{{2,5}} \((?:{})\)", attached.join("|")),
        &format!(r"<(?:{before})\s?: [^>]+>"),
    ])
});

/// Calls, places and what an administrator deleted; without marks of direction.
static WHATSAPP_EVENT: LazyLock<Regex> = LazyLock::new(|| {
    let call = "(?:group )?(?:voice|video) call";
    let length = r"\d+ (?:sec|min|hr|hour)s?.{0,30}|No answer|Tap to call back|\d+ joined.{0,30}";
    let place = "location|standort|ubicación|localização|position|위치|位置|الموقع|लोकेशन";
    one_of(&[
        &format!("(?i:missed {call})(?i:[,.] .{{1,30}})?"),
        &format!("(?i:{call})[,.] (?i:{length})"),
        &format!(r"(?i:{place}): ?https?://\S+"),
        "(?i:this message was deleted by )(?:an )?admin.*",
        r"Diese Nachricht wurde von (?:einem\*einer )?Admin.* gelöscht\.?",
    ])
});

/// At the end of a message: the known words, and whatever stands alone between a direction mark and the end.
static EDITED: LazyLock<Regex> = LazyLock::new(|| {
    let words = [
        "This message was edited",
        "Diese Nachricht wurde bearbeitet",
        "Se editó este mensaje",
        "Este mensaje fue editado",
        "Mensagem editada",
        "Esta mensagem foi editada",
        "Ce message a été modifié",
    ];
    let known = words.join("|");
    one_of_at_end(&format!(r"<(?i:{known})\.?>|\u{{200e}}<[^<>:\n]{{1,60}}>"))
});

/// Whether people write this stand-in as well: `Poll:`, `voice call, no answer`.
fn may_be_said(line: &str) -> bool {
    let line = without_marks(line);
    line.trim().ends_with(':') || WHATSAPP_EVENT.is_match(line.trim())
}

fn is_whatsapp(line: &str) -> bool {
    let is_phrase = |text: &str| {
        let text = without_marks(text).to_lowercase();
        let phrase = text.trim_matches(|c: char| c.is_whitespace() || "<>.。।".contains(c));
        WHATSAPP.iter().any(|phrases| phrases.contains(&phrase))
    };
    // A direction mark stands before the phrase; before that may be a document's name.
    line.rsplit('\u{200e}').next().is_some_and(is_phrase) || {
        let line = without_marks(line);
        WHATSAPP_FILE.is_match(line.trim()) || WHATSAPP_EVENT.is_match(line.trim())
    }
}

/// Without what WhatsApp adds to keep the direction of a line. A nukta may be part of its letter or follow it.
fn without_marks(text: &str) -> String {
    let text = text
        .replace('\u{a0}', " ")
        .replace('\u{95e}', "\u{92b}\u{93c}")
        .replace('\u{95c}', "\u{921}\u{93c}");
    text.replace(
        ['\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}'],
        "",
    )
}

/// A pattern that is one of `forms` as a whole.
fn one_of(forms: &[&str]) -> Regex {
    pattern(&format!("^(?:{})$", forms.join("|")))
}

fn one_of_at_end(form: &str) -> Regex {
    let blank = r"[\s\u{200e}\u{200f}]*";
    pattern(&format!("{blank}(?:{form}){blank}$"))
}

fn pattern(text: &str) -> Regex {
    // The patterns are constants of this file, compiled by its tests.
    #[allow(clippy::expect_used)]
    Regex::new(text).expect("constant patterns compile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_ins_of_kakaotalk_are_whole_messages() {
        let said = |text| Export::KakaoTalk.without_placeholder(text);
        for text in [
            "사진",
            "사진 12장",
            "동영상",
            "이모티콘",
            "삭제된 메시지입니다.",
            "파일: 견적서 (최종).pdf",
            "보이스톡 해요",
            "보이스톡 부재중",
            "<사진 읽지 않음>",
            "페이스톡 1:02:11",
            "Photo",
            "File: offer.pdf",
        ] {
            assert_eq!(said(text), Some(""), "{text}");
        }
        for text in [
            "사진 보내줘",
            "사진 읽지 않음",
            "사진: 3장",
            "사진\n어제 찍은 거야",
            "동영상 봤어",
            "파일 받았어",
            "보이스톡 할래?",
            "Photo of the week",
            "<Media omitted>",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn stand_ins_of_whatsapp_may_have_a_caption() {
        let said = |text| Export::WhatsApp.without_placeholder(text);
        for text in [
            "<Media omitted>",
            "\u{200e}image omitted",
            "offer.pdf • \u{200e}12 pages \u{200e}document omitted",
            "\u{200e}<attached: 00000042-AUDIO-2026-09-27-14-23-01.opus>",
            "IMG-20260405-WA0014.jpg (文件附件)",
            "Angebot.pdf (Datei angehängt)",
            "This message was deleted.",
            "\u{200e}Missed voice call, \u{200e}Tap to call back",
            "Missed group video call",
            "\u{200e}Voice call, \u{200e}12 min",
            "location: https://maps.google.com/?q=52.09,5.12",
            "This message was deleted by admin Jonas.",
            "삭제된 메시지입니다.",
            "消息已删除",
            "यह मैसेज मिटाया गया",
            "Verpasster Sprachanruf",
            "<미디어 파일을 제외한 내보내기>",
            "이미지 생략됨",
            "このメッセージは削除されました。",
            "<省略影音内容>",
            "Se eliminó este mensaje.",
            "Bild weggelassen",
            "vidéo absente",
            "<Mídia oculta>",
            "\u{200f}<تم استبعاد الوسائط>",
            "फ\u{93c}ोटो हटाई गई",
            "\u{95e}ोटो हटाई गई",
        ] {
            assert_eq!(said(text), Some(""), "{text}");
        }
        assert_eq!(said("<Media omitted>\nour new flat"), Some("our new flat"));
        // What is asked in a poll was written by somebody.
        let poll = "\u{200e}POLL:\nWhere to?\n\u{200e}OPTION: Lisbon (\u{200e}2 votes)";
        assert_eq!(
            said(poll),
            Some("Where to?\n\u{200e}OPTION: Lisbon (\u{200e}2 votes)")
        );
        for text in [
            "사진",
            "the image omitted the dog",
            "Video call, tomorrow?",
            "location: the old mill",
            "they said: this message was deleted",
            "I attached the file (offer.pdf)",
            "<3",
            "",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn marks_of_edited_messages_are_nobodys_words() {
        let said = |text| Export::WhatsApp.without_edit_mark(text);
        for text in [
            "see you \u{200e}<This message was edited>",
            "see you <Diese Nachricht wurde bearbeitet.>",
            "see you \u{200e}<Ce message a été modifié>\u{200e}",
            "see you\n\u{200e}<이 메시지는 수정됨>",
        ] {
            assert_eq!(said(text), Some("see you"), "{text}");
        }
        for text in [
            "see you <at six>",
            "\u{200e}<attached: 1.opus>",
            "<This message was edited> it says",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
        assert_eq!(
            Export::KakaoTalk.without_edit_mark("응 <This message was edited>"),
            None
        );
    }

    #[test]
    fn phrases_are_in_the_form_that_they_are_compared_in() {
        for phrase in WHATSAPP.iter().flat_map(|phrases| phrases.iter()) {
            assert!(is_whatsapp(phrase), "{phrase}");
            assert!(is_whatsapp(&format!("<{phrase}>.")), "{phrase}");
        }
    }
}
