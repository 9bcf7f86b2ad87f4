use mem_schema::{
    reply_schema::reply_schema,
    transcript::{Kind, Role},
    window::{Message, Window},
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha12Rng;

use super::*;
use crate::{fixtures, sampling::greedy, tokenizer::TextStream};

/// Like the reply of an extraction: everything bounded.
fn schema(max_length: usize) -> Value {
    let text = |max: usize| json!({ "type": "string", "minLength": 1, "maxLength": max });
    let time = r"^(|[12][0-9]{3}(-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?)$";
    json!({
        "type": "object",
        "properties": { "memories": { "type": "array", "maxItems": 3, "items": {
            "type": "object",
            "properties": {
                "source_id": { "enum": [3, 4, 15] },
                "content": text(max_length),
                "memory_type": { "enum": ["fact", "episodic", "profile"] },
                "time": { "type": "string", "pattern": time },
                "keywords": { "type": "array", "items": text(12), "maxItems": 4 },
            },
            "required": ["source_id", "content", "memory_type", "time", "keywords"],
            "additionalProperties": false,
        } } },
        "required": ["memories"],
        "additionalProperties": false,
    })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Reply {
    memories: Vec<Memory>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    source_id: u32,
    content: String,
    memory_type: String,
    time: String,
    keywords: Vec<String>,
}

fn check_reply(text: &str, max_length: usize) {
    let reply: Reply = serde_json::from_str(text).expect(text);
    assert!(reply.memories.len() <= 3);
    for memory in reply.memories {
        assert!([3, 4, 15].contains(&memory.source_id));
        assert!((1..=max_length).contains(&memory.content.chars().count()));
        assert!(["fact", "episodic", "profile"].contains(&memory.memory_type.as_str()));
        assert!(
            [0, 4, 7, 10].contains(&memory.time.len()),
            "{}",
            memory.time
        );
        assert!(memory.keywords.len() <= 4);
        assert!(
            memory
                .keywords
                .iter()
                .all(|word| (1..=12).contains(&word.chars().count()))
        );
    }
    // No blank outside strings, and nothing escaped that can stand for itself.
    let value: Value = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&value).unwrap(), text);
}

fn tiny() -> Tokenizer {
    Tokenizer::from_folder(&fixtures::folder("tiny-qwen2")).unwrap()
}

/// Draws logits at random under the mask until the reply is complete.
fn random_reply(
    tokenizer: &Tokenizer,
    constraint: &mut Constraint,
    width: usize,
    seed: u64,
) -> String {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut stream = TextStream::default();
    let mut steps = 0;
    while !constraint.is_finished() {
        let logits: Vec<f32> = (0..width).map(|_| rng.random()).collect();
        let mask = constraint.mask().unwrap();
        let token = greedy(&logits, Some(&mask)).unwrap();
        constraint.accept(token).unwrap();
        stream.push(tokenizer.visible_bytes(token));
        steps += 1;
        assert!(steps < 8000, "the grammar is finite: {}", stream.text());
    }
    stream.finish()
}

#[test]
fn random_choice_under_the_mask_satisfies_the_schema() {
    let tokenizer = tiny();
    let factory = ConstraintFactory::new(&tokenizer, 640).unwrap();
    let mut wide = 0;
    for seed in 0..12 {
        let mut constraint = factory.constraint(&schema(40)).unwrap();
        let text = random_reply(&tokenizer, &mut constraint, 640, seed);
        check_reply(&text, 40);
        wide += text
            .chars()
            .filter(|character| !character.is_ascii())
            .count();
    }
    assert!(wide > 100, "characters outside ASCII must be possible");
}

#[test]
fn the_real_vocabulary_satisfies_the_schema_too() {
    let Some(metadata) = fixtures::real_metadata() else {
        return;
    };
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let factory = ConstraintFactory::new(&tokenizer, 151_936).unwrap();
    for seed in 0..2 {
        let mut constraint = factory.constraint(&schema(400)).unwrap();
        let text = random_reply(&tokenizer, &mut constraint, 151_936, seed);
        check_reply(&text, 400);
    }
}

#[test]
fn a_written_reply_is_accepted_token_by_token() {
    let tokenizer = tiny();
    let factory = ConstraintFactory::new(&tokenizer, 640).unwrap();
    let text = r#"{"memories":[{"source_id":15,"content":"미나는 \"부산\"으로 이사했다. 東京 🙂","memory_type":"fact","time":"2024-03","keywords":["부산"]}]}"#;
    let ids = tokenizer.encode_text(text).unwrap();
    let mut constraint = factory.constraint(&schema(60)).unwrap();
    assert_eq!(constraint.try_accept(&ids).unwrap(), ids.len());
    assert!(constraint.is_finished());
    let left = constraint.mask().unwrap().0.to_list();
    let mut ends = tokenizer.end_tokens().to_vec();
    ends.sort_unstable();
    assert_eq!(left, ends);
}

