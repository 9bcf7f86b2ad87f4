//! The one linear layer: a frozen weight (quantised or not) with an optional LoRA pair.

use std::sync::Arc;

use candle_core::backend::BackendStorage;
use candle_core::quantized::QTensor;
use candle_core::{CpuStorage, CudaStorage, CustomOp1, Layout, Result, Shape, Storage, Tensor};

use crate::buffer::Buffer;
use crate::host::{self, SharedOut};
use crate::matrix::{Activations, Compute, HostMatrix, Values};
use crate::panels::{self, Adapter};
use crate::rows::{self, Dense};

/// `y = x W^T + b + scale * (x A^T) B^T`; `W` is `[out, in]`, `A` `[r, in]`, `B` `[out, r]`.
pub struct Linear {
    weight: Frozen,
    bias: Option<Tensor>,
    lora: Option<Lora>,
}

/// Which kernels a product runs on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// Many rows at once, for prompts and training: the fastest GEMM for the model's compute type.
    Prefill,
    /// Each row by itself with the weights as they are stored, in f32 or, where they are stored for it, in integers: a
    /// token's result has the same bits whatever is decoded beside it. For generated tokens; cuts gradients.
    Decode,
}

/// A weight that is never trained.
#[derive(Clone)]
pub struct Frozen(Arc<Store>);

enum Store {
    /// Host memory: f32, f16, bf16 or GGML-quantised.
    Host(HostMatrix),
    /// Device memory in the compute type.
    Device(Tensor),
    /// Device memory, GGML-quantised; expanded for each product.
    DeviceQuantised(QTensor),
}

/// A low-rank update (Hu et al. 2021): `scale` is alpha / r, or alpha / sqrt(r) for rsLoRA.
#[derive(Clone)]
pub struct Lora {
    /// `[r, in]`
    pub a: Tensor,
    /// `[out, r]`
    pub b: Tensor,
    /// Factor of the update.
    pub scale: f64,
}

impl Linear {
    /// A layer without adapter.
    pub fn new(weight: Frozen, bias: Option<Tensor>) -> Self {
        Self {
            weight,
            bias,
            lora: None,
        }
    }

    /// Sets or removes the adapter.
    pub fn set_lora(&mut self, lora: Option<Lora>) {
        self.lora = lora;
    }

    /// The adapter, if there is one.
    pub fn lora(&self) -> Option<&Lora> {
        self.lora.as_ref()
    }

    /// `(out, in)`
    ///
    /// # Errors
    /// When a dense weight is no matrix.
    pub fn dims(&self) -> Result<(usize, usize)> {
        self.weight.dims()
    }

    /// Bytes of the weight, adapter and bias not counted.
    pub fn weight_bytes(&self) -> usize {
        self.weight.bytes()
    }

    /// Exchanges the weight, for instance for one that an adapter has been merged into.
    pub fn set_weight(&mut self, weight: Frozen) {
        self.weight = weight;
    }

    /// `[N, in]` to `[N, out]`.
    ///
    /// # Errors
    /// When the shapes do not fit or the backend fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let mut y = self.weight.forward(x)?;
        if let Some(bias) = &self.bias {
            y = y.broadcast_add(bias)?;
        }
        if let Some(lora) = &self.lora {
            // The adapter is kept in f32 whatever the base is computed in.
            let low = x.to_dtype(lora.a.dtype())?.matmul(&lora.a.t()?)?;
            let update = (low * lora.scale)?.matmul(&lora.b.t()?)?;
            y = (y + update.to_dtype(x.dtype())?)?;
        }
        Ok(y)
    }

    /// The same in host memory and outside any graph, into `out` or added to it: `x` is `[m, in]`, `out` `[m, out]`.
    /// Returns `x A^T` in a prefill pass with an adapter, for [`Self::pull`].
    ///
    /// # Errors
    /// When the layer lies elsewhere.
    pub(crate) fn apply(
        &self,
        x: &Activations<'_>,
        out: &mut [f32],
        accumulate: bool,
        pass: Pass,
    ) -> Result<Vec<f32>> {
        let (rows, cols) = self.dims()?;
        let m = x.values().len() / cols;
        assert!(x.values().len() == m * cols && out.len() == m * rows);
        let mut accumulate = accumulate;
        if let Some(bias) = &self.bias {
            host::with_values(bias, |bias| {
                for out in out.chunks_exact_mut(rows) {
                    match accumulate {
                        true => out.iter_mut().zip(bias).for_each(|(o, b)| *o += b),
                        false => out.copy_from_slice(bias),
                    }
                }
                Ok(())
            })?;
            accumulate = true;
        }
        let matrix = self.weight.host()?;
        if pass == Pass::Prefill {
            return self.with_adapter(|adapter| {
                matrix.forward(adapter, x, &SharedOut::over(out), accumulate)
            });
        }
        matrix.decode(x, &SharedOut::over(out), accumulate);
        if let Some(lora) = &self.lora {
            let mut low = vec![0f32; m * lora.a.dim(0)?];
            dense(x.values(), &lora.a, &SharedOut::over(&mut low), false)?;
            low.iter_mut().for_each(|v| *v *= lora.scale as f32);
            dense(&low, &lora.b, &SharedOut::over(out), true)?;
        }
        Ok(Vec::new())
    }

    /// Pulls a gradient back through [`Self::apply`]: `dy` is `[m, out]`, `dx` `[m, in]`, `low` what `apply` returned.
    /// Returns the gradients of `A` and `B`.
    ///
    /// # Errors
    /// When the layer lies elsewhere.
    pub(crate) fn pull(
        &self,
        x: &Activations<'_>,
        low: &[f32],
        dy: &Activations<'_>,
        dx: &mut [f32],
        accumulate: bool,
    ) -> Result<Option<[Tensor; 2]>> {
        let matrix = self.weight.host()?;
        let gradients = self.with_adapter(|adapter| {
            let taped = adapter.map(|adapter| (adapter, x, low));
            matrix.backward(taped, dy, &SharedOut::over(dx), accumulate)
        })?;
        let Some((lora, [da, db])) = self.lora.as_ref().zip(gradients) else {
            return Ok(None);
        };
        Ok(Some([
            Tensor::from_vec(da, lora.a.shape(), lora.a.device())?,
            Tensor::from_vec(db, lora.b.shape(), lora.b.device())?,
        ]))
    }

    fn with_adapter<R>(&self, f: impl FnOnce(Option<Adapter<'_>>) -> R) -> Result<R> {
        let Some(lora) = &self.lora else {
            return Ok(f(None));
        };
        host::with_values(&lora.a, |a| {
            host::with_values(&lora.b, |b| {
                Ok(f(Some(Adapter {
                    a,
                    b,
                    rank: lora.a.dim(0)?,
                    scale: lora.scale as f32,
                })))
            })
        })
    }
}

