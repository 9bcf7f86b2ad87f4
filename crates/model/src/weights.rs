//! Weight files: safetensors (sharded too) and GGUF behind one reader, under the names of HF checkpoints.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::safetensors::MmapedSafetensors;
use candle_core::{DType, Device, Tensor};
use half::{bf16, f16};

use crate::config::ModelConfig;
use crate::error::{Error, Result, plain};
use crate::gguf_check;
use crate::linear::Frozen;
use crate::matrix::{Compute, HostMatrix, Values};
use crate::packed::Packed;

/// An opened model.
pub struct Weights {
    path: PathBuf,
    source: Source,
    device: Device,
    dtype: DType,
    compute: Compute,
}

enum Source {
    Safetensors(MmapedSafetensors),
    Gguf {
        content: gguf_file::Content,
        file: Mutex<File>,
    },
}

impl Weights {
    /// Opens a HF folder or a GGUF file and reads its configuration. On the CPU the compute type is the one of many-row
    /// products alone and activations stay f32; a device computes everything in it, and in bf16 instead of integers.
    ///
    /// # Errors
    /// When files are missing or malformed, or the architecture is not supported.
    pub fn open(path: &Path, device: &Device, compute: Compute) -> Result<(Self, ModelConfig)> {
        let (source, config) = if path.is_dir() {
            open_folder(path)?
        } else {
            open_gguf(path)?
        };
        Ok((Self::new(path, source, device, compute), config))
    }

    /// Opens the safetensors files of a HF folder whose configuration the caller reads.
    ///
    /// # Errors
    /// When files are missing or malformed.
    pub(crate) fn open_tensors(folder: &Path, device: &Device, compute: Compute) -> Result<Self> {
        let source = Source::Safetensors(map_folder(folder)?);
        Ok(Self::new(folder, source, device, compute))
    }

