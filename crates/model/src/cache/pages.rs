//! Pages of keys and values in host memory.

use std::sync::Arc;

use crate::lanes::Lane;

use super::Heads;

/// Positions of a page.
pub(crate) const PAGE: usize = 64;

/// Pages of 64 positions in all blocks, shared with the copies of the list until one of them writes.
#[derive(Clone)]
pub(crate) struct Pages<L>(Vec<Arc<Vec<L>>>);

impl<L> Default for Pages<L> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<L: Lane> Pages<L> {
    /// Lanes of the keys of one group, and as many of its values.
    fn size(heads: Heads) -> usize {
        PAGE * heads.d / L::VALUES
    }

    /// Where the keys of a group begin; its values follow.
    fn start(layer: usize, group: usize, heads: Heads) -> usize {
        (layer * heads.groups + group) * 2 * Self::size(heads)
    }

    /// Keeps the pages of the first `len` positions.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.truncate(len.div_ceil(PAGE));
    }

    /// Makes room for `t` positions behind the `len` that are held.
    pub(crate) fn reserve(&mut self, len: usize, t: usize, layers: usize, heads: Heads) {
        if !len.is_multiple_of(PAGE)
            && let Some(page) = self.0.get_mut(len / PAGE)
        {
            Arc::make_mut(page);
        }
        self.truncate(len);
        while self.0.len() * PAGE < len + t {
            let page = vec![L::default(); Self::start(layers, 0, heads)];
            self.0.push(Arc::new(page));
        }
    }

    /// Writes keys and values (`[T, KV, D]`) from position `first` on into the reserved room.
    pub(crate) fn write(&mut self, first: usize, layer: usize, heads: Heads, k: &[f32], v: &[f32]) {
        let Heads { groups, d } = heads;
        let (width, size) = (groups * d, Self::size(heads));
        for (t, (k, v)) in k.chunks_exact(width).zip(v.chunks_exact(width)).enumerate() {
            let (page, at) = ((first + t) / PAGE, (first + t) % PAGE);
            // Unshared since `reserve`: this looks, it does not copy.
            let page = Arc::make_mut(&mut self.0[page]);
            for (group, (k, v)) in k.chunks_exact(d).zip(v.chunks_exact(d)).enumerate() {
                let start = Self::start(layer, group, heads);
                let (keys, values) = page[start..start + 2 * size].split_at_mut(size);
                for (i, &k) in k.iter().enumerate() {
                    keys[i / L::VALUES * PAGE + at].set(i % L::VALUES, k);
                }
                let values = &mut values[at / L::VALUES * d..][..d];
                for (lane, &v) in values.iter_mut().zip(v) {
                    lane.set(at % L::VALUES, v);
                }
            }
        }
    }

    /// Keys and values of a group, page by page: lanes `[D / n, 64]` and `[64 / n, D]`, `n` the values of a lane, which
    /// are neighbours along the width of a key and along the positions. Places behind the last written position hold
    /// finite numbers.
    pub(crate) fn of(
        &self,
        layer: usize,
        group: usize,
        heads: Heads,
    ) -> impl Iterator<Item = (&[L], &[L])> {
        let (start, size) = (Self::start(layer, group, heads), Self::size(heads));
        self.0
            .iter()
            .map(move |page| page[start..start + 2 * size].split_at(size))
    }
}
