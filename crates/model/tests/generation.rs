//! Replies of the engine, which decodes many rows together, shares prefixes and checks drafts, against a loop that
//! does none of that: one row, one choice a pass.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use mem_model::cache::KvCache;
use mem_model::constraint::{Constraint, ConstraintFactory};
use mem_model::encode::ChatEncoder;
use mem_model::error::Error;
use mem_model::generate::{DeviceKind, LocalGenerator, load};
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_model::sampling::Sampler;
use mem_model::tokenizer::TextStream;
use mem_schema::generator::{ChatMessage, Finish, Generator, Reply, Request, Sampling, Work};
use mem_schema::prompt::{extraction_messages, shared_bytes};
use mem_schema::repetition::repeats_record;
use mem_schema::reply_schema::reply_schema;
use mem_schema::transcript::{Kind, Role};
use mem_schema::tuning::Instruction;
use mem_schema::window::{Message, Window};
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha12Rng;
use serde_json::{Value, json};

fn tiny(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// The loop to compare with.
struct Plain {
    model: Model,
    encoder: ChatEncoder,
    constraints: ConstraintFactory,
}

impl Plain {
    fn open(path: &Path, compute: Compute) -> Self {
        let (model, encoder) = load(path, DeviceKind::Cpu, compute).unwrap();
        let constraints =
            ConstraintFactory::new(&encoder.tokenizer, model.config().vocab_size).unwrap();
        Self {
            model,
            encoder,
            constraints,
        }
    }

    fn reply(&self, request: &Request<'_>) -> Reply {
        let prompt = self.encoder.encode_prompt(&request.messages).unwrap();
        let room = request
            .max_new_tokens
            .min(self.model.config().context_length - prompt.len());
        let schema = request.schema.as_ref();
        let mut grammar = schema.map(|schema| self.constraints.constraint(schema).unwrap());
        let mut sampler = Sampler::new(request.sampling).unwrap();
        let mut cache = KvCache::new(self.model.config().layers);
        let mut text = TextStream::default();
        let mut new_tokens = 0;
        let mut pass = Pass::Prefill;
        let mut group = forced(grammar.as_mut());
        let mut pending = prompt.clone();
        let finish = loop {
            let cut = group.len() > room - new_tokens;
            group.truncate(room - new_tokens);
            new_tokens += group.len();
            for &token in &group {
                text.push(self.encoder.tokenizer.visible_bytes(token));
            }
            pending.extend(&group);
            let stop = request.stop.as_ref();
            if group.last().is_some_and(|&token| self.is_end(token)) {
                break Finish::End;
            } else if !group.is_empty() && stop.is_some_and(|stop| stop(text.text())) {
                break Finish::Stopped;
            } else if !cut && grammar.as_ref().is_some_and(Constraint::is_finished) {
                break Finish::End;
            } else if new_tokens == room {
                break Finish::Length;
            }
            if pass == Pass::Prefill {
                // The engine cuts openings here and after each 512 tokens: parts may differ in rounding.
                let (messages, bytes) = (&request.messages, request.shared_bytes);
                let shared = self.encoder.shared_ids(messages, bytes, &prompt).unwrap();
                let mut rest = pending.split_off(shared);
                for part in pending.chunks(512) {
                    self.feed(part, &mut cache, pass);
                }
                while rest.len() > 512 {
                    self.feed(&rest[..512], &mut cache, pass);
                    rest.drain(..512);
                }
                pending = rest;
            }
            let logits = self.feed(&pending, &mut cache, pass);
            pass = Pass::Decode;
            let mask = grammar.as_mut().map(|grammar| grammar.mask().unwrap());
            let token = sampler.sample(&logits, mask.as_ref()).unwrap();
            group = vec![token];
            if let Some(grammar) = &mut grammar {
                grammar.accept(token).unwrap();
            }
            if !self.is_end(token) {
                group.extend(forced(grammar.as_mut()));
            }
            pending.clear();
        };
        Reply {
            text: text.finish(),
            finish,
            prompt_tokens: prompt.len(),
            new_tokens,
        }
    }

    fn feed(&self, ids: &[u32], cache: &mut KvCache, pass: Pass) -> Vec<f32> {
        let caches = Some(&mut [cache][..]);
        let hidden = self.model.hidden(ids, &[ids.len()], caches, pass).unwrap();
        let last = hidden.narrow(0, ids.len() - 1, 1).unwrap();
        let logits = self.model.logits(&last, Pass::Decode).unwrap();
        logits.flatten_all().unwrap().to_vec1().unwrap()
    }

    fn is_end(&self, token: u32) -> bool {
        self.encoder.tokenizer.end_tokens().contains(&token)
    }
}

fn forced(grammar: Option<&mut Constraint>) -> Vec<u32> {
    let Some(grammar) = grammar.filter(|grammar| !grammar.is_finished()) else {
        return Vec::new();
    };
    let mut forced = grammar.forced_tokens().unwrap();
    let taken = grammar.try_accept(&forced).unwrap();
    forced.truncate(taken);
    forced
}

fn generator(path: &Path, compute: Compute, rows: usize) -> LocalGenerator {
    let (model, encoder) = load(path, DeviceKind::Cpu, compute).unwrap();
    LocalGenerator::new(model, encoder, Some(rows))
}

/// Requests from a list; replies by number.
struct List<'a> {
    requests: std::vec::IntoIter<Request<'a>>,
    replies: Vec<Option<Result<Reply, Error>>>,
    /// Breaks off after so many replies.
    most: usize,
}