    fn new(path: &Path, source: Source, device: &Device, compute: Compute) -> Self {
        Self {
            path: path.to_owned(),
            source,
            device: device.clone(),
            dtype: match compute {
                Compute::Bf16 | Compute::Int8 if !device.is_cpu() => DType::BF16,
                _ => DType::F32,
            },
            compute,
        }
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn holds(&self, name: &str) -> bool {
        match &self.source {
            Source::Safetensors(files) => files.get(name).is_ok(),
            Source::Gguf { content, .. } => content.tensor_infos.contains_key(&gguf_name(name)),
        }
    }

    /// The name under which a tensor is stored: models exported without their head lack `model.`.
    fn stored<'a>(&self, name: &'a str) -> &'a str {
        match name.strip_prefix("model.") {
            Some(bare) if !self.holds(name) && self.holds(bare) => bare,
            _ => name,
        }
    }

    /// Metadata of a GGUF file.
    pub fn gguf_metadata(&self) -> Option<&std::collections::HashMap<String, gguf_file::Value>> {
        match &self.source {
            Source::Gguf { content, .. } => Some(&content.metadata),
            Source::Safetensors(_) => None,
        }
    }

    /// Where activations live and in which type.
    pub fn activations(&self) -> (&Device, DType) {
        (&self.device, self.dtype)
    }

    /// Bytes that the weights take in memory on a processor once they are loaded, from the header alone: quantised
    /// ones up to 1.25 a weight, others what they take in the file.
    pub fn expected_bytes(&self) -> u64 {
        let Source::Gguf { content, .. } = &self.source else {
            let files = files(&self.path).unwrap_or_default();
            let sizes = files.iter().filter_map(|file| file.metadata().ok());
            return sizes.map(|meta| meta.len()).sum();
        };
        let bytes = content.tensor_infos.values().map(|info| {
            let sizes = info.shape.dims().iter();
            let weights = sizes.fold(1_u64, |all, size| all.saturating_mul(*size as u64));
            match info.ggml_dtype {
                GgmlDType::F32 => weights.saturating_mul(4),
                GgmlDType::F16 | GgmlDType::BF16 => weights.saturating_mul(2),
                _ => weights.saturating_add(weights / 4),
            }
        });
        bytes.fold(0, u64::saturating_add)
    }

    /// The type of products.
    pub(crate) fn compute(&self) -> Compute {
        self.compute
    }

    fn error(&self, tensor: &str, source: candle_core::Error) -> Error {
        Error::Weight {
            path: self.path.clone(),
            tensor: tensor.to_owned(),
            source: Box::new(plain(source)),
        }
    }

    /// A matrix `[rows, cols]` that is never trained. GGML types stay quantised.
    ///
    /// # Errors
    /// When the tensor is missing or has another shape.
    pub fn frozen(&self, name: &str, rows: usize, cols: usize) -> Result<Frozen> {
        let name = self.stored(name);
        let load = || {
            self.expect_shape(name, &[rows, cols])?;
            match &self.source {
                Source::Safetensors(files) => self.frozen_safetensors(files, name, cols),
                Source::Gguf { content, file } => {
                    self.frozen_gguf(content, file, name, (rows, cols))
                }
            }
        };
        load().map_err(|e| self.error(name, e))
    }

    /// Compares the header with what the configuration needs, before anything of the tensor is read: a
    /// damaged header can claim any shape.
    fn expect_shape(&self, name: &str, expected: &[usize]) -> candle_core::Result<()> {
        let found = match &self.source {
            Source::Safetensors(files) => files.get(name)?.shape().to_vec(),
            Source::Gguf { content, .. } => match content.tensor_infos.get(&gguf_name(name)) {
                Some(info) => info.shape.dims().to_vec(),
                None => candle_core::bail!("the file holds no tensor `{}`", gguf_name(name)),
            },
        };
        if found != expected {
            candle_core::bail!("expected shape {expected:?}, found {found:?}");
        }
        Ok(())
    }

    fn frozen_safetensors(
        &self,
        files: &MmapedSafetensors,
        name: &str,
        cols: usize,
    ) -> candle_core::Result<Frozen> {
        if !self.device.is_cpu() {
            return Frozen::dense(&files.load(name, &self.device)?.to_dtype(self.dtype)?);
        }
        let view = files.get(name)?;
        let (dtype, bytes) = (view.dtype(), view.data());
        let values = match dtype {
            safetensors::Dtype::F32 => Values::F32(from_bytes(bytes, f32::from_le_bytes)),
            safetensors::Dtype::F16 => Values::F16(from_bytes(bytes, f16::from_le_bytes)),
            safetensors::Dtype::BF16 => Values::Bf16(from_bytes(bytes, bf16::from_le_bytes)),
            other => candle_core::bail!("weights of type {other:?} are not supported"),
        };
        Ok(Frozen::new(HostMatrix::new(cols, values, self.compute)))
    }

    fn frozen_gguf(
        &self,
        content: &gguf_file::Content,
        file: &Mutex<File>,
        name: &str,
        (rows, cols): (usize, usize),
    ) -> candle_core::Result<Frozen> {
        if !self.device.is_cpu() {
            return match self.gguf_tensor(content, file, name)? {
                q if matches!(q.dtype(), GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16) => {
                    Frozen::dense(&q.dequantize(&self.device)?.to_dtype(self.dtype)?)
                }
                q => Ok(Frozen::device_quantised(q)),
            };
        }
        let name = gguf_name(name);
        let Some(info) = content.tensor_infos.get(&name) else {
            candle_core::bail!("the file holds no tensor `{name}`");
        };
        let dtype = info.ggml_dtype;
        if !cols.is_multiple_of(dtype.block_size()) {
            candle_core::bail!("rows of {cols} weights are no whole blocks of {dtype:?}");
        }
        let length = rows * cols / dtype.block_size() * dtype.type_size();
        let offset = content.tensor_data_offset.saturating_add(info.offset);
        let bytes = read_at(file, offset, length)?;
        let values = match dtype {
            GgmlDType::F32 => Values::F32(from_bytes(&bytes, f32::from_le_bytes)),
            GgmlDType::F16 => Values::F16(from_bytes(&bytes, f16::from_le_bytes)),
            GgmlDType::BF16 => Values::Bf16(from_bytes(&bytes, bf16::from_le_bytes)),
            other => match Packed::from_ggml(other, &bytes, cols) {
                Some(packed) => Values::Packed(packed),
                None => candle_core::bail!("weights of type {other:?} are not supported"),
            },
        };
        Ok(Frozen::new(HostMatrix::new(cols, values, self.compute)))
    }

    fn gguf_tensor(
        &self,
        content: &gguf_file::Content,
        file: &Mutex<File>,
        name: &str,
    ) -> candle_core::Result<QTensor> {
        let mut file = file
            .lock()
            .map_err(|_| candle_core::Error::Msg("the file is gone".to_owned()))?;
        content.tensor(&mut *file, &gguf_name(name), &self.device)
    }

    /// A vector `[len]` (norm weight, bias) in the compute type.
    ///
    /// # Errors
    /// When the tensor is missing or has another length.
    pub fn vector(&self, name: &str, len: usize) -> Result<Tensor> {
        let name = self.stored(name);
        let load = || -> candle_core::Result<Tensor> {
            self.expect_shape(name, &[len])?;
            let tensor = match &self.source {
                Source::Safetensors(files) => files.load(name, &self.device)?,
                Source::Gguf { content, file } => self
                    .gguf_tensor(content, file, name)?
                    .dequantize(&self.device)?,
            };
            tensor.to_dtype(self.dtype)
        };
        load().map_err(|e| self.error(name, e))
    }
}

