use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};

use super::*;
use crate::matrix::{Compute, HostMatrix, Values};
use crate::packed::Packed;

fn values(n: usize, seed: u64) -> Vec<bf16> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let value = |_| bf16::from_f32(rng.random_range(-1.0..1.0));
    (0..n).map(value).collect()
}

#[test]
fn products_are_those_of_the_definition() {
    if !is_available() {
        eprintln!("no AMX here: nothing was compared");
        return;
    }
    for shape in [
        (16, 16, 16),
        (32, 32, 32),
        (48, 80, 96),
        (16, 48, 48),
        (80, 16, 2048),
    ] {
        let (m, n, k) = shape;
        // Rows lie further apart than they are long.
        let (a, b) = (values(m * (k + 8), 1), values((n + k + 8) * (n + k + 8), 2));
        let a = Operand::new(&a, k + 8);
        let b = Operand::new(&b, n + k + 8);
        for (b, accumulate) in [(b, false), (b, true), (b.t(), false), (b.t(), true)] {
            let mut c = vec![0.5f32; m * (n + 3)];
            // SAFETY: all operands are larger than the shape says; the instructions were detected.
            assert!(unsafe { matmul(shape, a, b, c.as_mut_ptr(), n + 3, accumulate) });
            for (at, &found) in c.iter().enumerate() {
                let (i, j) = (at / (n + 3), at % (n + 3));
                let entry = |x: Operand<bf16>, row: usize, column: usize| {
                    let at = match x.transposed {
                        true => column * x.stride + row,
                        false => row * x.stride + column,
                    };
                    // SAFETY: the operands are larger than the shape.
                    f64::from(unsafe { *x.start.add(at) })
                };
                let sum: f64 = (0..k)
                    .map(|l| entry(a, i, l) * entry(b, l, j.min(n - 1)))
                    .sum();
                let expected = match (j < n, accumulate) {
                    (true, true) => sum + 0.5,
                    (true, false) => sum,
                    (false, _) => 0.5,
                };
                let gap = (f64::from(found) - expected).abs();
                assert!(
                    gap < 1e-5 * k as f64,
                    "{shape:?} [{i}, {j}]: {found}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn a_row_has_the_same_bits_beside_any_others() {
    if !is_available() {
        eprintln!("no AMX here: nothing was compared");
        return;
    }
    for (n, k) in [(48, 224), (48, 240)] {
        let (a, b) = (values(64 * k, 3), values(n * k, 4));
        let product = |m: usize| {
            let mut c = vec![0f32; m * n];
            let (a, b) = (Operand::new(&a, k), Operand::new(&b, k).t());
            // SAFETY: as above.
            assert!(unsafe { matmul((m, n, k), a, b, c.as_mut_ptr(), n, false) });
            c
        };
        let all = product(64);
        for m in [16, 32, 48] {
            assert_eq!(product(m), all[..m * n]);
        }
    }
}

#[test]
fn other_shapes_are_left_to_others() {
    assert_eq!(depth((16, 16, 32)), is_available().then_some(32));
    assert_eq!(depth((16, 16, 48)), is_available().then_some(16));
    for shape in [
        (8, 16, 32),
        (16, 8, 32),
        (16, 16, 8),
        (0, 16, 16),
        (16, 16, 0),
    ] {
        assert_eq!(depth(shape), None);
    }
}

#[test]
fn weights_for_integers_give_the_products_of_their_values() {
    if !is_available() {
        eprintln!("no AMX here: nothing was compared");
        return;
    }
    let (m, rows, cols) = (48, 208, 512);
    let dense: Vec<f32> = values(rows * cols, 5)
        .into_iter()
        .map(bf16::to_f32)
        .collect();
    let dense = Tensor::from_vec(dense, (rows, cols), &Device::Cpu).unwrap();
    let x = values(m * cols, 6);
    // Groups of 16 and 32, with and without offsets.
    for dtype in [
        GgmlDType::Q5_0,
        GgmlDType::Q8_0,
        GgmlDType::Q2K,
        GgmlDType::Q4K,
        GgmlDType::Q6K,
    ] {
        let bytes = QTensor::quantize(&dense, dtype).unwrap();
        let bytes = bytes.data().unwrap();
        let packed = || Packed::from_ggml(dtype, &bytes, cols).unwrap();
        let matrix = HostMatrix::new(cols, Values::Packed(packed()), Compute::Bf16);
        for accumulate in [false, true] {
            let (mut found, mut expected) = (vec![0.5f32; m * rows], vec![0.5f32; m * rows]);
            let panels = Panels::new(&packed()).unwrap();
            let out = SharedOut::over(&mut found);
            assert!(product(&panels, &x, &out, accumulate));
            let out = SharedOut::over(&mut expected);
            crate::panels::forward(&matrix, None, &x, &out, accumulate);
            assert_eq!(found, expected, "{dtype:?}");
        }
    }
}
