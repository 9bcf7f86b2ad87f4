//! The times of records, checked against the messages that they rest on.

use std::{cell::OnceCell, ops::AddAssign};

use serde::{Deserialize, Serialize};

use crate::{
    record::Record,
    time::{
        check::{TimeChecked, Verdict, check},
        evidence::Said,
        resolve::Options,
        rewrite::rewrite,
        value::TimeValue,
    },
    window::Window,
};

/// Records with a time, by what came of checking it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeCounts {
    /// The evidence allows it.
    pub agreed: usize,
    /// It was miscounted and has been put right.
    pub repaired: usize,
    /// The evidence does not hold it, or does not settle it.
    pub unverified: usize,
}

impl TimeCounts {
    /// Counts the records that have a time.
    pub fn of(records: &[Record]) -> Self {
        let mut counts = Self::default();
        for record in records
            .iter()
            .filter(|record| !record.dimension.time.is_empty())
        {
            *match record.time_checked {
                TimeChecked::Agreed => &mut counts.agreed,
                TimeChecked::Repaired => &mut counts.repaired,
                TimeChecked::Unverified => &mut counts.unverified,
            } += 1;
        }
        counts
    }

    /// All records with a time.
    pub fn total(&self) -> usize {
        self.agreed + self.repaired + self.unverified
    }
}

impl AddAssign for TimeCounts {
    fn add_assign(&mut self, other: Self) {
        self.agreed += other.agreed;
        self.repaired += other.repaired;
        self.unverified += other.unverified;
    }
}

