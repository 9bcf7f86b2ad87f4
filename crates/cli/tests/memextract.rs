//! The program itself, with the tiny model of `mem-model`'s tests.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set its scene may panic"
)]

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Windows of three messages, and replies that the tiny model's context holds: some end, some are cut off.
const SMALL: &str = "--window 3 --overlap 1 --instruction short --max-new-tokens 340";

fn tiny_model() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/fixtures/tiny-qwen3")
}

/// A folder with one conversation of `messages` messages.
fn talk(messages: usize) -> TempDir {
    let folder = TempDir::new().unwrap();
    let lines =
        (0..messages).map(|n| format!("[2024-03-04 18:{:02}] Mina: sentence {n}\n", n % 60));
    fs::write(folder.path().join("chat.txt"), lines.collect::<String>()).unwrap();
    folder
}

fn command(folder: &TempDir, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memextract"));
    command
        .current_dir(folder.path())
        .args(line.split_whitespace());
    command
}

fn run(folder: &TempDir, line: &str) -> Output {
    command(folder, line)
        .arg("--model")
        .arg(tiny_model())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn help_explains_everything() {
    let folder = talk(1);
    let help = |line| text(&command(&folder, line).output().unwrap().stdout);
    insta::assert_snapshot!("help", help("--help"));
    insta::assert_snapshot!("windows_help", help("windows --help"));
}

#[test]
fn windows_are_counted_in_the_models_tokens() {
    let folder = talk(4);
    let shown = run(&folder, "windows chat.txt --window 3 --overlap 1 --json");
    let lines = text(&shown.stdout);
    let windows: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(windows.len(), 2);
    assert!(
        windows
            .iter()
            .all(|window| window["prompt_tokens"].as_u64().unwrap() > 100),
        "{lines}"
    );
    assert_eq!(
        (shown.status.code(), text(&shown.stderr)),
        (Some(0), String::new())
    );
}

#[test]
fn the_summary_is_json_where_the_records_are_not() {
    let folder = talk(4);
    let ran = run(&folder, &format!("chat.txt --out out.jsonl --json {SMALL}"));
    let summary: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(summary["windows"]["total"], 2);
    assert!(
        !text(&ran.stderr).contains("sentence"),
        "no text of the conversation"
    );
    let ran = run(&folder, &format!("chat.txt --json {SMALL}"));
    assert!(text(&ran.stderr).contains("\"total\": 2"));
    for line in text(&ran.stdout).lines() {
        serde_json::from_str::<mem_schema::record::Record>(line).unwrap();
    }
}

#[test]
fn what_cannot_run_ends_with_2_and_a_hint() {
    let folder = talk(1);
    let ends = |line: &str| {
        let ran = command(&folder, line)
            .env("MEMLOOM_HOME", folder.path())
            .output()
            .unwrap();
        assert_eq!(text(&ran.stdout), "");
        (ran.status.code().unwrap(), text(&ran.stderr))
    };
    let (code, message) = ends("chat.txt --out nowhere/out.jsonl");
    assert_eq!(code, 2);
    insta::assert_snapshot!(message, @"
    error: cannot write beside `nowhere/out.jsonl`: No such file or directory (os error 2)
    hint: create the folder, or choose one that you may write to
    ");
    let (code, message) = ends("chat.txt --out out.jsonl --model nowhere/model.gguf");
    assert_eq!(code, 2);
    insta::assert_snapshot!(message, @"error: no file or folder `nowhere/model.gguf` exists");
    let (code, message) = ends("");
    assert_eq!(code, 2);
    insta::assert_snapshot!(message, @"
    error: the following required arguments were not provided:
      <INPUT>...

    Usage: memextract <INPUT>...

    For more information, try '--help'.
    ");
    assert!(!folder.path().join("out.jsonl.partial").exists());
}

#[test]
fn windows_of_a_file_with_a_broken_line_end_with_1() {
    let folder = talk(1);
    let good = "{\"role\": \"user\", \"content\": \"hi\"}\n";
    let chat = format!("{good}{{\"role\": \"user\"\n{good}");
    fs::write(folder.path().join("chat.jsonl"), chat).unwrap();
    let shown = command(&folder, "windows chat.jsonl").output().unwrap();
    assert_eq!(shown.status.code(), Some(1));
    insta::assert_snapshot!(text(&shown.stderr), @"
    warning: `chat.jsonl`, line 2: not valid JSON at column 15; the line was left out
    left out: 1 part that could not be understood
    ");
}

#[test]
fn a_model_that_writes_no_text_is_refused() {
    let folder = talk(1);
    for (model, what) in [
        ("minilm", "`all-minilm-l6-v2` is an embedding model"),
        ("chat.txt", "`chat.txt` is a text file, no model"),
    ] {
        let line = format!("chat.txt --out out.jsonl --model {model}");
        let ran = command(&folder, &line).output().unwrap();
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains(what), "{said}");
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_end_the_run() {
    let folder = talk(4);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = command(&folder, &format!("chat.txt --out out.jsonl {SMALL}"))
        .arg("--model")
        .arg(tiny_model())
        .stderr(writer)
        .status()
        .unwrap();
    assert!(ran.code() < Some(2), "{ran}");
    assert!(folder.path().join("out.jsonl").exists());
}

/// Whoever reads the summary, and whether anybody does, changes nothing about what is missing.
#[test]
fn a_summary_that_cannot_be_written_changes_no_exit_code() {
    let folder = talk(4);
    let line = format!("chat.txt missing.txt --out out.jsonl --json {SMALL}");
    let ends = |stdout: std::process::Stdio| {
        let ran = command(&folder, &line)
            .arg("--resume")
            .arg("--model")
            .arg(tiny_model())
            .stdout(stdout)
            .output()
            .unwrap();
        (ran.status.code(), text(&ran.stderr))
    };
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let (code, said) = ends(writer.into());
    assert_eq!(code, Some(1), "{said}");
    let Ok(full) = fs::OpenOptions::new().write(true).open("/dev/full") else {
        return;
    };
    let (code, said) = ends(full.into());
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("warning: cannot write the summary to standard output: "),
        "{said}"
    );
}

#[test]
fn identifiers_cannot_steer_the_terminal() {
    let folder = talk(1);
    let chat = r#"{"id": "a\u001b[2Jb", "messages": [{"role": "user", "content": "hi"}]}"#;
    fs::write(folder.path().join("chat.json"), chat).unwrap();
    let ran = run(&folder, &format!("chat.json {SMALL}"));
    assert!(
        text(&ran.stderr).contains(r"a\u{1b}[2Jb window 0"),
        "{}",
        text(&ran.stderr)
    );
}

#[test]
fn an_adapter_whose_model_is_elsewhere_says_so() {
    let folder = talk(1);
    let adapter = tiny_model().join("adapter");
    let ran = command(&folder, "chat.txt --adapter")
        .arg(adapter)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(2));
    insta::assert_snapshot!(text(&ran.stderr), @"error: the adapter's model is not here; name it with `--model`: `tiny-qwen3` is neither a path nor a model's name: no model is called `tiny-qwen3`; `memtrain models list` shows all");
}

#[test]
fn killed_and_resumed_the_file_is_the_same() {
    let folder = talk(60);
    let line = format!("chat.txt --out out.jsonl {SMALL}");
    let out = folder.path().join("out.jsonl");
    let whole = run(&folder, &line);
    assert!(whole.status.code() < Some(2), "{}", text(&whole.stderr));
    let expected = fs::read(&out).unwrap();
    fs::remove_file(&out).unwrap();
    let _ = fs::remove_file(folder.path().join("out.jsonl.partial"));

    let mut child = command(&folder, &line)
        .arg("--model")
        .arg(tiny_model())
        .spawn()
        .unwrap();
    wait_for_lines(&folder.path().join("out.jsonl.partial"), 5);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!out.exists(), "killed in the middle");

    let refused = run(&folder, &line);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let resumed = run(&folder, &format!("{line} --resume"));
    assert_eq!(
        resumed.status.code(),
        whole.status.code(),
        "{}",
        text(&resumed.stderr)
    );
    assert_eq!(fs::read(&out).unwrap(), expected);
}

#[test]
fn the_records_do_not_depend_on_the_number_of_rows() {
    let folder = talk(24);
    let mut outputs = Vec::new();
    for rows in ["--rows 1", "--rows 5", ""] {
        let line = format!("chat.txt {SMALL} {rows}");
        let ran = run(&folder, &line);
        assert!(ran.status.code() < Some(2), "{}", text(&ran.stderr));
        outputs.push(text(&ran.stdout));
    }
    assert!(outputs[0].lines().count() > 5, "{}", outputs[0]);
    assert_eq!(outputs[0], outputs[1]);
    assert_eq!(outputs[0], outputs[2]);
}

#[test]
fn a_prompt_that_does_not_fit_says_which_flag_to_lower() {
    let folder = talk(9);
    let ran = run(&folder, "chat.txt --window 9 --instruction long");
    assert_eq!(ran.status.code(), Some(2));
    let said = text(&ran.stderr);
    assert!(
        said.contains("context holds 512; use smaller windows (`--window`)"),
        "{said}"
    );
}

/// Under a limit of sizes (`ulimit -f`) the write fails with an error, and the program with it, not by a signal.
#[test]
#[cfg(unix)]
fn a_file_that_may_not_grow_is_an_error() {
    let folder = talk(1);
    let ran = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", "ulimit -f 0 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_memextract"))
        .args(format!("chat.txt --out out.jsonl {SMALL} --model").split_whitespace())
        .arg(tiny_model())
        .output()
        .unwrap();
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{:?}: {said}", ran.status);
    assert!(said.contains("File too large"), "{said}");
}

/// What candle adds to its errors where backtraces are wanted stays out of ours.
#[test]
fn errors_are_one_line_with_backtraces_on() {
    let folder = talk(1);
    let model = folder.path().join("model");
    fs::create_dir(&model).unwrap();
    for entry in fs::read_dir(tiny_model()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, model.join(path.file_name().unwrap())).unwrap();
        }
    }
    let said = || {
        let ran = command(&folder, "chat.txt --model model")
            .env("RUST_BACKTRACE", "1")
            .output()
            .unwrap();
        assert_eq!(ran.status.code(), Some(2));
        let said = text(&ran.stderr);
        assert_eq!(said.lines().count(), 1, "{said}");
        said
    };
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let more = config.replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    assert_ne!(more, config);
    fs::write(model.join("config.json"), more).unwrap();
    let missing = said();
    assert!(missing.contains("`model.layers.2."), "{missing}");
    let weights = fs::read(model.join("model.safetensors")).unwrap();
    fs::write(
        model.join("model.safetensors"),
        &weights[..weights.len() / 2],
    )
    .unwrap();
    let cut = said();
    assert!(cut.contains("holds no readable weights"), "{cut}");
}

#[test]
fn integers_without_quantised_weights_are_said_to_be_floats() {
    if !mem_model::matrix::Compute::Int8.is_available() {
        eprintln!("skipped: this CPU multiplies no integers, so the warning was not tried");
        return;
    }
    let folder = talk(1);
    let warning = "warning: `--dtype int8` needs a quantised GGUF";
    let ran = run(&folder, &format!("chat.txt {SMALL} --dtype int8"));
    assert_eq!(
        text(&ran.stderr).matches(warning).count(),
        1,
        "{}",
        text(&ran.stderr)
    );
    let ran = run(&folder, &format!("chat.txt {SMALL} --dtype f32"));
    assert!(
        !text(&ran.stderr).contains(warning),
        "{}",
        text(&ran.stderr)
    );
}

fn wait_for_lines(path: &Path, lines: usize) {
    let started = Instant::now();
    while fs::read(path).map_or(0, |bytes| {
        bytes.iter().filter(|byte| **byte == b'\n').count()
    }) < lines
    {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "no windows were done"
        );
        sleep(Duration::from_millis(1));
    }
}
