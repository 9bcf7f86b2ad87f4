//! Embedders against transformers: tiny ones of the repository, whose `expected.json`
//! `scripts/fixtures/make_tiny_embedders.py` made, and the real all-MiniLM-L6-v2 where it has been fetched.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real;

use std::path::{Path, PathBuf};

use mem_model::embed::{Embedder, Embedding, Kind, Pooling, Prompts};
use mem_model::generate::DeviceKind;
use mem_model::matrix::Compute;
use serde::Deserialize;

const NAMES: [&str; 3] = ["tiny-bert", "tiny-xlm-roberta", "tiny-qwen3-embedding"];

/// Largest difference of a value from the reference, f32 on both sides.
const EXACT: f32 = 1e-5;

#[derive(Deserialize)]
struct Expected {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    kind: String,
    text: String,
    ids: Vec<u32>,
    cut: usize,
    vector: Vec<f32>,
}

impl Case {
    fn kind(&self) -> Kind {
        match self.kind.as_str() {
            "query" => Kind::Query,
            "document" => Kind::Passage,
            other => panic!("kind `{other}`"),
        }
    }
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn load(folder: &Path) -> Embedder {
    Embedder::load(folder, DeviceKind::Cpu, Compute::F32).unwrap()
}

fn cases(name: &str) -> Vec<Case> {
    let json = std::fs::read(folder(name).join("expected.json")).unwrap();
    serde_json::from_slice::<Expected>(&json).unwrap().cases
}

fn largest_difference(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

fn assert_is(found: &Embedding, case: &Case, name: &str) {
    let what = format!("{name}, {} `{}`", case.kind, case.text);
    assert_eq!(found.tokens, case.ids.len(), "{what}");
    assert_eq!(found.cut_tokens, case.cut, "{what}");
    let difference = largest_difference(&found.vector, &case.vector);
    assert!(difference < EXACT, "{what}: {difference}");
}

#[test]
fn vectors_equal_transformers() {
    for name in NAMES {
        let embedder = load(&folder(name));
        for kind in [Kind::Query, Kind::Passage] {
            let cases: Vec<Case> = cases(name)
                .into_iter()
                .filter(|c| c.kind() == kind)
                .collect();
            let texts: Vec<&str> = cases.iter().map(|case| case.text.as_str()).collect();
            let found = embedder.embed(&texts, kind).unwrap();
            assert_eq!(found.len(), cases.len());
            for (found, case) in found.iter().zip(&cases) {
                assert_is(found, case, name);
            }
            assert!(
                cases.iter().any(|case| case.cut > 0),
                "{name}: no text is cut"
            );
        }
    }
}

/// How far a text's vector may depend on its neighbours: where products are those of oneDNN with AVX-512 not at all,
/// elsewhere other numbers of rows may be summed in another order.
fn batch_tolerance() -> f32 {
    #[cfg(all(feature = "onednn", target_arch = "x86_64"))]
    if is_x86_feature_detected!("avx512f") {
        return 0.0;
    }
    1e-6
}

#[test]
fn a_text_has_the_same_vector_alone_and_in_any_batch() {
    for name in NAMES {
        let mut embedder = load(&folder(name));
        let cases = cases(name);
        let texts: Vec<&str> = cases.iter().map(|case| case.text.as_str()).collect();
        let together = embedder.embed(&texts, Kind::Passage).unwrap();
        let reversed: Vec<&str> = texts.iter().rev().copied().collect();
        for batch_tokens in [0, 7, 100] {
            embedder.set_batch_tokens(batch_tokens);
            let mut others = embedder.embed(&reversed, Kind::Passage).unwrap();
            others.reverse();
            for (text, (a, b)) in texts.iter().zip(together.iter().zip(&others)) {
                let difference = largest_difference(&a.vector, &b.vector);
                assert!(
                    difference <= batch_tolerance(),
                    "{name} `{text}`: {difference}"
                );
            }
        }
    }
}

#[test]
fn settings_come_from_the_folder() {
    let [bert, roberta, qwen] = NAMES.map(|name| load(&folder(name)));
    assert_eq!(
        (bert.pooling(), bert.max_tokens(), bert.dimension()),
        (Pooling::Mean, 24, 32)
    );
    assert_eq!(
        (roberta.pooling(), roberta.max_tokens(), roberta.dimension()),
        (Pooling::Cls, 64, 40)
    );
    assert_eq!(
        (qwen.pooling(), qwen.max_tokens(), qwen.dimension()),
        (Pooling::LastToken, 64, 32)
    );
    assert_eq!(bert.prompts(), &Prompts::default());
    assert_eq!(roberta.prompts().of(Kind::Passage), "passage: ");
    assert!(qwen.prompts().of(Kind::Query).starts_with("Instruct: "));
}

/// Copies a fixture without the files of sentence-transformers.
fn bare(name: &str) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(folder(name).join(file), copy.path().join(file)).unwrap();
    }
    copy
}

