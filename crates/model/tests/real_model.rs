//! The real 0.5B model against a greedy run of transformers over the same GGUF
//! (`scripts/fixtures/make_reference_run.py`).

mod real;

use std::path::PathBuf;

use candle_core::Device;
use mem_model::cache::KvCache;
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_model::weights::Weights;
use serde::Deserialize;

#[derive(Deserialize)]
struct Reference {
    prompt_ids: Vec<u32>,
    ids: Vec<u32>,
    first_step: FirstStep,
}

#[derive(Deserialize)]
struct FirstStep {
    top_ids: Vec<u32>,
    top_logits: Vec<f32>,
}

#[test]
fn greedy_tokens_equal_transformers() {
    let Some(path) = real::gguf() else { return };
    let fixture =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/reference-0.5b.json");
    let reference: Reference = serde_json::from_slice(&std::fs::read(fixture).unwrap()).unwrap();
    let start = std::time::Instant::now();
    let (weights, config) = Weights::open(&path, &Device::Cpu, Compute::F32).unwrap();
    let model = Model::load(&weights, config).unwrap();
    eprintln!(
        "loaded {} MB in {:?}",
        model.weight_bytes() / 1_000_000,
        start.elapsed()
    );
    let mut cache = KvCache::new(model.config().layers);
    let mut next = reference.prompt_ids.clone();
    let start = std::time::Instant::now();
    let mut found = Vec::new();
    for step in 0..reference.ids.len() {
        let hidden = model
            .hidden(&next, &[next.len()], Some(&mut [&mut cache]), Pass::Prefill)
            .unwrap();
        let row: Vec<f32> = model
            .logits(&hidden.narrow(0, next.len() - 1, 1).unwrap(), Pass::Prefill)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap();
        if step == 0 {
            eprintln!("prefill of {} tokens in {:?}", next.len(), start.elapsed());
            for (&id, &logit) in reference
                .first_step
                .top_ids
                .iter()
                .zip(&reference.first_step.top_logits)
            {
                assert!(
                    (row[id as usize] - logit).abs() < 2e-3,
                    "logit {id}: {} and {logit}",
                    row[id as usize]
                );
            }
        }
        let best = (0..row.len())
            .max_by(|&a, &b| row[a].total_cmp(&row[b]))
            .unwrap() as u32;
        found.push(best);
        next = vec![best];
    }
    eprintln!("{} tokens in {:?}", found.len(), start.elapsed());
    assert_eq!(found, reference.ids);
}
