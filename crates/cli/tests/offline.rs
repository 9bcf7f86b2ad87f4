//! After the models are fetched no program needs, or opens, a network connection: both work the same in a network
//! namespace without interfaces.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a program, with `alone` where no network exists; "could not run" shows what it said.
fn run(alone: bool, program: &str, arguments: &[&OsStr]) -> Output {
    let mut command = match alone {
        true => Command::new("unshare"),
        false => Command::new(program),
    };
    if alone {
        command.args(["--map-root-user", "--net", program]);
    }
    let output = command.args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{program} alone={alone}: {said}"
    );
    output
}

#[test]
fn both_programs_work_the_same_without_a_network() {
    let probe = Command::new("unshare")
        .args(["--map-root-user", "--net", "true"])
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!(
            "skipped: no network namespace can be made here, so working without a network was not tried"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let model = root().join("crates/model/tests/fixtures/tiny-qwen2");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for name in ["dialogue-001.json", "dialogue-003.json"] {
        std::fs::copy(
            root().join("datasets/scenarios").join(name),
            data.join(name),
        )
        .unwrap();
    }
    let recipe = folder.path().join("recipe.toml");
    let text = format!(
        "model = {model:?}\ndata = [{data:?}]\noutput = \"\"\nseed = 3\n[window]\nsize = 2\noverlap = 1\n\
         [train]\nsteps = 2\nbatch_examples = 2\nlearning_rate = 1e-3\neval_examples = 1\nmax_tokens = 512\n"
    );
    std::fs::write(&recipe, text).unwrap();
    let [with, without] = [false, true].map(|alone| {
        let run_folder = folder.path().join(format!("run-{alone}"));
        let set = format!("output={run_folder:?}");
        let sft = ["sft", "--config"].map(OsStr::new);
        let set = [recipe.as_os_str(), OsStr::new("--set"), OsStr::new(&set)];
        run(
            alone,
            env!("CARGO_BIN_EXE_memtrain"),
            &[&sft[..], &set[..]].concat(),
        );
        let adapter = run_folder.join("adapter");
        let sample = root().join("datasets/samples/dialogue.txt");
        let extract: [&OsStr; 7] = [
            sample.as_os_str(),
            OsStr::new("--model"),
            model.as_os_str(),
            OsStr::new("--adapter"),
            adapter.as_os_str(),
            OsStr::new("--max-new-tokens"),
            OsStr::new("300"),
        ];
        let extracted = run(alone, env!("CARGO_BIN_EXE_memextract"), &extract);
        // A line a window; what comes after the tokens is the time that it took.
        let said = String::from_utf8(extracted.stderr).unwrap();
        let windows: Vec<String> = said
            .lines()
            .filter(|line| line.starts_with('['))
            .map(|line| line.split(" tokens").next().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(windows.len(), 17, "{said}");
        let weights = std::fs::read(adapter.join("adapter_model.safetensors")).unwrap();
        (weights, extracted.status.code(), extracted.stdout, windows)
    });
    assert!(with == without, "adapters or records differ");
}
