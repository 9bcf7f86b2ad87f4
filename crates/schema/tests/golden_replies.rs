//! The specification's vectors for replies and parsed queries.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mem_schema::{
    clean::{Mode, clean, clean_keywords},
    extraction::{Memory, read_reply},
    query::ParsedQuery,
    reply::read_rows,
    transcript::{Kind, Role},
    window::{Message, Window},
};
use serde_json::{Value, json};

const EXTRACTION: &str = include_str!("golden/extraction_normalize.json");
const QUERY: &str = include_str!("golden/query_normalize.json");

/// The value that binds: `correct…` where the reference is defective and one is given.
fn binding<'a>(case: &'a Value, key: &str, correct: &str) -> &'a Value {
    case.get(correct).unwrap_or(&case[key])
}

/// What both pipelines make of a reply: LoCoMo keeps memories without a source, LongMemEval drops them.
fn pipelines(raw: &str, times: &Value) -> (Value, Value) {
    let failed = json!({"ok": false});
    let Some(found) = read_rows(raw) else {
        return (failed.clone(), failed);
    };
    let memories: Vec<_> = found
        .rows
        .iter()
        .filter_map(|row| Memory::normalise(row).ok())
        .collect();
    let time = |memory: &Memory| {
        let number = memory.source_id.map(|number| number.to_string());
        number
            .and_then(|number| times[number].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let locomo = memories.iter().map(|memory| json!({
        "source_id": memory.source_id, "source_speaker": memory.source_speaker, "source_time": time(memory),
        "content": memory.content, "dimension": memory.dimension,
    }));
    let longmemeval = memories.iter().filter(|memory| memory.source_id.is_some()).map(|memory| json!({
        "source_id": memory.source_id, "source_time": time(memory), "content": memory.content,
        "dimension": memory.dimension,
    }));
    (
        json!({"ok": true, "memories": locomo.collect::<Vec<_>>()}),
        json!({"ok": true, "memories": longmemeval.collect::<Vec<_>>()}),
    )
}

/// Drops what only says how the reference failed, and the session fields, which have a test of their own.
fn comparable(expected: &Value) -> Value {
    let mut expected = expected.clone();
    let fields = expected.as_object_mut().unwrap();
    fields.retain(|key, _| key == "ok" || key == "memories");
    if let Some(memories) = fields.get_mut("memories") {
        for memory in memories.as_array_mut().unwrap() {
            let memory = memory.as_object_mut().unwrap();
            memory.retain(|key, _| !key.starts_with("session_"));
        }
    }
    expected
}

#[test]
fn extraction_normalize() {
    let golden: Value = serde_json::from_str(EXTRACTION).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 45);
    for case in cases {
        let raw = case["raw"].as_str().unwrap();
        let (locomo, longmemeval) = pipelines(raw, &golden["locomo_source_time_map"]);
        let name = &case["name"];
        assert_eq!(
            locomo,
            comparable(binding(case, "locomo", "correct_locomo")),
            "{name}, LoCoMo"
        );
        let expected = comparable(binding(case, "longmemeval", "correct_longmemeval"));
        assert_eq!(longmemeval, expected, "{name}, LongMemEval");
    }
}

/// The window of the vectors as LongMemEval cuts it.
fn golden_window(golden: &Value) -> Window {
    let messages = golden["longmemeval_window_messages"]
        .as_array()
        .unwrap()
        .iter()
        .enumerate();
    let message = |(before, given): (usize, &Value)| Message {
        number: before + 1,
        global_index: given["global_user_index"].as_u64().unwrap() as usize,
        session_id: given["session_id"].as_str().unwrap().to_owned(),
        session_local_index: given["session_local_user_index"].as_u64().unwrap() as usize,
        turn_id: format!("t{}", before + 1),
        speaker: "user".to_owned(),
        role: Role::User,
        time: golden["longmemeval_source_time_map"][(before + 1).to_string()]
            .as_str()
            .map(|t| t.parse().unwrap()),
        text: String::new(),
    };
    Window {
        transcript_id: "golden".to_owned(),
        kind: Kind::Assistant,
        index: 1,
        overlap_count: 0,
        messages: messages.map(message).collect(),
    }
}

#[test]
fn records_point_to_the_message_of_their_own_window() {
    let golden: Value = serde_json::from_str(EXTRACTION).unwrap();
    let window = golden_window(&golden);
    for (number, expected) in golden["session_fields"]["correct"].as_object().unwrap() {
        let reply = json!({"memories": [{"source_id": number, "content": "x"}]}).to_string();
        let record = &read_reply(&reply, &window).unwrap().records[0];
        let message = window
            .messages
            .iter()
            .find(|message| message.turn_id == record.source.turn)
            .unwrap();
        assert_eq!(
            record.source.session,
            expected["session_id"].as_str().unwrap()
        );
        assert_eq!(
            message.session_local_index as u64,
            expected["session_local_user_index"].as_u64().unwrap()
        );
        assert_eq!(
            record.source_time,
            golden["longmemeval_source_time_map"][number]
                .as_str()
                .unwrap()
        );
    }
}

#[test]
fn query_normalize() {
    let golden: Value = serde_json::from_str(QUERY).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 9);
    for case in cases {
        let query = ParsedQuery::read(&case["raw"].to_string()).unwrap();
        let mut expected = case["normalized"].clone();
        for (key, value) in case
            .get("correct")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            expected[key] = value.clone();
        }
        assert_eq!(
            serde_json::to_value(&query).unwrap(),
            expected,
            "{}",
            case["id"]
        );
        assert_eq!(
            query.bm25_text(),
            case["bm25_text"].as_str().unwrap(),
            "{}",
            case["id"]
        );
        let compat = ParsedQuery::normalise(case["raw"].as_object().unwrap(), Mode::Compat);
        assert_eq!(
            serde_json::to_value(&compat).unwrap(),
            case["normalized"],
            "{}, compat",
            case["id"]
        );
    }
}

#[test]
fn compat_cleaning_gives_the_reference_values() {
    let golden: Value = serde_json::from_str(EXTRACTION).unwrap();
    let case = |id: &str| {
        golden["cases"]
            .as_array()
            .unwrap()
            .iter()
            .find(|case| case["id"] == id)
            .unwrap()
    };
    for (id, key) in [("E33", "keywords"), ("E37", "location")] {
        let raw: Value = serde_json::from_str(case(id)["raw"].as_str().unwrap()).unwrap();
        let given = &raw["memories"][0]["dimension"][key];
        let reference = &case(id)["locomo"]["memories"][0]["dimension"][key];
        let ours = match key {
            "keywords" => json!(clean_keywords(given, Mode::Compat)),
            _ => json!(clean(given, Mode::Compat)),
        };
        assert_eq!(&ours, reference, "{id}");
    }
}
