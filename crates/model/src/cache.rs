//! Keys and values of one row (one growing sequence).
//!
//! In host memory they lie in pages of 64 positions that forks share until one of them writes; growing never copies.

use candle_core::{Result, Tensor};

use crate::lanes::Pair;

mod pages;

pub(crate) use pages::{PAGE, Pages};

/// Positions added at a time in device memory, so that growing copies seldom.
const GROWTH: usize = 256;

/// The key-value cache of one row over all blocks. Rows are independent: they enter and leave a batch,
/// are cut back and forked without touching each other.
pub struct KvCache {
    layers: usize,
    len: usize,
    host: HostPages,
    device: Vec<Option<(Tensor, Tensor)>>,
}

/// Keys and values in host memory, rounded to bf16 or not.
#[derive(Clone)]
pub(crate) enum HostPages {
    Floats(Pages<f32>),
    Pairs(Pages<Pair>),
}

/// Heads and their width: what a page's places are computed from.
#[derive(Clone, Copy)]
pub(crate) struct Heads {
    pub(crate) groups: usize,
    pub(crate) d: usize,
}

impl KvCache {
    /// An empty cache for a model of `layers` blocks.
    pub fn new(layers: usize) -> Self {
        Self {
            layers,
            len: 0,
            host: HostPages::Floats(Pages::default()),
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
        match &mut self.host {
            HostPages::Floats(pages) => pages.truncate(self.len),
            HostPages::Pairs(pages) => pages.truncate(self.len),
        }
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
            host: self.host.clone(),
            device: self.device.iter().map(copy).collect::<Result<_>>()?,
        })
    }

    /// Makes room for `t` positions behind the ones held, in host memory; an empty cache becomes one of bf16 `pairs` or
    /// of f32.
    pub(crate) fn reserve(&mut self, t: usize, heads: Heads, pairs: bool) {
        if self.len == 0 {
            self.host = match pairs {
                true => HostPages::Pairs(Pages::default()),
                false => HostPages::Floats(Pages::default()),
            };
        }
        match &mut self.host {
            HostPages::Floats(pages) => pages.reserve(self.len, t, self.layers, heads),
            HostPages::Pairs(pages) => pages.reserve(self.len, t, self.layers, heads),
        }
    }

    /// Writes keys and values (`[T, KV, D]`) of new positions into the reserved room. [`Self::advance`] makes them part
    /// of the cache once every block is done.
    pub(crate) fn write(&mut self, layer: usize, heads: Heads, k: &[f32], v: &[f32]) {
        match &mut self.host {
            HostPages::Floats(pages) => pages.write(self.len, layer, heads, k, v),
            HostPages::Pairs(pages) => pages.write(self.len, layer, heads, k, v),
        }
    }

    /// What is held in host memory.
    pub(crate) fn host(&self) -> &HostPages {
        &self.host
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
