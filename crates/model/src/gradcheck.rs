//! Hand-written backward passes against central differences.

use candle_core::{Device, Result, Tensor, Var};

use crate::attention::{attention, composed};
use crate::ops::{Rotation, rms_norm, rope, swiglu};

/// Smooth, irregular values around `centre`.
fn values(dims: &[usize], seed: f32, centre: f32) -> Tensor {
    let count = dims.iter().product::<usize>();
    let values = (0..count).map(|i| centre + (seed + 1.7 * i as f32).sin() * 0.8);
    Tensor::from_vec(values.collect::<Vec<f32>>(), dims, &Device::Cpu).unwrap()
}

/// Compares the gradient of `sum(w * f(inputs))` with central differences in every entry of every input.
/// Steps of 1e-2 in f32 leave errors of some 1e-3 of the largest gradient.
fn check(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let vars: Vec<Var> = inputs
        .iter()
        .map(|t| Var::from_tensor(t).unwrap())
        .collect();
    let value = || {
        let tracked: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
        let y = f(&tracked).unwrap();
        let weights = values(y.dims(), 0.3, 0.2);
        (y * weights).unwrap().sum_all().unwrap()
    };
    let gradients = value().backward().unwrap();
    for (index, var) in vars.iter().enumerate() {
        let gradient = gradients
            .get(var)
            .unwrap_or_else(|| panic!("input {index} has no gradient"));
        let gradient: Vec<f32> = gradient.flatten_all().unwrap().to_vec1().unwrap();
        let base: Vec<f32> = var.flatten_all().unwrap().to_vec1().unwrap();
        let largest = gradient.iter().fold(0.1f32, |m, g| m.max(g.abs()));
        for entry in 0..base.len() {
            let at = |delta: f32| -> f32 {
                let mut moved = base.clone();
                moved[entry] += delta;
                var.set(&Tensor::from_vec(moved, var.shape(), &Device::Cpu).unwrap())
                    .unwrap();
                value().to_scalar().unwrap()
            };
            let difference = (at(1e-2) - at(-1e-2)) / 2e-2;
            at(0.0);
            let found = gradient[entry];
            assert!(
                (found - difference).abs() < 4e-3 * largest,
                "input {index}, entry {entry}: gradient {found}, difference {difference}"
            );
        }
    }
}

#[test]
fn rms_norm_has_its_gradient() {
    let weight = values(&[8], 2.0, 1.0);
    check(&[values(&[3, 8], 0.1, 0.3)], |x| {
        rms_norm(&x[0], &weight, 1e-5)
    });
}

#[test]
fn rope_has_its_gradient() {
    let rotation = Rotation::new(&[0, 3, 11], 6, 10_000.0);
    check(&[values(&[3, 2, 6], 0.1, 0.0)], |x| rope(&x[0], &rotation));
}

#[test]
fn swiglu_has_its_gradients() {
    check(
        &[values(&[2, 7], 0.1, 0.0), values(&[2, 7], 5.0, 0.4)],
        |x| swiglu(&x[0], &x[1]),
    );
}

#[test]
fn attention_has_its_gradients() {
    // Four heads share two groups of keys; two keys lie before the first query.
    let inputs = [
        values(&[3, 4, 4], 0.1, 0.0),
        values(&[5, 2, 4], 5.0, 0.1),
        values(&[5, 2, 4], 9.0, 0.2),
    ];
    check(&inputs, |x| attention(&x[0], &x[1], &x[2]));
}

/// More queries than one block holds, against the composition that other devices use.
#[test]
fn attention_equals_its_composition() {
    let (q, k, v) = (
        values(&[130, 4, 8], 0.1, 0.0),
        values(&[137, 2, 8], 5.0, 0.1),
        values(&[137, 2, 8], 9.0, 0.2),
    );
    let vars = [&q, &k, &v].map(|t| Var::from_tensor(t).unwrap());
    let tracked = || [0, 1, 2].map(|i| vars[i].as_tensor().clone());
    let [q, k, v] = tracked();
    let (fused, plain) = (
        attention(&q, &k, &v).unwrap(),
        composed(&q, &k, &v).unwrap(),
    );
    let close = |a: &Tensor, b: &Tensor, what: &str| {
        let difference = (a - b)
            .unwrap()
            .abs()
            .unwrap()
            .flatten_all()
            .unwrap()
            .max(0)
            .unwrap();
        let difference: f32 = difference.to_scalar().unwrap();
        assert!(difference < 2e-5, "{what}: {difference}");
    };
    close(&fused, &plain, "forward");
    let weights = values(fused.dims(), 0.4, 0.0);
    let gradients = |y: Tensor| {
        (y * &weights)
            .unwrap()
            .sum_all()
            .unwrap()
            .backward()
            .unwrap()
    };
    let (a, b) = (gradients(fused), gradients(plain));
    for (var, name) in vars.iter().zip(["q", "k", "v"]) {
        close(a.get(var).unwrap(), b.get(var).unwrap(), name);
    }
}
