//! GGML-quantised matrices as the CPU reads them: one `i8` a weight, a scale (and for some types an
//! offset) a group of 16 or 32. Every value equals the one that GGML's own dequantisation gives:
//! nothing is rounded again, so prefill, decode and training see the same weights.

use candle_core::quantized::GgmlDType;
use half::f16;

use crate::expand::Element;

/// A quantised matrix `[rows, cols]`; value = `scale * q - offset`.
pub(crate) struct Packed {
    pub(crate) cols: usize,
    group: usize,
    q: Vec<i8>,
    scale: Vec<f32>,
    /// Empty where the type has none.
    offset: Vec<f32>,
}

/// One group on its way into a [`Packed`].
struct Sink {
    q: Vec<i8>,
    scale: Vec<f32>,
    offset: Vec<f32>,
}

fn f16_at(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

impl Packed {
    /// Unpacks GGML blocks of rows of `cols` weights, a multiple of the type's block; `None` for types
    /// that are not block-quantised weights.
    pub(crate) fn from_ggml(dtype: GgmlDType, bytes: &[u8], cols: usize) -> Option<Self> {
        let (unpack, group): (fn(&[u8], &mut Sink), usize) = match dtype {
            GgmlDType::Q4_0 => (q4_0, 32),
            GgmlDType::Q4_1 => (q4_1, 32),
            GgmlDType::Q5_0 => (q5_0, 32),
            GgmlDType::Q5_1 => (q5_1, 32),
            GgmlDType::Q8_0 => (q8_0, 32),
            GgmlDType::Q2K => (q2_k, 16),
            GgmlDType::Q3K => (q3_k, 16),
            GgmlDType::Q4K => (q4_k, 32),
            GgmlDType::Q5K => (q5_k, 32),
            GgmlDType::Q6K => (q6_k, 16),
            _ => return None,
        };
        let weights = bytes.len() / dtype.type_size() * dtype.block_size();
        let mut sink = Sink {
            q: Vec::with_capacity(weights),
            scale: Vec::with_capacity(weights / group),
            offset: Vec::new(),
        };
        for block in bytes.chunks_exact(dtype.type_size()) {
            unpack(block, &mut sink);
        }
        Some(Self {
            cols,
            group,
            q: sink.q,
            scale: sink.scale,
            offset: sink.offset,
        })
    }

    pub(crate) fn rows(&self) -> usize {
        self.q.len() / self.cols
    }

    pub(crate) fn bytes(&self) -> usize {
        self.q.len() + 4 * (self.scale.len() + self.offset.len())
    }

    /// Weights of a group.
    pub(crate) fn group(&self) -> usize {
        self.group
    }

    /// All weights, the scales of all groups, and their offsets, none where the type has none.
    #[inline(always)]
    pub(crate) fn parts(&self) -> (&[i8], &[f32], &[f32]) {
        (&self.q, &self.scale, &self.offset)
    }

    /// Writes columns `start..start + out.len()` of row `row`, whole groups, into `out`.
    pub(crate) fn expand<T: Element>(&self, row: usize, start: usize, out: &mut [T]) {
        let first = row * self.cols + start;
        debug_assert!(first.is_multiple_of(self.group) && out.len().is_multiple_of(self.group));
        let q = &self.q[first..first + out.len()];
        // Backward products take narrow strips of many rows, which the memory does not foresee.
        prefetch(&self.q, first + ROWS_AHEAD * self.cols, out.len());
        let groups = q
            .chunks_exact(self.group)
            .zip(out.chunks_exact_mut(self.group));
        for (g, (q, out)) in groups.enumerate() {
            let group = first / self.group + g;
            let offset = self.offset.get(group).copied().unwrap_or(0.0);
            T::from_scaled(q, self.scale[group], offset, out);
        }
    }
}

/// Rows that a strip is asked for ahead of its turn.
const ROWS_AHEAD: usize = 8;

/// Asks the memory for values that will be read soon, if there are any.
fn prefetch(values: &[i8], first: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in values
        .get(first..first + len)
        .into_iter()
        .flat_map(|v| v.chunks(64))
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: every x86-64 CPU has the instruction; it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr()) };
    }
}

fn nibbles(bytes: &[u8], minus: i8, high_bit: impl Fn(usize) -> u8, out: &mut Vec<i8>) {
    let n = bytes.len();
    out.extend(
        bytes
            .iter()
            .enumerate()
            .map(|(i, b)| (b & 15 | high_bit(i) << 4) as i8 - minus),
    );
    out.extend(
        bytes
            .iter()
            .enumerate()
            .map(|(i, b)| (b >> 4 | high_bit(i + n) << 4) as i8 - minus),
    );
}

fn q4_0(b: &[u8], out: &mut Sink) {
    out.scale.push(f16_at(b, 0));
    nibbles(&b[2..18], 8, |_| 0, &mut out.q);
}

fn q4_1(b: &[u8], out: &mut Sink) {
    out.scale.push(f16_at(b, 0));
    out.offset.push(-f16_at(b, 2));
    nibbles(&b[4..20], 0, |_| 0, &mut out.q);
}

fn q5_0(b: &[u8], out: &mut Sink) {
    out.scale.push(f16_at(b, 0));
    nibbles(&b[6..22], 16, |i| b[2 + i / 8] >> (i % 8) & 1, &mut out.q);
}

