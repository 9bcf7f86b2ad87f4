//! The hub's cache on disk.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use mem_remote::{Error, Source};

use crate::support::{World, sha256, whole};

/// Lays a cache out as huggingface_hub does and returns the blob.
fn lay_out(world: &World, content: &[u8]) -> PathBuf {
    let repository = world.path("hub/hub/models--owner--tiny");
    let snapshot = repository.join("snapshots/abc123");
    for folder in [
        &snapshot,
        &repository.join("refs"),
        &repository.join("blobs"),
    ] {
        fs::create_dir_all(folder).unwrap();
    }
    fs::write(repository.join("refs/main"), "abc123").unwrap();
    let hash = sha256(&whole());
    let blob = repository.join("blobs").join(&hash);
    fs::write(&blob, content).unwrap();
    symlink(format!("../../blobs/{hash}"), snapshot.join("model.gguf")).unwrap();
    blob
}

#[test]
fn a_snapshot_is_found_through_its_reference() {
    let world = World::new();
    lay_out(&world, &whole());
    world.fetch(Source::Cache).unwrap();
    world.assert_whole(Source::Cache);
}

#[test]
fn a_model_that_is_not_cached_is_told_apart_from_a_snapshot_that_lacks_a_file() {
    let world = World::new();
    let error = world.fetch(Source::Cache).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`owner/tiny` is not in the hub's cache on this disk"
    );
    fs::remove_file(lay_out(&world, &whole())).unwrap();
    let error = world.fetch(Source::Cache).unwrap_err();
    assert!(error.to_string().ends_with("lacks `model.gguf`"), "{error}");
}

#[test]
fn without_a_hash_in_the_catalogue_the_blob_s_name_is_the_hash() {
    let mut world = World::new();
    world.model.files[0].bytes = None;
    world.model.files[0].sha256 = None;
    let blob = lay_out(&world, b"damaged");
    let error = world.fetch(Source::Cache).unwrap_err();
    assert!(matches!(error, Error::Hash { .. }), "{error}");
    world.assert_nothing_kept();
    fs::write(blob, whole()).unwrap();
    world.fetch(Source::Cache).unwrap();
    world.assert_whole(Source::Cache);
}

#[test]
fn a_model_without_a_file_list_takes_what_the_snapshot_holds() {
    let mut world = World::new();
    world.model.files.clear();
    world.model.pip = None;
    lay_out(&world, &whole());
    let snapshot = world.path("hub/hub/models--owner--tiny/snapshots/abc123");
    fs::create_dir(snapshot.join("sub")).unwrap();
    fs::write(snapshot.join("sub/config.json"), "{}").unwrap();
    fs::write(snapshot.join("training_args.bin"), "pickle").unwrap();
    let fetched = world.fetch(Source::Cache).unwrap();
    let paths: Vec<_> = fetched
        .manifest
        .files
        .iter()
        .map(|file| file.path.as_str())
        .collect();
    assert_eq!(paths, ["model.gguf", "sub/config.json"]);
}
