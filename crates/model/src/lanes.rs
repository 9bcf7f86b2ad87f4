//! What attention multiplies: 32-bit lanes of one f32 or of two bf16, which AVX512-BF16 multiplies and adds at once.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::bf16;

/// Rows that share what is loaded: with four registers of sums each they fill the register file.
pub(crate) const TILE: usize = 7;

/// Two neighbours along the depth of a product.
pub(crate) type Pair = [bf16; 2];

/// Whether this CPU multiplies [`Pair`]s faster than floats.
pub(crate) fn has_pairs() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// A lane of a product's operands; sums are f32.
pub(crate) trait Lane: Copy + Default + Send + Sync + 'static {
    /// Values of a lane.
    const VALUES: usize;

    /// Sets value `at` of the lane.
    fn set(&mut self, at: usize, value: f32);

    /// Adds the product with another lane to `sum`.
    fn add_product(self, other: Self, sum: &mut f32);

    /// Whether [`Self::wide`] can be called.
    fn has_wide() -> bool;

    /// Sixteen lanes from their values.
    ///
    /// # Safety
    /// [`Self::has_wide`]; `from` holds sixteen lanes' values, `to` sixteen lanes.
    #[cfg(target_arch = "x86_64")]
    unsafe fn pack_wide(from: *const f32, to: *mut Self);

    /// 64 columns of `R` rows of [`Product`], the sums in registers; `a`, `b` and `c` point to their beginnings.
    ///
    /// # Safety
    /// [`Self::has_wide`]; the operands are as large as the product says, `c` has `R` rows of 64 values.
    #[cfg(target_arch = "x86_64")]
    unsafe fn wide<const R: usize>(
        product: &Product<'_, Self>,
        a: *const Self,
        b: *const Self,
        c: *mut f32,
    );
}

/// Lanes from their values, of which there are [`Lane::VALUES`] each.
pub(crate) fn pack<L: Lane>(from: &[f32], to: &mut [L]) {
    assert_eq!(from.len(), to.len() * L::VALUES);
    let mut done = 0;
    #[cfg(target_arch = "x86_64")]
    if L::has_wide() {
        while done + 16 <= to.len() {
            // SAFETY: the instructions were just detected, both slices hold sixteen lanes more.
            unsafe {
                let from = from.as_ptr().add(done * L::VALUES);
                L::pack_wide(from, to.as_mut_ptr().add(done));
            }
            done += 16;
        }
    }
    let rest = from[done * L::VALUES..].chunks_exact(L::VALUES);
    for (to, from) in to[done..].iter_mut().zip(rest) {
        for (at, &value) in from.iter().enumerate() {
            to.set(at, value);
        }
    }
}

/// `c = a b` or `c += a b` for rows of `a`; `b` is `[depth, width]` lanes.
pub(crate) struct Product<'a, L> {
    pub(crate) depth: usize,
    pub(crate) b: &'a [L],
    pub(crate) width: usize,
    pub(crate) accumulate: bool,
}

impl<L: Lane> Product<'_, L> {
    /// `a` is `[rows, depth]`, `c` `[rows, width]`. A row's sums are the same, bit for bit, whatever the others are.
    pub(crate) fn run(&self, a: &[L], c: &mut [f32]) {
        assert!(self.b.len() >= self.depth * self.width);
        assert!(a.len().is_multiple_of(self.depth));
        assert_eq!(a.len() * self.width, c.len() * self.depth);
        let rows = a.chunks(TILE * self.depth);
        for (a, c) in rows.zip(c.chunks_mut(TILE * self.width)) {
            let mut at = 0;
            #[cfg(target_arch = "x86_64")]
            while L::has_wide() && at + 64 <= self.width {
                let b = self.b[at..].as_ptr();
                let (rows, a, c) = (a.len() / self.depth, a.as_ptr(), c[at..].as_mut_ptr());
                // SAFETY: the instructions were just detected; the asserts keep every access inside.
                unsafe {
                    match rows {
                        1 => L::wide::<1>(self, a, b, c),
                        2 => L::wide::<2>(self, a, b, c),
                        3 => L::wide::<3>(self, a, b, c),
                        4 => L::wide::<4>(self, a, b, c),
                        5 => L::wide::<5>(self, a, b, c),
                        6 => L::wide::<6>(self, a, b, c),
                        _ => L::wide::<TILE>(self, a, b, c),
                    }
                }
                at += 64;
            }
            self.portable(at, a, c);
        }
    }

    /// Columns `at..` in plain loops.
    fn portable(&self, at: usize, a: &[L], c: &mut [f32]) {
        if at == self.width {
            return;
        }
        let rows = a.chunks_exact(self.depth);
        for (a, c) in rows.zip(c.chunks_exact_mut(self.width)) {
            let c = &mut c[at..];
            if !self.accumulate {
                c.fill(0.0);
            }
            for (a, b) in a.iter().zip(self.b.chunks_exact(self.width)) {
                for (c, b) in c.iter_mut().zip(&b[at..]) {
                    a.add_product(*b, c);
                }
            }
        }
    }
}

