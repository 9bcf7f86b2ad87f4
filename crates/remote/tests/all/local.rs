//! A file or folder given by the user, and the rules that hold for every source.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use mem_remote::manifest::{FileState, verify};
use mem_remote::{Error, Quiet, Source};

use crate::support::{Notes, World, whole};

#[test]
fn a_file_or_a_folder_is_copied_checked_and_recorded() {
    let world = World::new();
    let file = world.path("any-name.gguf");
    fs::write(&file, whole()).unwrap();
    assert!(!world.fetch_from(&file).unwrap().was_there);
    world.assert_whole(Source::Local);

    let world = World::new();
    let folder = world.path("copy");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("model.gguf"), whole()).unwrap();
    let fetched = world.fetch_from(&folder).unwrap();
    world.assert_whole(Source::Local);
    let loaded = fetched.manifest.load_path(&fetched.folder);
    assert_eq!(loaded, world.model_folder().join("model.gguf"));
}

#[test]
fn a_path_that_is_not_there_is_called_so() {
    let world = World::new();
    let nowhere = world.path("nowhere");
    let error = world.fetch_from(&nowhere).unwrap_err().to_string();
    let expected = format!("no file or folder `{}` exists", nowhere.display());
    assert!(error.contains(&expected), "{error}");
}

#[test]
fn a_second_fetch_only_looks() {
    let world = World::new();
    let file = world.path("m.gguf");
    fs::write(&file, whole()).unwrap();
    world.fetch_from(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(world.fetch_from(&file).unwrap().was_there);
}

#[test]
fn a_wrong_hash_or_size_keeps_nothing_and_tells_both() {
    let world = World::new();
    let file = world.path("m.gguf");
    let mut bytes = whole();
    bytes[3] ^= 1;
    fs::write(&file, &bytes).unwrap();
    let error = world.fetch_from(&file).unwrap_err();
    let Error::Hash {
        expected, actual, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert!(error.to_string().contains(expected) && error.to_string().contains(actual));
    world.assert_nothing_kept();

    fs::write(&file, &bytes[1..]).unwrap();
    let error = world.fetch_from(&file).unwrap_err().to_string();
    let expected = "`model.gguf` has 30 bytes where 31 are expected; nothing of it was kept";
    assert_eq!(error, expected);
    world.assert_nothing_kept();
}

#[test]
fn verify_finds_a_changed_and_a_missing_file() {
    let world = World::new();
    let file = world.path("m.gguf");
    fs::write(&file, whole()).unwrap();
    let check = || verify(&world.model, &world.model_folder(), &mut Quiet);
    assert!(matches!(check(), Err(Error::NotFetched { .. })));
    world.fetch_from(&file).unwrap();
    let state = || check().unwrap().remove(0).1;
    assert_eq!(state(), FileState::Intact);

    let target = world.model_folder().join("model.gguf");
    let mut bytes = whole();
    bytes[0] ^= 1;
    fs::write(&target, &bytes).unwrap();
    assert!(matches!(state(), FileState::Changed { .. }));
    fs::remove_file(&target).unwrap();
    assert_eq!(state(), FileState::Missing);
    // A missing file is not "there already": the next fetch brings it back.
    assert!(!world.fetch_from(&file).unwrap().was_there);
    assert_eq!(state(), FileState::Intact);
}

#[test]
fn a_folder_that_cannot_be_written_is_an_error_at_once() {
    let world = World::new();
    // A file where the folder should be stops even a superuser.
    fs::write(world.path("home"), "").unwrap();
    let mut notes = Notes::default();
    let error = world.request(None, None, &mut notes).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert!(error.to_string().contains("set `MEMLOOM_HOME`"), "{error}");
    assert!(
        notes.lines.is_empty(),
        "no source was tried: {:?}",
        notes.lines
    );
}

#[test]
fn a_fetched_model_is_found_on_a_disk_that_cannot_be_written() {
    let world = World::new();
    let file = world.path("m.gguf");
    fs::write(&file, whole()).unwrap();
    world.fetch_from(&file).unwrap();
    let models = world.places.models_dir();
    fs::remove_file(models.join(".tiny.lock")).unwrap();
    fs::set_permissions(&models, fs::Permissions::from_mode(0o555)).unwrap();
    let fetched = world.fetch_from(&file);
    fs::set_permissions(&models, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(fetched.unwrap().was_there);
    assert!(!models.join(".tiny.lock").exists(), "it wanted to write");
}

#[test]
fn two_fetches_at_once_do_the_work_once() {
    let world = World::new();
    let file = world.path("m.gguf");
    fs::write(&file, whole()).unwrap();
    let outcomes: Vec<_> = thread::scope(|scope| {
        let fetches: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| world.fetch_from(&file)))
            .collect();
        fetches
            .into_iter()
            .map(|fetch| fetch.join().unwrap().unwrap().was_there)
            .collect()
    });
    assert_eq!(
        outcomes.iter().filter(|was_there| !**was_there).count(),
        1,
        "{outcomes:?}"
    );
    world.assert_whole(Source::Local);
}