/// `x w^T`, each row by itself, into `out` or added to it.
fn dense(x: &[f32], w: &Tensor, out: &SharedOut<'_>, accumulate: bool) -> Result<()> {
    let (rows, cols) = w.dims2()?;
    host::with_values(w, |values| {
        rows::product(&Dense { values, cols }, (rows, cols), x, out, accumulate);
        Ok(())
    })
}

impl Frozen {
    pub(crate) fn new(matrix: HostMatrix) -> Self {
        Self(Arc::new(Store::Host(matrix)))
    }

    /// A matrix where it lies; one in host memory is multiplied in f32.
    ///
    /// # Errors
    /// When it is no matrix, or one in host memory is no f32.
    pub fn dense(weight: &Tensor) -> Result<Self> {
        let (_, cols) = weight.dims2()?;
        if !weight.device().is_cpu() {
            return Ok(Self(Arc::new(Store::Device(weight.detach()))));
        }
        let values = Values::F32(host::with_values(weight, |w| Ok(w.to_vec()))?);
        Ok(Self::new(HostMatrix::new(cols, values, Compute::F32)))
    }

    /// A quantised matrix in device memory.
    pub fn device_quantised(weight: QTensor) -> Self {
        Self(Arc::new(Store::DeviceQuantised(weight)))
    }

    /// The matrix in host memory.
    ///
    /// # Errors
    /// When it lies elsewhere.
    pub(crate) fn host(&self) -> Result<&HostMatrix> {
        match &*self.0 {
            Store::Host(matrix) => Ok(matrix),
            _ => candle_core::bail!("activations lie in host memory, the weight does not"),
        }
    }

    /// `(out, in)`
    ///
    /// # Errors
    /// When the weight was made from a tensor that is no matrix.
    pub fn dims(&self) -> Result<(usize, usize)> {
        match &*self.0 {
            Store::Host(m) => Ok((m.rows(), m.cols())),
            Store::Device(w) => w.dims2(),
            Store::DeviceQuantised(w) => w.shape().dims2(),
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        match &*self.0 {
            Store::Host(m) => m.bytes(),
            Store::Device(w) => w.elem_count() * w.dtype().size_in_bytes(),
            Store::DeviceQuantised(w) => w.storage_size_in_bytes(),
        }
    }

    /// `x W^T`, differentiable in `x` (`[N, in]`).
    ///
    /// # Errors
    /// When the shapes do not fit or the backend fails.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let x = x.contiguous()?;
        if x.track_op() {
            x.apply_op1(Product(self.clone()))
        } else {
            x.apply_op1_no_bwd(&Product(self.clone()))
        }
    }

    /// `x W^T` in host memory, each row by itself ([`Pass::Decode`]).
    ///
    /// # Errors
    /// When the shapes do not fit or the weight lies elsewhere.
    pub(crate) fn decode(&self, x: &Tensor) -> Result<Tensor> {
        let ((n, width), (rows, cols)) = (x.dims2()?, self.dims()?);
        let matrix = self.host()?;
        if width != cols {
            candle_core::bail!("expected activations of width {cols}, got {width}");
        }
        let mut y = Vec::with_capacity(n * rows);
        host::with_values(x, |x| {
            matrix.decode(&Activations::new(x), &SharedOut::new(&mut y), false);
            Ok(())
        })?;
        // SAFETY: the product wrote all outputs of all rows.
        unsafe { y.set_len(n * rows) };
        Tensor::from_vec(y, (n, rows), x.device())
    }

