//! The model against transformers and PEFT: tiny random Qwen2 and Qwen3 models and what the reference
//! implementations compute with them (`scripts/fixtures/make_tiny.py`).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adapters;

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{Device, Tensor, Var};
use mem_model::cache::KvCache;
use mem_model::linear::{Frozen, Pass};
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_model::weights::Weights;
use mem_model::{adapter, error::Error};
use serde::Deserialize;

const NAMES: [&str; 2] = ["tiny-qwen2", "tiny-qwen3"];

/// Absolute tolerance of logits against the reference, f32 on both sides.
const LOGITS: f32 = 1e-4;

#[derive(Deserialize)]
struct Expected {
    probes: Vec<usize>,
    logits: BTreeMap<String, Logits>,
    greedy: Greedy,
    adapters: BTreeMap<String, BTreeMap<String, Logits>>,
}

#[derive(Deserialize)]
struct Logits {
    ids: Vec<u32>,
    probes: Vec<Vec<f32>>,
    logsumexp: Vec<f32>,
    last: Vec<f32>,
}

#[derive(Deserialize)]
struct Greedy {
    prompt: Vec<u32>,
    ids: Vec<u32>,
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn load(name: &str) -> Model {
    let (weights, config) = Weights::open(&folder(name), &Device::Cpu, Compute::F32).unwrap();
    Model::load(&weights, config).unwrap()
}

fn expected(name: &str) -> Expected {
    serde_json::from_slice(&std::fs::read(folder(name).join("expected.json")).unwrap()).unwrap()
}

fn logits(model: &Model, ids: &[u32]) -> Vec<Vec<f32>> {
    let hidden = model
        .hidden(ids, &[ids.len()], None, Pass::Prefill)
        .unwrap();
    model
        .logits(&hidden, Pass::Prefill)
        .unwrap()
        .to_vec2()
        .unwrap()
}

fn close(a: f32, b: f32, tolerance: f32, what: &str) {
    assert!(
        (a - b).abs() <= tolerance,
        "{what}: {a} and {b} differ by more than {tolerance}"
    );
}

fn check(model: &Model, expected: &Logits, probes: &[usize], what: &str) {
    let found = logits(model, &expected.ids);
    assert_eq!(found.len(), expected.probes.len());
    for (t, row) in found.iter().enumerate() {
        for (&probe, &value) in probes.iter().zip(&expected.probes[t]) {
            close(
                row[probe],
                value,
                LOGITS,
                &format!("{what}, position {t}, logit {probe}"),
            );
        }
        let sum: f64 = row.iter().map(|&v| f64::from(v).exp()).sum();
        close(
            sum.ln() as f32,
            expected.logsumexp[t],
            LOGITS,
            &format!("{what}, position {t}, logsumexp"),
        );
    }
    for (i, (&a, &b)) in found[found.len() - 1]
        .iter()
        .zip(&expected.last)
        .enumerate()
    {
        close(a, b, LOGITS, &format!("{what}, last position, logit {i}"));
    }
}

#[test]
fn logits_equal_transformers() {
    for name in NAMES {
        let (model, expected) = (load(name), expected(name));
        for (case, logits) in &expected.logits {
            check(&model, logits, &expected.probes, &format!("{name} {case}"));
        }
    }
}

#[test]
fn adapted_logits_equal_peft() {
    for name in NAMES {
        let expected = expected(name);
        for (adapter, cases) in &expected.adapters {
            let mut model = load(name);
            let (config, tensors) =
                adapter::load(&folder(name).join(adapter), &Device::Cpu).unwrap();
            adapter::attach(&mut model, &config, &tensors).unwrap();
            for (case, logits) in cases {
                check(
                    &model,
                    logits,
                    &expected.probes,
                    &format!("{name} {adapter} {case}"),
                );
            }
        }
    }
}

/// Merged into the weights, `W + scale * B A`, an adapter does what it does beside them.
#[test]
fn adapted_equals_merged() {
    let ids = [5u32, 9, 301, 17, 44, 3, 8, 77, 200, 210];
    for name in NAMES {
        let base = folder(name).join("model.safetensors");
        let base = candle_core::safetensors::load(base, &Device::Cpu).unwrap();
        for adapter in ["adapter", "adapter-rslora"] {
            let (config, tensors) =
                adapter::load(&folder(name).join(adapter), &Device::Cpu).unwrap();
            assert_ne!(config.scale(), 1.0);
            let (mut adapted, mut merged) = (load(name), load(name));
            adapter::attach(&mut adapted, &config, &tensors).unwrap();
            for (layer, block) in merged.blocks_mut().iter_mut().enumerate() {
                for &projection in &config.targets {
                    let part = |part| &tensors[&adapter::tensor_name(layer, projection, part)];
                    let update = part("B").matmul(part("A")).unwrap();
                    let weight = &base[&format!("{}.weight", projection.path(layer))];
                    let weight = (weight + (update * config.scale()).unwrap()).unwrap();
                    block
                        .linear_mut(projection)
                        .set_weight(Frozen::dense(&weight).unwrap());
                }
            }
            let (found, wanted) = (logits(&merged, &ids), logits(&adapted, &ids));
            assert_ne!(wanted, logits(&load(name), &ids));
            for (a, b) in found.iter().flatten().zip(wanted.iter().flatten()) {
                close(*a, *b, LOGITS, &format!("{name} {adapter}"));
            }
        }
    }
}

#[test]
fn greedy_continuation_equals_transformers() {
    for name in NAMES {
        let (model, greedy) = (load(name), expected(name).greedy);
        let mut cache = KvCache::new(model.config().layers);
        let mut next = greedy.prompt.clone();
        let mut found = Vec::new();
        for _ in 0..greedy.ids.len() {
            let hidden = model
                .hidden(&next, &[next.len()], Some(&mut [&mut cache]), Pass::Prefill)
                .unwrap();
            let last = hidden.narrow(0, next.len() - 1, 1).unwrap();
            let row = model
                .logits(&last, Pass::Prefill)
                .unwrap()
                .to_vec2::<f32>()
                .unwrap()
                .swap_remove(0);
            let best = (0..row.len())
                .max_by(|&a, &b| row[a].total_cmp(&row[b]))
                .unwrap();
            found.push(best as u32);
            next = vec![best as u32];
        }
        assert_eq!(found, greedy.ids, "{name}");
    }
}

/// Rows of different lengths in one batch, with and without caches, in pieces: the same hidden states.
#[test]
fn alone_equals_in_a_batch_and_cached_equals_uncached() {
    for name in NAMES {
        let model = load(name);
        let rows: [&[u32]; 3] = [
            &[5, 9, 301, 17, 44, 3],
            &[8],
            &[77, 76, 75, 74, 73, 72, 71, 70, 69],
        ];
        let alone: Vec<Vec<Vec<f32>>> = rows
            .iter()
            .map(|r| {
                model
                    .hidden(r, &[r.len()], None, Pass::Prefill)
                    .unwrap()
                    .to_vec2()
                    .unwrap()
            })
            .collect();
        let ids: Vec<u32> = rows.concat();
        let lens: Vec<usize> = rows.iter().map(|r| r.len()).collect();
        let together: Vec<Vec<f32>> = model
            .hidden(&ids, &lens, None, Pass::Prefill)
            .unwrap()
            .to_vec2()
            .unwrap();
        for (a, b) in alone
            .concat()
            .iter()
            .flatten()
            .zip(together.iter().flatten())
        {
            close(*a, *b, 1e-5, "batch");
        }
        // The first row in pieces of 2, 1 and 3, while the third row decodes beside it.
        let mut caches = [
            KvCache::new(model.config().layers),
            KvCache::new(model.config().layers),
        ];
        let [first, third] = &mut caches;
        let mut pieces = Vec::new();
        for (a, b) in [(0..2, 0..4), (2..3, 4..5), (3..6, 5..9)] {
            let ids = [&rows[0][a.clone()], &rows[2][b.clone()]].concat();
            let hidden = model
                .hidden(
                    &ids,
                    &[a.len(), b.len()],
                    Some(&mut [first, third]),
                    Pass::Prefill,
                )
                .unwrap();
            pieces.extend(
                hidden
                    .narrow(0, 0, a.len())
                    .unwrap()
                    .to_vec2::<f32>()
                    .unwrap(),
            );
        }
        for (a, b) in alone[0].iter().flatten().zip(pieces.iter().flatten()) {
            close(*a, *b, 1e-5, "cache");
        }
    }
}

#[test]
fn caches_fork_and_are_cut_back() {
    let model = load("tiny-qwen3");
    let run = |ids: &[u32], cache: &mut KvCache| -> Vec<f32> {
        let hidden = model
            .hidden(ids, &[ids.len()], Some(&mut [cache]), Pass::Prefill)
            .unwrap();
        hidden
            .narrow(0, ids.len() - 1, 1)
            .unwrap()
            .flatten_all()
            .unwrap()
            .to_vec1()
            .unwrap()
    };
    let fresh = |ids: &[u32]| run(ids, &mut KvCache::new(model.config().layers));
    let mut prefix = KvCache::new(model.config().layers);
    run(&[1, 2, 3, 4], &mut prefix);
    let mut fork = prefix.fork().unwrap();
    let (a, b) = (run(&[5, 6], &mut fork), run(&[7, 8], &mut prefix));
    let expect = |found: &[f32], ids: &[u32]| {
        found
            .iter()
            .zip(&fresh(ids))
            .for_each(|(a, b)| close(*a, *b, 1e-5, "fork"));
    };
    expect(&a, &[1, 2, 3, 4, 5, 6]);
    expect(&b, &[1, 2, 3, 4, 7, 8]);
    prefix.truncate(2);
    expect(&run(&[9], &mut prefix), &[1, 2, 9]);
    expect(&run(&[5], &mut fork), &[1, 2, 3, 4, 5, 6, 5]);
}

/// The gradients of the pass back, with everything kept and with nothing kept, against the graph of the composed
/// operations and against central differences of a smooth function of the blocks' output.
#[test]
fn adapter_gradients_agree_with_the_graph_and_with_differences() {
    for name in NAMES {
        let mut model = load(name);
        let (config, tensors) = adapter::load(&folder(name).join("adapter"), &Device::Cpu).unwrap();
        let vars: BTreeMap<String, Var> = tensors
            .iter()
            .map(|(n, t)| (n.clone(), Var::from_tensor(t).unwrap()))
            .collect();
        let tracked = vars
            .iter()
            .map(|(n, v)| (n.clone(), v.as_tensor().clone()))
            .collect();
        adapter::attach(&mut model, &config, &tracked).unwrap();
        let ids = [5u32, 9, 301, 17, 44, 3, 8, 77, 200, 210];
        let lens = [6, 4];
        let shape = (ids.len(), model.config().hidden_size);
        let weights: Vec<f32> = (0..shape.0 * shape.1)
            .map(|i| (i as f32 * 0.7).sin())
            .collect();
        let weights = Tensor::from_vec(weights, shape, &Device::Cpu).unwrap();
        let composed = || -> Tensor {
            let packing = model.packing(&lens, &[0, 0], Pass::Prefill);
            let mut x = model.embed(&ids).unwrap();
            for block in model.blocks() {
                x = block.forward(&x, &packing, None).unwrap();
            }
            x
        };
        let gradients = |memory: usize| -> BTreeMap<String, Vec<f32>> {
            let (last, tape) = model.record(&ids, &lens, memory).unwrap();
            let difference = (last - composed()).unwrap().abs().unwrap();
            let difference: f32 = difference.max_all().unwrap().to_scalar().unwrap();
            assert!(difference < 1e-4, "{name}: {difference}");
            let mut found = BTreeMap::new();
            let mut take = |layer, projection, pair: [Tensor; 2]| {
                for (part, tensor) in ["A", "B"].into_iter().zip(pair) {
                    let values = tensor.flatten_all()?.to_vec1()?;
                    found.insert(adapter::tensor_name(layer, projection, part), values);
                }
                Ok(())
            };
            model.pull(tape, &weights, &mut take).unwrap();
            found
        };
        assert!(model.record(&ids, &[6, 3], 0).is_err());
        let (_, tape) = model.record(&ids, &lens, 0).unwrap();
        let short = weights.narrow(0, 0, 9).unwrap();
        assert!(model.pull(tape, &short, &mut |_, _, _| Ok(())).is_err());
        let found = gradients(usize::MAX);
        assert_eq!(
            found,
            gradients(0),
            "{name}: what is kept changes the gradients"
        );
        assert_eq!(found.len(), vars.len());
        let value = || (composed() * &weights).unwrap().sum_all().unwrap();
        let graph = value().backward().unwrap();
        for (name, var) in &vars {
            let expected: Vec<f32> = graph
                .get(var)
                .unwrap()
                .flatten_all()
                .unwrap()
                .to_vec1()
                .unwrap();
            let gradient = &found[name];
            let size = expected.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
            for (a, b) in gradient.iter().zip(&expected) {
                close(*a, *b, 1e-3 * size, name);
            }
            let largest = (0..gradient.len())
                .max_by(|&a, &b| gradient[a].abs().total_cmp(&gradient[b].abs()))
                .unwrap();
            let base: Vec<f32> = var.flatten_all().unwrap().to_vec1().unwrap();
            let at = |delta: f32| -> f64 {
                let mut moved = base.clone();
                moved[largest] += delta;
                var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap())
                    .unwrap();
                f64::from(value().to_scalar::<f32>().unwrap())
            };
            let step = 2e-3;
            let difference = (at(step) - at(-step)) / f64::from(2.0 * step);
            at(0.0);
            let gradient = f64::from(gradient[largest]);
            assert!(
                (gradient - difference).abs() < 2e-2 * gradient.abs().max(1e-2),
                "{name}: gradient {gradient}, difference {difference}"
            );
        }
    }
}

#[test]
fn damaged_and_missing_files_are_errors() {
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(
        Weights::open(empty.path(), &Device::Cpu, Compute::F32),
        Err(Error::NotAModel { .. })
    ));
    for file in ["config.json", "model.safetensors"] {
        let bytes = std::fs::read(folder("tiny-qwen2").join(file)).unwrap();
        std::fs::write(empty.path().join(file), &bytes[..bytes.len() / 2]).unwrap();
        assert!(
            Weights::open(empty.path(), &Device::Cpu, Compute::F32).is_err(),
            "{file} cut in half"
        );
        std::fs::write(empty.path().join(file), &bytes).unwrap();
    }
    let gguf = empty.path().join("half.gguf");
    std::fs::write(&gguf, b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f").unwrap();
    assert!(matches!(
        Weights::open(&gguf, &Device::Cpu, Compute::F32),
        Err(Error::WeightFile { .. })
    ));
}
