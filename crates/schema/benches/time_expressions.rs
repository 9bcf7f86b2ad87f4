//! Sentences a second that time expressions are read in: `cargo bench -p mem-schema`.

use std::{fs, hint::black_box};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mem_schema::{
    moment::Moment,
    time::resolve::{Language, Options, resolve},
};
use serde_json::Value;

/// The sentences of a language's test data, with their times.
fn sentences(language: Language) -> Vec<(String, Moment)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/dates");
    let text =
        fs::read_to_string(format!("{folder}/{}.jsonl", language.code())).unwrap_or_default();
    let read = |line: &str| {
        let value: Value = serde_json::from_str(line).ok()?;
        let at = value["reference"].as_str()?.parse().ok()?;
        Some((value["input"].as_str()?.to_owned(), at))
    };
    text.lines().filter_map(read).collect()
}

/// What people say that holds no time.
fn without_time() -> Vec<(String, Moment)> {
    let at = Moment::local(jiff::civil::date(2024, 3, 14).at(10, 0, 0, 0));
    [
        "I love the smell of fresh bread and the sound of rain on the roof.",
        "Could you help me choose a name for my new cat?",
        "My sister lives in Ghent and works as a nurse.",
        "Das Fahrrad meines Bruders ist blau und ziemlich schnell.",
        "我喜欢喝茶,也喜欢听音乐。",
    ]
    .map(|text| (text.to_owned(), at))
    .to_vec()
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("time expressions");
    let mut run = |name: String, language: Option<Language>, sentences: &[(String, Moment)]| {
        let options = Options {
            language,
            ..Options::default()
        };
        group.throughput(Throughput::Elements(sentences.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for (text, at) in sentences {
                    black_box(resolve(black_box(text), Some(at), &options));
                }
            });
        });
    };
    for &language in Language::ALL {
        let sentences = sentences(language);
        run(
            format!("{} given", language.code()),
            Some(language),
            &sentences,
        );
        run(format!("{} found out", language.code()), None, &sentences);
    }
    run("no time".to_owned(), None, &without_time());
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
