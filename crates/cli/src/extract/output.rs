//! Where records go: a file that appears whole or not at all, or standard output.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use mem_schema::{bank::Bank, record::Record, window::Window};

use super::{Error, journal};

/// Where records go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output, as they come; nothing to resume.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// How records are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Layout {
    /// One record a line
    #[default]
    Jsonl,
    /// The DimMem reference's bank file of one conversation
    Dimmem,
}

impl Output {
    /// Reads `--out`: none and `-` are standard output.
    pub fn parse(out: Option<&Path>) -> Self {
        match out {
            Some(path) if path != Path::new("-") => Self::File(path.to_owned()),
            _ => Self::Stdout,
        }
    }

    /// Refuses what would destroy an input or replace a device.
    ///
    /// # Errors
    /// When the output or a file that is written on the way to it is an input, or the output exists and is no regular
    /// file.
    pub fn check(&self, inputs: &[PathBuf]) -> Result<(), Error> {
        let Self::File(path) = self else {
            return Ok(());
        };
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(Error::OutputNotFile { path: path.clone() });
        }
        for written in [path.clone(), journal::path_for(path), beside(path)] {
            let same = |input: &PathBuf| match (fs::canonicalize(input), fs::canonicalize(&written))
            {
                (Ok(input), Ok(output)) => input == output,
                _ => false,
            };
            if inputs.iter().any(same) {
                return Err(Error::OutputIsInput { path: written });
            }
        }
        Ok(())
    }
}

impl Layout {
    /// Writes `records`, which come from `windows`.
    ///
    /// # Errors
    /// What the writer says.
    pub(super) fn write(
        self,
        writer: &mut dyn Write,
        windows: &[Window],
        records: &[Record],
    ) -> io::Result<()> {
        match self {
            Self::Jsonl => write_lines(writer, records),
            Self::Dimmem => {
                let transcript = windows.first().map_or("", |window| &window.transcript_id);
                let bank = Bank::new(transcript, windows, records).to_json()?;
                writer.write_all(bank.as_bytes())
            }
        }
    }
}

/// One record a line.
pub(super) fn write_lines(writer: &mut dyn Write, records: &[Record]) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *writer, record)?;
        writer.write_all(b"\n")?;
    }
    writer.flush()
}

/// The file that `path` stands for, through links.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// `FILE.new` for `FILE`: what becomes the output once it is whole.
fn beside(path: &Path) -> PathBuf {
    let mut name = target(path).into_os_string();
    name.push(".new");
    PathBuf::from(name)
}

/// Writes `path` beside itself first, so that it is replaced as a whole or not at all. A link stays a link.
///
/// # Errors
/// When the file system refuses; the file beside is removed.
pub(super) fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let target = target(path);
    let failed = |source| Error::Output {
        path: path.to_owned(),
        source,
    };
    let (file, beside) = create_beside(path).map_err(failed)?;
    let mut writer = BufWriter::new(file);
    let written = write(&mut writer)
        .and_then(|()| writer.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&beside, &target));
    written.map_err(|source| {
        let _ = fs::remove_file(&beside);
        failed(source)
    })
}

/// A new `FILE.new`, or `FILE.new2` and so on where that is somebody's file.
fn create_beside(path: &Path) -> io::Result<(File, PathBuf)> {
    let first = beside(path);
    let mut number = 1_u32;
    loop {
        let mut name = first.clone().into_os_string();
        if number > 1 {
            name.push(number.to_string());
        }
        let candidate = PathBuf::from(name);
        match File::create_new(&candidate) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < 100 => {
                number += 1;
            }
            created => return created.map(|file| (file, candidate)),
        }
    }
}
