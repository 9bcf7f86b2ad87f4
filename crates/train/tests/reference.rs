//! Loss, gradients, clip and AdamW against PyTorch and PEFT in float64
//! (`scripts/fixtures/make_tiny.py`), and the learning of eight examples by heart.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{Device, Var};
use mem_model::adapter;
use mem_model::encode::Encoded;
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_model::weights::Weights;
use mem_train::gradient::{Sums, accumulate, evaluate};
use mem_train::optimiser::{AdamW, AdamWSettings, clip};
use mem_train::sft::attach_trainable;
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    training: Training,
}

#[derive(Deserialize)]
struct Training {
    ids: Vec<u32>,
    prompt_len: usize,
    adamw: Settings,
    steps: Vec<Step>,
    loss_after: f64,
}

#[derive(Deserialize)]
struct Settings {
    lr: f64,
    beta1: f64,
    beta2: f64,
    eps: f64,
    weight_decay: f64,
    clip: f64,
}

#[derive(Deserialize)]
struct Step {
    loss: f64,
    grad_norm: f64,
    gradients: BTreeMap<String, Gradient>,
    weights_after: BTreeMap<String, Vec<f32>>,
}

#[derive(Deserialize)]
struct Gradient {
    norm: f64,
    entries: Vec<f32>,
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../model/tests/fixtures")
        .join(name)
}

/// A tiny model with its adapter as variables.
fn load(name: &str) -> (Model, BTreeMap<String, Var>) {
    let (weights, config) = Weights::open(&folder(name), &Device::Cpu, Compute::F32).unwrap();
    let mut model = Model::load(&weights, config).unwrap();
    let (config, tensors) = adapter::load(&folder(name).join("adapter"), &Device::Cpu).unwrap();
    let vars = attach_trainable(&mut model, &config, &tensors).unwrap();
    (model, vars)
}

/// Flat positions that the fixture stores.
fn entries(tensor: &candle_core::Tensor) -> Vec<f32> {
    let values: Vec<f32> = tensor.flatten_all().unwrap().to_vec1().unwrap();
    let n = values.len();
    [0, 1, n / 3, n / 2, n - 2, n - 1]
        .map(|i| values[i])
        .to_vec()
}

fn close(found: f64, expected: f64, absolute: f64, relative: f64, what: &str) {
    let bound = absolute + relative * expected.abs();
    assert!(
        (found - expected).abs() <= bound,
        "{what}: {found}, expected {expected} within {bound}"
    );
}

#[test]
fn three_steps_equal_pytorch() {
    for name in ["tiny-qwen2", "tiny-qwen3"] {
        let json = std::fs::read(folder(name).join("expected.json")).unwrap();
        let expected = serde_json::from_slice::<Expected>(&json).unwrap().training;
        let (model, vars) = load(name);
        let s = &expected.adamw;
        let settings = AdamWSettings {
            beta1: s.beta1,
            beta2: s.beta2,
            epsilon: s.eps,
            weight_decay: s.weight_decay,
        };
        let mut optimiser = AdamW::new(settings, &vars).unwrap();
        let example = Encoded {
            ids: expected.ids,
            prompt_len: expected.prompt_len,
        };
        let supervised = example.ids.len() - example.prompt_len;
        for (i, step) in expected.steps.iter().enumerate() {
            let mut sums = Sums::default();
            accumulate(&model, &vars, &[&example], &mut sums).unwrap();
            assert_eq!(sums.supervised_tokens, supervised);
            let count = supervised as f64;
            close(
                sums.loss / count,
                step.loss,
                1e-5,
                1e-5,
                &format!("{name} loss {i}"),
            );
            assert_eq!(sums.gradients.len(), step.gradients.len());
            for (tensor, gradient) in &mut sums.gradients {
                *gradient = (&*gradient / count).unwrap();
                let wanted = &step.gradients[tensor];
                let norm = gradient
                    .sqr()
                    .unwrap()
                    .sum_all()
                    .unwrap()
                    .to_scalar::<f32>()
                    .unwrap()
                    .sqrt();
                close(
                    f64::from(norm),
                    wanted.norm,
                    1e-6,
                    1e-3,
                    &format!("{name} step {i} norm of {tensor}"),
                );
                for (found, entry) in entries(gradient).iter().zip(&wanted.entries) {
                    let absolute = 2e-4 * wanted.norm.max(1e-3);
                    close(
                        f64::from(*found),
                        f64::from(*entry),
                        absolute,
                        1e-3,
                        &format!("{name} step {i} {tensor}"),
                    );
                }
            }
            let norm = clip(&mut sums.gradients, s.clip).unwrap();
            close(
                norm,
                step.grad_norm,
                1e-5,
                1e-3,
                &format!("{name} step {i} global norm"),
            );
            optimiser.step(&vars, &sums.gradients, s.lr).unwrap();
            for (tensor, wanted) in &step.weights_after {
                for (found, wanted) in entries(vars[tensor].as_tensor()).iter().zip(wanted) {
                    close(
                        f64::from(*found),
                        f64::from(*wanted),
                        2e-4,
                        1e-3,
                        &format!("{name} after step {i} {tensor}"),
                    );
                }
            }
        }
        let mut sums = Sums::default();
        evaluate(&model, &[&example], &mut sums).unwrap();
        close(
            sums.loss / supervised as f64,
            expected.loss_after,
            1e-3,
            1e-3,
            &format!("{name} final loss"),
        );
    }
}

