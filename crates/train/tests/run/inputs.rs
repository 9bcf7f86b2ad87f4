//! Recipes and scenario files.

use std::path::PathBuf;

use mem_model::generate::load_encoder;
use mem_train::config::Recipe;
use mem_train::error::Error;
use mem_train::examples::Examples;

use super::{recipe, tiny, walk};

#[test]
fn settings_are_closed_checked_and_replaceable() {
    let folder = tempfile::tempdir().unwrap();
    let set = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        Recipe::load(&folder.path().join("recipe.toml"), &settings)
    };
    let base = recipe(folder.path(), &[]);
    assert_eq!(base.lora.targets.len(), 7);
    let changed = set(&["lora.targets=[\"q_proj\"]", "model=other", "train.steps=9"]).unwrap();
    assert_eq!(
        (
            changed.lora.targets.len(),
            changed.model.as_str(),
            changed.train.steps
        ),
        (1, "other", 9)
    );
    for wrong in [
        "train.stepz=1",
        "train.steps=0",
        "window.overlap=2",
        "lora.targets=[\"head\"]",
        "lora.r=1000000000000",
        "lora.alpha=nan",
        "lora.alpha=0",
        "train.learning_rate=inf",
        "train.weight_decay=inf",
        // Times the rate of 5e-3 it would take more than all of a weight.
        "train.weight_decay=201",
        "train.clip_norm=nan",
        "train.steps=9223372036854775807",
        "train",
        "seed.x=1",
    ] {
        assert!(set(&[wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn a_malformed_scenario_is_skipped_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path(), &[]);
    std::fs::write(folder.path().join("data/broken.json"), "{\"scenario_id\": ").unwrap();
    let encoder = load_encoder(&tiny()).unwrap();
    let examples = Examples::read(&recipe.data, &recipe.tuning(), &encoder, 2000).unwrap();
    assert_eq!(examples.scenarios, 2);
    assert!(
        examples.faults[0].to_string().contains("broken.json"),
        "{}",
        examples.faults[0]
    );
    // A copy under another name would be trained on twice.
    let data = folder.path().join("data");
    let first = walk(&data)
        .into_iter()
        .find(|p| !p.ends_with("broken.json"))
        .unwrap();
    std::fs::copy(&first, data.join("copy.json")).unwrap();
    let again = Examples::read(&recipe.data, &recipe.tuning(), &encoder, 2000).unwrap();
    assert_eq!((again.scenarios, again.faults.len()), (2, 2));
    assert_eq!(again.fingerprint(), examples.fingerprint());
    let none = Examples::read(
        &[folder.path().join("run")],
        &recipe.tuning(),
        &encoder,
        2000,
    );
    assert!(matches!(none, Err(Error::Read { .. })));
}

#[test]
fn a_setting_that_does_not_fit_is_named_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recipe.toml");
    let good = "model = \"m\"\ndata = [\"d\"]\noutput = \"o\"\nseed = 1\n\
                [train]\nsteps = 2\nbatch_examples = 1\nlearning_rate = 1e-3\n";
    let refusal = |text: &str, settings: &[&str]| {
        std::fs::write(&path, text).unwrap();
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        Recipe::load(&path, &settings).unwrap_err()
    };
    let fault = refusal(good, &["output=x", "train.steps=-1", "seed=2"]).to_string();
    assert!(
        fault.starts_with("`--set train.steps=-1` cannot be applied: "),
        "{fault}"
    );
    for empty in ["data=[]", "output="] {
        let fault = refusal(good, &[empty]);
        assert!(matches!(fault, Error::Setting { .. }), "{fault}");
    }
    let fault = refusal(good, &["seed=-1", "seed=-1"]).to_string();
    assert!(
        fault.starts_with("`--set seed=-1 --set seed=-1` "),
        "{fault}"
    );
    let fault = refusal(&good.replace("seed = 1\n", ""), &["output=x"]);
    assert!(
        matches!(fault, Error::Recipe { .. }),
        "the file's own fault: {fault}"
    );
}

#[test]
#[cfg(unix)]
fn data_reached_by_many_ways_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let recipe = recipe(folder.path(), &[]);
    let data = &recipe.data[0];
    let encoder = load_encoder(&tiny()).unwrap();
    let read = |data: &[PathBuf]| {
        Examples::read(data, &recipe.tuning(), &encoder, recipe.train.max_tokens).unwrap()
    };
    let plain = read(&recipe.data);
    std::os::unix::fs::symlink("..", data.join("above")).unwrap();
    std::os::unix::fs::symlink("nowhere.json", data.join("dangling.json")).unwrap();
    let linked = read(&[data.clone(), data.join("."), data.join("above/data")]);
    assert_eq!(linked.fingerprint(), plain.fingerprint());
    assert_eq!(linked.faults.len(), 1, "the link to nothing is skipped");
}
