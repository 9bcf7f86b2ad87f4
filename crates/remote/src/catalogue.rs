//! The catalogue: one TOML file per model in `models/`, built into the program.

use std::collections::HashSet;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use crate::Error;

macro_rules! entry {
    ($file:literal) => {
        ($file, include_str!(concat!("../../../models/", $file)))
    };
}

/// File name and text of each entry. A test compares this list with the folder.
const ENTRIES: &[(&str, &str)] = &[
    entry!("all-minilm-l6-v2.toml"),
    entry!("dimmem-4b-locomo.toml"),
    entry!("dimmem-4b-longmemeval.toml"),
    entry!("dimmem-sft-gpt-5.4.toml"),
    entry!("qwen2.5-0.5b-instruct.toml"),
    entry!("qwen2.5-1.5b-instruct.toml"),
    entry!("qwen2.5-3b-instruct.toml"),
    entry!("qwen2.5-coder-0.5b-instruct-q4_k_m.toml"),
    entry!("qwen2.5-coder-1.5b-instruct-q4_k_m.toml"),
    entry!("qwen3-0.6b.toml"),
    entry!("qwen3-1.7b.toml"),
    entry!("qwen3-4b-instruct-2507.toml"),
    entry!("qwen3-4b.toml"),
];

/// What a catalogue entry is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Writes text: a base for fine-tuning, for extraction, for answers.
    CausalLm,
    /// Turns text into a vector.
    Embedder,
    /// A language model already tuned to extract memories.
    Extractor,
    /// Training or test data.
    Dataset,
}

/// One model or data set that can be fetched.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The name used on the command line and for the folder; also the entry's file name.
    pub name: String,
    /// Shorter names that mean the same.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What it is good for.
    pub kind: Kind,
    /// One line for a person.
    pub description: String,
    /// The network's family as `config.json` or the GGUF names it; none for data.
    pub architecture: Option<String>,
    /// Number of weights; none for data.
    pub parameters: Option<u64>,
    /// SPDX expression; `NOASSERTION` where we do not know.
    pub licence: String,
    /// Size to show a person while exact sizes are not known.
    pub approx_bytes: Option<u64>,
    /// The files wanted. Empty: all the source lists that a model or data set needs.
    #[serde(default)]
    pub files: Vec<ModelFile>,
    /// Where the hub has it.
    pub hub: Option<HubSource>,
    /// Where a Python package registry has it.
    pub pip: Option<PipSource>,
}

/// One file of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Path inside the model's folder and inside the hub's repository, with `/`.
    pub path: String,
    /// Exact size, if known beforehand.
    pub bytes: Option<u64>,
    /// SHA-256 in lower-case hexadecimal. Absent: recorded in the manifest on the first fetch.
    pub sha256: Option<String>,
}

/// A repository of the hub.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HubSource {
    /// Owner and name.
    pub repo: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// Model or data set.
    #[serde(rename = "type", default)]
    pub repo_type: HubRepoType,
}

/// The hub's kinds of repository that we use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HubRepoType {
    /// Weights.
    #[default]
    Model,
    /// Data.
    Dataset,
}

/// Packages of a Python registry whose wheels hold the files, whole or in pieces.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipSource {
    /// The version of every package.
    pub version: String,
    /// How each file is put together.
    pub files: Vec<PipFile>,
}

/// One file as the pieces that make it up.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipFile {
    /// The `path` of a [`ModelFile`].
    pub path: String,
    /// Joined in this order.
    pub pieces: Vec<PipPiece>,
}

/// One member of one wheel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipPiece {
    /// The package's name in the registry.
    pub package: String,
    /// Path inside the wheel.
    pub member: String,
}

