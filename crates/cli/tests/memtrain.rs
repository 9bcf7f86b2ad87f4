//! The program itself, with the tiny model of `mem-model`'s tests.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set its scene may panic"
)]

use std::{
    fs::{self, File},
    io::pipe,
    path::{Path, PathBuf},
    process::Command,
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