fn open_folder(path: &Path) -> Result<(Source, ModelConfig)> {
    let holds = |name| path.join(name).exists();
    if !holds("config.json") {
        let what = match holds("adapter_config.json") {
            true => "the folder of an adapter",
            false => "a folder without `config.json`",
        };
        return Err(not_a_model(path, what));
    }
    let mut config = ModelConfig::from_json(&path.join("config.json"))?;
    let files = map_folder(path)?;
    // Some exports keep `tie_word_embeddings` at its default although they store no head.
    config.tied_head |= files.get("lm_head.weight").is_err();
    Ok((Source::Safetensors(files), config))
}

/// The files that decide what a model computes: the `.gguf` file, or `config.json` and the safetensors of a HF folder,
/// sorted.
///
/// # Errors
/// When the folder cannot be read or holds no weights.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = shards(path)?;
    files.insert(0, path.join("config.json"));
    Ok(files)
}

/// Whether the model at `path` holds quantised matrices: what [`Compute::Int8`] can multiply in integers.
///
/// # Errors
/// When its header cannot be read.
pub fn is_quantised(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    let (source, _) = open_gguf(path)?;
    let Source::Gguf { content, .. } = source else {
        return Ok(false);
    };
    let floats = [GgmlDType::F32, GgmlDType::F16, GgmlDType::BF16];
    let mut infos = content.tensor_infos.values();
    Ok(infos.any(|info| !floats.contains(&info.ggml_dtype)))
}

fn not_a_model(path: &Path, what: &'static str) -> Error {
    Error::NotAModel {
        path: path.to_owned(),
        what,
    }
}

/// Refuses a file that does not begin as GGUF files do.
fn check_magic(file: &mut File, path: &Path) -> Result<()> {
    let mut start = Vec::new();
    let read = file.take(64).read_to_end(&mut start);
    read.map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    let text = start
        .iter()
        .all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace() || *byte > 127);
    Err(not_a_model(
        path,
        match path.extension() {
            _ if start.starts_with(b"GGUF") => return Ok(()),
            _ if start.is_empty() => "an empty file",
            Some(extension) if extension == "safetensors" => "one file of a model's folder",
            _ if text => "a text file",
            _ => "a file of another kind",
        },
    ))
}

