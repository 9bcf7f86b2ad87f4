//! LoRA adapters in the layout of PEFT: `adapter_config.json` beside `adapter_model.safetensors`.

use std::collections::BTreeMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use rand::Rng;
use safetensors::tensor::TensorView;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result, plain};
use crate::linear::Lora;
use crate::qwen::{Model, Projection};

const CONFIG_FILE: &str = "adapter_config.json";
const WEIGHTS_FILE: &str = "adapter_model.safetensors";

/// What an adapter changes and how strongly.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// Rank.
    pub r: usize,
    /// The update is scaled by `alpha / r`.
    pub alpha: f64,
    /// Scale by `alpha / sqrt(r)` instead (Kalajdzievski 2023).
    pub rslora: bool,
    /// Layers that carry a pair.
    pub targets: Vec<Projection>,
    /// Name of the model that the adapter was trained on; never a path.
    pub base_model: String,
}

impl AdapterConfig {
    /// Factor of the update.
    pub fn scale(&self) -> f64 {
        let r = self.r as f64;
        self.alpha / if self.rslora { r.sqrt() } else { r }
    }
}

/// `adapter_config.json`; keys that change nothing here are ignored when reading.
#[derive(Serialize, Deserialize)]
struct PeftConfig {
    peft_type: String,
    #[serde(default)]
    task_type: Option<String>,
    #[serde(default)]
    base_model_name_or_path: Option<String>,
    #[serde(default = "peft_default")]
    r: usize,
    #[serde(default = "peft_default_alpha", serialize_with = "whole")]
    lora_alpha: f64,
    #[serde(default)]
    lora_dropout: f64,
    target_modules: serde_json::Value,
    #[serde(default = "none")]
    bias: String,
    #[serde(default)]
    fan_in_fan_out: bool,
    #[serde(default)]
    inference_mode: bool,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    use_dora: bool,
    /// Everything else in the file; see [`REFUSED`].
    #[serde(flatten)]
    others: serde_json::Map<String, serde_json::Value>,
}

/// Keys with which PEFT (0.21) computes something else than one pair a target layer; each is refused unless it is
/// null, false or empty.
const REFUSED: [&str; 17] = [
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "exclude_modules",
    "kasa_config",
    "layer_replication",
    "layers_pattern",
    "layers_to_transform",
    "lora_bias",
    "modules_to_save",
    "monteclora_config",
    "rank_pattern",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_qalora",
    "velora_config",
];

/// Beginnings of PEFT's initialisations that change the weights of the base model too.
const BASE_CHANGING: [&str; 5] = ["pissa", "corda", "olora", "loftq", "lora_ga"];

fn peft_default() -> usize {
    8
}

fn peft_default_alpha() -> f64 {
    8.0
}

/// Alpha as an integer where it is one: other readers of the format declare it so.
fn whole<S: serde::Serializer>(alpha: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    if alpha.fract() == 0.0 && alpha.abs() < 1e15 {
        serializer.serialize_i64(*alpha as i64)
    } else {
        serializer.serialize_f64(*alpha)
    }
}

fn none() -> String {
    "none".to_owned()
}

/// Name of a tensor in the file: `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`.
pub fn tensor_name(layer: usize, projection: Projection, part: &str) -> String {
    format!(
        "base_model.model.{}.lora_{part}.weight",
        projection.path(layer)
    )
}

/// Fresh pairs for every target: A Kaiming-uniform with a = sqrt(5), that is uniform within
/// `1 / sqrt(in)`, B zero, so that the adapted model starts as the base model.
///
/// # Errors
/// When memory cannot be had.
pub fn initial(
    config: &AdapterConfig,
    model: &Model,
    rng: &mut impl Rng,
) -> Result<BTreeMap<String, Tensor>> {
    let mut tensors = BTreeMap::new();
    for layer in 0..model.config().layers {
        for &projection in &config.targets {
            let (rows, cols) = projection.dims(model.config());
            let bound = 1.0 / (cols as f32).sqrt();
            let a: Vec<f32> = (0..config.r * cols)
                .map(|_| rng.random_range(-bound..bound))
                .collect();
            let a = Tensor::from_vec(a, (config.r, cols), model.device())?;
            tensors.insert(tensor_name(layer, projection, "A"), a);
            let b = Tensor::zeros((rows, config.r), DType::F32, model.device())?;
            tensors.insert(tensor_name(layer, projection, "B"), b);
        }
    }
    Ok(tensors)
}

