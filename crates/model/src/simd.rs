//! Loops over f32 values that compilers do not vectorise by themselves: exponentials and what is built of them.

/// `x <- exp(x - shift)`; returns the sum.
pub(crate) fn exp_and_sum(x: &mut [f32], shift: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the instructions were just detected.
        return unsafe { avx512::exp_and_sum(x, shift) };
    }
    #[cfg(target_arch = "x86_64")]
    if avx2::is_available() {
        // SAFETY: the instructions were just detected.
        return unsafe { avx2::exp_and_sum(x, shift) };
    }
    let mut sum = 0.0;
    for x in x {
        *x = (*x - shift).exp();
        sum += *x;
    }
    sum
}

/// Largest value; minus infinity of none.
pub(crate) fn max(x: &[f32]) -> f32 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the instructions were just detected.
        return unsafe { avx512::max(x) };
    }
    #[cfg(target_arch = "x86_64")]
    if avx2::is_available() {
        // SAFETY: the instructions were just detected.
        return unsafe { avx2::max(x) };
    }
    x.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

/// `gate <- silu(gate) * up`.
pub(crate) fn swiglu(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the instructions were just detected, the lengths agree.
        return unsafe { avx512::swiglu(gate, up) };
    }
    #[cfg(target_arch = "x86_64")]
    if avx2::is_available() {
        // SAFETY: the instructions were just detected, the lengths agree.
        return unsafe { avx2::swiglu(gate, up) };
    }
    for (g, u) in gate.iter_mut().zip(up) {
        *g = *g / (1.0 + (-*g).exp()) * u;
    }
}

/// Gradients of `silu(gate) * up`: `gate` and `up` are replaced by theirs.
///
/// With `s = sigmoid(g)`: `dg = dy * u * s * (1 + g * (1 - s))`, `du = dy * g * s`.
pub(crate) fn swiglu_backward(gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
    assert!(gate.len() == up.len() && gate.len() == dy.len());
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the instructions were just detected, the lengths agree.
        return unsafe { avx512::swiglu_backward(gate, up, dy) };
    }
    #[cfg(target_arch = "x86_64")]
    if avx2::is_available() {
        // SAFETY: the instructions were just detected, the lengths agree.
        return unsafe { avx2::swiglu_backward(gate, up, dy) };
    }
    for ((g, u), dy) in gate.iter_mut().zip(up).zip(dy) {
        let s = 1.0 / (1.0 + (-*g).exp());
        let du = dy * *g * s;
        *g = dy * *u * s * (1.0 + *g * (1.0 - s));
        *u = du;
    }
}