/// The safetensors files of a HF folder, sorted.
fn shards(path: &Path) -> Result<Vec<PathBuf>> {
    let mut shards = Vec::new();
    let entries = std::fs::read_dir(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    for entry in entries.flatten() {
        let file = entry.path();
        if file.extension().is_some_and(|e| e == "safetensors")
            && !file.ends_with("adapter_model.safetensors")
        {
            shards.push(file);
        }
    }
    shards.sort();
    if shards.is_empty() {
        return Err(Error::NoWeights {
            path: path.to_owned(),
        });
    }
    Ok(shards)
}

fn map_folder(path: &Path) -> Result<MmapedSafetensors> {
    let shards = shards(path)?;
    // SAFETY: the mapping is read while weights are copied out of it at load time; a model file that
    // another program truncates in that moment ends the process, as with every mapped file.
    unsafe { MmapedSafetensors::multi(&shards) }.map_err(|source| Error::WeightFile {
        path: path.to_owned(),
        source: Box::new(plain(source)),
    })
}

fn open_gguf(path: &Path) -> Result<(Source, ModelConfig)> {
    let read = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = File::open(path).map_err(read)?;
    check_magic(&mut file, path)?;
    file.rewind().map_err(read)?;
    gguf_check::check(&file, path)?;
    file.rewind().map_err(read)?;
    let unreadable = |source| Error::WeightFile {
        path: path.to_owned(),
        source: Box::new(plain(source)),
    };
    let content = gguf_file::Content::read(&mut BufReader::new(&mut file)).map_err(unreadable)?;
    let embedding = content.tensor_infos.get("token_embd.weight");
    let Some(&[vocab_size, _]) = embedding.map(|info| info.shape.dims()) else {
        let problem = "it holds no matrix `token_embd.weight`";
        return Err(unreadable(candle_core::Error::Msg(problem.to_owned())));
    };
    let tied_head = !content.tensor_infos.contains_key("output.weight");
    let config = ModelConfig::from_gguf(&content.metadata, vocab_size, tied_head, path)?;
    Ok((
        Source::Gguf {
            content,
            file: Mutex::new(file),
        },
        config,
    ))
}

fn from_bytes<T, const N: usize>(bytes: &[u8], convert: fn([u8; N]) -> T) -> Vec<T> {
    let mut word = [0; N];
    let words = bytes.chunks_exact(N);
    words
        .map(|chunk| {
            word.copy_from_slice(chunk);
            convert(word)
        })
        .collect()
}

fn read_at(file: &Mutex<File>, offset: u64, length: usize) -> candle_core::Result<Vec<u8>> {
    let mut file = file
        .lock()
        .map_err(|_| candle_core::Error::Msg("the file is gone".to_owned()))?;
    let remaining = file.metadata()?.len().saturating_sub(offset);
    if (length as u64) > remaining {
        candle_core::bail!(
            "the file ends early: {length} bytes are needed at {offset}, {remaining} are there"
        );
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The GGUF name of an HF tensor: `model.layers.3.self_attn.q_proj.bias` is `blk.3.attn_q.bias`.
pub fn gguf_name(name: &str) -> String {
    const PARTS: [(&str, &str); 12] = [
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("lm_head", "output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("self_attn.", "attn_"),
        ("mlp.", "ffn_"),
        ("model.layers.", "blk."),
        ("_proj", ""),
    ];
    PARTS.iter().fold(name.to_owned(), |name, (hf, gguf)| {
        name.replacen(hf, gguf, 1)
    })
}

#[cfg(test)]
mod tests {
    use super::gguf_name;

    #[test]
    fn names_translate() {
        for (hf, gguf) in [
            ("model.embed_tokens.weight", "token_embd.weight"),
            ("model.norm.weight", "output_norm.weight"),
            ("lm_head.weight", "output.weight"),
            ("model.layers.3.self_attn.q_proj.bias", "blk.3.attn_q.bias"),
            (
                "model.layers.3.self_attn.o_proj.weight",
                "blk.3.attn_output.weight",
            ),
            (
                "model.layers.0.self_attn.k_norm.weight",
                "blk.0.attn_k_norm.weight",
            ),
            (
                "model.layers.12.mlp.down_proj.weight",
                "blk.12.ffn_down.weight",
            ),
            (
                "model.layers.1.post_attention_layernorm.weight",
                "blk.1.ffn_norm.weight",
            ),
            (
                "model.layers.1.input_layernorm.weight",
                "blk.1.attn_norm.weight",
            ),
        ] {
            assert_eq!(gguf_name(hf), gguf);
        }
    }
}