impl<'a> List<'a> {
    fn new(requests: Vec<Request<'a>>) -> Self {
        let replies = requests.iter().map(|_| None).collect();
        Self {
            requests: requests.into_iter(),
            replies,
            most: usize::MAX,
        }
    }
}

impl<'a> Work<'a, Error> for List<'a> {
    fn next(&mut self) -> Option<Request<'a>> {
        self.requests.next()
    }

    fn reply(&mut self, number: usize, reply: Result<Reply, Error>) -> ControlFlow<()> {
        assert!(self.replies[number].is_none(), "one reply to a request");
        self.replies[number] = Some(reply);
        self.most -= 1;
        match self.most {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

const WORDS: [&str; 12] = [
    "Mina", "moved", "to", "부산", "in", "March", "2024", "with", "her", "dog", "최", "東京",
];

fn message(role: Role, content: String) -> ChatMessage {
    ChatMessage { role, content }
}

fn text(max: usize) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": max })
}

/// Different in every respect, equal for equal seeds.
fn request(seed: u64) -> Request<'static> {
    let mut rng = ChaCha12Rng::seed_from_u64(seed);
    let mut words = |count: usize| {
        let words: Vec<_> = (0..count)
            .map(|_| *WORDS.choose(&mut rng).unwrap())
            .collect();
        words.join(" ")
    };
    let instruction = match seed % 5 {
        0 => "Say it again.".to_owned(),
        _ => "Extract what lasts, as JSON, in the language of the talk. ".repeat(3),
    };
    let length = 10 + 9 * (seed as usize % 7);
    let messages = vec![
        message(Role::System, instruction),
        message(Role::User, words(length)),
    ];
    let record = json!({
        "type": "object",
        "properties": {
            "source_id": { "enum": [1, 2, 14] },
            "content": text(30),
            "memory_type": { "enum": ["fact", "episodic", "profile"] },
            "keywords": { "type": "array", "items": text(8), "maxItems": 3 },
        },
        "required": ["source_id", "content", "memory_type", "keywords"],
        "additionalProperties": false,
    });
    let schema = match seed % 4 {
        0 => None,
        1 => Some(json!({
            "type": "object",
            "properties": { "memories": { "type": "array", "items": record, "maxItems": 4 } },
            "required": ["memories"],
            "additionalProperties": false,
        })),
        2 => Some(
            json!({ "type": "array", "items": { "enum": ["yes", "no", "never"] }, "maxItems": 9 }),
        ),
        _ => Some(json!({ "type": "array", "items": record, "minItems": 2, "maxItems": 3 })),
    };
    let sampling = match seed % 3 {
        0 => Sampling::Random {
            temperature: 0.7,
            top_p: 0.9,
            seed,
        },
        _ => Sampling::Greedy,
    };
    let stop = (seed % 6 == 5).then(|| {
        let stop = |text: &str| text.chars().filter(|c| *c == '"').count() > 9;
        Box::new(stop) as mem_schema::generator::Stop<'static>
    });
    Request {
        messages,
        shared_bytes: 0,
        schema,
        max_new_tokens: [0, 1, 7, 60, 200][rng.random_range(0..5)].max(seed as usize % 3 * 50),
        sampling,
        stop,
    }
}