/// The same for CPUs with AVX2: loops that the compiler turns into its instructions.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    const LANES: usize = 16;

    pub(super) fn is_available() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    /// As [`super::avx512`]'s.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn exp(x: f32) -> f32 {
        // Added to a small number it leaves the nearest integer in the lowest bits.
        const ROUND: f32 = 12_582_912.0;
        // Written so that a value that is no number stays none.
        let x = if x < -104.0 { -104.0 } else { x };
        let x = if x > 100.0 { 100.0 } else { x };
        let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
        let n = rounded - ROUND;
        let r = n.mul_add(-0.693_359_4, x);
        let r = n.mul_add(2.121_944_4e-4, r);
        let mut p = 1.0 / 5040.0f32;
        for c in [
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            p = p.mul_add(r, c);
        }
        // In two steps: the power alone may lie below the normal range or above all numbers.
        let n = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
        let power = |n: i32| f32::from_bits((n.wrapping_add(127) as u32) << 23);
        p * power(n >> 1) * power(n.wrapping_sub(n >> 1))
    }

    /// Calls `f` for whole arrays of lanes, then for one that holds the rest and, behind it, `fill`.
    #[inline(always)]
    fn for_lanes(x: &mut [f32], fill: f32, mut f: impl FnMut(&mut [f32; LANES])) {
        let (whole, rest) = x.as_chunks_mut::<LANES>();
        whole.iter_mut().for_each(&mut f);
        if !rest.is_empty() {
            let mut last = [fill; LANES];
            last[..rest.len()].copy_from_slice(rest);
            f(&mut last);
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn exp_and_sum(x: &mut [f32], shift: f32) -> f32 {
        let mut sums = [0f32; LANES];
        for_lanes(x, f32::NEG_INFINITY, |x| {
            for (x, sum) in x.iter_mut().zip(&mut sums) {
                *x = exp(*x - shift);
                *sum += *x;
            }
        });
        sums.iter().sum()
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn max(x: &[f32]) -> f32 {
        let mut highest = [f32::NEG_INFINITY; LANES];
        let (whole, rest) = x.as_chunks::<LANES>();
        for x in whole {
            for (highest, &x) in highest.iter_mut().zip(x) {
                *highest = if x > *highest { x } else { *highest };
            }
        }
        let all = highest.iter().chain(rest).copied();
        all.fold(f32::NEG_INFINITY, f32::max)
    }

    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn sigmoid(g: f32) -> f32 {
        1.0 / (1.0 + exp(-g))
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn swiglu(gate: &mut [f32], up: &[f32]) {
        for (g, u) in gate.iter_mut().zip(up) {
            *g = *g * sigmoid(*g) * u;
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn swiglu_backward(gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
        for ((g, u), dy) in gate.iter_mut().zip(up).zip(dy) {
            let s = sigmoid(*g);
            let du = dy * *g * s;
            *g = dy * *u * s * (1.0 + *g * (1.0 - s));
            *u = du;
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    /// `exp(x)` to about one unit in the last place: `2^n` times a polynomial in the rest (Cody and Waite 1980).
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn exp(x: __m512) -> __m512 {
        // In this order: of a value that is no number and a number the instruction takes the second.
        let x = _mm512_max_ps(_mm512_set1_ps(-104.0), x);
        let n =
            _mm512_roundscale_ps::<0>(_mm512_mul_ps(x, _mm512_set1_ps(std::f32::consts::LOG2_E)));
        // ln 2 in two parts, of which the first has few bits, so that n times it is exact.
        let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693_359_4), x);
        let r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.121_944_4e-4), r);
        let mut p = _mm512_set1_ps(1.0 / 5040.0);
        for c in [
            1.0 / 720.0,
            1.0 / 120.0,
            1.0 / 24.0,
            1.0 / 6.0,
            0.5,
            1.0,
            1.0,
        ] {
            p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(c));
        }
        _mm512_scalef_ps(p, n)
    }

    /// Calls `f` for sixteen lanes at a time; the last may be partial, which the mask says.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn for_lanes(len: usize, mut f: impl FnMut(usize, __mmask16)) {
        let whole = len / 16 * 16;
        for at in (0..whole).step_by(16) {
            f(at, !0);
        }
        if whole < len {
            f(whole, (1 << (len - whole)) - 1);
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn exp_and_sum(x: &mut [f32], shift: f32) -> f32 {
        let shift = _mm512_set1_ps(shift);
        let mut sum = _mm512_setzero_ps();
        let start = x.as_mut_ptr();
        for_lanes(x.len(), |at, mask| {
            // SAFETY: the mask keeps to the slice.
            unsafe {
                let value = exp(_mm512_sub_ps(
                    _mm512_maskz_loadu_ps(mask, start.add(at)),
                    shift,
                ));
                _mm512_mask_storeu_ps(start.add(at), mask, value);
                sum = _mm512_mask_add_ps(sum, mask, sum, value);
            }
        });
        _mm512_reduce_add_ps(sum)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn max(x: &[f32]) -> f32 {
        let mut highest = _mm512_set1_ps(f32::NEG_INFINITY);
        for_lanes(x.len(), |at, mask| {
            // SAFETY: the mask keeps to the slice.
            let x = unsafe { _mm512_maskz_loadu_ps(mask, x.as_ptr().add(at)) };
            highest = _mm512_mask_max_ps(highest, mask, highest, x);
        });
        _mm512_reduce_max_ps(highest)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sigmoid(g: __m512) -> __m512 {
        let e = exp(_mm512_sub_ps(_mm512_setzero_ps(), g));
        _mm512_div_ps(_mm512_set1_ps(1.0), _mm512_add_ps(_mm512_set1_ps(1.0), e))
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn swiglu(gate: &mut [f32], up: &[f32]) {
        let start = gate.as_mut_ptr();
        for_lanes(gate.len(), |at, mask| {
            // SAFETY: the mask keeps to the slices, which are of one length.
            unsafe {
                let g = _mm512_maskz_loadu_ps(mask, start.add(at));
                let u = _mm512_maskz_loadu_ps(mask, up.as_ptr().add(at));
                let y = _mm512_mul_ps(_mm512_mul_ps(g, sigmoid(g)), u);
                _mm512_mask_storeu_ps(start.add(at), mask, y);
            }
        });
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn swiglu_backward(gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
        let one = _mm512_set1_ps(1.0);
        let (gates, ups) = (gate.as_mut_ptr(), up.as_mut_ptr());
        for_lanes(gate.len(), |at, mask| {
            // SAFETY: the mask keeps to the slices, which are of one length.
            unsafe {
                let g = _mm512_maskz_loadu_ps(mask, gates.add(at));
                let u = _mm512_maskz_loadu_ps(mask, ups.add(at));
                let dy = _mm512_maskz_loadu_ps(mask, dy.as_ptr().add(at));
                let s = sigmoid(g);
                let du = _mm512_mul_ps(dy, _mm512_mul_ps(g, s));
                let slope = _mm512_fmadd_ps(g, _mm512_sub_ps(one, s), one);
                let dg = _mm512_mul_ps(_mm512_mul_ps(dy, u), _mm512_mul_ps(s, slope));
                _mm512_mask_storeu_ps(gates.add(at), mask, dg);
                _mm512_mask_storeu_ps(ups.add(at), mask, du);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_as_exact_as_f32_allows() {
        let x: Vec<f32> = (0..4001).map(|i| i as f32 * 0.03 - 110.0).collect();
        let mut found = x.clone();
        let sum = exp_and_sum(&mut found, 0.5);
        let mut exact = 0.0;
        for (&x, &found) in x.iter().zip(&found) {
            let expected = f64::from(x - 0.5).exp();
            exact += expected;
            // Below the normal range only the absolute error counts.
            let error = (f64::from(found) - expected).abs();
            assert!(error <= 2e-7 * expected + 1e-38, "{x}: {found} {expected}");
        }
        assert!((f64::from(sum) / exact - 1.0).abs() < 1e-5);
        assert_eq!(max(&x), x[4000]);
        assert_eq!(max(&[]), f32::NEG_INFINITY);
        let mut hidden = [f32::NEG_INFINITY, 0.0];
        assert_eq!(exp_and_sum(&mut hidden, 0.0), 1.0);
        assert!(hidden[0] < 1e-44);
        let mut wrong = [0.0, f32::NAN, 1.0];
        assert!(exp_and_sum(&mut wrong, 0.0).is_nan() && wrong[1].is_nan());
    }

    #[test]
    fn gated_activation_and_its_gradients() {
        let gate: Vec<f32> = (0..77).map(|i| i as f32 * 0.3 - 11.0).collect();
        let up: Vec<f32> = (0..77).map(|i| (i as f32).sin()).collect();
        let mut y = gate.clone();
        swiglu(&mut y, &up);
        let (mut dg, mut du) = (gate.clone(), up.clone());
        swiglu_backward(&mut dg, &mut du, &vec![0.7; 77]);
        for i in 0..77 {
            let silu = |g: f64| g / (1.0 + (-g).exp());
            let (g, u) = (f64::from(gate[i]), f64::from(up[i]));
            assert!((f64::from(y[i]) - silu(g) * u).abs() < 1e-5);
            let slope = (silu(g + 1e-5) - silu(g - 1e-5)) / 2e-5;
            assert!((f64::from(dg[i]) - 0.7 * u * slope).abs() < 1e-5);
            assert!((f64::from(du[i]) - 0.7 * silu(g)).abs() < 1e-5);
        }
    }
}