/// Without the slice each mask inside a text takes ten times as long.
#[test]
fn texts_of_the_reply_schema_are_masked_by_the_slice() {
    let window = Window {
        transcript_id: "t".to_owned(),
        kind: Kind::Dialogue,
        index: 0,
        overlap_count: 0,
        messages: vec![Message {
            number: 1,
            global_index: 1,
            session_id: "S1".to_owned(),
            session_local_index: 1,
            turn_id: "S1:1".to_owned(),
            speaker: "Mina".to_owned(),
            role: Role::User,
            time: None,
            text: "Hi".to_owned(),
        }],
    };
    let tokenizer = tiny();
    let factory = ConstraintFactory::new(&tokenizer, 640).unwrap();
    let mut constraint = factory.constraint(&reply_schema(&window)).unwrap();
    for (text, slices) in [
        (r#"{"memories":["#, 0),
        (r#"{"source_id":1,"content":"Mina"#, 1),
    ] {
        let ids = tokenizer.encode_text(text).unwrap();
        assert_eq!(constraint.try_accept(&ids).unwrap(), ids.len(), "{text}");
        constraint.mask().unwrap();
        let applied = constraint.matcher.last_step_stats().unwrap().slices_applied;
        assert_eq!(applied, slices, "{text}");
    }
}

/// Random walks forth and back: the grammar is then where it was before, and goes on as it would have.
#[test]
fn what_was_taken_back_never_happened() {
    let tokenizer = tiny();
    let factory = ConstraintFactory::new(&tokenizer, 640).unwrap();
    let mut rng = ChaCha12Rng::seed_from_u64(5);
    let mut turns = 0;
    for _ in 0..6 {
        let mut constraint = factory.constraint(&schema(20)).unwrap();
        let mut plain = factory.constraint(&schema(20)).unwrap();
        let mut choose = |constraint: &mut Constraint| {
            let logits: Vec<f32> = (0..640).map(|_| rng.random()).collect();
            let mask = constraint.mask().unwrap();
            let token = greedy(&logits, Some(&mask)).unwrap();
            constraint.accept(token).unwrap();
            token
        };
        while !plain.is_finished() {
            let mut steps = 0;
            while steps < 5 && !constraint.is_finished() {
                choose(&mut constraint);
                steps += 1;
                let forced = constraint.forced_tokens().unwrap();
                steps += constraint.try_accept(&forced).unwrap();
            }
            constraint.take_back(steps).unwrap();
            assert!(!constraint.is_finished());
            let (mine, wanted) = (constraint.mask().unwrap(), plain.mask().unwrap());
            assert_eq!(mine.words(), wanted.words());
            assert_eq!(
                constraint.forced_tokens().unwrap(),
                plain.forced_tokens().unwrap()
            );
            let token = choose(&mut plain);
            constraint.accept(token).unwrap();
            turns += 1;
        }
        assert!(constraint.is_finished());
    }
    assert!(turns > 200, "{turns}");
    let mut constraint = factory.constraint(&schema(20)).unwrap();
    assert!(constraint.take_back(1).is_err());
}

#[test]
fn acceptance_stops_where_the_schema_is_left() {
    let tokenizer = tiny();
    let factory = ConstraintFactory::new(&tokenizer, 640).unwrap();
    let ids = |text: &str| tokenizer.encode_text(text).unwrap();
    for wrong in [
        r#"{"memories": []}"#,
        r#"{"memories":[{"source_id":5"#,
        "{\"memories\":[{\"source_id\":3,\"content\":\"a\nb\"",
        r#"{"memories":[{"source_id":3,"content":"\u0041"#,
        r#"{"memories":[{"source_id":3,"content":"a","memory_type":"fact","time":"2024-13"#,
    ] {
        let mut constraint = factory.constraint(&schema(60)).unwrap();
        let ids = ids(wrong);
        assert!(constraint.try_accept(&ids).unwrap() < ids.len(), "{wrong}");
        assert!(!constraint.is_finished());
    }
    let mut constraint = factory.constraint(&schema(60)).unwrap();
    assert!(constraint.accept(tokenizer.end_of_turn()).is_err());
    let error = constraint.mask().err().unwrap();
    assert!(error.to_string().contains("after 0 tokens"), "{error}");
}

#[test]
fn what_must_come_is_known_without_the_model() {
    let tokenizer = tiny();
    let factory = ConstraintFactory::new(&tokenizer, 640).unwrap();
    let mut constraint = factory.constraint(&schema(60)).unwrap();
    let forced = constraint.forced_tokens().unwrap();
    assert!(r#"{"memories":["#.starts_with(&tokenizer.decode(&forced)));
    assert!(!forced.is_empty());
    assert_eq!(constraint.try_accept(&forced).unwrap(), forced.len());
}

#[test]
fn unusable_schemas_are_errors() {
    let factory = ConstraintFactory::new(&tiny(), 640).unwrap();
    for schema in [
        json!({ "type": "nothing" }),
        json!({ "type": "string", "minLength": 3, "maxLength": 2 }),
        json!({ "type": "string", "pattern": "(" }),
        json!({ "type": "array", "items": { "type": "array", "contains": {} } }),
        json!(3),
    ] {
        let error = factory.constraint(&schema).err();
        assert!(
            matches!(error, Some(Error::Schema { .. })),
            "{schema}: {error:?}"
        );
    }
    let large: Vec<String> = (0..200_000)
        .map(|id| format!("{id}-{}", id * 7919))
        .collect();
    let error = factory
        .constraint(&json!({ "enum": large }))
        .err()
        .map(|error| error.to_string());
    assert!(
        error.is_some_and(|error| error.starts_with("the reply's JSON schema")),
        "too large"
    );
}

#[test]
fn a_model_narrower_than_its_tokenizer_is_an_error() {
    assert!(ConstraintFactory::new(&tiny(), 500).is_err());
    let factory = ConstraintFactory::new(&tiny(), 640).unwrap();
    let mut constraint = factory.constraint(&schema(60)).unwrap();
    let mask = constraint.mask().unwrap();
    assert!(greedy(&[0.0; 600], Some(&mask)).is_err());
}

#[test]
fn constraints_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Constraint>();
    assert_send::<ConstraintFactory>();
}