/// The vector code of a lane: the instructions it takes, how lanes are packed, how a broadcast 32-bit lane is multiplied
/// with a register of lanes and added to sums.
macro_rules! vector_code {
    ($features:literal, $pack:expr, $add:expr) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn pack_wide(from: *const f32, to: *mut Self) {
            // SAFETY: the caller vouches for sixteen lanes on both sides.
            unsafe { _mm512_storeu_si512(to.cast(), $pack(from)) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn wide<const R: usize>(
            product: &Product<'_, Self>,
            a: *const Self,
            mut b: *const Self,
            c: *mut f32,
        ) {
            let (depth, width) = (product.depth, product.width);
            let mut sums = [[_mm512_setzero_ps(); 4]; R];
            // SAFETY: the caller vouches for the rows and columns.
            unsafe {
                if product.accumulate {
                    for r in 0..R {
                        for j in 0..4 {
                            sums[r][j] = _mm512_loadu_ps(c.add(r * width + 16 * j));
                        }
                    }
                }
                for i in 0..depth {
                    let columns: [__m512i; 4] =
                        std::array::from_fn(|j| _mm512_loadu_si512(b.add(16 * j).cast()));
                    for r in 0..R {
                        let a: *const i32 = a.add(r * depth + i).cast();
                        let a = _mm512_set1_epi32(a.read_unaligned());
                        for j in 0..4 {
                            sums[r][j] = $add(sums[r][j], a, columns[j]);
                        }
                    }
                    b = b.add(width);
                }
                for r in 0..R {
                    for j in 0..4 {
                        _mm512_storeu_ps(c.add(r * width + 16 * j), sums[r][j]);
                    }
                }
            }
        }
    };
}

impl Lane for f32 {
    const VALUES: usize = 1;

    fn set(&mut self, _at: usize, value: f32) {
        *self = value;
    }

    fn add_product(self, other: Self, sum: &mut f32) {
        *sum += self * other;
    }

    fn has_wide() -> bool {
        #[cfg(target_arch = "x86_64")]
        return is_x86_feature_detected!("avx512f");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    vector_code!(
        "avx512f",
        |from: *const f32| _mm512_loadu_si512(from.cast()),
        |sum, a, b| _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum)
    );
}

impl Lane for Pair {
    const VALUES: usize = 2;

    fn set(&mut self, at: usize, value: f32) {
        self[at] = bf16::from_f32(value);
    }

    fn add_product(self, other: Self, sum: &mut f32) {
        *sum += self[0].to_f32() * other[0].to_f32();
        *sum += self[1].to_f32() * other[1].to_f32();
    }

    fn has_wide() -> bool {
        has_pairs()
    }

    vector_code!(
        "avx512f,avx512bf16",
        |from: *const f32| {
            let values = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from.add(16)), _mm512_loadu_ps(from));
            std::mem::transmute::<__m512bh, __m512i>(values)
        },
        |sum, a, b| _mm512_dpbf16_ps(
            sum,
            std::mem::transmute::<__m512i, __m512bh>(a),
            std::mem::transmute::<__m512i, __m512bh>(b)
        )
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(n: usize, seed: usize) -> Vec<f32> {
        (0..n)
            .map(|i| ((i * 7 + seed * 13) as f32 * 0.37).sin())
            .collect()
    }

    /// A product of 17 rows against plain sums of its rounded operands, and each row alone.
    fn check<L: Lane>(width: usize, tolerance: f64) {
        let (rows, depth) = (17, 20);
        let lanes = |values: &[f32]| {
            let mut lanes = vec![L::default(); values.len() / L::VALUES];
            pack(values, &mut lanes);
            lanes
        };
        let (a, b) = (values(rows * depth, 1), values(width * depth, 2));
        let mut c = vec![1f32; rows * width];
        let (a_lanes, b_lanes) = (lanes(&a), lanes(&b));
        let product = Product {
            depth: depth / L::VALUES,
            b: &b_lanes,
            width,
            accumulate: true,
        };
        product.run(&a_lanes, &mut c);
        for row in 0..rows {
            let mut alone = vec![1f32; width];
            let a_row = &a_lanes[row * product.depth..(row + 1) * product.depth];
            product.run(a_row, &mut alone);
            assert_eq!(alone, c[row * width..(row + 1) * width]);
            for column in 0..width {
                let exact: f64 = (0..depth)
                    .map(|i| {
                        let (lane, at) = (i / L::VALUES, i % L::VALUES);
                        let b = b[(lane * width + column) * L::VALUES + at];
                        f64::from(a[row * depth + i]) * f64::from(b)
                    })
                    .sum();
                let found = f64::from(alone[column]) - 1.0;
                assert!((found - exact).abs() < tolerance, "{found} {exact}");
            }
        }
    }

    #[test]
    fn products_are_exact_to_the_rounding_of_their_lanes() {
        for width in [64, 24, 128, 72] {
            check::<f32>(width, 1e-5);
            check::<Pair>(width, 20.0 * 0.5f64.powi(8));
        }
    }
}
