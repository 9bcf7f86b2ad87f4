//! What a model folder says about the way from hidden states to a vector: `modules.json` and the files it
//! leads to, in the layout of sentence-transformers.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Kind;
use crate::error::{Error, Result};

/// Which of a row's hidden states make its vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// The mean of all.
    Mean,
    /// The first, of the token that opens every row.
    Cls,
    /// The last.
    LastToken,
}

/// What is put before a text, by what the text is for; both may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Before a [`Kind::Query`].
    pub query: String,
    /// Before a [`Kind::Passage`].
    pub passage: String,
}

/// How an embedder works, beyond its weights.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    /// Folder of the network and the tokenizer.
    pub(super) transformer: PathBuf,
    /// None where the folder does not say.
    pub(super) pooling: Option<Pooling>,
    pub(super) normalise: bool,
    pub(super) max_tokens: Option<usize>,
    pub(super) lower_case: bool,
    pub(super) prompts: Option<Prompts>,
}

#[derive(Deserialize)]
struct Module {
    path: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct TransformerFile {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

#[derive(Deserialize)]
struct PromptFile {
    prompts: Option<HashMap<String, Option<String>>>,
    default_prompt_name: Option<String>,
}

#[derive(Deserialize)]
struct TokenizerFile {
    model_max_length: Option<f64>,
}

/// Reads a JSON file of a model folder.
pub(super) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

/// The same, where the file may be missing.
fn read_json_if_there<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    path.exists().then(|| read_json(path)).transpose()
}

impl Settings {
    /// Reads a folder. Without `modules.json` the vectors are normalised.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut settings = Self {
            transformer: folder.to_owned(),
            pooling: None,
            normalise: true,
            max_tokens: None,
            lower_case: false,
            prompts: None,
        };
        let path = folder.join("modules.json");
        if let Some(modules) = read_json_if_there::<Vec<Module>>(&path)? {
            settings.read_modules(folder, &path, &modules)?;
        }
        let transformer = &settings.transformer;
        let path = transformer.join("sentence_bert_config.json");
        if let Some(file) = read_json_if_there::<TransformerFile>(&path)? {
            settings.max_tokens = file.max_seq_length;
            settings.lower_case = file.do_lower_case;
        }
        let path = transformer.join("tokenizer_config.json");
        if let (None, Some(file)) = (
            settings.max_tokens,
            read_json_if_there::<TokenizerFile>(&path)?,
        ) {
            // Tokenizers without a limit state 1e30.
            let sane = file.model_max_length.filter(|max| (1.0..1e9).contains(max));
            settings.max_tokens = sane.map(|max| max as usize);
        }
        let path = folder.join("config_sentence_transformers.json");
        settings.prompts = read_json_if_there::<PromptFile>(&path)?.and_then(PromptFile::prompts);
        Ok(settings)
    }

    fn read_modules(&mut self, folder: &Path, path: &Path, modules: &[Module]) -> Result<()> {
        self.normalise = false;
        for module in modules {
            // The part before it has been renamed between versions.
            match module.kind.rsplit('.').next() {
                Some("Transformer") => self.transformer = folder.join(&module.path),
                Some("Pooling") => {
                    self.pooling = Some(pooling(&folder.join(&module.path).join("config.json"))?)
                }
                Some("Normalize") => self.normalise = true,
                _ => {
                    return Err(Error::Unsupported {
                        path: path.to_owned(),
                        feature: format!("module `{}`", module.kind),
                    });
                }
            }
        }
        Ok(())
    }
}

impl PromptFile {
    fn prompts(self) -> Option<Prompts> {
        let prompts = self.prompts?;
        let named = |name: &str| {
            prompts
                .get(name)
                .map(|prompt| prompt.clone().unwrap_or_default())
        };
        let default = self
            .default_prompt_name
            .as_deref()
            .and_then(named)
            .unwrap_or_default();
        let first = |names: &[&str]| names.iter().find_map(|name| named(name));
        Some(Prompts {
            query: first(&["query"]).unwrap_or_else(|| default.clone()),
            passage: first(&["document", "passage", "corpus"]).unwrap_or(default),
        })
    }
}

/// Reads the pooling module's `config.json`: `pooling_mode` names the way, older files have one flag for
/// each.
fn pooling(path: &Path) -> Result<Pooling> {
    let config: BTreeMap<String, serde_json::Value> = read_json(path)?;
    let unsupported = |feature: String| Error::Unsupported {
        path: path.to_owned(),
        feature,
    };
    if config.get("include_prompt").and_then(|v| v.as_bool()) == Some(false) {
        return Err(unsupported("pooling without the prompt".to_owned()));
    }
    let modes: Vec<&str> = match config.get("pooling_mode") {
        Some(serde_json::Value::String(mode)) => vec![mode],
        Some(serde_json::Value::Array(modes)) => modes.iter().filter_map(|m| m.as_str()).collect(),
        _ => {
            let flags = config
                .iter()
                .filter(|(_, value)| value.as_bool() == Some(true));
            flags
                .filter_map(|(name, _)| name.strip_prefix("pooling_mode_"))
                .collect()
        }
    };
    match modes[..] {
        [] | ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::Cls),
        ["lasttoken"] => Ok(Pooling::LastToken),
        _ => Err(unsupported(format!(
            "pooling by `{}`",
            modes.join("` and `")
        ))),
    }
}

