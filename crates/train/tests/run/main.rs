//! Whole runs on a tiny model and real scenario files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod inputs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use mem_model::generate::{DeviceKind, load};
use mem_model::matrix::Compute;
use mem_train::base::{Base, fingerprint};
use mem_train::config::Recipe;
use mem_train::error::Error;
use mem_train::examples::Examples;
use mem_train::sft::{self, Event, Outcome};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A recipe over one train and one dev scenario, in windows small enough for a tiny vocabulary.
fn recipe(folder: &Path, settings: &[&str]) -> Recipe {
    let data = folder.join("data");
    std::fs::create_dir_all(&data).unwrap();
    let mut copied = [false; 2];
    let scenarios = root().join("datasets/scenarios");
    let mut files: Vec<PathBuf> = walk(&scenarios);
    files.sort();
    for file in files {
        let id = file.file_stem().unwrap().to_str().unwrap();
        let dev = mem_schema::scenario::Split::of(id) == mem_schema::scenario::Split::Dev;
        if !std::mem::replace(&mut copied[usize::from(dev)], true) {
            std::fs::copy(&file, data.join(file.file_name().unwrap())).unwrap();
        }
    }
    let path = folder.join("recipe.toml");
    let text = format!(
        "model = \"tiny\"\ndata = [{data:?}]\noutput = {:?}\nseed = 5\n\
         [window]\nsize = 2\noverlap = 1\n[lora]\nr = 4\nalpha = 8\n\
         [train]\nsteps = 6\nbatch_examples = 3\nmax_tokens = 2000\nlearning_rate = 5e-3\n\
         warmup_steps = 2\neval_examples = 3\neval_every = 3\ncheckpoint_every = 2\n",
        folder.join("run")
    );
    std::fs::write(&path, text).unwrap();
    let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
    Recipe::load(&path, &settings).unwrap()
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    entries
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// A run to its end.
fn run(recipe: &Recipe, observe: &mut dyn FnMut(&Event)) -> Result<Outcome, Error> {
    let outcome = run_until(recipe, &AtomicBool::new(false), observe)?;
    Ok(outcome.expect("nothing interrupts it"))
}

fn run_until(
    recipe: &Recipe,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(&Event),
) -> Result<Option<Outcome>, Error> {
    run_on(&tiny(), Compute::F32, recipe, interrupted, observe)
}

fn tiny() -> PathBuf {
    root().join("crates/model/tests/fixtures/tiny-qwen2")
}

/// Tunes the model at `path`, whatever it is, under the name `tiny`. What is computed is f32, whatever `compute` says.
fn run_on(
    path: &Path,
    compute: Compute,
    recipe: &Recipe,
    interrupted: &AtomicBool,
    observe: &mut dyn FnMut(&Event),
) -> Result<Option<Outcome>, Error> {
    let (model, encoder) = load(path, DeviceKind::Cpu, Compute::F32).unwrap();
    let examples = Examples::read(
        &recipe.data,
        &recipe.tuning(),
        &encoder,
        recipe.train.max_tokens,
    )?;
    assert!(examples.faults.is_empty());
    let base = Base {
        name: "tiny".to_owned(),
        weights: fingerprint(path)?,
        compute,
    };
    sft::run(model, &base, recipe, &examples, interrupted, observe)
}

/// The tiny model in `folder`, with the first value of the tensor `name` replaced.
fn changed(folder: &Path, name: &str, value: f32) {
    for file in std::fs::read_dir(tiny()).unwrap() {
        let file = file.unwrap().path();
        if file.is_file() {
            std::fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
    }
    let path = folder.join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    assert_eq!(header[name]["dtype"], "F32");
    let start = header[name]["data_offsets"][0].as_u64().unwrap() as usize + 8 + length;
    bytes[start..start + 4].copy_from_slice(&value.to_le_bytes());
    std::fs::write(path, bytes).unwrap();
}

fn adapter(recipe: &Recipe) -> Vec<Vec<u8>> {
    [
        "adapter_config.json",
        "adapter_model.safetensors",
        "memloom.json",
    ]
    .map(|file| std::fs::read(recipe.output.join("adapter").join(file)).unwrap())
    .to_vec()
}

/// Metrics without the times.
fn metrics(recipe: &Recipe) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(recipe.output.join(sft::METRICS)).unwrap();
    let lines = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        value.as_object_mut().unwrap().remove("seconds");
        value
    });
    lines.collect()
}