#[test]
fn replies_are_those_of_the_plain_loop() {
    for name in ["tiny-qwen2", "tiny-qwen3"] {
        let plain = Plain::open(&tiny(name), Compute::F32);
        let seeds = 0..60;
        let expected: Vec<Reply> = seeds.clone().map(|s| plain.reply(&request(s))).collect();
        let ended = |how| expected.iter().filter(|r| r.finish == how).count();
        let counts = [Finish::End, Finish::Length, Finish::Stopped].map(ended);
        assert!(counts.iter().all(|&count| count > 2), "{counts:?}");
        for rows in [1, 3, 16] {
            let mut list = List::new(seeds.clone().map(request).collect());
            generator(&tiny(name), Compute::F32, rows).generate_all(&mut list);
            for (seed, (reply, expected)) in list.replies.into_iter().zip(&expected).enumerate() {
                let reply = reply.unwrap().unwrap();
                assert_eq!(reply, *expected, "{name}, {rows} rows, request {seed}");
            }
        }
        let alone = generator(&tiny(name), Compute::F32, 1);
        for seed in [1, 2, 3] {
            let reply = alone.generate(request(seed)).unwrap();
            assert_eq!(reply, expected[seed as usize]);
        }
    }
}

#[test]
fn a_request_that_fails_leaves_the_others_alone() {
    let generator = generator(&tiny("tiny-qwen3"), Compute::F32, 4);
    let broken = |seed| {
        let mut request = request(seed);
        match seed {
            2 => request.schema = Some(json!({ "type": "nothing" })),
            5 => request.messages[1].content = "word ".repeat(2000),
            6 => {
                request.sampling = Sampling::Random {
                    temperature: -1.0,
                    top_p: 1.0,
                    seed,
                }
            }
            _ => {}
        }
        request
    };
    let mut list = List::new((0..12).map(broken).collect());
    generator.generate_all(&mut list);
    let replies: Vec<_> = list.replies.into_iter().map(Option::unwrap).collect();
    assert!(matches!(replies[2], Err(Error::Schema { .. })));
    assert!(matches!(replies[5], Err(Error::PromptTooLong { .. })));
    assert!(matches!(replies[6], Err(Error::Sampling { .. })));
    let plain = Plain::open(&tiny("tiny-qwen3"), Compute::F32);
    for seed in [0, 1, 3, 4, 7, 8, 9, 10, 11] {
        let reply = replies[seed as usize].as_ref().unwrap();
        assert_eq!(*reply, plain.reply(&request(seed)), "request {seed}");
    }
}

#[test]
fn work_can_be_broken_off_and_stopped_before_the_first_token() {
    let generator = generator(&tiny("tiny-qwen2"), Compute::F32, 2);
    let mut list = List::new((0..9).map(request).collect());
    list.most = 3;
    generator.generate_all(&mut list);
    let replies = list.replies.iter().filter(|reply| reply.is_some()).count();
    assert_eq!(replies, 3);
    assert!(list.requests.len() >= 4, "rows enter when there is room");

    let asked = AtomicUsize::new(0);
    let mut stopped = request(1);
    stopped.schema = None;
    stopped.stop = Some(Box::new(|text| {
        asked.fetch_add(1, Ordering::Relaxed);
        assert_eq!(text, "");
        true
    }));
    let reply = generator.generate(stopped).unwrap();
    assert_eq!((reply.finish, reply.new_tokens), (Finish::Stopped, 0));
    assert_eq!(asked.into_inner(), 1);
}

