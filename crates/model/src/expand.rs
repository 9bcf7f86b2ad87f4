//! Conversions of stored weights and of activations into the types that products are computed in.

use half::{bf16, f16};

/// A type that products are computed in.
pub(crate) trait Element: Copy + Default + Send + Sync + 'static {
    /// Same-length conversion.
    fn from_f32(values: &[f32], out: &mut [Self]);
    /// Same-length conversion.
    fn from_f16(values: &[f16], out: &mut [Self]);
    /// Same-length conversion.
    fn from_bf16(values: &[bf16], out: &mut [Self]);
    /// `scale * q - offset` for each of 16 or 32 weights.
    fn from_scaled(q: &[i8], scale: f32, offset: f32, out: &mut [Self]);
}

impl Element for f32 {
    fn from_f32(values: &[f32], out: &mut [f32]) {
        out.copy_from_slice(values);
    }

    fn from_f16(values: &[f16], out: &mut [f32]) {
        out.iter_mut()
            .zip(values)
            .for_each(|(o, v)| *o = v.to_f32());
    }

    fn from_bf16(values: &[bf16], out: &mut [f32]) {
        out.iter_mut()
            .zip(values)
            .for_each(|(o, v)| *o = v.to_f32());
    }

    fn from_scaled(q: &[i8], scale: f32, offset: f32, out: &mut [f32]) {
        #[inline(always)]
        fn each(q: &[i8], scale: f32, offset: f32, out: &mut [f32]) {
            for (out, &q) in out.iter_mut().zip(q) {
                *out = scale * f32::from(q) - offset;
            }
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            #[target_feature(enable = "avx2")]
            fn avx2(q: &[i8], scale: f32, offset: f32, out: &mut [f32]) {
                each(q, scale, offset, out);
            }
            // SAFETY: the instructions were just detected.
            return unsafe { avx2(q, scale, offset, out) };
        }
        each(q, scale, offset, out);
    }
}

impl Element for bf16 {
    fn from_f32(values: &[f32], out: &mut [bf16]) {
        assert!(values.len() == out.len());
        #[cfg(target_arch = "x86_64")]
        if x86::available() {
            // SAFETY: the instructions were just detected, the lengths agree.
            return unsafe { x86::round(values, out) };
        }
        out.iter_mut()
            .zip(values)
            .for_each(|(o, v)| *o = bf16::from_f32(*v));
    }

    fn from_f16(values: &[f16], out: &mut [bf16]) {
        out.iter_mut()
            .zip(values)
            .for_each(|(o, v)| *o = bf16::from_f32(v.to_f32()));
    }

    fn from_bf16(values: &[bf16], out: &mut [bf16]) {
        out.copy_from_slice(values);
    }

    fn from_scaled(q: &[i8], scale: f32, offset: f32, out: &mut [bf16]) {
        assert!(q.len() == out.len() && q.len().is_multiple_of(16));
        #[cfg(target_arch = "x86_64")]
        if x86::available() {
            // SAFETY: the instructions were just detected, the lengths agree.
            return unsafe { x86::scale(q, scale, offset, out) };
        }
        for (out, &q) in out.iter_mut().zip(q) {
            *out = bf16::from_f32(scale * f32::from(q) - offset);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use half::bf16;

    pub(super) fn available() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512bf16")
    }

    /// # Safety
    /// The CPU has the instructions; the lengths agree.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn round(values: &[f32], out: &mut [bf16]) {
        let mut outs = out.chunks_exact_mut(16);
        let mut ins = values.chunks_exact(16);
        for (out, values) in outs.by_ref().zip(ins.by_ref()) {
            // SAFETY: both chunks hold sixteen values.
            unsafe { store(_mm512_loadu_ps(values.as_ptr()), out) };
        }
        for (out, value) in outs.into_remainder().iter_mut().zip(ins.remainder()) {
            *out = bf16::from_f32(*value);
        }
    }

    /// # Safety
    /// The CPU has the instructions; the lengths agree and are multiples of 16.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    pub(super) unsafe fn scale(q: &[i8], scale: f32, offset: f32, out: &mut [bf16]) {
        let (scale, offset) = (_mm512_set1_ps(scale), _mm512_set1_ps(offset));
        for (out, q) in out.chunks_exact_mut(16).zip(q.chunks_exact(16)) {
            // SAFETY: both chunks hold sixteen values.
            unsafe {
                let q = _mm_loadu_si128(q.as_ptr().cast());
                let q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q));
                store(_mm512_sub_ps(_mm512_mul_ps(q, scale), offset), out);
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions; `out` holds sixteen values.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
    unsafe fn store(values: __m512, out: &mut [bf16]) {
        // SAFETY: both types are 256 bits of any value; the caller promises the room.
        unsafe {
            let rounded: __m256i = std::mem::transmute(_mm512_cvtneps_pbh(values));
            _mm256_storeu_si256(out.as_mut_ptr().cast(), rounded);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_nearest_even() {
        let values: Vec<f32> = (0..77)
            .map(|i| (i as f32 * 0.77).sin() * 10f32.powi(i % 9 - 4))
            .collect();
        let mut found = vec![bf16::ZERO; 77];
        <bf16 as Element>::from_f32(&values, &mut found);
        let expected: Vec<bf16> = values.iter().map(|&v| bf16::from_f32_const(v)).collect();
        assert_eq!(found, expected);
        let q: Vec<i8> = (0..32).map(|i| (i * 7 - 100) as i8).collect();
        let (mut wide, mut narrow) = (vec![0f32; 32], vec![bf16::ZERO; 32]);
        f32::from_scaled(&q, 0.013, 0.4, &mut wide);
        bf16::from_scaled(&q, 0.013, 0.4, &mut narrow);
        let expected: Vec<bf16> = wide.iter().map(|&v| bf16::from_f32_const(v)).collect();
        assert_eq!(narrow, expected);
    }
}
