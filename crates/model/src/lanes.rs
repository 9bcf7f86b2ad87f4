//! What attention multiplies: 32-bit lanes of one f32 or of two bf16, which AVX512-BF16 and AMX multiply and add at once.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::bf16;

#[cfg(all(feature = "onednn", target_arch = "x86_64"))]
use crate::amx;

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

    /// Lanes from their values, of which there are [`Lane::VALUES`] each: in `room` where they are not the values
    /// themselves.
    fn pack<'a>(values: &'a [f32], room: &'a mut Vec<Self>) -> &'a [Self];

    /// As many rows, or some more so that [`Self::in_tiles`] takes them.
    fn padded(rows: usize) -> usize {
        rows
    }

    /// [`Product::run`] by an instruction for whole matrices; tells whether there is one for this shape.
    fn in_tiles(_product: &Product<'_, Self>, _a: &[Self], _c: &mut [f32]) -> bool {
        false
    }

    /// Whether [`Self::wide`] can be called.
    fn has_wide() -> bool;

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
        if L::in_tiles(self, a, c) {
            return;
        }
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

/// Defines [`Lane::wide`] by AVX-512: the name, the lanes, the instructions it takes, and how a broadcast 32-bit lane is
/// multiplied with a register of lanes and added to sums.
macro_rules! wide_avx512 {
    ($name:ident, $lane:ty, $features:literal, $add:expr) => {
        /// # Safety
        /// As for [`Lane::wide`]; the CPU has the instructions.
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize>(
            product: &Product<'_, $lane>,
            a: *const $lane,
            mut b: *const $lane,
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

wide_avx512!(floats_avx512, f32, "avx512f", |sum, a, b| {
    _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum)
});
wide_avx512!(pairs_avx512, Pair, "avx512f,avx512bf16", |sum, a, b| {
    _mm512_dpbf16_ps(
        sum,
        std::mem::transmute::<__m512i, __m512bh>(a),
        std::mem::transmute::<__m512i, __m512bh>(b),
    )
});

/// Rounds values, sixteen pairs at a time, and appends them to `to`; the last few are left out.
///
/// # Safety
/// The CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
unsafe fn pack_avx512(values: &[[f32; 2]], to: &mut Vec<Pair>) {
    let whole = values.as_chunks::<16>().0;
    to.reserve(16 * whole.len());
    for values in whole {
        // SAFETY: there are 32 values, and room for sixteen pairs behind those that are set.
        unsafe {
            let from: *const f32 = values.as_ptr().cast();
            let pairs = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(from.add(16)), _mm512_loadu_ps(from));
            let end = to.as_mut_ptr().add(to.len());
            _mm512_storeu_si512(end.cast(), std::mem::transmute::<__m512bh, __m512i>(pairs));
            to.set_len(to.len() + 16);
        }
    }
}

/// Sixteen of the 64 columns of [`Lane::wide`] by AVX2.
///
/// # Safety
/// As there; the CPU has the instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[expect(
    clippy::needless_range_loop,
    reason = "one index runs over several arrays"
)]
unsafe fn floats_avx2<const R: usize>(
    product: &Product<'_, f32>,
    a: *const f32,
    mut b: *const f32,
    c: *mut f32,
) {
    let (depth, width) = (product.depth, product.width);
    let mut sums = [[_mm256_setzero_ps(); 2]; R];
    // SAFETY: the caller vouches for the rows and columns.
    unsafe {
        if product.accumulate {
            for r in 0..R {
                for j in 0..2 {
                    sums[r][j] = _mm256_loadu_ps(c.add(r * width + 8 * j));
                }
            }
        }
        for i in 0..depth {
            let columns = [_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8))];
            for r in 0..R {
                let a = _mm256_set1_ps(*a.add(r * depth + i));
                for j in 0..2 {
                    sums[r][j] = _mm256_fmadd_ps(a, columns[j], sums[r][j]);
                }
            }
            b = b.add(width);
        }
        for r in 0..R {
            for j in 0..2 {
                _mm256_storeu_ps(c.add(r * width + 8 * j), sums[r][j]);
            }
        }
    }
}

impl Lane for f32 {
    const VALUES: usize = 1;

    fn set(&mut self, _at: usize, value: f32) {
        *self = value;
    }

    fn add_product(self, other: Self, sum: &mut f32) {
        *sum += self * other;
    }

    fn pack<'a>(values: &'a [f32], _room: &'a mut Vec<Self>) -> &'a [Self] {
        values
    }

    fn has_wide() -> bool {
        #[cfg(target_arch = "x86_64")]
        return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        #[cfg(not(target_arch = "x86_64"))]
        false
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn wide<const R: usize>(
        product: &Product<'_, Self>,
        a: *const Self,
        b: *const Self,
        c: *mut f32,
    ) {
        // SAFETY: the instructions were just detected or by the caller, who vouches for the operands.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                floats_avx512::<R>(product, a, b, c);
            } else {
                for at in (0..64).step_by(16) {
                    floats_avx2::<R>(product, a, b.add(at), c.add(at));
                }
            }
        }
    }
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

    fn pack<'a>(values: &'a [f32], room: &'a mut Vec<Self>) -> &'a [Self] {
        let (values, rest) = values.as_chunks::<2>();
        assert!(rest.is_empty());
        room.clear();
        #[cfg(target_arch = "x86_64")]
        if has_pairs() {
            // SAFETY: the instructions were just detected.
            unsafe { pack_avx512(values, room) };
        }
        let done = room.len();
        room.extend(values[done..].iter().map(|pair| pair.map(bf16::from_f32)));
        room
    }

    #[cfg(all(feature = "onednn", target_arch = "x86_64"))]
    fn padded(rows: usize) -> usize {
        match amx::is_available() {
            true => rows.next_multiple_of(amx::SIDE),
            false => rows,
        }
    }

    #[cfg(all(feature = "onednn", target_arch = "x86_64"))]
    fn in_tiles(product: &Product<'_, Self>, a: &[Self], c: &mut [f32]) -> bool {
        amx::pairs(product, a, c)
    }

    fn has_wide() -> bool {
        has_pairs()
    }

    #[cfg(target_arch = "x86_64")]
    unsafe fn wide<const R: usize>(
        product: &Product<'_, Self>,
        a: *const Self,
        b: *const Self,
        c: *mut f32,
    ) {
        // SAFETY: the caller vouches for the instructions and the operands.
        unsafe { pairs_avx512::<R>(product, a, b, c) }
    }
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
        let lanes = |values: &[f32]| L::pack(values, &mut Vec::new()).to_vec();
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
