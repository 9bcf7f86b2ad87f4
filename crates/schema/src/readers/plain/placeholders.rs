//! What exports of KakaoTalk and WhatsApp write in place of pictures, files, calls and deleted messages, in the
//! language of the telephone that exported. Nobody said these words.
//!
//! The words are those of the programs' own translations and of exports that people have published.

use std::sync::LazyLock;

use regex::Regex;

/// The program that a text comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Export {
    /// Stand-ins are whole messages of common words: `사진`.
    KakaoTalk,
    /// Stand-ins are phrases that nobody writes, or names of files; a caption may stand below them.
    WhatsApp,
}

impl Export {
    /// What was said in a message that begins with a stand-in, mostly nothing; `None` if it begins with none.
    pub(super) fn without_placeholder(self, message: &str) -> Option<&str> {
        match self {
            Self::KakaoTalk => KAKAOTALK.is_match(message.trim()).then_some(""),
            Self::WhatsApp => {
                let (line, caption) = message.split_once('\n').unwrap_or((message, ""));
                is_whatsapp(line).then_some(caption)
            }
        }
    }
}

static KAKAOTALK: LazyLock<Regex> = LazyLock::new(|| {
    one_of(&[
        r"사진(?: \d+장)?",
        r"동영상(?: \d+개)?",
        r"이모티콘|\(이모티콘\)",
        r"음성 ?메시지",
        r"파일: .+",
        r"카카오톡 프로필",
        r"(?:보이스톡|페이스톡) (?:해요\.?|\d+(?::\d{2}){1,2})",
        r"삭제된 메시지입니다\.?",
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

/// In lower case, without angle brackets and full stops.
const WHATSAPP: [&[&str]; 10] = [
    &[
        "media omitted",
        "image omitted",
        "video omitted",
        "video note omitted",
        "audio omitted",
        "sticker omitted",
        "gif omitted",
        "document omitted",
        "contact card omitted",
        "this message was deleted",
        "you deleted this message",
    ],
    &[
        "미디어 파일을 생략한 대화내용",
        "미디어 파일을 제외한 내보내기",
        "미디어 파일 제외됨",
        "이미지 생략됨",
        "비디오 생략됨",
        "동영상 생략됨",
        "오디오 생략됨",
        "스티커 제외됨",
        "스티커 생략됨",
        "gif 생략됨",
        "문서 생략됨",
        "연락처 카드 생략됨",
        "이 메시지는 삭제되었습니다",
        "이 메시지를 삭제했습니다",
        "삭제한 메시지입니다",
    ],
    &[
        "メディアなし",
        "メディアは含まれていません",
        "画像は含まれていません",
        "ビデオは含まれていません",
        "音声は含まれていません",
        "スタンプは含まれていません",
        "gifは含まれていません",
        "ドキュメントは含まれていません",
        "連絡先カードを省略",
        "このメッセージは削除されました",
        "このメッセージを削除しました",
    ],
    &[
        "省略影音内容",
        "省略多媒体文件",
        "省略多媒體檔案",
        "已省略多媒體檔案",
        "忽略多媒體檔",
        "照片已忽略",
        "圖片已略去",
        "圖像已省略",
        "视频已忽略",
        "影片已略去",
        "影片已省略",
        "音频已忽略",
        "音訊已略去",
        "音訊已省略",
        "贴图已省略",
        "貼圖已略去",
        "貼圖已忽略",
        "gif 动态图已被忽略",
        "gif 已略去",
        "gif 圖片已被省略",
        "文档已省略",
        "文件已略去",
        "文件已忽略",
        "联系人卡片已忽略",
        "聯絡人卡片已略去",
        "聯絡人卡片已省略",
        "这条消息已被删除",
        "信息已删除",
        "您已删除这条消息",
        "您删除这个信息",
        "此訊息已刪除",
        "您已刪除此訊息",
    ],
    &[
        "multimedia omitido",
        "archivo omitido",
        "imagen omitida",
        "video omitido",
        "audio omitido",
        "sticker omitido",
        "gif omitido",
        "documento omitido",
        "tarjeta de contacto omitida",
        "se eliminó este mensaje",
        "este mensaje fue eliminado",
        "eliminaste este mensaje",
    ],
    &[
        "medien ausgeschlossen",
        "medien weggelassen",
        "bild weggelassen",
        "video weggelassen",
        "audio weggelassen",
        "sticker weggelassen",
        "gif weggelassen",
        "dokument weggelassen",
        "kontaktkarte ausgelassen",
        "diese nachricht wurde gelöscht",
        "du hast diese nachricht gelöscht",
    ],
    &[
        "médias omis",
        "fichier omis",
        "image absente",
        "vidéo absente",
        "audio omis",
        "sticker omis",
        "gif retiré",
        "document manquant",
        "fiche contact manquante",
        "ce message a été supprimé",
        "vous avez supprimé ce message",
    ],
    &[
        "mídia oculta",
        "mídia omitida",
        "arquivo de mídia oculto",
        "ficheiro não revelado",
        "imagem ocultada",
        "imagem não revelada",
        "vídeo omitido",
        "vídeo não revelado",
        "áudio ocultado",
        "ficheiro de áudio não revelado",
        "figurinha omitida",
        "sticker não revelado",
        "gif não revelada",
        "documento não revelado",
        "cartão do contato omitido",
        "contacto não revelado",
        "mensagem apagada",
        "esta mensagem foi apagada",
        "esta mensagem foi apagada pelo remetente",
        "apagou esta mensagem",
        "você apagou esta mensagem",
    ],
    &[
        "تم استبعاد الوسائط",
        "لم يتم إدراج الصورة",
        "لم يتم إدراج الفيديوهات",
        "لم يتم إدراج المقاطع الصوتية",
        "تم حذف الملصقات",
        "لم يتم إدراج صورة gif",
        "لم يتم إدراج المستند",
        "لم يتم إدراج بطاقة جهة اتصال",
        "تم حذف هذه الرسالة",
        "لقد حذفت هذه الرسالة",
        "لقد حذَفت هذه الرسالة",
        "أنت حذفت هذه الرسالة",
    ],
    &[
        "मीडिया के बिना",
        "फ़ोटो हटाई गई",
        "वीडियो छोड़ा गया",
        "ऑडियो हटाई गयी",
        "स्टिकर छोड़ा गया",
        "gif छोड़ा गया",
        "डॉक्यूमेंट छोड़ा गया",
        "कॉन्टैक्ट कार्ड छोड़ा गया",
        "यह मैसेज डिलीट कर दिया गया है",
        "यह संदेश मिटाया गया",
        "आपने यह मैसेज डिलीट किया",
        "आपने यह संदेश मिटाया",
    ],
];

fn is_whatsapp(line: &str) -> bool {
    let is_phrase = |text: &str| {
        let text = without_marks(text).to_lowercase();
        let phrase = text.trim_matches(|c: char| c.is_whitespace() || "<>.。।".contains(c));
        WHATSAPP.iter().any(|phrases| phrases.contains(&phrase))
    };
    // A direction mark stands before the phrase; before that may be a document's name.
    line.rsplit('\u{200e}').next().is_some_and(is_phrase)
        || WHATSAPP_FILE.is_match(without_marks(line).trim())
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
    // The patterns are constants of this file, compiled by its tests.
    #[allow(clippy::expect_used)]
    Regex::new(&format!("^(?:{})$", forms.join("|"))).expect("constant patterns compile")
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
            "페이스톡 1:02:11",
            "Photo",
            "File: offer.pdf",
        ] {
            assert_eq!(said(text), Some(""), "{text}");
        }
        for text in [
            "사진 보내줘",
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
        for text in [
            "사진",
            "the image omitted the dog",
            "they said: this message was deleted",
            "I attached the file (offer.pdf)",
            "<3",
            "",
        ] {
            assert_eq!(said(text), None, "{text}");
        }
    }

    #[test]
    fn phrases_are_in_the_form_that_they_are_compared_in() {
        for phrase in WHATSAPP.iter().flat_map(|phrases| phrases.iter()) {
            assert!(is_whatsapp(phrase), "{phrase}");
            assert!(is_whatsapp(&format!("<{phrase}>.")), "{phrase}");
        }
    }
}
