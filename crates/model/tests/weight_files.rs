//! GGUF against the folder it was made from, and weight files with damaged headers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use mem_model::error::{Error, Result};
use mem_model::linear::Pass;
use mem_model::matrix::Compute;
use mem_model::qwen::Model;
use mem_model::weights::{Weights, is_quantised};

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny-qwen2")
}

fn load(path: &Path) -> Result<Model> {
    let (weights, config) = Weights::open(path, &Device::Cpu, Compute::F32)?;
    Model::load(&weights, config)
}

fn logits(model: &Model, ids: &[u32]) -> Vec<f32> {
    let hidden = model
        .hidden(ids, &[ids.len()], None, Pass::Prefill)
        .unwrap();
    let logits = model.logits(&hidden, Pass::Prefill).unwrap();
    logits.flatten_all().unwrap().to_vec1().unwrap()
}

/// The fixture's tensors under the names of GGUF.
fn tensors() -> HashMap<String, Tensor> {
    let mut hf =
        candle_core::safetensors::load(fixture().join("model.safetensors"), &Device::Cpu).unwrap();
    let mut gguf = HashMap::new();
    let mut take = |name: &str, to: String| {
        gguf.insert(to, hf.remove(name).unwrap());
    };
    take("model.embed_tokens.weight", "token_embd.weight".to_owned());
    take("model.norm.weight", "output_norm.weight".to_owned());
    for layer in 0..2 {
        for (name, to) in [
            ("input_layernorm.weight", "attn_norm.weight"),
            ("post_attention_layernorm.weight", "ffn_norm.weight"),
            ("self_attn.q_proj.weight", "attn_q.weight"),
            ("self_attn.k_proj.weight", "attn_k.weight"),
            ("self_attn.v_proj.weight", "attn_v.weight"),
            ("self_attn.o_proj.weight", "attn_output.weight"),
            ("self_attn.q_proj.bias", "attn_q.bias"),
            ("self_attn.k_proj.bias", "attn_k.bias"),
            ("self_attn.v_proj.bias", "attn_v.bias"),
            ("mlp.gate_proj.weight", "ffn_gate.weight"),
            ("mlp.up_proj.weight", "ffn_up.weight"),
            ("mlp.down_proj.weight", "ffn_down.weight"),
        ] {
            let name = format!("model.layers.{layer}.{name}");
            take(&name, format!("blk.{layer}.{to}"));
        }
    }
    assert!(hf.is_empty(), "{:?}", hf.keys());
    gguf
}

/// Writes a GGUF whose matrices have type `dtype`; vectors are f32.
fn write(path: &Path, tensors: &HashMap<String, Tensor>, dtype: GgmlDType) {
    let number = |name, value| (format!("qwen2.{name}"), Value::U32(value));
    let metadata = [
        (
            "general.architecture".to_owned(),
            Value::String("qwen2".to_owned()),
        ),
        number("embedding_length", 64),
        number("feed_forward_length", 128),
        number("block_count", 2),
        number("attention.head_count", 4),
        number("attention.head_count_kv", 2),
        number("context_length", 512),
        ("qwen2.rope.freq_base".to_owned(), Value::F32(1e6)),
        (
            "qwen2.attention.layer_norm_rms_epsilon".to_owned(),
            Value::F32(1e-6),
        ),
    ];
    let metadata: Vec<(&str, &Value)> = metadata.iter().map(|(k, v)| (k.as_str(), v)).collect();
    let tensors: Vec<(&str, QTensor)> = tensors
        .iter()
        .map(|(name, tensor)| {
            let dtype = match tensor.rank() {
                1 => GgmlDType::F32,
                _ => dtype,
            };
            (name.as_str(), QTensor::quantize(tensor, dtype).unwrap())
        })
        .collect();
    let tensors: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, t)| (*name, t)).collect();
    let mut file = std::fs::File::create(path).unwrap();
    gguf_file::write(&mut file, &metadata, &tensors).unwrap();
}