impl Model {
    /// Reads one entry and checks what the types cannot say.
    ///
    /// # Errors
    /// [`Error::CatalogueToml`] for bad TOML or an unknown key, [`Error::Catalogue`] for an empty
    /// licence, a path that leaves the folder, a malformed hash, or pieces of a file not listed.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let model: Self = toml::from_str(text).map_err(|source| Error::CatalogueToml {
            file: file.to_owned(),
            source: Box::new(source),
        })?;
        match model.problem() {
            None => Ok(model),
            Some(problem) => Err(Error::Catalogue {
                file: file.to_owned(),
                problem,
            }),
        }
    }

    fn problem(&self) -> Option<String> {
        if self.licence.trim().is_empty() {
            return Some("`licence` is empty".to_owned());
        }
        if !is_inside(&self.name) || self.name.contains('/') {
            return Some(format!("`{}` cannot be a folder's name", self.name));
        }
        let listed: HashSet<&str> = self.files.iter().map(|file| file.path.as_str()).collect();
        for file in &self.files {
            if !is_inside(&file.path) {
                return Some(format!("`{}` leaves the model's folder", file.path));
            }
            if file.sha256.as_ref().is_some_and(|hash| !is_sha256(hash)) {
                return Some(format!(
                    "`sha256` of `{}` is not 64 hexadecimal digits",
                    file.path
                ));
            }
        }
        let pip = self.pip.iter().flat_map(|pip| &pip.files);
        for file in pip {
            if !listed.contains(file.path.as_str()) || file.pieces.is_empty() {
                return Some(format!(
                    "`{}` has pieces but no entry in `files`",
                    file.path
                ));
            }
            if let Some(piece) = file.pieces.iter().find(|piece| !is_inside(&piece.member)) {
                return Some(format!("`{}` leaves the wheel", piece.member));
            }
        }
        None
    }

    /// The sum of all sizes, if each is known beforehand.
    pub fn total_bytes(&self) -> Option<u64> {
        if self.files.is_empty() {
            return None;
        }
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// Whether a path from outside stays inside the folder it is joined to.
pub(crate) fn is_inside(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\\')
        && Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}

pub(crate) fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// All entries, by name.
///
/// # Errors
/// As [`Model::parse`]; the tests rule this out for the entries we ship.
pub fn all() -> Result<Vec<Model>, Error> {
    ENTRIES
        .iter()
        .map(|(file, text)| Model::parse(file, text))
        .collect()
}

/// The entry with this name or alias, in any case.
///
/// # Errors
/// [`Error::UnknownModel`] with the nearest name.
pub fn find(name: &str) -> Result<Model, Error> {
    let models = all()?;
    let wanted = name.to_lowercase();
    let called = |model: &Model| model.name == wanted || model.aliases.contains(&wanted);
    if let Some(model) = models.iter().find(|model| called(model)) {
        return Ok(model.clone());
    }
    Err(Error::UnknownModel {
        name: name.to_owned(),
        nearest: nearest(&models, &wanted),
    })
}

/// The least similarity at which a suggestion helps more than it confuses; a guess that suits
/// the present names.
const SIMILAR_ENOUGH: f64 = 0.75;

fn nearest(models: &[Model], wanted: &str) -> Option<String> {
    let names = models
        .iter()
        .flat_map(|model| model.aliases.iter().chain([&model.name]));
    names
        .map(|name| (strsim::jaro_winkler(name, wanted), name))
        .filter(|(similarity, _)| *similarity >= SIMILAR_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_listed_and_sound() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".toml"))
            .collect();
        files.sort();
        let listed: Vec<&str> = ENTRIES.iter().map(|(file, _)| *file).collect();
        assert_eq!(files, listed);
        for (model, (file, _)) in all().unwrap().iter().zip(ENTRIES) {
            assert_eq!(format!("{}.toml", model.name), *file);
            assert!(
                model.hub.is_some() || model.pip.is_some(),
                "{file} has no source"
            );
            assert!(
                model.total_bytes().or(model.approx_bytes).is_some() || model.kind == Kind::Dataset,
                "{file} tells no size"
            );
        }
    }

    #[test]
    fn names_and_aliases_are_unique() {
        let models = all().unwrap();
        let mut seen = HashSet::new();
        for name in models
            .iter()
            .flat_map(|m| m.aliases.iter().chain([&m.name]))
        {
            assert!(seen.insert(name), "`{name}` means two models");
            assert_eq!(*name, name.to_lowercase());
        }
    }

    #[test]
    fn the_three_pip_models_cover_each_of_their_files() {
        let models = all().unwrap();
        let with_pip: Vec<_> = models.iter().filter(|model| model.pip.is_some()).collect();
        assert_eq!(with_pip.len(), 3);
        for model in with_pip {
            let pip = model.pip.as_ref().unwrap();
            let pieced: Vec<_> = pip.files.iter().map(|file| &file.path).collect();
            let wanted: Vec<_> = model.files.iter().map(|file| &file.path).collect();
            assert_eq!(pieced, wanted);
            assert!(
                model
                    .files
                    .iter()
                    .all(|file| file.sha256.is_some() && file.bytes.is_some())
            );
        }
    }

    #[test]
    fn aliases_lead_to_the_entry_and_a_slip_to_a_suggestion() {
        let name = find("Qwen2.5-Coder-0.5B").unwrap().name;
        assert_eq!(name, "qwen2.5-coder-0.5b-instruct-q4_k_m");
        let error = find("qwen2.5-coder-0.5").unwrap_err().to_string();
        assert_eq!(
            error,
            "no model is called `qwen2.5-coder-0.5` (did you mean `qwen2.5-coder-0.5b`?); \
             `memtrain models list` shows all"
        );
        assert!(
            !find("zzz")
                .unwrap_err()
                .to_string()
                .contains("did you mean")
        );
    }

    #[test]
    fn an_unknown_key_or_a_path_outside_is_refused() {
        let good = "name = \"x\"\nkind = \"dataset\"\ndescription = \"d\"\nlicence = \"MIT\"\n";
        assert!(Model::parse("x.toml", good).is_ok());
        assert!(Model::parse("x.toml", &format!("{good}size = 3\n")).is_err());
        for path in ["../x", "/etc/passwd", "a\\\\b", ""] {
            let bad = format!("{good}[[files]]\npath = \"{path}\"\n");
            assert!(Model::parse("x.toml", &bad).is_err(), "{path}");
        }
        assert!(Model::parse("x.toml", &good.replace("MIT", " ")).is_err());
    }
}
