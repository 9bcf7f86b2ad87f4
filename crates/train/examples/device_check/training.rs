//! Loss, gradients and the optimiser.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor, Var};
use mem_model::encode::Encoded;
use mem_model::qwen::Model;
use mem_train::gradient::{Sums, accumulate, evaluate};
use mem_train::optimiser::{AdamW, AdamWSettings, clip};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::models::random;
use super::{Result, Tensors, error, ids};

pub(super) type Trainable<'a> = (&'a Model, &'a BTreeMap<String, Var>);

/// More supervised tokens than logits are held of at once.
fn sums((model, vars): Trainable<'_>) -> Result<Sums> {
    let example = |n, seed, prompt_len| Encoded {
        ids: ids(n, seed),
        prompt_len,
    };
    let examples = [example(400, 1, 30), example(12, 2, 3)];
    let mut sums = Sums::default();
    accumulate(model, vars, &[&examples[0], &examples[1]], &mut sums)?;
    let mut evaluated = Sums::default();
    evaluate(model, &[&examples[0], &examples[1]], &mut evaluated)?;
    // Not a gradient, but compared the same way.
    let loss = Tensor::new(&[evaluated.loss as f32], &Device::Cpu)?;
    sums.gradients.insert("evaluated".to_owned(), loss);
    Ok(sums)
}

/// Errors of the loss, of the loss without gradients, and of the worst gradient.
pub(super) fn losses([expected, found]: [Trainable<'_>; 2]) -> Result<[f64; 3]> {
    let (expected, found) = (sums(expected)?, sums(found)?);
    if expected.gradients.len() != found.gradients.len() {
        return Err("gradients are missing".into());
    }
    let (mut evaluated, mut worst): (f64, f64) = (0.0, 0.0);
    for (name, gradient) in &expected.gradients {
        let error = error(&found.gradients[name], gradient)?;
        match name.as_str() {
            "evaluated" => evaluated = error,
            _ => worst = worst.max(error),
        }
    }
    let loss = (found.loss - expected.loss).abs() / expected.loss;
    Ok([loss, evaluated, worst])
}

/// Clip and AdamW on given gradients: the worst movement of a variable.
pub(super) fn steps([expected, found]: [Trainable<'_>; 2]) -> Result<f64> {
    let moved = |(model, vars): Trainable<'_>| -> Result<Vec<Tensor>> {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let before: Vec<Tensor> = vars
            .values()
            .map(|var| var.as_detached_tensor().copy())
            .collect::<candle_core::Result<_>>()?;
        let mut optimiser = AdamW::new(AdamWSettings::with_decay(0.1), vars)?;
        for _ in 0..2 {
            let mut gradients = Tensors::new();
            for (name, var) in vars {
                let gradient = random(&mut rng, var.dims(), 1.0)?;
                gradients.insert(name.clone(), gradient.to_device(model.device())?);
            }
            clip(&mut gradients, 1.0)?;
            optimiser.step(vars, &gradients, 1e-2)?;
        }
        let after = vars.values().zip(before);
        let moved = after.map(|(var, before)| Ok((var.as_detached_tensor() - before)?));
        moved.collect()
    };
    let mut worst: f64 = 0.0;
    for (found, expected) in moved(found)?.iter().zip(moved(expected)?) {
        worst = worst.max(error(found, &expected)?);
    }
    Ok(worst)
}