fn examples() -> Vec<Encoded> {
    let row = |seed: u32, prompt: u32, answer: u32| Encoded {
        ids: (0..prompt + answer)
            .map(|i| (seed * 97 + i * i * 31 + 7 * i) % 600)
            .collect(),
        prompt_len: prompt as usize,
    };
    (0..8).map(|i| row(i, 6 + 5 * (i % 3), 3 + 2 * i)).collect()
}

/// Rows packed together or one at a time: the same sums, and the supervised count is exact.
#[test]
fn packing_changes_nothing() {
    let (model, vars) = load("tiny-qwen2");
    let rows = examples();
    let rows: Vec<&Encoded> = rows.iter().collect();
    let (mut packed, mut single) = (Sums::default(), Sums::default());
    accumulate(&model, &vars, &rows, &mut packed).unwrap();
    for row in &rows {
        accumulate(&model, &vars, &[row], &mut single).unwrap();
    }
    assert_eq!(
        packed.supervised_tokens,
        (0..8).map(|i| 3 + 2 * i).sum::<usize>()
    );
    assert_eq!(packed.supervised_tokens, single.supervised_tokens);
    close(packed.loss, single.loss, 0.0, 1e-5, "loss");
    let mut evaluated = Sums::default();
    evaluate(&model, &rows, &mut evaluated).unwrap();
    close(evaluated.loss, packed.loss, 0.0, 1e-6, "evaluation");
    for (name, gradient) in &packed.gradients {
        let (a, b) = (
            gradient.flatten_all().unwrap(),
            single.gradients[name].flatten_all().unwrap(),
        );
        let difference = (&a - &b)
            .unwrap()
            .abs()
            .unwrap()
            .max(0)
            .unwrap()
            .to_scalar::<f32>()
            .unwrap();
        let largest = a.abs().unwrap().max(0).unwrap().to_scalar::<f32>().unwrap();
        assert!(
            difference <= 1e-5 * largest.max(1.0),
            "{name}: {difference} of {largest}"
        );
    }
}

#[test]
fn eight_examples_are_learnt_by_heart() {
    let (model, vars) = load("tiny-qwen3");
    let rows = examples();
    let rows: Vec<&Encoded> = rows.iter().collect();
    let mut optimiser = AdamW::new(AdamWSettings::with_decay(0.0), &vars).unwrap();
    for _ in 0..400 {
        let mut sums = Sums::default();
        accumulate(&model, &vars, &rows, &mut sums).unwrap();
        let count = sums.supervised_tokens as f64;
        for gradient in sums.gradients.values_mut() {
            *gradient = (&*gradient / count).unwrap();
        }
        clip(&mut sums.gradients, 1.0).unwrap();
        optimiser.step(&vars, &sums.gradients, 2e-2).unwrap();
    }
    // Every supervised token is the model's first choice, given the true ones before it.
    for row in &rows {
        let hidden = model
            .hidden(&row.ids, &[row.ids.len()], None, Pass::Prefill)
            .unwrap();
        let best: Vec<u32> = model
            .logits(&hidden, Pass::Prefill)
            .unwrap()
            .argmax(1)
            .unwrap()
            .to_vec1()
            .unwrap();
        assert_eq!(
            best[row.prompt_len - 1..row.ids.len() - 1],
            row.ids[row.prompt_len..]
        );
    }
}