/// Gives every target layer of `model` its pair out of `tensors` (variables stay variables).
///
/// # Errors
/// When a pair is missing, has another shape, or a tensor belongs to no target.
pub fn attach(
    model: &mut Model,
    config: &AdapterConfig,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<()> {
    let model_config = model.config().clone();
    let mut used = 0;
    for (layer, block) in model.blocks_mut().iter_mut().enumerate() {
        for &projection in &config.targets {
            let (rows, cols) = projection.dims(&model_config);
            let part = |part: &str, dims: (usize, usize)| {
                let name = tensor_name(layer, projection, part);
                match tensors.get(&name) {
                    Some(t) if t.dims() == [dims.0, dims.1] => Ok(t.clone()),
                    Some(t) => Err(Error::Adapter(format!(
                        "tensor `{name}` has shape {:?}, the model needs {dims:?}; was it trained on another model?",
                        t.dims()
                    ))),
                    None => Err(Error::Adapter(format!("tensor `{name}` is missing"))),
                }
            };
            let (a, b) = (part("A", (config.r, cols))?, part("B", (rows, config.r))?);
            block.linear_mut(projection).set_lora(Some(Lora {
                a,
                b,
                scale: config.scale(),
            }));
            used += 2;
        }
    }
    if used != tensors.len() {
        return Err(Error::Adapter(format!(
            "{} tensors belong to no target layer of the model",
            tensors.len() - used
        )));
    }
    Ok(())
}

/// Reads what the adapter in `folder` changes and on which model it was trained.
///
/// # Errors
/// When the file is missing or malformed, or the adapter needs what is not implemented (DoRA, biases,
/// saved modules, patterns, a choice of layers).
pub fn read_config(folder: &Path) -> Result<AdapterConfig> {
    let path = folder.join(CONFIG_FILE);
    let text = std::fs::read(&path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let peft: PeftConfig = serde_json::from_slice(&text).map_err(|source| Error::AdapterJson {
        path: path.clone(),
        source,
    })?;
    checked(peft, &path)
}

/// Reads an adapter folder; tensors come as f32.
///
/// # Errors
/// As for [`read_config`]; when the weights are missing or damaged.
pub fn load(folder: &Path, device: &Device) -> Result<(AdapterConfig, BTreeMap<String, Tensor>)> {
    let config = read_config(folder)?;
    let path = folder.join(WEIGHTS_FILE);
    let bytes = std::fs::read(&path).map_err(|source| Error::Read {
        path: path.clone(),
        source,
    })?;
    let tensors =
        candle_core::safetensors::load_buffer(&bytes, &Device::Cpu).map_err(|source| {
            Error::WeightFile {
                path,
                source: Box::new(plain(source)),
            }
        })?;
    let mut checked = BTreeMap::new();
    for (name, tensor) in tensors {
        let dtype = tensor.dtype();
        if !matches!(dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64) {
            return Err(Error::Adapter(format!(
                "tensor `{name}` is stored as {dtype:?}, weights are F32, F16, BF16 or F64; copy the adapter again, or train it again"
            )));
        }
        let tensor = tensor.to_dtype(DType::F32)?;
        if !is_finite(&tensor, config.scale())? {
            return Err(Error::Adapter(format!(
                "tensor `{name}` holds values that are no finite numbers; it is damaged, or its training diverged"
            )));
        }
        checked.insert(name, tensor.to_device(device)?);
    }
    Ok((config, checked))
}

/// Whether every value of an f32 tensor is a finite number, also times `factor` and in f32.
///
/// # Errors
/// When the tensor has another type or the backend fails.
pub fn is_finite(tensor: &Tensor, factor: f64) -> candle_core::Result<bool> {
    let values = tensor.flatten_all()?.to_vec1::<f32>()?;
    let scaled = |v: &f32| (f64::from(*v) * factor) as f32;
    Ok(values.iter().all(|v| scaled(v).is_finite()))
}

fn checked(peft: PeftConfig, path: &Path) -> Result<AdapterConfig> {
    let unsupported = |feature: &str| Error::Unsupported {
        path: path.to_owned(),
        feature: feature.to_owned(),
    };
    let refused = [
        (peft.peft_type != "LORA", "an adapter type other than LORA"),
        (peft.use_dora, "DoRA"),
        (peft.bias != "none", "trained biases"),
        (peft.fan_in_fan_out, "`fan_in_fan_out`"),
        (peft.r == 0, "rank 0"),
    ];
    if let Some((_, feature)) = refused.iter().find(|(refused, _)| *refused) {
        return Err(unsupported(feature));
    }
    let sets = |value: &serde_json::Value| match value {
        serde_json::Value::Null => false,
        serde_json::Value::Bool(set) => *set,
        serde_json::Value::Array(items) => !items.is_empty(),
        serde_json::Value::Object(items) => !items.is_empty(),
        serde_json::Value::String(text) => !text.is_empty(),
        serde_json::Value::Number(_) => true,
    };
    if let Some(key) = REFUSED
        .iter()
        .find(|&&key| peft.others.get(key).is_some_and(sets))
    {
        return Err(unsupported(&format!("an adapter with `{key}`")));
    }
    let start = peft
        .others
        .get("init_lora_weights")
        .and_then(|v| v.as_str());
    if let Some(start) = start.filter(|start| {
        let start = start.to_lowercase();
        BASE_CHANGING.iter().any(|name| start.starts_with(name))
    }) {
        return Err(unsupported(&format!(
            "the initialisation `{start}`, which changes the base model"
        )));
    }
    let names: Vec<String> = serde_json::from_value(peft.target_modules)
        .map_err(|_| unsupported("`target_modules` as anything but a list of layer names"))?;
    let mut targets = Vec::new();
    for name in &names {
        match Projection::ALL.into_iter().find(|p| p.name() == name) {
            Some(projection) => targets.push(projection),
            None => return Err(unsupported(&format!("an adapter on `{name}`"))),
        }
    }
    targets.sort_by_key(|&p| p as usize);
    targets.dedup();
    Ok(AdapterConfig {
        r: peft.r,
        alpha: peft.lora_alpha,
        rslora: peft.use_rslora,
        targets,
        base_model: peft.base_model_name_or_path.unwrap_or_default(),
    })
}

/// Writes both files into `folder`, which must exist; each is written beside and renamed.
///
/// # Errors
/// When a file cannot be written.
pub fn save(
    folder: &Path,
    config: &AdapterConfig,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<()> {
    let peft = PeftConfig {
        peft_type: "LORA".to_owned(),
        task_type: Some("CAUSAL_LM".to_owned()),
        base_model_name_or_path: Some(config.base_model.clone()),
        r: config.r,
        lora_alpha: config.alpha,
        lora_dropout: 0.0,
        target_modules: config
            .targets
            .iter()
            .map(|p| p.name())
            .collect::<Vec<_>>()
            .into(),
        bias: none(),
        fan_in_fan_out: false,
        inference_mode: true,
        use_rslora: config.rslora,
        use_dora: false,
        others: [
            ("modules_to_save".to_owned(), serde_json::Value::Null),
            ("rank_pattern".to_owned(), serde_json::json!({})),
            ("alpha_pattern".to_owned(), serde_json::json!({})),
        ]
        .into_iter()
        .collect(),
    };
    let path = folder.join(CONFIG_FILE);
    let mut text = serde_json::to_vec_pretty(&peft).map_err(|source| Error::AdapterJson {
        path: path.clone(),
        source,
    })?;
    text.push(b'\n');
    write_beside(&path, &text)?;
    save_tensors(&folder.join(WEIGHTS_FILE), tensors)
}

/// Writes f32 tensors as safetensors, beside and renamed.
///
/// # Errors
/// When the file cannot be written.
pub fn save_tensors(path: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<()> {
    let mut parts = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let values = tensor
            .flatten_all()?
            .to_dtype(DType::F32)?
            .to_vec1::<f32>()?;
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        parts.push((name.as_str(), tensor.dims().to_vec(), bytes));
    }
    let views = parts
        .iter()
        .map(|(name, dims, bytes)| {
            Ok((
                *name,
                TensorView::new(safetensors::Dtype::F32, dims.clone(), bytes)?,
            ))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>();
    // Loaders of the reference ecosystem refuse files that do not name the format.
    let metadata = Some([("format".to_owned(), "pt".to_owned())].into());
    let bytes = views
        .and_then(|views| safetensors::serialize(views, metadata))
        .map_err(|e| Error::Adapter(format!("cannot serialise the tensors: {e}")))?;
    write_beside(path, &bytes)
}

/// Writes `bytes` to a sibling file, flushes it to the disk and renames it to `path`: a reader sees the
/// old file or the new one, never half of one.
///
/// # Errors
/// When the file cannot be written; the sibling is removed.
pub fn write_beside(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let beside = path.with_file_name(name);
    let write = || {
        let mut file = std::fs::File::create(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(|source| {
        let _ = std::fs::remove_file(&beside);
        Error::Write {
            path: path.to_owned(),
            source,
        }
    })
}
