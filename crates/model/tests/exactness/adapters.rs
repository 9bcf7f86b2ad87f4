//! Adapter folders: written, read, and refused with what is wrong.

use std::path::Path;

use candle_core::Device;
use mem_model::{adapter, error::Error};

use super::{folder, load};

#[test]
fn an_adapter_survives_saving() {
    let folder = folder("tiny-qwen2").join("adapter");
    let (config, tensors) = adapter::load(&folder, &Device::Cpu).unwrap();
    let out = tempfile::tempdir().unwrap();
    adapter::save(out.path(), &config, &tensors).unwrap();
    let (config_again, tensors_again) = adapter::load(out.path(), &Device::Cpu).unwrap();
    assert_eq!(config, config_again);
    assert_eq!(tensors.len(), tensors_again.len());
    for (name, tensor) in &tensors {
        let again = &tensors_again[name];
        assert_eq!(
            tensor.to_vec2::<f32>().unwrap(),
            again.to_vec2::<f32>().unwrap(),
            "{name}"
        );
    }
}

#[test]
fn an_adapter_of_another_model_is_refused() {
    let (config, tensors) =
        adapter::load(&folder("tiny-qwen3").join("adapter"), &Device::Cpu).unwrap();
    let error = adapter::attach(&mut load("tiny-qwen2"), &config, &tensors).unwrap_err();
    assert!(
        matches!(&error, Error::Adapter(m) if m.contains("another model")),
        "{error}"
    );
}

/// An adapter with one part of its files changed, as `load` sees it.
fn changed_adapter(change: impl Fn(&Path)) -> String {
    let out = tempfile::tempdir().unwrap();
    for file in ["adapter_config.json", "adapter_model.safetensors"] {
        let file = folder("tiny-qwen2").join("adapter").join(file);
        std::fs::copy(&file, out.path().join(file.file_name().unwrap())).unwrap();
    }
    change(out.path());
    adapter::load(out.path(), &Device::Cpu)
        .err()
        .map_or_else(String::new, |error| error.to_string())
}

#[test]
fn adapter_tensors_of_integers_are_refused_by_name() {
    let message = changed_adapter(|folder| {
        let path = folder.join("adapter_model.safetensors");
        let bytes = std::fs::read(&path).unwrap();
        let length = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        // As many bytes, so that the header stays as long as it says.
        let header = String::from_utf8(bytes[..length].to_vec()[8..].to_vec()).unwrap();
        let header = header.replacen("\"F32\"", "\"I32\"", 1);
        let changed = [&bytes[..8], header.as_bytes(), &bytes[length..]].concat();
        std::fs::write(path, changed).unwrap();
    });
    assert!(
        message.contains("lora_") && message.contains("stored as I32"),
        "{message}"
    );
}

#[test]
fn what_changes_an_adapters_computation_is_refused_by_name() {
    let with = |key: &str, value: serde_json::Value| {
        changed_adapter(|folder| {
            let path = folder.join("adapter_config.json");
            let text = std::fs::read(&path).unwrap();
            let mut config: serde_json::Value = serde_json::from_slice(&text).unwrap();
            config[key] = value.clone();
            std::fs::write(path, config.to_string()).unwrap();
        })
    };
    for (key, value) in [
        ("layers_to_transform", serde_json::json!([0])),
        ("layers_to_transform", serde_json::json!(0)),
        ("layers_pattern", serde_json::json!("layers")),
        ("rank_pattern", serde_json::json!({"q_proj": 8})),
        ("alpha_pattern", serde_json::json!({"q_proj": 8})),
        ("exclude_modules", serde_json::json!(["v_proj"])),
        ("modules_to_save", serde_json::json!(["lm_head"])),
        ("lora_bias", serde_json::json!(true)),
        ("layer_replication", serde_json::json!([[0, 2]])),
    ] {
        let message = with(key, value);
        assert!(message.contains(&format!("`{key}`")), "{key}: {message}");
        for unset in [
            serde_json::Value::Null,
            serde_json::json!([]),
            serde_json::json!({}),
        ] {
            assert_eq!(with(key, unset), "", "{key}");
        }
    }
    let message = with("init_lora_weights", serde_json::json!("pissa_niter_4"));
    assert!(message.contains("`pissa_niter_4`"), "{message}");
    assert_eq!(with("init_lora_weights", serde_json::json!("gaussian")), "");
}

#[test]
fn a_damaged_adapter_is_not_the_model() {
    let message = changed_adapter(|folder| {
        std::fs::write(folder.join("adapter_config.json"), "{\"peft_type\": ").unwrap();
    });
    assert!(
        message.contains("copy the adapter again, or train it again"),
        "{message}"
    );
}

#[test]
fn an_adapter_with_values_that_are_no_numbers_is_refused() {
    let (config, mut tensors) =
        adapter::load(&folder("tiny-qwen2").join("adapter"), &Device::Cpu).unwrap();
    let name = tensors.keys().next().unwrap().clone();
    let damaged = (&tensors[&name] / 0.0).unwrap();
    tensors.insert(name.clone(), damaged);
    let out = tempfile::tempdir().unwrap();
    adapter::save(out.path(), &config, &tensors).unwrap();
    let error = adapter::load(out.path(), &Device::Cpu).unwrap_err();
    assert!(
        matches!(&error, Error::Adapter(m) if m.contains(&name)),
        "{error}"
    );
}