impl Prompts {
    /// The prompt of texts of this kind.
    pub fn of(&self, kind: Kind) -> &str {
        match kind {
            Kind::Query => &self.query,
            Kind::Passage => &self.passage,
        }
    }

    /// What the authors of Qwen3-Embedding (Zhang et al. 2025) put before queries.
    pub fn qwen3() -> Self {
        Self::new(
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:",
            "",
        )
    }

    /// Prompts of models whose folder states none although they were trained with some, by the folder's
    /// name: E5 (Wang et al. 2022) and BGE v1 and v1.5 (Xiao et al. 2023). None for all others.
    pub(super) fn known(folder: &Path) -> Self {
        let name = folder
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .to_lowercase();
        let parts: Vec<&str> = name.split(['-', '_']).collect();
        let has = |part| parts.contains(&part);
        if has("e5") && !has("instruct") && !has("mistral") {
            Self::new("query: ", "passage: ")
        } else if has("bge") && has("en") && !has("icl") {
            Self::new(
                "Represent this sentence for searching relevant passages: ",
                "",
            )
        } else if has("bge") && has("zh") {
            Self::new("为这个句子生成表示以用于检索相关文章：", "")
        } else {
            Self::default()
        }
    }

    fn new(query: &str, passage: &str) -> Self {
        Self {
            query: query.to_owned(),
            passage: passage.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn modules(kinds: &[(&str, &str)]) -> String {
        let modules = kinds.iter().enumerate().map(|(idx, (path, kind))| {
            serde_json::json!({"idx": idx, "name": idx.to_string(), "path": path, "type": kind})
        });
        serde_json::Value::from_iter(modules).to_string()
    }

    #[test]
    fn a_bare_folder_asks_for_the_norm_alone() {
        let folder = folder(&[]);
        let settings = Settings::read(folder.path()).unwrap();
        assert_eq!(settings.pooling, None);
        assert!(settings.normalise && !settings.lower_case);
        assert_eq!((settings.max_tokens, settings.prompts), (None, None));
    }

    #[test]
    fn every_file_is_read() {
        let kinds = [
            ("0_Transformer", "sentence_transformers.models.Transformer"),
            (
                "1_Pooling",
                "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
            ),
        ];
        let folder = folder(&[
            ("modules.json", &modules(&kinds)),
            (
                "0_Transformer/sentence_bert_config.json",
                r#"{"max_seq_length": 77, "do_lower_case": true}"#,
            ),
            (
                "0_Transformer/tokenizer_config.json",
                r#"{"model_max_length": 512}"#,
            ),
            (
                "1_Pooling/config.json",
                r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#,
            ),
            (
                "config_sentence_transformers.json",
                r#"{"prompts": {"query": "q: ", "web": "w: "}, "default_prompt_name": "web"}"#,
            ),
        ]);
        let settings = Settings::read(folder.path()).unwrap();
        let expected = Settings {
            transformer: folder.path().join("0_Transformer"),
            pooling: Some(Pooling::Cls),
            normalise: false,
            max_tokens: Some(77),
            lower_case: true,
            prompts: Some(Prompts::new("q: ", "w: ")),
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn the_tokenizers_limit_stands_in_for_a_missing_one() {
        for (limit, expected) in [
            ("512", Some(512)),
            ("1000000000000000019884624838656", None),
        ] {
            let text = format!(r#"{{"model_max_length": {limit}}}"#);
            let folder = folder(&[("tokenizer_config.json", &text)]);
            let settings = Settings::read(folder.path()).unwrap();
            assert_eq!(settings.max_tokens, expected);
        }
    }

    #[test]
    fn pooling_is_named_in_two_ways_and_others_are_refused() {
        for (text, expected) in [
            (
                r#"{"pooling_mode": "lasttoken", "embedding_dimension": 8}"#,
                Some(Pooling::LastToken),
            ),
            (r#"{"pooling_mode": ["cls"]}"#, Some(Pooling::Cls)),
            (
                r#"{"pooling_mode_lasttoken": true}"#,
                Some(Pooling::LastToken),
            ),
            (r#"{"pooling_mode_mean_tokens": true}"#, Some(Pooling::Mean)),
            (r#"{"pooling_mode_max_tokens": true}"#, None),
            (r#"{"pooling_mode": ["cls", "mean"]}"#, None),
            (r#"{"pooling_mode": "mean", "include_prompt": false}"#, None),
        ] {
            let folder = folder(&[("config.json", text)]);
            assert_eq!(
                pooling(&folder.path().join("config.json")).ok(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_module_that_is_not_implemented_is_named() {
        let kinds = [
            ("", "a.Transformer"),
            ("2_Dense", "sentence_transformers.models.Dense"),
        ];
        let folder = folder(&[("modules.json", &modules(&kinds))]);
        let error = Settings::read(folder.path()).unwrap_err().to_string();
        assert!(
            error.contains("`sentence_transformers.models.Dense`"),
            "{error}"
        );
    }

    #[test]
    fn known_models_bring_their_prompts() {
        let query = |name: &str| Prompts::known(&Path::new("/models").join(name)).query;
        assert_eq!(query("multilingual-e5-small"), "query: ");
        assert!(query("bge-small-en-v1.5").starts_with("Represent"));
        assert!(query("bge-base-zh-v1.5").starts_with("为"));
        for other in [
            "bge-m3",
            "all-minilm-l6-v2",
            "multilingual-e5-large-instruct",
        ] {
            assert_eq!(query(other), "", "{other}");
        }
    }
}
