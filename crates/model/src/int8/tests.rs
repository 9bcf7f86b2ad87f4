use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use rand::{Rng, SeedableRng};

use super::*;

fn values(n: usize, seed: u64) -> Vec<f32> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    (0..n).map(|_| rng.random_range(-1.0..1.3)).collect()
}

fn packed(dtype: GgmlDType, rows: usize, cols: usize) -> Packed {
    let dense = Tensor::from_vec(values(rows * cols, 2), (rows, cols), &Device::Cpu).unwrap();
    let quantised = QTensor::quantize(&dense, dtype).unwrap();
    Packed::from_ggml(dtype, &quantised.data().unwrap(), cols).unwrap()
}

/// One output of one row in plain loops, in the order of the kernel.
fn plain<const N: usize>(weights: &Packed, output: usize, x: &[Group<N>]) -> f32 {
    let (q, scale, offset) = weights.parts();
    let mut sum = 0f32;
    for (g, x) in x.iter().enumerate() {
        let group = output * (weights.cols / N) + g;
        let q = &q[group * N..][..N];
        let pairs = q.iter().zip(&x.q);
        let exact: i32 = pairs.map(|(&w, &x)| i32::from(w) * i32::from(x)).sum();
        sum = (exact as f32).mul_add(scale[group] * x.scale, sum);
        if let Some(offset) = offset.get(group) {
            sum = (-offset).mul_add(x.total, sum);
        }
    }
    sum
}

/// What this CPU can multiply with.
fn engines() -> Vec<Engine> {
    let mut engines = vec![Engine::Vnni, Engine::Avx2];
    engines.retain(|engine| engine.is_available());
    if engines.is_empty() {
        eprintln!("skipped: this CPU has neither AVX512-VNNI nor AVX2");
    }
    engines
}

fn check<const N: usize>(dtype: GgmlDType, rows: usize, cols: usize) {
    for engine in engines() {
        check_by::<N>(
            engine,
            &packed(dtype, rows, cols),
            &format!("{engine:?} {dtype:?}"),
        );
    }
}

fn check_by<const N: usize>(engine: Engine, weights: &Packed, name: &str) {
    let (rows, cols) = (weights.rows(), weights.cols);
    let panels = Panels::by(engine, weights);
    let m = 13;
    let mut x = values(m * cols, 5);
    // Rows of different sizes, a group of zeroes, and the largest values at both ends.
    x.iter_mut()
        .enumerate()
        .for_each(|(i, x)| *x *= 1.5f32.powi((i / cols) as i32));
    x[..32].fill(0.0);
    x[cols] = -1e3;
    x[2 * cols - 1] = 1e3;
    x[3 * cols..4 * cols].fill(1.0);
    x[4 * cols..5 * cols].fill(-1.0);
    let quantised = quantise_by::<N>(Some(engine), &x);
    let mut y = vec![f32::NAN; m * rows];
    panels.product(&quantised, &SharedOut::over(&mut y), false);
    let mut expanded = vec![0f32; cols];
    let mut looked_up = vec![0f32; cols];
    for output in 0..rows {
        weights.expand(output, 0, &mut expanded);
        panels.expand(output, 0, &mut looked_up);
        assert_eq!(looked_up, expanded);
    }
    for row in 0..m {
        let groups = &quantised[row * cols / N..(row + 1) * cols / N];
        let x = &x[row * cols..(row + 1) * cols];
        let mut alone = vec![1f32; rows];
        panels.product(groups, &SharedOut::over(&mut alone), true);
        for output in 0..rows {
            let found = y[row * rows + output];
            assert_eq!(
                found,
                plain(weights, output, groups),
                "{name} {row} {output}"
            );
            assert_eq!(
                alone[output],
                found + 1.0,
                "a row depends on its neighbours"
            );
            // Each activation is off by half a step at most; a little more for the f32 sums.
            weights.expand(output, 0, &mut expanded);
            let (mut exact, mut bound) = (0f64, 0f64);
            for (k, (w, x)) in expanded.iter().zip(x).enumerate() {
                let (w, x) = (f64::from(*w), f64::from(*x));
                exact += w * x;
                bound += w.abs() * 0.5 * f64::from(groups[k / N].scale) + 1e-5 * (w * x).abs();
            }
            assert!(
                (f64::from(found) - exact).abs() <= bound,
                "{found} {exact} {bound}"
            );
        }
    }
}

#[test]
fn sums_are_exact_and_errors_within_half_a_step() {
    for (rows, cols) in [(64, 256), (150, 512), (7, 768)] {
        check::<32>(GgmlDType::Q4K, rows, cols);
        check::<32>(GgmlDType::Q5K, rows, cols);
        check::<16>(GgmlDType::Q6K, rows, cols);
        check::<16>(GgmlDType::Q3K, rows, cols);
        check::<16>(GgmlDType::Q2K, rows, cols);
    }
    for (rows, cols) in [(64, 96), (33, 32), (81, 896)] {
        check::<32>(GgmlDType::Q8_0, rows, cols);
        check::<32>(GgmlDType::Q5_0, rows, cols);
        check::<32>(GgmlDType::Q5_1, rows, cols);
        check::<32>(GgmlDType::Q4_0, rows, cols);
        check::<32>(GgmlDType::Q4_1, rows, cols);
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for engine in engines() {
        let weights = Panels::by(engine, &packed(GgmlDType::Q8_0, 3, 64));
        for wrong in [f32::NAN, f32::INFINITY] {
            let mut x = values(64, 1);
            x[40] = wrong;
            let mut y = vec![0f32; 3];
            let x = quantise_by::<32>(Some(engine), &x);
            weights.product(&x, &SharedOut::over(&mut y), false);
            assert!(y.iter().all(|y| y.is_nan()), "{engine:?} {y:?}");
        }
        let tiny = quantise_by::<16>(Some(engine), &[1e-38; 16]);
        assert_eq!(tiny[0].q, [0; 16]);
    }
}

/// The largest sums that weights of a size can give, of either sign.
#[test]
fn no_sum_overflows() {
    let sizes = [(-8, 8), (-9, 8), (-16, 16), (-32, 32), (-128, 127)];
    for (lowest, highest) in sizes {
        // Rows of 64 weights: a scale of one before every 32.
        let row = |weights: [i8; 2]| {
            let group = |weight| [&[0, 0x3c], &[weight as u8; 32][..]].concat();
            weights.map(group).concat()
        };
        let rows = [[highest, highest], [lowest, lowest], [highest, lowest]];
        let weights = Packed::from_ggml(GgmlDType::Q8_0, &rows.map(row).concat(), 64).unwrap();
        for engine in engines() {
            check_by::<32>(
                engine,
                &weights,
                &format!("{engine:?} {lowest} to {highest}"),
            );
        }
    }
}
