//! Keys and values of one row (one growing sequence).

use candle_core::{Result, Tensor};

/// Positions added at a time, so that growing copies seldom.
const GROWTH: usize = 256;

/// The key-value cache of one row over all blocks. Rows are independent: they enter and leave a batch,
/// are cut back and forked without touching each other.
pub struct KvCache {
    layers: Vec<Option<(Tensor, Tensor)>>,
    len: usize,
}

impl KvCache {
    /// An empty cache for a model of `layers` blocks.
    pub fn new(layers: usize) -> Self {
        Self {
            layers: (0..layers).map(|_| None).collect(),
            len: 0,
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
    }

    /// An independent copy, for instance of a prefix that several rows share.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn fork(&self) -> Result<Self> {
        let copy = |pair: &Option<(Tensor, Tensor)>| match pair {
            None => Ok(None),
            Some((k, v)) => Ok(Some((k.copy()?, v.copy()?))),
        };
        Ok(Self {
            layers: self.layers.iter().map(copy).collect::<Result<_>>()?,
            len: self.len,
        })
    }

    /// Writes the keys and values (`[T, KV, D]`) of new positions behind the ones held and returns all
    /// of them (`[S, KV, D]`). [`Self::advance`] makes them part of the cache once every block is done.
    pub(crate) fn append(
        &mut self,
        layer: usize,
        k: &Tensor,
        v: &Tensor,
    ) -> Result<(Tensor, Tensor)> {
        let (t, groups, d) = k.dims3()?;
        let needed = self.len + t;
        let Some(slot) = self.layers.get_mut(layer) else {
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
