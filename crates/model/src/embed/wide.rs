//! Loops compiled for the vector instructions of the CPU at hand.

/// Defines a function whose body is compiled once for each instruction set named here and called in
/// the widest form that the CPU has. The loops inside are ordinary Rust; the compiler vectorises them.
macro_rules! widest {
    ($(#[$meta:meta])* fn $name:ident($($arg:ident: $kind:ty),* $(,)?) $body:block) => {
        $(#[$meta])*
        fn $name($($arg: $kind),*) {
            #[inline(always)]
            fn body($($arg: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
                fn avx512($($arg: $kind),*) {
                    body($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $kind),*) {
                    body($($arg),*);
                }
                let fma = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
                if fma
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw")
                {
                    // SAFETY: the instructions were just detected.
                    return unsafe { avx512($($arg),*) };
                }
                if fma {
                    // SAFETY: the instructions were just detected.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*);
        }
    };
}
pub(super) use widest;

/// Values that a loop takes at once: one register of the widest kind.
pub(super) const LANES: usize = 16;

/// The error function, to about 2e-7: a polynomial in `x^2` for `|x| < 3.9`, beyond which the
/// function differs from one by less than 4e-8.
#[inline(always)]
pub(super) fn erf(x: f32) -> f32 {
    const END: f32 = 3.9;
    /// Of `erf(x) / x` in powers of `2 x^2 / END^2 - 1`, the lowest first: a least-squares fit at
    /// Chebyshev points, weighted until its largest error (2e-8 before rounding) no longer fell.
    const COEFFICIENTS: [f32; 16] = [
        0.362_583_97,
        -0.181_011_08,
        0.134_690_82,
        -0.109_532_22,
        0.090_674_85,
        -0.073_805_85,
        0.057_871_934,
        -0.042_762_65,
        0.029_246_37,
        -0.019_603_383,
        0.013_395_522,
        -0.007_024_924_3,
        0.002_056_817_3,
        -0.001_539_564_5,
        0.001_874_341_3,
        -0.000_704_704_43,
    ];
    let near = x.clamp(-END, END);
    let u = (near * near).mul_add(2.0 / (END * END), -1.0);
    let mut quotient = COEFFICIENTS[15];
    for i in (0..15).rev() {
        quotient = quotient.mul_add(u, COEFFICIENTS[i]);
    }
    quotient * near
}

/// The sum of a slice in a fixed order: lane by lane, then over the lanes, then the rest.
#[inline(always)]
pub(super) fn sum(values: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += f(value);
        }
    }
    lanes.iter().sum::<f32>() + rest.iter().map(|&value| f(value)).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_is_exact_to_its_last_digits() {
        let mut largest = 0f64;
        for i in -60_000..=60_000 {
            let x = i as f32 * 1e-4;
            let exact = candle_core::cpu::erf::erf_f64(f64::from(x));
            largest = largest.max((f64::from(erf(x)) - exact).abs());
        }
        assert!(largest < 2.5e-7, "largest error {largest}");
        assert_eq!(erf(0.0), 0.0);
        assert!(erf(f32::NAN).is_nan());
    }

    #[test]
    fn sums_take_the_rest_too() {
        let values: Vec<f32> = (0..37).map(|i| i as f32).collect();
        assert_eq!(sum(&values, |v| v), 666.0);
        assert_eq!(sum(&values, |v| v * v), 16_206.0);
    }
}
