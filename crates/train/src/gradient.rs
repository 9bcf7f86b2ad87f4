//! Loss and adapter gradients of packed examples, block by block. In host memory the model's own passes compute them; on
//! devices a block's graph lives only while it is computed again for its own gradient. Logits exist for some supervised
//! positions at a time.

use std::collections::BTreeMap;

use candle_core::{D, DType, Result, Tensor, Var};
use mem_model::adapter::tensor_name;
use mem_model::encode::Encoded;
use mem_model::linear::Pass;
use mem_model::qwen::{Model, Projection};

/// Supervised positions whose logits are held at once on devices: 256 x 151,936 f32 are 156 MB, of which there are some copies.
const HEAD_ROWS: usize = 256;

/// Bytes of activations that a pass in host memory keeps at most; blocks that do not fit are computed again.
const KEPT_BYTES: usize = 2 << 30;

/// Sums over the supervised tokens of some examples; divide once, when all are added.
#[derive(Default)]
pub struct Sums {
    /// Negative log-likelihood in nats.
    pub loss: f64,
    /// Supervised tokens.
    pub supervised_tokens: usize,
    /// All tokens.
    pub tokens: usize,
    /// Gradient of `loss` for each adapter tensor.
    pub gradients: BTreeMap<String, Tensor>,
}

/// One packed batch: all tokens, row lengths, and which rows of the hidden states predict which token.
struct Batch {
    ids: Vec<u32>,
    lens: Vec<usize>,
    rows: Vec<u32>,
    targets: Vec<u32>,
}

impl Batch {
    /// The logits at position `t` are for the token at `t + 1`: supervised are the tokens from
    /// `prompt_len` on.
    fn new(examples: &[&Encoded]) -> Self {
        let mut batch = Self {
            ids: Vec::new(),
            lens: Vec::new(),
            rows: Vec::new(),
            targets: Vec::new(),
        };
        for example in examples {
            let start = batch.ids.len();
            let supervised = example.prompt_len.max(1)..example.ids.len();
            batch
                .rows
                .extend(supervised.clone().map(|t| (start + t - 1) as u32));
            batch.targets.extend(&example.ids[supervised]);
            batch.ids.extend(&example.ids);
            batch.lens.push(example.ids.len());
        }
        batch
    }
}

/// Adds loss and, for the variables `vars`, gradients of `examples` to `sums`.
///
/// # Errors
/// When the backend fails.
pub fn accumulate(
    model: &Model,
    vars: &BTreeMap<String, Var>,
    examples: &[&Encoded],
    sums: &mut Sums,
) -> Result<()> {
    let batch = Batch::new(examples);
    if !model.is_composed() {
        // Inside the pool, which the many small steps are handed to.
        return rayon::scope(|_| accumulate_host(model, &batch, sums));
    }
    let packing = model.packing(&batch.lens, &vec![0; batch.lens.len()], Pass::Prefill);
    let mut inputs = vec![model.embed(&batch.ids)?];
    for (i, block) in model.blocks().iter().enumerate() {
        let y = block.forward(&inputs[i], &packing, None)?.detach();
        inputs.push(y);
    }
    let Some(last) = inputs.pop() else {
        return Ok(());
    };
    let (loss, mut gradient) = head_gradient(model, &batch, &last)?;
    for (layer, block) in model.blocks().iter().enumerate().rev() {
        let Some(input) = inputs.pop() else { break };
        let x = Var::from_tensor(&input)?;
        let y = block.forward(x.as_tensor(), &packing, None)?;
        let mut grads = (y * gradient)?.sum_all()?.backward()?;
        let missing = || candle_core::Error::Msg(format!("block {layer} passes no gradient on"));
        gradient = grads.remove(x.as_tensor()).ok_or_else(missing)?;
        for projection in Projection::ALL {
            for part in ["A", "B"] {
                let name = tensor_name(layer, projection, part);
                let Some(found) = vars
                    .get(&name)
                    .and_then(|var| grads.remove(var.as_tensor()))
                else {
                    continue;
                };
                add(&mut sums.gradients, name, found)?;
            }
        }
    }
    sums.loss += loss;
    sums.supervised_tokens += batch.targets.len();
    sums.tokens += batch.ids.len();
    Ok(())
}

/// [`accumulate`] in host memory.
fn accumulate_host(model: &Model, batch: &Batch, sums: &mut Sums) -> Result<()> {
    let (last, tape) = model.record(&batch.ids, &batch.lens, KEPT_BYTES)?;
    let (loss, gradient) = model.loss(&last, &batch.rows, &batch.targets, true)?;
    let Some(gradient) = gradient else {
        return Ok(());
    };
    model.pull(tape, &gradient, &mut |layer, projection, pair| {
        for (part, found) in ["A", "B"].into_iter().zip(pair) {
            add(
                &mut sums.gradients,
                tensor_name(layer, projection, part),
                found,
            )?;
        }
        Ok(())
    })?;
    sums.loss += loss;
    sums.supervised_tokens += batch.targets.len();
    sums.tokens += batch.ids.len();
    Ok(())
}

