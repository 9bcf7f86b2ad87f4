//! Dot products of packed weights with f32 activations: what single-stream decode spends its time on.
//!
//! Compilers do not vectorise the widening from `i8`, hence the intrinsics; every path sums sixteen or eight
//! lanes in a fixed order, so that a machine gives the same bytes each time.

/// `sum_g scale[g] * sum_{i in g} q[i] x[i]` over groups of `group` (16 or 32) weights, with the widest
/// instructions that the CPU has.
///
/// # Panics
/// When `q` and `x` differ in length or `scale` does not have one entry a group.
pub(crate) fn dot_scaled(group: usize, q: &[i8], scale: &[f32], x: &[f32]) -> f32 {
    match group {
        16 => dot::<16>(q, scale, x),
        32 => dot::<32>(q, scale, x),
        _ => panic!("groups of {group} weights"),
    }
}

fn dot<const G: usize>(q: &[i8], scale: &[f32], x: &[f32]) -> f32 {
    assert!(q.len() == x.len() && q.len() == scale.len() * G);
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            // SAFETY: the instructions were just detected.
            return unsafe { x86::dot_avx512::<G>(q, scale, x) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the instructions were just detected.
            return unsafe { x86::dot_avx2::<G>(q, scale, x) };
        }
    }
    dot_portable::<G>(q, scale, x)
}

fn dot_portable<const G: usize>(q: &[i8], scale: &[f32], x: &[f32]) -> f32 {
    let groups = q.chunks_exact(G).zip(x.chunks_exact(G)).zip(scale);
    let sums =
        groups.map(|((q, x), s)| s * q.iter().zip(x).map(|(&q, x)| f32::from(q) * x).sum::<f32>());
    sums.sum()
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// # Safety
    /// The CPU has the instructions; the lengths are as [`super::dot_scaled`] checks.
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn dot_avx512<const G: usize>(q: &[i8], scale: &[f32], x: &[f32]) -> f32 {
        // Two running sums take turns: one would wait for its own last addition.
        let (mut sum, mut other) = (_mm512_setzero_ps(), _mm512_setzero_ps());
        for ((q, x), &s) in q.chunks_exact(G).zip(x.chunks_exact(G)).zip(scale) {
            let mut part = _mm512_setzero_ps();
            for at in 0..G / 16 {
                // SAFETY: both chunks hold G values, of which these are 16.
                let (q, x) = unsafe {
                    let q = _mm_loadu_si128(q.as_ptr().add(16 * at).cast());
                    (q, _mm512_loadu_ps(x.as_ptr().add(16 * at)))
                };
                part = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), x, part);
            }
            let added = _mm512_fmadd_ps(part, _mm512_set1_ps(s), sum);
            (sum, other) = (other, added);
        }
        _mm512_reduce_add_ps(_mm512_add_ps(sum, other))
    }

    /// # Safety
    /// The CPU has the instructions; the lengths are as [`super::dot_scaled`] checks.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn dot_avx2<const G: usize>(q: &[i8], scale: &[f32], x: &[f32]) -> f32 {
        let (mut sum, mut other) = (_mm256_setzero_ps(), _mm256_setzero_ps());
        for ((q, x), &s) in q.chunks_exact(G).zip(x.chunks_exact(G)).zip(scale) {
            let mut part = _mm256_setzero_ps();
            for at in 0..G / 8 {
                // SAFETY: both chunks hold G values, of which these are 8.
                let (q, x) = unsafe {
                    let q = _mm_loadl_epi64(q.as_ptr().add(8 * at).cast());
                    (q, _mm256_loadu_ps(x.as_ptr().add(8 * at)))
                };
                part = _mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(q)), x, part);
            }
            let added = _mm256_fmadd_ps(part, _mm256_set1_ps(s), sum);
            (sum, other) = (other, added);
        }
        let mut lanes = [0f32; 8];
        // SAFETY: eight lanes go into eight values.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), _mm256_add_ps(sum, other)) };
        lanes.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const G: usize>() {
        let q: Vec<i8> = (0..320i32).map(|i| (i * 37 % 255 - 127) as i8).collect();
        let x: Vec<f32> = (0..320).map(|i| (i as f32 * 0.3).sin()).collect();
        let scale: Vec<f32> = (0..320 / G).map(|i| 0.01 + 0.001 * i as f32).collect();
        let products = q.iter().zip(&x).enumerate();
        let exact: f64 = products
            .map(|(i, (&q, &x))| f64::from(scale[i / G]) * f64::from(q) * f64::from(x))
            .sum();
        let mut found = vec![
            dot_portable::<G>(&q, &scale, &x),
            dot_scaled(G, &q, &scale, &x),
        ];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: just detected.
            found.push(unsafe { x86::dot_avx2::<G>(&q, &scale, &x) });
        }
        for found in found {
            assert!((f64::from(found) - exact).abs() < 1e-4, "{found} {exact}");
        }
    }

    #[test]
    fn every_path_gives_the_same_product() {
        check::<16>();
        check::<32>();
    }
}
