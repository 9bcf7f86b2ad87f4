//! The program itself, with the tiny model of `mem-model`'s tests.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set its scene may panic"
)]

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, pipe},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use mem_schema::scenario::Split;
use tempfile::TempDir;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

/// `memtrain sft` of one step over a scenario to learn from and one to measure on.
fn sft(folder: &TempDir) -> Command {
    let data = folder.path().join("data");
    if !data.exists() {
        fs::create_dir(&data).unwrap();
        for wanted in [Split::Train, Split::Dev] {
            let name = (1..)
                .map(|number| format!("dialogue-{number:03}"))
                .find(|id| Split::of(id) == wanted)
                .unwrap()
                + ".json";
            let scenario = repository("datasets/scenarios").join(&name);
            fs::copy(scenario, data.join(name)).unwrap();
        }
    }
    let recipe = format!(
        "model = {:?}\ndata = [\"data\"]\noutput = \"run\"\nseed = 1\n[window]\nsize = 1\noverlap = 0\n\
         [train]\nsteps = 1\nbatch_examples = 1\nmax_tokens = 512\nlearning_rate = 1e-3\neval_examples = 1\n",
        repository("crates/model/tests/fixtures/tiny-qwen2")
    );
    fs::write(folder.path().join("recipe.toml"), recipe).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_memtrain"));
    command
        .current_dir(folder.path())
        .args(["sft", "--config", "recipe.toml", "--json"]);
    command
}

#[test]
fn a_run_ends_well_though_nobody_reads_what_it_says() {
    let folder = TempDir::new().unwrap();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let status = sft(&folder)
        .stdout(writer.try_clone().unwrap())
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(
        folder
            .path()
            .join("run/adapter/adapter_model.safetensors")
            .exists()
    );
}

/// `memtrain models verify … | head -1` must not hide what is missing.
#[test]
fn a_model_with_a_missing_file_ends_with_1_though_nobody_reads_it() {
    let home = TempDir::new().unwrap();
    let folder = home.path().join("models/all-minilm-l6-v2");
    fs::create_dir_all(&folder).unwrap();
    let manifest = r#"{"version": 1, "name": "all-minilm-l6-v2", "licence": "Apache-2.0", "source": "local",
        "files": [{"path": "config.json", "bytes": 1, "sha256": "00"}]}"#;
    fs::write(folder.join("memloom-model.json"), manifest).unwrap();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let verified = Command::new(env!("CARGO_BIN_EXE_memtrain"))
        .args(["models", "verify", "minilm"])
        .env("MEMLOOM_HOME", home.path())
        .stdout(writer)
        .output()
        .unwrap();
    let said = String::from_utf8(verified.stderr).unwrap();
    assert_eq!(verified.status.code(), Some(1), "{said}");
}

#[test]
fn two_runs_do_not_share_a_folder() {
    let folder = TempDir::new().unwrap();
    let run = folder.path().join("run");
    fs::create_dir(&run).unwrap();
    let held = File::create(run.join(".lock")).unwrap();
    held.lock().unwrap();
    let refused = sft(&folder).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        message.ends_with(
            "error: `run` is in use by another run; wait for it to end, or choose another `output`\n"
        ),
        "{message}"
    );
    drop(held);
    assert_eq!(sft(&folder).status().unwrap().code(), Some(0));
}

#[test]
fn integers_cannot_train() {
    let folder = TempDir::new().unwrap();
    let refused = sft(&folder).args(["--dtype", "int8"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("`--dtype int8`"), "{message}");
    assert!(!folder.path().join("run").exists());
}

/// Under a limit of sizes (`ulimit -f`) the write fails with an error, and the program with it, not by a signal.
#[test]
#[cfg(unix)]
fn a_file_that_may_not_grow_is_an_error() {
    let folder = TempDir::new().unwrap();
    let command = sft(&folder);
    let refused = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", "ulimit -f 0 && exec \"$0\" \"$@\""])
        .arg(command.get_program())
        .args(command.get_args())
        .output()
        .unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(
        refused.status.code(),
        Some(2),
        "{:?}: {message}",
        refused.status
    );
    assert!(message.contains("File too large"), "{message}");
}

/// A wrong path is said before weights are read, which do not fit here, and before a run folder is made.
#[test]
fn data_is_read_first() {
    let folder = TempDir::new().unwrap();
    let mut command = sft(&folder);
    let weights = folder.path().join("model/model.safetensors");
    fs::create_dir(weights.parent().unwrap()).unwrap();
    for entry in fs::read_dir(repository("crates/model/tests/fixtures/tiny-qwen2")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, weights.with_file_name(path.file_name().unwrap())).unwrap();
        }
    }
    let config = weights.with_file_name("config.json");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("\"vocab_size\": 640"), "{text}");
    fs::write(
        config,
        text.replace("\"vocab_size\": 640", "\"vocab_size\": 641"),
    )
    .unwrap();
    let refused = command
        .args(["--set", "model=model", "--set", "data=[\"nowhere\"]"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(message.contains("cannot read `nowhere`"), "{message}");
    assert!(!folder.path().join("run").exists());
}

/// The header of the model tells it: weights that cannot be loaded do not get in the way.
#[test]
fn a_recipe_beyond_the_context_is_refused_first() {
    let folder = TempDir::new().unwrap();
    let refused = sft(&folder)
        .args([
            "--set",
            "train.max_tokens=513",
            "--set",
            "data=[\"nowhere\"]",
        ])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        String::from_utf8(refused.stderr).unwrap(),
        "error: `train.max_tokens` is 513, the model's context holds 512\n"
    );
}

/// The first Ctrl-C saves the step in work; the same command then goes on to the end.
#[test]
#[cfg(unix)]
fn an_interrupted_run_is_continued() {
    let folder = TempDir::new().unwrap();
    let command = || {
        let mut command = sft(&folder);
        command.args(["--set", "train.steps=150"]);
        command
    };
    let mut run = command().stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains("\nstep 2/150") {
        said += &format!("{}\n", lines.next().unwrap().unwrap());
    }
    let pid = run.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{rest:?}");
    assert_eq!(
        rest.last().unwrap(),
        "stopped; the same command goes on from here"
    );
    let state = fs::read_to_string(folder.path().join("run/checkpoint/state.json")).unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    let step = state["step"].as_u64().unwrap();
    assert!((2..150).contains(&step), "{step}");
    let output = command().output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stderr).unwrap();
    let first = said.lines().find(|line| line.starts_with("step ")).unwrap();
    assert!(
        first.starts_with(&format!("step {}/150", step + 1)),
        "{first}"
    );
}