/// Checks the time of each record of `window` against its evidence, sets [`Record::time_checked`], and puts right what
/// was miscounted, in the content too where that names the wrong date.
///
/// Each message is read at its own time on the speaker's clock; without one it gives absolute dates only.
pub fn check_times(records: &mut [Record], window: &Window) {
    let options = Options::default();
    let messages = window.messages.iter();
    let read: Vec<_> = messages.map(|message| (message, OnceCell::new())).collect();
    for record in records {
        let evidence = read
            .iter()
            .filter(|(message, _)| record.evidence.contains(&message.turn_id));
        let said: Vec<Said> = evidence
            .map(|(message, said)| {
                said.get_or_init(|| Said::read(&message.text, message.time, &options))
                    .clone()
            })
            .collect();
        record.time_checked = match check(&record.dimension.time, &said, &options) {
            Verdict::Agreed => TimeChecked::Agreed,
            Verdict::Unverified => TimeChecked::Unverified,
            Verdict::Miscounted(time) => {
                let at = read
                    .iter()
                    .find(|(message, _)| message.turn_id == record.source.turn);
                let at = at.and_then(|(message, _)| message.time);
                let wrong: TimeValue = record.dimension.time.parse().unwrap_or_default();
                if let Some(content) =
                    rewrite(&record.content, &wrong, &time, at.as_ref(), &options)
                {
                    record.content = content;
                }
                record.dimension.time = time.to_string();
                TimeChecked::Repaired
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        extraction::read_reply,
        transcript::{Kind, Moment, Role, Session, Transcript, Turn},
        window::{Segmentation, windows},
    };

    /// A conversation of one message, as its window.
    fn window(text: &str, at: Option<&str>) -> Window {
        let at: Option<Moment> = at.map(|at| at.parse().unwrap());
        let turn = Turn {
            id: "S1:1".to_owned(),
            speaker: "Mina".to_owned(),
            role: Role::User,
            text: text.to_owned(),
            image_caption: None,
            time: None,
        };
        let transcript = Transcript {
            id: "t".to_owned(),
            kind: Kind::Dialogue,
            language: None,
            participants: vec!["Mina".to_owned()],
            sessions: vec![Session {
                id: "S1".to_owned(),
                start: at,
                turns: vec![turn],
            }],
        };
        windows(&transcript, &Segmentation::LOCOMO).remove(0)
    }

    /// Time, content and outcome of the one memory of a reply.
    fn checked(
        text: &str,
        at: Option<&str>,
        time: &str,
        content: &str,
    ) -> (String, String, TimeChecked) {
        let window = window(text, at);
        let memory =
            serde_json::json!({"source_id": 1, "content": content, "dimension": {"time": time}});
        let reply = serde_json::json!({"memories": [memory]}).to_string();
        let mut records = read_reply(&reply, &window).unwrap().records;
        check_times(&mut records, &window);
        let record = records.remove(0);
        (record.dimension.time, record.content, record.time_checked)
    }

    const AT: Option<&str> = Some("2024-03-14T10:00:00");

    #[test]
    fn a_miscounted_time_is_put_right_in_the_content_too() {
        let moved = "We moved last Saturday.";
        for (text, time, content, right, said) in [
            (
                moved,
                "2024-03-10",
                "Mina moved on 10 March 2024.",
                "2024-03-09",
                "Mina moved on 9 March 2024.",
            ),
            (
                moved,
                "2024-09-03",
                "Mina moved on 3 September 2024.",
                "2024-03-09",
                "Mina moved on 9 March 2024.",
            ),
            (
                moved,
                "2023-03-09",
                "Mina moved in 2023.",
                "2024-03-09",
                "Mina moved in 2023.",
            ),
            (
                "지난주 토요일에 이사했어",
                "2024-03-08",
                "미나는 2024년 3월 8일에 이사했다.",
                "2024-03-09",
                "미나는 2024년 3월 9일에 이사했다.",
            ),
        ] {
            let got = checked(text, AT, time, content);
            assert_eq!(
                got,
                (right.to_owned(), said.to_owned(), TimeChecked::Repaired),
                "{text} {time}"
            );
        }
    }

    #[test]
    fn what_the_evidence_does_not_settle_is_only_flagged() {
        let two = "We moved last Saturday and repainted yesterday.";
        for (text, at, time) in [
            (two, AT, "2024-03-10"),
            ("We moved last Saturday.", AT, "2021-11-30"),
            // The day of the year agrees; the year may be another event's.
            ("We kept Dad's birthday last Saturday.", AT, "1964-03-09"),
            ("We moved last Saturday.", AT, "Saturday"),
            ("We moved last Saturday.", None, "2024-03-09"),
            ("We moved.", AT, "2024-03-13"),
            ("She swims every Monday.", AT, "2024-03-13"),
        ] {
            let (same, content, outcome) = checked(text, at, time, "Mina moved on 10 March 2024.");
            assert_eq!(
                (same.as_str(), outcome),
                (time, TimeChecked::Unverified),
                "{text} {time}"
            );
            assert_eq!(content, "Mina moved on 10 March 2024.");
        }
    }

    #[test]
    fn what_the_evidence_allows_and_no_time_agree() {
        for (text, at, time) in [
            ("We moved last Saturday.", AT, "2024-03-09"),
            ("We moved last Saturday.", AT, ""),
            ("I weigh 60 kilos.", AT, "2024-03-14"),
            ("We moved on 2 March 2021.", None, "2021-03-02"),
        ] {
            assert_eq!(
                checked(text, at, time, "x").2,
                TimeChecked::Agreed,
                "{text} {time}"
            );
        }
    }

    #[test]
    fn days_are_counted_on_the_clock_of_the_speaker() {
        let text = "We moved yesterday.";
        let check = |at: &str, time: &str| {
            let (time, _, outcome) = checked(text, Some(at), time, "x");
            (time, outcome)
        };
        let seoul = check("2024-03-14T00:30:00+09:00", "2024-03-12");
        assert_eq!(seoul, ("2024-03-13".to_owned(), TimeChecked::Repaired));
        // A machine's time: where the speaker was it may have been the 13th still.
        let utc = check("2024-03-14T00:30:00+00:00", "2024-03-12");
        assert_eq!(utc, ("2024-03-12".to_owned(), TimeChecked::Unverified));
        assert_eq!(
            check("2024-03-14T00:30:00+00:00", "2024-04-13").1,
            TimeChecked::Repaired
        );
    }

    #[test]
    fn a_record_of_version_1_can_be_read() {
        let line = r#"{"version":1,"id":"w0000m000","content":"x","dimension":{"memory_type":"","time":"","location":"","reason":"","purpose":"","keywords":[]},"source":{"transcript":"t","session":"s","turn":"s:1","window":0},"source_speaker":"","source_time":"","evidence":["s:1"]}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert_eq!(
            (record.version, record.time_checked),
            (1, TimeChecked::Unverified)
        );
    }

    #[test]
    fn records_without_a_time_are_not_counted() {
        let window = window("We moved last Saturday.", AT);
        let reply = r#"{"memories":[{"source_id":1,"content":"A","dimension":{"time":""}},
            {"source_id":1,"content":"Bee","dimension":{"time":"2024-03-09"}},
            {"source_id":1,"content":"Sea","dimension":{"time":"2024-03-11"}},
            {"source_id":1,"content":"Dee","dimension":{"time":"1999"}}]}"#;
        let mut records = read_reply(reply, &window).unwrap().records;
        check_times(&mut records, &window);
        let counts = TimeCounts::of(&records);
        assert_eq!(
            (counts.agreed, counts.repaired, counts.unverified),
            (1, 1, 1)
        );
    }
}