    /// `dy W` (`[N, out]` to `[N, in]`), outside any graph.
    ///
    /// # Errors
    /// When the shapes do not fit or the backend fails.
    pub fn backward(&self, dy: &Tensor) -> Result<Tensor> {
        match &*self.0 {
            Store::Host(m) => {
                let dx = host::with_values(dy, |dy| {
                    Ok(padded_product(dy, m.rows(), m.cols(), |dy, out| {
                        m.backward(None, dy, out, false);
                    }))
                })?;
                Tensor::from_slice(&dx, (dy.dim(0)?, m.cols()), dy.device())
            }
            Store::Device(w) => dy.detach().contiguous()?.matmul(w),
            Store::DeviceQuantised(w) => {
                let w = w.dequantize(dy.device())?.to_dtype(dy.dtype())?;
                dy.detach().contiguous()?.matmul(&w)
            }
        }
    }

    /// Rows `ids` as a tensor `[ids, in]`: the embedding look-up, without a full-precision table.
    ///
    /// # Errors
    /// When an id lies outside the table or the backend fails.
    pub fn rows(&self, ids: &[u32], like: &Tensor) -> Result<Tensor> {
        let (rows, cols) = self.dims()?;
        if let Some(id) = ids.iter().find(|&&id| id as usize >= rows) {
            candle_core::bail!("token id {id} lies outside the embedding table of {rows} rows");
        }
        let index = || Tensor::new(ids, like.device());
        match &*self.0 {
            Store::Host(m) => {
                let mut out = vec![0f32; ids.len() * cols];
                for (out, &id) in out.chunks_exact_mut(cols).zip(ids) {
                    m.expand(id as usize, 0, out);
                }
                Tensor::from_vec(out, (ids.len(), cols), like.device())
            }
            Store::Device(w) => w.index_select(&index()?, 0),
            Store::DeviceQuantised(w) => w.embedding(&index()?)?.to_dtype(like.dtype()),
        }
    }
}

/// Calls `run` with activations `[n, width]` and the rows of zeroes behind them that make products fast.
fn with_padding(x: &[f32], width: usize, run: impl FnOnce(&Activations<'_>)) {
    let n = x.len() / width;
    let m = panels::padded(n);
    match m == n {
        true => run(&Activations::new(x)),
        false => run(&Activations::new(&Buffer::padded(x, m * width))),
    }
}

/// Runs a product of `[n, from]` with padded rows, the result `[n, to]`.
pub(crate) fn padded_product(
    x: &[f32],
    from: usize,
    to: usize,
    run: impl FnOnce(&Activations<'_>, &SharedOut<'_>),
) -> Buffer<f32> {
    let n = x.len() / from;
    let mut y = Buffer::new(panels::padded(n) * to);
    with_padding(x, from, |x| run(x, &SharedOut::over(&mut y)));
    y.truncate(n * to);
    y
}

/// The product with a frozen weight as an operation of the graph.
struct Product(Frozen);

impl CustomOp1 for Product {
    fn name(&self) -> &'static str {
        "frozen-linear"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, cols) = self.0.dims()?;
        let (n, width) = layout.shape().dims2()?;
        if width != cols {
            candle_core::bail!("expected activations of width {cols}, got {width}");
        }
        let matrix = self.0.host()?;
        // Not a buffer of ours: the tensor keeps it.
        let mut y = Vec::with_capacity(panels::padded(n) * rows);
        with_padding(host::values(storage, layout)?, cols, |x| {
            matrix.forward(None, x, &SharedOut::new(&mut y), false);
        });
        // SAFETY: products write all outputs of all rows.
        unsafe { y.set_len(n * rows) };
        Ok((CpuStorage::F32(y), (n, rows).into()))
    }

    fn cuda_fwd(&self, storage: &CudaStorage, layout: &Layout) -> Result<(CudaStorage, Shape)> {
        let (rows, cols) = self.0.dims()?;
        let (n, width) = layout.shape().dims2()?;
        if width != cols {
            candle_core::bail!("expected activations of width {cols}, got {width}");
        }
        let weight = match &*self.0.0 {
            Store::Host(_) => {
                candle_core::bail!("activations lie in device memory, the weight does not")
            }
            Store::Device(w) => w.clone(),
            Store::DeviceQuantised(w) => w.dequantize(&w.device())?.to_dtype(storage.dtype())?,
        };
        let (weight, weight_layout) = weight.storage_and_layout();
        let Storage::Cuda(weight) = &*weight else {
            candle_core::bail!("the weight left the device");
        };
        // By layout: the storage may hold more than `x`, for instance what stands before a narrowed part.
        let transposed = weight_layout.transpose(0, 1)?;
        let y = storage.matmul(weight, (1, n, rows, cols), layout, &transposed)?;
        Ok((y, (n, rows).into()))
    }

    fn bwd(&self, _x: &Tensor, _y: &Tensor, dy: &Tensor) -> Result<Option<Tensor>> {
        self.0.backward(dy).map(Some)
    }
}