#[test]
fn a_gguf_equals_the_folder_it_was_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    write(&path, &tensors(), GgmlDType::F32);
    let ids = [5, 9, 301, 17, 44, 3, 8, 77, 200, 210, 11, 12];
    assert_eq!(
        logits(&load(&path).unwrap(), &ids),
        logits(&load(&fixture()).unwrap(), &ids)
    );
}

#[test]
fn quantised_files_are_told_from_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    write(&path, &tensors(), GgmlDType::F16);
    assert!(!is_quantised(&path).unwrap());
    write(&path, &tensors(), GgmlDType::Q8_0);
    assert!(is_quantised(&path).unwrap());
    assert!(!is_quantised(&fixture()).unwrap());
}

/// Few rows and many take different ways through quantised weights.
#[test]
fn quantised_weights_equal_their_expanded_values() {
    let folder = tempfile::tempdir().unwrap();
    for dtype in [GgmlDType::Q4_0, GgmlDType::Q5_1, GgmlDType::Q8_0] {
        let (quantised, expanded) = (folder.path().join("q.gguf"), folder.path().join("f.gguf"));
        let tensors = tensors();
        write(&quantised, &tensors, dtype);
        let expand = |t: &Tensor| match t.rank() {
            1 => t.clone(),
            _ => QTensor::quantize(t, dtype)
                .unwrap()
                .dequantize(&Device::Cpu)
                .unwrap(),
        };
        let tensors = tensors.iter().map(|(n, t)| (n.clone(), expand(t)));
        write(&expanded, &tensors.collect(), GgmlDType::F32);
        let (quantised, expanded) = (load(&quantised).unwrap(), load(&expanded).unwrap());
        for count in [1, 3, 20] {
            let ids: Vec<u32> = (0..count).map(|i| (i * 37 + 5) % 600).collect();
            let (found, wanted) = (logits(&quantised, &ids), logits(&expanded, &ids));
            let difference = found.iter().zip(&wanted).map(|(a, b)| (a - b).abs());
            let difference = difference.fold(0f32, f32::max);
            assert!(difference < 1e-4, "{dtype:?} {count}: {difference}");
        }
    }
}

/// Whatever a header says, the model loads or the reader says why not: it neither panics nor asks for
/// memory that the file could not fill.
#[test]
fn damaged_headers_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(
        fixture().join("config.json"),
        folder.path().join("config.json"),
    )
    .unwrap();
    let shard = folder.path().join("model.safetensors");
    let whole = std::fs::read(fixture().join("model.safetensors")).unwrap();
    let length = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let mut errors = damage(&whole, length, &shard, folder.path(), b"0[9-");
    let gguf = folder.path().join("model.gguf");
    write(&gguf, &tensors(), GgmlDType::Q8_0);
    let whole = std::fs::read(&gguf).unwrap();
    let content = gguf_file::Content::read(&mut std::fs::File::open(&gguf).unwrap()).unwrap();
    let length = content.tensor_data_offset as usize;
    errors += damage(&whole, length, &gguf, &gguf, b"\0\x01\x7f\xff");
    assert!(errors > 1000, "{errors}");
}

/// Loads `model` with each byte of the header of `file` replaced in turn; says how often that failed.
fn damage(whole: &[u8], length: usize, file: &Path, model: &Path, replacements: &[u8]) -> usize {
    let mut errors = 0;
    for at in 0..length {
        let mut bytes = whole.to_vec();
        bytes[at] = replacements[at % replacements.len()];
        std::fs::write(file, &bytes).unwrap();
        errors += usize::from(load(model).is_err());
    }
    errors
}

/// Candle's reader divides by it.
#[test]
fn an_alignment_of_nothing_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let mut file = std::fs::File::create(&path).unwrap();
    gguf_file::write(&mut file, &[("general.alignment", &Value::U32(0))], &[]).unwrap();
    let error = load(&path).err().unwrap().to_string();
    assert!(error.contains("model.gguf"), "{error}");
    assert!(error.contains("`general.alignment` is 0"), "{error}");
}

