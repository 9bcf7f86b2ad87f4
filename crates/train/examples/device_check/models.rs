//! The models that are checked: those of the tests, and random ones that are written for it.

use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{DType, Device, Tensor};
use mem_model::adapter::{self, AdapterConfig};
use mem_model::generate::DeviceKind;
use mem_model::qwen::Projection;
use mem_model::weights::gguf_name;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use super::{Result, Subject, Tensors, reference};

pub(super) fn fixture(name: &str) -> PathBuf {
    // Cargo says where the crate is; a program that was built elsewhere runs in the repository's root.
    let krate = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or("crates/train".into());
    Path::new(&krate).join("../model/tests/fixtures").join(name)
}

/// The tiny models of the tests with their adapters, and larger random ones, also quantised, written to `folder`.
pub(super) fn subjects(kind: DeviceKind, folder: &Path) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for name in ["tiny-qwen2", "tiny-qwen3"] {
        let path = fixture(name);
        let (config, tensors) = adapter::load(&path.join("adapter"), &Device::Cpu)?;
        subjects.push(Subject {
            name: name.to_owned(),
            path,
            config,
            tensors,
        });
    }
    for (name, quantised) in [
        (
            "qwen2",
            &[GgmlDType::Q4_0, GgmlDType::Q5_0, GgmlDType::Q4K][..],
        ),
        ("qwen3", &[GgmlDType::Q8_0, GgmlDType::Q5K, GgmlDType::Q6K]),
    ] {
        let path = folder.join(name);
        std::fs::create_dir(&path)?;
        let tensors = write_folder(&path, name)?;
        let mut paths = vec![(format!("small-{name}"), path)];
        // In host memory one type stands for all: each is unpacked by the same code for every operation.
        let types = match kind {
            DeviceKind::Cpu => 1,
            DeviceKind::Cuda => quantised.len(),
        };
        for &dtype in &quantised[..types] {
            let path = folder.join(format!("{name}-{dtype:?}.gguf"));
            write_gguf(&path, name, &tensors, dtype)?;
            paths.push((format!("small-{name} {dtype:?}"), path));
        }
        for (name, path) in paths {
            let model = reference(&path)?;
            let config = AdapterConfig {
                r: 8,
                alpha: 16.0,
                rslora: false,
                targets: Projection::ALL.to_vec(),
                base_model: String::new(),
            };
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let mut tensors = adapter::initial(&config, &model, &mut rng)?;
            // An adapter as after some training: zeros in B would hide A.
            for tensor in tensors.values_mut() {
                *tensor = (&*tensor + random(&mut rng, tensor.dims(), 0.05)?)?;
            }
            subjects.push(Subject {
                name,
                path,
                config,
                tensors,
            });
        }
    }
    Ok(subjects)
}

const HIDDEN: usize = 256;
const INNER: usize = 512;
const LAYERS: usize = 3;
const VOCABULARY: usize = 1000;
const GROUPS: usize = 2;

/// Query heads and their width: as wide together as the residual stream in Qwen2, wider in Qwen3.
fn heads(family: &str) -> (usize, usize) {
    match family {
        "qwen2" => (8, 32),
        _ => (8, 64),
    }
}

pub(super) fn random(rng: &mut ChaCha8Rng, dims: &[usize], bound: f32) -> Result<Tensor> {
    let count = dims.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|_| rng.random_range(-bound..bound))
        .collect();
    Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
}

/// Writes a random model as a HF folder and returns its tensors. Values fit bf16, so that no type changes the weights.
fn write_folder(folder: &Path, family: &str) -> Result<Tensors> {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let (heads, width) = heads(family);
    let (q, kv) = (heads * width, GROUPS * width);
    let mut tensors = Tensors::new();
    let mut add = |name: String, dims: &[usize], centre: f64, bound: f32| -> Result<()> {
        let tensor = (random(&mut rng, dims, bound)? + centre)?;
        let tensor = tensor.to_dtype(DType::BF16)?.to_dtype(DType::F32)?;
        tensors.insert(name, tensor);
        Ok(())
    };
    add(
        "model.embed_tokens.weight".to_owned(),
        &[VOCABULARY, HIDDEN],
        0.0,
        0.2,
    )?;
    add("model.norm.weight".to_owned(), &[HIDDEN], 1.0, 0.3)?;
    if family == "qwen3" {
        add("lm_head.weight".to_owned(), &[VOCABULARY, HIDDEN], 0.0, 0.2)?;
    }
    for layer in 0..LAYERS {
        for projection in Projection::ALL {
            let (rows, cols) = match projection {
                Projection::Q => (q, HIDDEN),
                Projection::K | Projection::V => (kv, HIDDEN),
                Projection::O => (HIDDEN, q),
                Projection::Gate | Projection::Up => (INNER, HIDDEN),
                Projection::Down => (HIDDEN, INNER),
            };
            let path = projection.path(layer);
            let bound = 1.7 / (cols as f32).sqrt();
            add(format!("{path}.weight"), &[rows, cols], 0.0, bound)?;
            let has_bias = matches!(projection, Projection::Q | Projection::K | Projection::V);
            if family == "qwen2" && has_bias {
                add(format!("{path}.bias"), &[rows], 0.0, 0.3)?;
            }
        }
        let norm = |name: &str| format!("model.layers.{layer}.{name}.weight");
        add(norm("input_layernorm"), &[HIDDEN], 1.0, 0.3)?;
        add(norm("post_attention_layernorm"), &[HIDDEN], 1.0, 0.3)?;
        if family == "qwen3" {
            add(norm("self_attn.q_norm"), &[width], 1.0, 0.3)?;
            add(norm("self_attn.k_norm"), &[width], 1.0, 0.3)?;
        }
    }
    let config = json!({
        "model_type": family,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": GROUPS,
        "head_dim": width,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 1024,
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": family == "qwen2",
    });
    std::fs::write(folder.join("config.json"), config.to_string())?;
    adapter::save_tensors(&folder.join("model.safetensors"), &tensors)?;
    Ok(tensors)
}

/// Writes the same model as a GGUF whose matrices have type `dtype`.
fn write_gguf(path: &Path, family: &str, tensors: &Tensors, dtype: GgmlDType) -> Result<()> {
    let (heads, width) = heads(family);
    let number = |name, value: usize| (format!("{family}.{name}"), Value::U32(value as u32));
    let float = |name, value| (format!("{family}.{name}"), Value::F32(value));
    let metadata = [
        (
            "general.architecture".to_owned(),
            Value::String(family.to_owned()),
        ),
        number("embedding_length", HIDDEN),
        number("feed_forward_length", INNER),
        number("block_count", LAYERS),
        number("attention.head_count", heads),
        number("attention.head_count_kv", GROUPS),
        number("attention.key_length", width),
        number("context_length", 1024),
        float("rope.freq_base", 1e6),
        float("attention.layer_norm_rms_epsilon", 1e-6),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let mut quantised = Vec::new();
    for (name, tensor) in tensors {
        let dtype = match tensor.rank() {
            1 => GgmlDType::F32,
            _ => dtype,
        };
        quantised.push((gguf_name(name), QTensor::quantize(tensor, dtype)?));
    }
    let quantised: Vec<_> = quantised.iter().map(|(n, t)| (n.as_str(), t)).collect();
    let mut file = std::fs::File::create(path)?;
    Ok(gguf_file::write(&mut file, &metadata, &quantised)?)
}