#[test]
fn a_bare_folder_has_the_defaults_of_its_family() {
    let [bert, roberta, qwen] = NAMES.map(|name| load(bare(name).path()));
    assert_eq!((bert.pooling(), bert.max_tokens()), (Pooling::Mean, 80));
    // RoBERTa's positions begin behind the padding id, 1.
    assert_eq!(
        (roberta.pooling(), roberta.max_tokens()),
        (Pooling::Mean, 78)
    );
    assert_eq!(
        (qwen.pooling(), qwen.max_tokens()),
        (Pooling::LastToken, 80)
    );
    assert_eq!(qwen.prompts(), &Prompts::qwen3());
    let found = roberta
        .embed(&["long ".repeat(500)], Kind::Passage)
        .unwrap();
    assert_eq!(found[0].tokens, 78);
    assert!(found[0].cut_tokens > 300);
    let length: f32 = found[0].vector.iter().map(|v| v * v).sum();
    assert!(
        (length - 1.0).abs() < 1e-5,
        "without modules.json vectors are normalised: {length}"
    );
}

#[test]
fn weights_that_are_no_numbers_are_an_error() {
    for name in NAMES {
        let copy = bare(name);
        let file = copy.path().join("model.safetensors");
        let mut bytes = std::fs::read(&file).unwrap();
        // Behind the header, whose length the first eight bytes give: all bits set are no number in any float type.
        let header = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
        bytes[8 + header..].fill(0xff);
        std::fs::write(&file, bytes).unwrap();
        let error = load(copy.path()).embed(&["x"], Kind::Query).unwrap_err();
        assert!(
            error.to_string().contains("weights are damaged"),
            "{name}: {error}"
        );
    }
}

#[test]
fn no_text_gives_no_vector() {
    let embedder = load(&folder("tiny-bert"));
    assert!(embedder.embed::<&str>(&[], Kind::Query).unwrap().is_empty());
}

#[test]
fn what_is_not_supported_is_named() {
    let copy = bare("tiny-bert");
    let path = copy.path().join("config.json");
    let config = std::fs::read_to_string(&path).unwrap();
    for (from, to, message) in [
        ("\"gelu\"", "\"gelu_new\"", "activation `gelu_new`"),
        (
            "\"model_type\": \"bert\"",
            "\"model_type\": \"mpnet\"",
            "encoder of type `mpnet`",
        ),
        (
            "\"num_attention_heads\": 4",
            "\"num_attention_heads\": 5",
            "sizes that do not fit",
        ),
        (
            "\"vocab_size\": 420",
            "\"vocab_size\": 421",
            "word_embeddings",
        ),
    ] {
        assert!(config.contains(from), "{from}");
        std::fs::write(&path, config.replace(from, to)).unwrap();
        let error = Embedder::load(copy.path(), DeviceKind::Cpu, Compute::F32)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[derive(Deserialize)]
struct Reference {
    cases: Vec<ReferenceCase>,
}

#[derive(Deserialize)]
struct ReferenceCase {
    text: String,
    vector: Vec<f32>,
}

/// Against sentence-transformers (`scripts/fixtures/make_reference_vectors.py`); `MEMLOOM_TEST_VECTORS`
/// may name a second file of the same form, with more texts.
#[test]
fn minilm_equals_sentence_transformers() {
    let Some(model) = real::minilm() else { return };
    let embedder = load(&model);
    assert_eq!(
        (embedder.pooling(), embedder.max_tokens()),
        (Pooling::Mean, 256)
    );
    let more = std::env::var_os("MEMLOOM_TEST_VECTORS").map(PathBuf::from);
    for path in [Some(folder("reference-minilm.json")), more]
        .into_iter()
        .flatten()
    {
        let reference: Reference = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let texts: Vec<&str> = reference
            .cases
            .iter()
            .map(|case| case.text.as_str())
            .collect();
        let found = embedder.embed(&texts, Kind::Passage).unwrap();
        let mut smallest = 1f64;
        for (found, case) in found.iter().zip(&reference.cases) {
            let products = found.vector.iter().zip(&case.vector);
            let dot: f64 = products.map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            let square = |v: &[f32]| v.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>();
            let cosine = dot / (square(&found.vector) * square(&case.vector)).sqrt();
            assert!(cosine >= 0.999_999, "cosine {cosine} of `{}`", case.text);
            smallest = smallest.min(cosine);
        }
        assert!(found.iter().any(|found| found.cut_tokens > 0));
        eprintln!("{} texts, smallest cosine {smallest:.9}", texts.len());
    }
}
