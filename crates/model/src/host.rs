//! Access to the f32 values of tensors in host memory.

use std::marker::PhantomData;

use candle_core::{CpuStorage, Layout, Result, Storage, Tensor, bail};

/// The contiguous values behind a CPU storage.
pub(crate) fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("expected a contiguous tensor, got {layout:?}");
    };
    Ok(&storage.as_slice::<f32>()?[start..end])
}

/// Calls `f` with the f32 values of a contiguous CPU tensor.
pub(crate) fn with_values<R>(tensor: &Tensor, f: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => f(values(storage, layout)?),
        _ => bail!("expected a tensor in host memory"),
    }
}

/// Room for values that several tasks fill, each its own: columns of a row-major matrix are no slices.
pub(crate) struct SharedOut<'a> {
    start: *mut f32,
    len: usize,
    room: PhantomData<&'a mut [f32]>,
}

// SAFETY: writing through it is unsafe, and whoever does it owns the place.
unsafe impl Send for SharedOut<'_> {}
// SAFETY: as above.
unsafe impl Sync for SharedOut<'_> {}

impl<'a> SharedOut<'a> {
    /// The reserved but unset room of a vector, whose length is set by whoever knows that all of it was written.
    pub(crate) fn new(room: &'a mut Vec<f32>) -> Self {
        let spare = room.spare_capacity_mut();
        Self {
            start: spare.as_mut_ptr().cast(),
            len: spare.len(),
            room: PhantomData,
        }
    }

    /// The places of values that are set already.
    pub(crate) fn over(values: &'a mut [f32]) -> Self {
        Self {
            start: values.as_mut_ptr(),
            len: values.len(),
            room: PhantomData,
        }
    }

    /// Where value `at` goes.
    ///
    /// # Panics
    /// When `at` lies outside.
    #[inline(always)]
    pub(crate) fn at(&self, at: usize) -> *mut f32 {
        assert!(at < self.len);
        // SAFETY: just checked.
        unsafe { self.start.add(at) }
    }

    /// Sets value `at`.
    ///
    /// # Safety
    /// No other task reads or writes this value.
    #[inline(always)]
    pub(crate) unsafe fn write(&self, at: usize, value: f32) {
        // SAFETY: the place exists and belongs to the caller.
        unsafe { self.at(at).write(value) }
    }

    /// Adds to value `at`.
    ///
    /// # Safety
    /// The value is set, and no other task reads or writes it.
    #[inline(always)]
    pub(crate) unsafe fn add(&self, at: usize, value: f32) {
        // SAFETY: the place exists, is set and belongs to the caller.
        unsafe { *self.at(at) += value }
    }
}