#[test]
fn a_killed_run_ends_with_the_same_bytes() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (straight, killed) = (recipe(one.path(), &[]), recipe(two.path(), &[]));
    let outcome = run(&straight, &mut |_| {}).unwrap();
    assert!(
        outcome.dev_loss_after < outcome.dev_loss_before,
        "{outcome:?}"
    );
    let at_step_five = catch_unwind(AssertUnwindSafe(|| {
        run(&killed, &mut |event| {
            assert!(!matches!(event, Event::Step { step: 5, .. }))
        })
    }));
    assert!(at_step_five.is_err());
    let mut first_step = None;
    let resumed = run(&killed, &mut |event| {
        if let Event::Step { step, .. } = event {
            first_step.get_or_insert(*step);
        }
    });
    assert_eq!(first_step, Some(5));
    assert_eq!(resumed.unwrap().dev_loss_before, outcome.dev_loss_before);
    assert!(adapter(&straight) == adapter(&killed), "adapters differ");
    assert_eq!(metrics(&straight), metrics(&killed));
    // Finished runs do nothing more.
    run(&killed, &mut |event| panic!("{event:?}")).unwrap();
    assert!(adapter(&straight) == adapter(&killed), "adapters differ");
}

/// Wherever it is interrupted, a run loses no step that it has made and ends with the bytes of one that is not.
#[test]
fn an_interrupted_run_saves_its_step_and_continues() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let [straight, early, late] = folders.each_ref().map(|folder| recipe(folder.path(), &[]));
    run(&straight, &mut |_| {}).unwrap();
    for (recipe, at) in [(&early, 0), (&late, 3)] {
        let interrupted = AtomicBool::new(false);
        let mut seen = Vec::new();
        let outcome = run_until(recipe, &interrupted, &mut |event| {
            let (Event::Step { step, .. } | Event::Eval { step, .. } | Event::Saved { step }) =
                event;
            interrupted.fetch_or(*step == at, Ordering::Relaxed);
            seen.push(event.clone());
        });
        assert!(outcome.unwrap().is_none());
        match seen.last().unwrap() {
            Event::Eval { step: 0, .. } => assert_eq!(at, 0),
            Event::Saved { step } => assert_eq!(*step, at),
            other => panic!("{other:?}"),
        }
        assert!(!recipe.output.join("adapter").exists());
        let inputs = std::fs::read_to_string(recipe.output.join(sft::INPUTS)).unwrap();
        assert!(inputs.contains("\"base_model\": \"tiny\""), "{inputs}");
        let mut next = None;
        run(recipe, &mut |event| {
            if let Event::Step { step, .. } = event {
                next.get_or_insert(*step);
            }
        })
        .unwrap();
        assert_eq!(next, Some(at + 1));
        assert!(adapter(&straight) == adapter(recipe), "adapters differ");
        assert_eq!(metrics(&straight), metrics(recipe));
    }
}

#[test]
fn another_recipe_does_not_continue_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    run(&recipe(folder.path(), &["train.steps=1"]), &mut |_| {}).unwrap();
    let changed = recipe(
        folder.path(),
        &["train.steps=1", "train.learning_rate=1e-3"],
    );
    let error = run(&changed, &mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::OtherRun { difference, .. } if difference.contains("learning_rate")),
        "{error}"
    );
    // The folder still tells the settings of the run that it holds.
    let kept = std::fs::read_to_string(changed.output.join("recipe.toml")).unwrap();
    assert!(kept.contains("learning_rate = 0.005"), "{kept}");
}

#[test]
fn another_model_or_type_does_not_continue_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path(), &["train.steps=1"]);
    run(&recipe, &mut |_| {}).unwrap();
    let other = tempfile::tempdir().unwrap();
    changed(other.path(), "model.norm.weight", 0.5);
    let refusal = |path: &Path, compute| {
        let never = AtomicBool::new(false);
        let error = run_on(path, compute, &recipe, &never, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::OtherRun { .. }), "{error}");
        error.to_string()
    };
    let message = refusal(other.path(), Compute::F32);
    assert!(
        message.contains("the model's weights are others"),
        "{message}"
    );
    let message = refusal(&tiny(), Compute::Bf16);
    assert!(
        message.contains("`--dtype f32` is now `--dtype bf16`"),
        "{message}"
    );
    // Before the weights were noted, a state had three fields.
    let path = recipe.output.join("checkpoint/state.json");
    let text = std::fs::read(&path).unwrap();
    let mut state: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let fields = state.as_object_mut().unwrap();
    fields.retain(|key, _| ["step", "recipe", "data"].contains(&key.as_str()));
    std::fs::write(&path, state.to_string()).unwrap();
    let error = run(&recipe, &mut |_| {}).unwrap_err();
    let Error::Checkpoint { source, .. } = &error else {
        panic!("{error}")
    };
    assert!(source.to_string().contains("earlier version"), "{source}");
}

