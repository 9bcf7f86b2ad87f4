//! Hand-written backward passes against central differences and against the graph of the composed operations.

use candle_core::{Device, Tensor, Var};

use crate::attention::{Packed, causal_mask, composed};
use crate::cache::Heads;
use crate::ops::{Rotation, gate_rows, gate_rows_backward, norm_rows, norm_rows_backward};

/// Smooth, irregular values around `centre`.
fn values(count: usize, seed: f32, centre: f32) -> Vec<f32> {
    (0..count)
        .map(|i| centre + (seed + 1.7 * i as f32).sin() * 0.8)
        .collect()
}

/// Compares the gradients of `sum(w * f(inputs))`, which `pull` gives for `w`, with central differences in every entry
/// of every input. Steps of 1e-2 in f32 leave errors of some 1e-3 of the largest gradient.
fn check(
    inputs: &[Vec<f32>],
    f: impl Fn(&[Vec<f32>]) -> Vec<f32>,
    pull: impl Fn(&[Vec<f32>], &[f32]) -> Vec<Vec<f32>>,
) {
    let weights = values(f(inputs).len(), 0.3, 0.2);
    let value = |inputs: &[Vec<f32>]| -> f64 {
        let products = f(inputs).into_iter().zip(&weights);
        products.map(|(y, w)| f64::from(y) * f64::from(*w)).sum()
    };
    let gradients = pull(inputs, &weights);
    assert_eq!(gradients.len(), inputs.len());
    for (index, gradient) in gradients.iter().enumerate() {
        assert_eq!(gradient.len(), inputs[index].len());
        let largest = gradient.iter().fold(0.1f32, |m, g| m.max(g.abs()));
        for (entry, found) in gradient.iter().enumerate() {
            let at = |delta: f32| {
                let mut moved = inputs.to_vec();
                moved[index][entry] += delta;
                value(&moved)
            };
            let difference = ((at(1e-2) - at(-1e-2)) / 2e-2) as f32;
            assert!(
                (found - difference).abs() < 4e-3 * largest,
                "input {index}, entry {entry}: gradient {found}, difference {difference}"
            );
        }
    }
}

#[test]
fn rms_norm_has_its_gradient() {
    let weight = values(19, 2.0, 1.0);
    check(
        &[values(57, 0.1, 0.3)],
        |x| {
            let mut y = vec![0.0; 57];
            norm_rows(&x[0], &weight, 1e-5, &mut y);
            y
        },
        |x, dy| {
            let mut dx = vec![1.0; 57];
            norm_rows_backward(&x[0], &weight, 1e-5, dy, &mut dx);
            // It adds to what is there.
            vec![dx.into_iter().map(|v| v - 1.0).collect()]
        },
    );
}

#[test]
fn rope_has_its_gradient() {
    let rotation = Rotation::new(&[0, 3, 11], 6, 10_000.0);
    let turned = |rotation: &Rotation, x: &[f32]| {
        let mut x = x.to_vec();
        rotation.rotate(&mut x, 2);
        x
    };
    check(
        &[values(36, 0.1, 0.0)],
        |x| turned(&rotation, &x[0]),
        |_, dy| vec![turned(&rotation.inverse(), dy)],
    );
}

#[test]
fn swiglu_has_its_gradients() {
    check(
        &[values(21, 0.1, 0.0), values(21, 5.0, 0.4)],
        |x| {
            let mut gate = x[0].clone();
            gate_rows(&mut gate, &x[1]);
            gate
        },
        |x, dy| {
            let (mut gate, mut up) = (x[0].clone(), x[1].clone());
            gate_rows_backward(&mut gate, &mut up, dy);
            vec![gate, up]
        },
    );
}

/// Four heads that share two groups of keys.
fn packed<'a>(lens: &'a [usize], x: &'a [Vec<f32>], d: usize) -> Packed<'a> {
    Packed {
        query_heads: 4,
        heads: Heads { groups: 2, d },
        lens,
        q: &x[0],
        k: &x[1],
        v: &x[2],
    }
}

fn attended(attention: &Packed<'_>) -> Vec<f32> {
    let mut y = vec![f32::NAN; attention.q.len()];
    attention.forward(&mut y);
    y
}

fn pulled(attention: &Packed<'_>, y: &[f32], dy: &[f32]) -> [Vec<f32>; 3] {
    let mut found = [attention.q, attention.k, attention.v].map(|x| vec![f32::NAN; x.len()]);
    let [dq, dk, dv] = &mut found;
    attention.backward(y, dy, [dq, dk, dv]);
    found
}

#[test]
fn attention_has_its_gradients() {
    let inputs = [
        values(5 * 16, 0.1, 0.0),
        values(5 * 8, 5.0, 0.1),
        values(5 * 8, 9.0, 0.2),
    ];
    check(
        &inputs,
        |x| attended(&packed(&[3, 2], x, 4)),
        |x, dy| {
            let attention = packed(&[3, 2], x, 4);
            pulled(&attention, &attended(&attention), dy).into()
        },
    );
}

/// More queries than one block holds, against the composition that other devices use and its graph.
#[test]
fn attention_equals_its_composition() {
    let (n, d) = (137, 8);
    let inputs = [
        values(n * 4 * d, 0.1, 0.0),
        values(n * 2 * d, 5.0, 0.1),
        values(n * 2 * d, 9.0, 0.2),
    ];
    let lens = [n];
    let attention = packed(&lens, &inputs, d);
    let vars: Vec<Var> = inputs
        .iter()
        .zip([4, 2, 2])
        .map(|(x, heads)| {
            let x = Tensor::from_vec(x.clone(), (n, heads, d), &Device::Cpu).unwrap();
            Var::from_tensor(&x).unwrap()
        })
        .collect();
    let [q, k, v] = [0, 1, 2].map(|i| vars[i].as_tensor().clone());
    let mask = causal_mask(n, n, &Device::Cpu).unwrap();
    let expected = composed(&q, &k, &v, mask.as_ref()).unwrap();
    let close = |found: &[f32], expected: &Tensor, what: &str| {
        let expected: Vec<f32> = expected.flatten_all().unwrap().to_vec1().unwrap();
        assert_eq!(found.len(), expected.len());
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 2e-5, "{what}: {a} {b}");
        }
    };
    let y = attended(&attention);
    close(&y, &expected, "forward");
    let dy = values(y.len(), 0.4, 0.0);
    let weights = Tensor::from_slice(&dy, (n, 4, d), &Device::Cpu).unwrap();
    let graph = (expected * weights)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
    for ((found, var), name) in pulled(&attention, &y, &dy)
        .iter()
        .zip(&vars)
        .zip(["q", "k", "v"])
    {
        close(found, graph.get(var).unwrap(), name);
    }
}