/// Logits after a prompt that is read in two parts, and from a fork of the first of them: bit by bit the same. Then the
/// same for tokens that are decoded, one or several a pass, alone or beside another row.
fn check_bits(path: &Path, prompt_len: usize, compute: Compute) {
    let Plain { model, .. } = Plain::open(path, compute);
    let vocab = model.config().vocab_size.min(600);
    let ids = |from: usize, n: usize| -> Vec<u32> {
        (from..from + n).map(|i| (i * 389 % vocab) as u32).collect()
    };
    let new = || KvCache::new(model.config().layers);
    let last = |hidden: &candle_core::Tensor, at: usize| -> Vec<f32> {
        let logits = model.logits(&hidden.narrow(0, at, 1).unwrap(), Pass::Decode);
        logits.unwrap().flatten_all().unwrap().to_vec1().unwrap()
    };
    let prompt = ids(3, prompt_len);
    let run = |ids: &[u32], lens: &[usize], caches: &mut [&mut KvCache], pass| {
        model.hidden(ids, lens, Some(caches), pass).unwrap()
    };
    let cut = prompt_len / 2 + 3;
    let rest = prompt_len - cut;
    let read = |cache: &mut KvCache, prefix: &mut KvCache| {
        run(&prompt[..cut], &[cut], &mut [&mut *prefix], Pass::Prefill);
        *cache = prefix.fork().unwrap();
        let hidden = run(&prompt[cut..], &[rest], &mut [cache], Pass::Prefill);
        last(&hidden, rest - 1)
    };
    let (mut whole, mut fork, mut prefix, mut other) = (new(), new(), new(), new());
    let expected = read(&mut whole, &mut new());
    run(&ids(7, 11), &[11], &mut [&mut other], Pass::Prefill);
    assert!(read(&mut fork, &mut prefix) == expected, "after the prompt");
    // What the fork writes must not reach the prefix.
    let mut again = prefix.fork().unwrap();
    let hidden = run(&prompt[cut..], &[rest], &mut [&mut again], Pass::Prefill);
    assert!(last(&hidden, rest - 1) == expected, "from the prefix again");

    let reply = ids(50, 9);
    let mut expected = Vec::new();
    for token in &reply {
        let hidden = run(&[*token], &[1], &mut [&mut whole], Pass::Decode);
        expected.push(last(&hidden, 0));
    }
    // In parts of 4 with one draft refused after each, beside a row that decodes too.
    for (part, expected) in reply.chunks(4).zip(expected.chunks(4)) {
        let fed = [&ids(1, 2), part, &[5]].concat();
        let caches = &mut [&mut other, &mut fork];
        let hidden = run(&fed, &[2, part.len() + 1], caches, Pass::Decode);
        for (at, expected) in expected.iter().enumerate() {
            assert!(last(&hidden, 2 + at) == *expected, "reply");
        }
        let right = fork.len() - 1;
        fork.truncate(right);
    }
}

#[test]
fn logits_do_not_depend_on_forks_drafts_and_neighbours() {
    // In the fastest type keys and values are kept in bf16 where the CPU multiplies that.
    for compute in [Compute::F32, Compute::fastest()] {
        check_bits(&tiny("tiny-qwen2"), 150, compute);
        check_bits(&tiny("tiny-qwen3"), 90, compute);
    }
    if let Some(path) = real::gguf() {
        check_bits(&path, 130, Compute::fastest());
    }
}

/// A short window of a talk, another for each number.
fn window(index: usize) -> Window {
    let places = ["Ghent", "Busan", "Lyon", "Porto"];
    let place = places[index % places.len()];
    let lines = [
        format!("We moved to {place} on 3 March 2024, right beside the harbour."),
        "How lovely! I still have your espresso machine from last year.".to_owned(),
        format!("Keep it. My sister Ottoline starts at the {place} Conservatory in May."),
    ];
    let message = |(number, text): (usize, &String)| Message {
        number: number + 1,
        global_index: number + 1,
        session_id: "S1".to_owned(),
        session_local_index: number + 1,
        turn_id: format!("S1:{}", number + 1),
        speaker: ["Mina", "Jonas"][number % 2].to_owned(),
        role: Role::User,
        time: "2024-03-04T18:20:00".parse().ok(),
        text: text.clone(),
    };
    Window {
        transcript_id: "t".to_owned(),
        kind: Kind::Dialogue,
        index,
        overlap_count: 0,
        messages: lines.iter().enumerate().map(message).collect(),
    }
}

#[test]
fn the_real_model_replies_as_in_the_plain_loop() {
    let Some(path) = real::gguf() else { return };
    let request = |index| {
        let window = window(index);
        let instruction = match index {
            0 => Instruction::Short,
            _ => Instruction::Long,
        };
        Request {
            messages: extraction_messages(&window, instruction),
            shared_bytes: shared_bytes(window.kind, instruction),
            schema: Some(reply_schema(&window)),
            max_new_tokens: 160,
            sampling: Sampling::Greedy,
            stop: Some(Box::new(repeats_record)),
        }
    };
    let plain = Plain::open(&path, Compute::fastest());
    let expected: Vec<Reply> = (0..3).map(|index| plain.reply(&request(index))).collect();
    for rows in [1, 3] {
        let mut list = List::new((0..3).map(request).collect());
        generator(&path, Compute::fastest(), rows).generate_all(&mut list);
        for (reply, expected) in list.replies.into_iter().zip(&expected) {
            assert_eq!(reply.unwrap().unwrap(), *expected, "{rows} rows");
        }
    }
}