#[test]
fn sizes_no_model_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixture().join("config.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    std::fs::copy(
        fixture().join("model.safetensors"),
        folder.path().join("model.safetensors"),
    )
    .unwrap();
    for (key, value) in [
        ("vocab_size", serde_json::json!(0)),
        ("hidden_size", serde_json::json!(u64::MAX)),
        ("num_attention_heads", serde_json::json!(1u64 << 40)),
        ("num_key_value_heads", serde_json::json!(3)),
        ("max_position_embeddings", serde_json::json!(0)),
        ("rope_theta", serde_json::json!(0)),
        ("rms_norm_eps", serde_json::json!(-1)),
        ("hidden_act", serde_json::json!("gelu")),
    ] {
        let mut changed = config.clone();
        changed[key] = value;
        std::fs::write(folder.path().join("config.json"), changed.to_string()).unwrap();
        let error = load(folder.path()).err();
        assert!(
            matches!(error, Some(Error::Unsupported { .. } | Error::Sizes { .. })),
            "{key}: {error:?}"
        );
    }
    let said = |key: &str, value: u32| {
        let mut changed = config.clone();
        changed[key] = value.into();
        std::fs::write(folder.path().join("config.json"), changed.to_string()).unwrap();
        load(folder.path()).err().unwrap().to_string()
    };
    let message = said("num_key_value_heads", 3);
    assert!(
        message.ends_with(
            "4 attention heads cannot share 3 key and value heads evenly; it may be damaged, fetch the model again"
        ),
        "{message}"
    );
    let message = said("hidden_size", 0);
    assert!(
        message.contains("its hidden size is 0, it must be"),
        "{message}"
    );
}

#[test]
fn what_is_no_model_is_called_by_its_kind() {
    let folder = tempfile::tempdir().unwrap();
    let said = |name: &str, contents: Option<&[u8]>| {
        let path = folder.path().join(name);
        match contents {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::create_dir(&path).unwrap(),
        }
        load(&path).err().unwrap().to_string()
    };
    for (name, contents, what) in [
        (
            "notes.txt",
            Some(&b"[2024-03-04 18:20] Mina: hi\n"[..]),
            "is a text file, no model",
        ),
        ("empty.gguf", Some(b""), "is an empty file"),
        (
            "model.bin",
            Some(b"PK\x03\x04\0\0\0"),
            "is a file of another kind",
        ),
        (
            "model.safetensors",
            Some(b"\x08\0\0\0{}"),
            "is one file of a model's folder",
        ),
        ("folder", None, "is a folder without `config.json`"),
    ] {
        let message = said(name, contents);
        assert!(message.contains(&format!("{name}` {what}")), "{message}");
        assert!(message.contains("give a `.gguf` file"), "{message}");
    }
    let adapter = fixture().join("adapter");
    let message = load(&adapter).err().unwrap().to_string();
    assert!(message.contains("is the folder of an adapter"), "{message}");
    let embedder = fixture().join("../tiny-bert");
    let message = load(&embedder).err().unwrap().to_string();
    assert!(
        message.contains("type `bert`, which turns texts into vectors"),
        "{message}"
    );
}

/// The estimate holds what is then taken, and not much more: rows that are padded count most in so small a model.
#[test]
fn the_header_tells_what_weights_will_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    let check = |path: &Path| {
        for compute in [Compute::F32, Compute::fastest()] {
            let (weights, config) = Weights::open(path, &Device::Cpu, compute).unwrap();
            let expected = weights.expected_bytes() as f64;
            let taken = Model::load(&weights, config).unwrap().weight_bytes() as f64;
            assert!(
                (0.8..1.5).contains(&(expected / taken)),
                "{expected} for {taken}"
            );
        }
    };
    check(&fixture());
    for dtype in [
        GgmlDType::F32,
        GgmlDType::F16,
        GgmlDType::Q8_0,
        GgmlDType::Q4_0,
    ] {
        write(&path, &tensors(), dtype);
        check(&path);
    }
}