fn q5_1(b: &[u8], out: &mut Sink) {
    out.scale.push(f16_at(b, 0));
    out.offset.push(-f16_at(b, 2));
    nibbles(&b[8..24], 0, |i| b[4 + i / 8] >> (i % 8) & 1, &mut out.q);
}

fn q8_0(b: &[u8], out: &mut Sink) {
    out.scale.push(f16_at(b, 0));
    out.q.extend(b[2..34].iter().map(|&v| v as i8));
}

/// The 2-bit fields of Q2_K and Q3_K: two halves of 32 bytes, four shifts each.
fn two_bits(qs: &[u8], out: &mut Vec<i8>, minus: impl Fn(usize, usize, usize) -> i8) {
    for half in 0..2 {
        for shift in 0..4 {
            out.extend(
                (0..32)
                    .map(|l| (qs[32 * half + l] >> (2 * shift) & 3) as i8 - minus(half, shift, l)),
            );
        }
    }
}

fn q2_k(b: &[u8], out: &mut Sink) {
    let (scales, qs, d, dmin) = (&b[..16], &b[16..80], f16_at(b, 80), f16_at(b, 82));
    out.scale
        .extend(scales.iter().map(|s| d * f32::from(s & 15)));
    out.offset
        .extend(scales.iter().map(|s| dmin * f32::from(s >> 4)));
    two_bits(qs, &mut out.q, |_, _, _| 0);
}

fn q3_k(b: &[u8], out: &mut Sink) {
    let (hmask, qs, scales, d) = (&b[..32], &b[32..96], &b[96..108], f16_at(b, 108));
    out.scale.extend((0..16).map(|j| {
        let low = if j < 8 {
            scales[j] & 15
        } else {
            scales[j - 8] >> 4
        };
        let high = scales[8 + j % 4] >> (2 * (j / 4)) & 3;
        d * (f32::from(low | high << 4) - 32.0)
    }));
    two_bits(qs, &mut out.q, |half, shift, l| {
        if hmask[l] >> (4 * half + shift) & 1 == 1 {
            0
        } else {
            4
        }
    });
}

/// The 6-bit scales and minima of Q4_K and Q5_K.
fn k_scales(d: f32, dmin: f32, s: &[u8], out: &mut Sink) {
    for j in 0..8 {
        let (scale, min) = if j < 4 {
            (s[j] & 63, s[j + 4] & 63)
        } else {
            (
                s[j + 4] & 15 | s[j - 4] >> 6 << 4,
                s[j + 4] >> 4 | s[j] >> 6 << 4,
            )
        };
        out.scale.push(d * f32::from(scale));
        out.offset.push(dmin * f32::from(min));
    }
}

fn q4_k(b: &[u8], out: &mut Sink) {
    k_scales(f16_at(b, 0), f16_at(b, 2), &b[4..16], out);
    for qs in b[16..144].chunks_exact(32) {
        nibbles(qs, 0, |_| 0, &mut out.q);
    }
}

fn q5_k(b: &[u8], out: &mut Sink) {
    k_scales(f16_at(b, 0), f16_at(b, 2), &b[4..16], out);
    let qh = &b[16..48];
    for (i, qs) in b[48..176].chunks_exact(32).enumerate() {
        nibbles(qs, 0, |l| qh[l % 32] >> (2 * i + l / 32) & 1, &mut out.q);
    }
}

fn q6_k(b: &[u8], out: &mut Sink) {
    let (ql, qh, scales, d) = (&b[..128], &b[128..192], &b[192..208], f16_at(b, 208));
    out.scale
        .extend(scales.iter().map(|&s| d * f32::from(s as i8)));
    for half in 0..2 {
        let (ql, qh) = (&ql[64 * half..], &qh[32 * half..]);
        for quarter in 0..4 {
            out.q.extend((0..32).map(|l| {
                let low = ql[l + 32 * (quarter % 2)] >> (4 * (quarter / 2)) & 15;
                (low | (qh[l] >> (2 * quarter) & 3) << 4) as i8 - 32
            }));
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::quantized::QTensor;
    use candle_core::{Device, Tensor};
    use rand::Rng;
    use rand::SeedableRng;

    use super::*;

    const TYPES: [GgmlDType; 10] = [
        GgmlDType::Q4_0,
        GgmlDType::Q4_1,
        GgmlDType::Q5_0,
        GgmlDType::Q5_1,
        GgmlDType::Q8_0,
        GgmlDType::Q2K,
        GgmlDType::Q3K,
        GgmlDType::Q4K,
        GgmlDType::Q5K,
        GgmlDType::Q6K,
    ];

    #[test]
    fn every_type_equals_the_reference_dequantisation() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(7);
        let values: Vec<f32> = (0..3 * 512).map(|_| rng.random_range(-1.5..1.0)).collect();
        let dense = Tensor::from_vec(values, (3, 512), &Device::Cpu).unwrap();
        for dtype in TYPES {
            let quantised = QTensor::quantize(&dense, dtype).unwrap();
            let expected = quantised
                .dequantize(&Device::Cpu)
                .unwrap()
                .to_vec2::<f32>()
                .unwrap();
            let packed = Packed::from_ggml(dtype, &quantised.data().unwrap(), 512).unwrap();
            assert_eq!(packed.rows(), 3);
            for (row, expected) in expected.iter().enumerate() {
                let mut out = vec![0f32; 512];
                packed.expand(row, 0, &mut out);
                assert_eq!(&out, expected, "{dtype:?}");
            }
        }
    }
}