/// The figures at the end do not depend on the log, which a kill or a person may have cut.
#[test]
fn the_first_dev_loss_outlives_the_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path(), &[]);
    let interrupted = AtomicBool::new(false);
    let mut before = None;
    let outcome = run_until(&recipe, &interrupted, &mut |event| match event {
        Event::Eval { step: 0, loss, .. } => before = Some(*loss),
        Event::Step { step: 4, .. } => interrupted.store(true, Ordering::Relaxed),
        _ => {}
    });
    assert!(outcome.unwrap().is_none());
    let metrics = recipe.output.join(sft::METRICS);
    std::fs::remove_file(&metrics).unwrap();
    let whole = run(&recipe, &mut |_| {}).unwrap();
    let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    close(whole.dev_loss_before, before.unwrap());
    std::fs::write(&metrics, "{\"event\":\"eval\",\"step\":0,\"lo").unwrap();
    let again = run(&recipe, &mut |event| panic!("{event:?}")).unwrap();
    close(again.dev_loss_before, before.unwrap());
    close(again.dev_loss_after, whole.dev_loss_after);
}

#[test]
fn a_damaged_model_is_not_blamed_on_the_rate() {
    let (folder, model) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recipe = recipe(folder.path(), &[]);
    changed(model.path(), "model.norm.weight", f32::NAN);
    let never = AtomicBool::new(false);
    let error = run_on(model.path(), Compute::F32, &recipe, &never, &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::DamagedModel { .. }), "{error}");
    assert!(
        error.to_string().contains("`memtrain models verify`"),
        "{error}"
    );
    assert!(!recipe.output.join("checkpoint").exists());
}

#[test]
fn a_checkpoint_with_values_that_are_no_numbers_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path(), &["train.steps=1"]);
    for file in ["adapter.safetensors", "optimiser.safetensors"] {
        let checkpoint = recipe.output.join("checkpoint");
        let _ = std::fs::remove_dir_all(&checkpoint);
        run(&recipe, &mut |_| {}).unwrap();
        let path = checkpoint.join(file);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let error = run(&recipe, &mut |_| {}).unwrap_err();
        let Error::Checkpoint {
            path: named,
            source,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*named, path);
        assert!(source.to_string().contains("no numbers"), "{source}");
    }
}

/// A rate that throws the weights out of range ends the run before the broken step is saved.
#[test]
fn a_diverged_run_leaves_no_adapter() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [
        "train.learning_rate=1e30",
        "train.warmup_steps=0",
        "train.checkpoint_every=1",
    ];
    let recipe = recipe(folder.path(), &settings);
    let mut saved = 0;
    let error = run(&recipe, &mut |event| {
        saved = match event {
            Event::Saved { step } => *step,
            _ => saved,
        }
    })
    .unwrap_err();
    assert!(
        matches!(&error, Error::Diverged { step, .. } if *step > saved),
        "{error}"
    );
    assert!(!recipe.output.join("adapter").exists());
}

/// Killed between its two renames, a run leaves the old folder alone; the next save must not lose it.
#[test]
fn a_run_killed_while_saving_continues() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path(), &["train.steps=2"]);
    run(&recipe, &mut |_| {}).unwrap();
    let [current, old] = ["checkpoint", "checkpoint.old"].map(|name| recipe.output.join(name));
    std::fs::rename(&current, &old).unwrap();
    run(&recipe, &mut |event| panic!("{event:?}")).unwrap();
    assert!(old.exists() && !current.exists());
    let damaged = old.join("optimiser.safetensors");
    std::fs::write(&damaged, b"x").unwrap();
    let error = run(&recipe, &mut |_| {}).unwrap_err();
    assert!(
        matches!(&error, Error::Checkpoint { path, .. } if *path == damaged),
        "{error}"
    );
}
