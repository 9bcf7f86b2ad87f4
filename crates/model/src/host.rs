//! Access to the f32 values of tensors in host memory.

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
