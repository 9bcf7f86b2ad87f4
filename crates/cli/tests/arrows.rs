//! Which crate may use which: the arrows point down, and heavy or open dependencies stay in their crates.

use std::process::Command;

use serde::Deserialize;

/// Each crate with the crates of ours that it may use; some come later and have their rule already.
/// In particular `model` and `pipeline` never meet, and nobody but `cli` sees `eval` or `remote`.
const ARROWS: [(&str, &[&str]); 8] = [
    ("mem-schema", &[]),
    ("mem-model", &["mem-schema"]),
    ("mem-train", &["mem-schema", "mem-model"]),
    ("mem-store", &["mem-schema"]),
    ("mem-pipeline", &["mem-schema", "mem-store"]),
    ("mem-eval", &["mem-schema", "mem-store", "mem-pipeline"]),
    ("mem-remote", &[]),
    (
        "mem-cli",
        &[
            "mem-schema",
            "mem-model",
            "mem-train",
            "mem-store",
            "mem-pipeline",
            "mem-eval",
            "mem-remote",
        ],
    ),
];

/// Dependencies by the beginning of their name, with the only crates that may name them.
const CONFINED: [(&str, &[&str]); 5] = [
    ("candle", &["mem-model", "mem-train"]),
    ("hf-hub", &["mem-remote"]),
    ("ureq", &["mem-remote"]),
    ("reqwest", &["mem-remote"]),
    ("hyper", &["mem-remote"]),
];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

/// A dependency of any kind: tests and build scripts keep the rules too.
#[derive(Deserialize)]
struct Dependency {
    name: String,
}

/// Every broken rule, as a sentence.
fn faults(packages: &[Package]) -> Vec<String> {
    let mut faults = Vec::new();
    for Package { name, dependencies } in packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| known == name) else {
            faults.push(format!("`{name}` has no rule in ARROWS"));
            continue;
        };
        for dependency in dependencies {
            let used = dependency.name.as_str();
            if used.starts_with("mem-") && !allowed.contains(&used) {
                faults.push(format!("`{name}` must not use `{used}`"));
            }
            let confined = CONFINED.iter().find(|(prefix, _)| used.starts_with(prefix));
            if let Some((_, homes)) = confined
                && !homes.contains(&name.as_str())
            {
                let homes = homes.join("` and `");
                faults.push(format!("`{name}` uses `{used}`, which is for `{homes}`"));
            }
        }
    }
    faults
}

#[test]
fn the_workspace_keeps_its_arrows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--locked", "--format-version=1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {said}");
    let metadata: Metadata = serde_json::from_slice(&output.stdout).unwrap();
    assert!(metadata.packages.iter().any(|p| p.name == "mem-schema"));
    assert_eq!(faults(&metadata.packages), Vec::<String>::new());
}

#[test]
fn broken_rules_are_found() {
    let package = |name: &str, dependencies: &[&str]| {
        let dependency = |name: &&str| Dependency {
            name: (*name).to_owned(),
        };
        Package {
            name: name.to_owned(),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    };
    let packages = [
        package("mem-schema", &["serde", "mem-model"]),
        package("mem-pipeline", &["mem-store", "mem-model", "mem-eval"]),
        package("mem-cli", &["mem-model", "mem-eval", "candle-core"]),
        package("mem-train", &["candle-nn", "hf-hub"]),
        package("mem-extra", &[]),
    ];
    let expected = [
        "`mem-schema` must not use `mem-model`",
        "`mem-pipeline` must not use `mem-model`",
        "`mem-pipeline` must not use `mem-eval`",
        "`mem-cli` uses `candle-core`, which is for `mem-model` and `mem-train`",
        "`mem-train` uses `hf-hub`, which is for `mem-remote`",
        "`mem-extra` has no rule in ARROWS",
    ];
    assert_eq!(faults(&packages), expected);
}
