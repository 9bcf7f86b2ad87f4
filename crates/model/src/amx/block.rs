//! The products of tiles.

use std::arch::asm;

use half::bf16;

use super::SIDE;

/// Where the tiles of the right side lie; distances in bytes.
#[derive(Clone, Copy)]
pub(super) struct Right {
    pub(super) start: *const u8,
    /// From a line of a tile to the next.
    pub(super) line: usize,
    /// From a tile to the one of the next sixteen columns.
    pub(super) column: usize,
    /// From a tile to the one of the next rows.
    pub(super) step: usize,
}

/// Two by two tiles of sums, of which some may be missing.
pub(super) struct Block {
    pub(super) a: *const bf16,
    pub(super) stride: usize,
    pub(super) b: Right,
    pub(super) steps: usize,
    pub(super) depth: usize,
    pub(super) c: *mut f32,
    pub(super) ldc: usize,
    pub(super) accumulate: bool,
}

impl Block {
    /// All four tiles: half of what is loaded serves twice.
    ///
    /// # Safety
    /// The registers are set for the depth; all tiles exist.
    #[inline(always)]
    pub(super) unsafe fn four(&self) {
        let (below, row) = (self.ldc * SIDE, 4 * self.ldc);
        // SAFETY: the loops read the tiles of `a` and `b` of all steps and write those of `c`.
        unsafe {
            match self.accumulate {
                true => asm!(
                    "tileloadd tmm0, [{c} + {row}*1]",
                    "tileloadd tmm1, [{c} + {row}*1 + 64]",
                    "tileloadd tmm2, [{d} + {row}*1]",
                    "tileloadd tmm3, [{d} + {row}*1 + 64]",
                    c = in(reg) self.c, d = in(reg) self.c.wrapping_add(below), row = in(reg) row,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(readonly, nostack, preserves_flags)
                ),
                false => asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(nomem, nostack, preserves_flags)
                ),
            }
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {stride}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{e} + {line}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{d} + {stride}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, {width}",
                "add {d}, {width}",
                "add {b}, {tile}",
                "add {e}, {tile}",
                "dec {steps}",
                "jnz 2b",
                a = inout(reg) self.a => _,
                d = inout(reg) self.a.wrapping_add(SIDE * self.stride) => _,
                b = inout(reg) self.b.start => _,
                e = inout(reg) self.b.start.wrapping_add(self.b.column) => _,
                stride = in(reg) 2 * self.stride,
                line = in(reg) self.b.line,
                width = in(reg) 2 * self.depth,
                tile = in(reg) self.b.step,
                steps = inout(reg) self.steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(readonly, nostack)
            );
            asm!(
                "tilestored [{c} + {row}*1], tmm0",
                "tilestored [{c} + {row}*1 + 64], tmm1",
                "tilestored [{d} + {row}*1], tmm2",
                "tilestored [{d} + {row}*1 + 64], tmm3",
                c = in(reg) self.c, d = in(reg) self.c.wrapping_add(below), row = in(reg) row,
                options(nostack, preserves_flags)
            );
        }
    }

    /// The upper two tiles.
    ///
    /// # Safety
    /// The registers are set for the depth; the tiles exist.
    #[inline(always)]
    pub(super) unsafe fn two(&self) {
        let row = 4 * self.ldc;
        // SAFETY: as in `four`.
        unsafe {
            match self.accumulate {
                true => asm!(
                    "tileloadd tmm0, [{c} + {row}*1]",
                    "tileloadd tmm1, [{c} + {row}*1 + 64]",
                    c = in(reg) self.c, row = in(reg) row,
                    out("tmm0") _, out("tmm1") _,
                    options(readonly, nostack, preserves_flags)
                ),
                false => asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    out("tmm0") _, out("tmm1") _,
                    options(nomem, nostack, preserves_flags)
                ),
            }
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {stride}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{e} + {line}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "add {a}, {width}",
                "add {b}, {tile}",
                "add {e}, {tile}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}*1], tmm0",
                "tilestored [{c} + {row}*1 + 64], tmm1",
                a = inout(reg) self.a => _,
                b = inout(reg) self.b.start => _,
                e = inout(reg) self.b.start.wrapping_add(self.b.column) => _,
                c = in(reg) self.c,
                stride = in(reg) 2 * self.stride,
                line = in(reg) self.b.line,
                width = in(reg) 2 * self.depth,
                tile = in(reg) self.b.step,
                row = in(reg) row,
                steps = inout(reg) self.steps => _,
                out("tmm0") _, out("tmm1") _, out("tmm4") _, out("tmm6") _, out("tmm7") _,
                options(nostack)
            );
        }
    }

    /// A tile of the left column, in the upper or the lower row of tiles.
    ///
    /// # Safety
    /// The registers are set for the depth; the tile exists.
    #[inline(always)]
    pub(super) unsafe fn one(&self, row: usize) {
        let c = self.c.wrapping_add(SIDE * row * self.ldc);
        // SAFETY: as in `four`.
        unsafe {
            match self.accumulate {
                true => asm!(
                    "tileloadd tmm0, [{c} + {row}*1]",
                    c = in(reg) c, row = in(reg) 4 * self.ldc,
                    out("tmm0") _,
                    options(readonly, nostack, preserves_flags)
                ),
                false => asm!(
                    "tilezero tmm0",
                    out("tmm0") _,
                    options(nomem, nostack, preserves_flags)
                ),
            }
            asm!(
                "2:",
                "tileloadd tmm4, [{a} + {stride}*1]",
                "tileloadd tmm6, [{b} + {line}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "add {a}, {width}",
                "add {b}, {tile}",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{c} + {row}*1], tmm0",
                a = inout(reg) self.a.wrapping_add(row * SIDE * self.stride) => _,
                b = inout(reg) self.b.start => _,
                c = in(reg) c,
                stride = in(reg) 2 * self.stride,
                line = in(reg) self.b.line,
                width = in(reg) 2 * self.depth,
                tile = in(reg) self.b.step,
                row = in(reg) 4 * self.ldc,
                steps = inout(reg) self.steps => _,
                out("tmm0") _, out("tmm4") _, out("tmm6") _,
                options(nostack)
            );
        }
    }
}
