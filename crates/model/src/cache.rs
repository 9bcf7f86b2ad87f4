//! Keys and values of one row (one growing sequence).
//!
//! In host memory they lie in pages of 64 positions that forks share until one of them writes; growing never copies.

use std::sync::Arc;

use candle_core::{Result, Tensor};

/// Positions of a page.
pub(crate) const PAGE: usize = 64;

/// Positions added at a time in device memory, so that growing copies seldom.
const GROWTH: usize = 256;

/// The key-value cache of one row over all blocks. Rows are independent: they enter and leave a batch,
/// are cut back and forked without touching each other.
pub struct KvCache {
    layers: usize,
    len: usize,
    pages: Vec<Arc<Page>>,
    device: Vec<Option<(Tensor, Tensor)>>,
}

/// Keys and values of 64 positions in all blocks.
#[derive(Clone)]
struct Page(Vec<f32>);

/// Heads and their width: what a page's places are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) groups: usize,
    pub(crate) d: usize,
}

impl Heads {
    /// Where the keys `[D, 64]` of a group begin; its values `[64, D]` follow.
    fn start(self, layer: usize, group: usize) -> usize {
        (layer * self.groups + group) * 2 * PAGE * self.d
    }
}

impl KvCache {
    /// An empty cache for a model of `layers` blocks.
    pub fn new(layers: usize) -> Self {
        Self {
            layers,
            len: 0,
            pages: Vec::new(),
            device: vec![None; layers],
        }
    }

    /// Positions held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets every position from `len` on; a longer `len` changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
        self.pages.truncate(self.len.div_ceil(PAGE));
    }

    /// An independent copy, for instance of a prefix that several rows share. Host memory is shared until either side
    /// writes to the last page.
    ///
    /// # Errors
    /// When device memory cannot be had.
    pub fn fork(&self) -> Result<Self> {
        let copy = |pair: &Option<(Tensor, Tensor)>| match pair {
            None => Ok(None),
            Some((k, v)) => Ok(Some((k.copy()?, v.copy()?))),
        };
        Ok(Self {
            layers: self.layers,
            len: self.len,
            pages: self.pages.clone(),
            device: self.device.iter().map(copy).collect::<Result<_>>()?,
        })
    }

    /// Makes room for `t` positions behind the ones held, in host memory.
    pub(crate) fn reserve(&mut self, t: usize, heads: Heads) {
        let size = heads.start(self.layers, 0);
        if !self.len.is_multiple_of(PAGE)
            && let Some(page) = self.pages.get_mut(self.len / PAGE)
        {
            Arc::make_mut(page);
        }
        self.pages.truncate(self.len.div_ceil(PAGE));
        while self.pages.len() * PAGE < self.len + t {
            self.pages.push(Arc::new(Page(vec![0.0; size])));
        }
    }

    /// Writes keys and values (`[T, KV, D]`) of new positions into the reserved room. [`Self::advance`] makes them part
    /// of the cache once every block is done.
    pub(crate) fn write(&mut self, layer: usize, heads: Heads, k: &[f32], v: &[f32]) {
        let Heads { groups, d } = heads;
        let width = groups * d;
        for (t, (k, v)) in k.chunks_exact(width).zip(v.chunks_exact(width)).enumerate() {
            let position = self.len + t;
            let (page, at) = (position / PAGE, position % PAGE);
            // Unshared since `reserve`: this looks, it does not copy.
            let page = &mut Arc::make_mut(&mut self.pages[page]).0;
            for group in 0..groups {
                let start = heads.start(layer, group);
                let (keys, values) = page[start..start + 2 * PAGE * d].split_at_mut(PAGE * d);
                for (i, &k) in k[group * d..(group + 1) * d].iter().enumerate() {
                    keys[i * PAGE + at] = k;
                }
                values[at * d..(at + 1) * d].copy_from_slice(&v[group * d..(group + 1) * d]);
            }
        }
    }

    /// Keys `[D, 64]` and values `[64, D]` of a group, page by page; places behind the last written position hold
    /// finite numbers.
    pub(crate) fn pages(
        &self,
        layer: usize,
        group: usize,
        heads: Heads,
    ) -> impl Iterator<Item = (&[f32], &[f32])> {
        let start = heads.start(layer, group);
        let size = PAGE * heads.d;
        self.pages
            .iter()
            .map(move |page| page.0[start..start + 2 * size].split_at(size))
    }

    /// Writes the keys and values (`[T, KV, D]`) of new positions behind the ones held in device memory and returns all
    /// of them (`[S, KV, D]`).
    pub(crate) fn append(
        &mut self,
        layer: usize,
        k: &Tensor,
        v: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (t, groups, d) = k.dims3()?;
        let needed = self.len + t;
        let Some(slot) = self.device.get_mut(layer) else {
            candle_core::bail!("the cache was made for a model without block {layer}");
        };
        // A clone is another handle to the same memory; the slot keeps its own if growing fails.
        let (keys, values) = match slot.clone() {
            Some((keys, values)) if keys.dim(0)? >= needed => (keys, values),
            old => {
                let capacity = (needed + self.len / 2).next_multiple_of(GROWTH);
                let grow = |old: Option<&Tensor>| -> Result<Tensor> {
                    let new = Tensor::zeros((capacity, groups, d), k.dtype(), k.device())?;
                    if let Some(old) = old.filter(|_| self.len > 0) {
                        new.slice_set(&old.narrow(0, 0, self.len)?, 0, 0)?;
                    }
                    Ok(new)
                };
                (
                    grow(old.as_ref().map(|o| &o.0))?,
                    grow(old.as_ref().map(|o| &o.1))?,
                )
            }
        };
        keys.slice_set(&k.detach().contiguous()?, 0, self.len)?;
        values.slice_set(&v.detach().contiguous()?, 0, self.len)?;
        let view = (keys.narrow(0, 0, needed)?, values.narrow(0, 0, needed)?);
        *slot = Some((keys, values));
        Ok(view)
    }

    /// Counts `t` appended positions as held.
    pub(crate) fn advance(&mut self, t: usize) {
        self.len += t;
    }
}