fn add(gradients: &mut BTreeMap<String, Tensor>, name: String, found: Tensor) -> Result<()> {
    let sum = match gradients.remove(&name) {
        Some(sum) => (sum + found)?,
        None => found,
    };
    gradients.insert(name, sum);
    Ok(())
}

/// Adds the loss of `examples` to `sums`, without gradients.
///
/// # Errors
/// When the backend fails.
pub fn evaluate(model: &Model, examples: &[&Encoded], sums: &mut Sums) -> Result<()> {
    let batch = Batch::new(examples);
    if !model.is_composed() {
        let (last, _) = rayon::scope(|_| model.record(&batch.ids, &batch.lens, 0))?;
        sums.loss += model.loss(&last, &batch.rows, &batch.targets, false)?.0;
        sums.supervised_tokens += batch.targets.len();
        sums.tokens += batch.ids.len();
        return Ok(());
    }
    let packing = model.packing(&batch.lens, &vec![0; batch.lens.len()], Pass::Prefill);
    let mut x = model.embed(&batch.ids)?;
    for block in model.blocks() {
        // Detached: adapter tensors may be variables, whose graph would hold every activation.
        x = block.forward(&x, &packing, None)?.detach();
    }
    let rows = Tensor::new(batch.rows.as_slice(), x.device())?;
    let hidden = model.final_norm(&x)?.index_select(&rows, 0)?;
    for (start, targets) in chunks(&batch.targets) {
        let (loss, _) = cross_entropy(
            model,
            &hidden.narrow(0, start, targets.len())?,
            targets,
            false,
        )?;
        sums.loss += loss;
    }
    sums.supervised_tokens += batch.targets.len();
    sums.tokens += batch.ids.len();
    Ok(())
}

/// Loss of the batch and its gradient for the last block's output `[N, D]`.
fn head_gradient(model: &Model, batch: &Batch, last: &Tensor) -> Result<(f64, Tensor)> {
    if batch.targets.is_empty() {
        return Ok((0.0, last.zeros_like()?));
    }
    let x = Var::from_tensor(last)?;
    let rows = Tensor::new(batch.rows.as_slice(), last.device())?;
    let hidden = model.final_norm(x.as_tensor())?.index_select(&rows, 0)?;
    let mut loss = 0.0;
    let mut gradients = Vec::new();
    for (start, targets) in chunks(&batch.targets) {
        let part = hidden.narrow(0, start, targets.len())?.detach();
        let (part_loss, slope) = cross_entropy(model, &part, targets, true)?;
        loss += part_loss;
        if let Some(slope) = slope {
            gradients.push(model.head().backward(&slope)?);
        }
    }
    let gradient = Tensor::cat(&gradients, 0)?;
    let mut grads = (hidden * gradient)?.sum_all()?.backward()?;
    let gradient = grads.remove(x.as_tensor());
    gradient
        .map(|g| (loss, g))
        .ok_or_else(|| candle_core::Error::Msg("the head passes no gradient on".to_owned()))
}

fn chunks(targets: &[u32]) -> impl Iterator<Item = (usize, &[u32])> {
    targets
        .chunks(HEAD_ROWS)
        .enumerate()
        .map(|(i, targets)| (i * HEAD_ROWS, targets))
}

/// Summed cross-entropy of `[M, D]` hidden states and, if wanted, its gradient for the logits, `[M, V]`:
/// `softmax(logits) - onehot(target)`.
fn cross_entropy(
    model: &Model,
    hidden: &Tensor,
    targets: &[u32],
    with_gradient: bool,
) -> Result<(f64, Option<Tensor>)> {
    let logits = model.logits(hidden, Pass::Prefill)?;
    let dtype = logits.dtype();
    let logits = logits.to_dtype(DType::F32)?;
    let logits = logits.broadcast_sub(&logits.max_keepdim(D::Minus1)?)?;
    let targets = Tensor::new(targets, logits.device())?.unsqueeze(1)?;
    let wanted = logits.gather(&targets, 1)?;
    let weights = logits.exp()?;
    let sums = weights.sum_keepdim(D::Minus1)?;
    let losses = (sums.log()? - wanted)?.flatten_all()?.to_vec1::<f32>()?;
    let loss = losses.into_iter().map(f64::from).sum();
    if !with_gradient {
        return Ok((loss, None));
    }
    let minus_one = targets.to_dtype(DType::F32)?.ones_like()?.neg()?;
    let slope = weights
        .broadcast_div(&sums)?
        .scatter_add(&targets, &minus_one, 1)?;
    Ok((loss, Some(slope.to_dtype(dtype)?)))
}
