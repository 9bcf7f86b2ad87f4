//! From what was written to what holds: flags before preset before adapter before default.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use mem_schema::{
    prompt::PROMPT_VERSION,
    record::RECORD_VERSION,
    tuning::{Instruction, Tuning},
    window::Segmentation,
};

use super::{
    Error, Fingerprint,
    args::{Captions, InputArgs, InstructionArg, Preset},
};

/// Windows of the default preset.
const SMALL: Segmentation = Segmentation {
    window: 10,
    overlap: 2,
    captions: true,
};

/// How windows are cut and prompts begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// Sizes of windows.
    pub(super) segmentation: Segmentation,
    /// Opening of the prompt.
    pub(super) instruction: Instruction,
}

impl Settings {
    /// Settles what `args` leave open, from the adapter's own file if there is an adapter.
    ///
    /// # Errors
    /// When the sizes do not fit each other, or the adapter is not readable or made for other prompts.
    pub(super) fn resolve(args: &InputArgs) -> Result<Self, Error> {
        let tuning = args
            .adapter
            .as_deref()
            .map(read_tuning)
            .transpose()?
            .flatten();
        let of_preset = args.preset.map(|preset| match preset {
            Preset::Small => SMALL,
            Preset::Locomo => Segmentation::LOCOMO,
            Preset::Longmemeval => Segmentation::LONGMEMEVAL,
        });
        let base = of_preset
            .or(tuning.as_ref().map(Tuning::segmentation))
            .unwrap_or(SMALL);
        let segmentation = Segmentation {
            window: args.window.unwrap_or(base.window),
            overlap: args.overlap.unwrap_or(base.overlap),
            captions: match args.captions {
                Captions::Auto => base.captions,
                Captions::On => true,
                Captions::Off => false,
            },
        };
        segmentation.check()?;
        let instruction = match args.instruction {
            InstructionArg::Auto => tuning.map_or(Instruction::Long, |tuning| tuning.instruction),
            InstructionArg::Short => Instruction::Short,
            InstructionArg::Long => Instruction::Long,
        };
        Ok(Self {
            segmentation,
            instruction,
        })
    }

    /// Notes what holds.
    pub(super) fn describe(&self, fingerprint: &mut Fingerprint) {
        let Segmentation {
            window,
            overlap,
            captions,
        } = &self.segmentation;
        fingerprint.set("window", window);
        fingerprint.set("overlap", overlap);
        fingerprint.set("captions", captions);
        fingerprint.set(
            "instruction",
            format!("{:?}", self.instruction).to_lowercase(),
        );
        fingerprint.set("prompt version", PROMPT_VERSION);
        fingerprint.set("record version", RECORD_VERSION);
    }
}

/// Reads an adapter's own settings; an adapter from elsewhere has none.
fn read_tuning(adapter: &Path) -> Result<Option<Tuning>, Error> {
    let read_error = |path: &Path, source: io::Error| Error::Read {
        path: path.to_owned(),
        source,
    };
    fs::metadata(adapter).map_err(|source| read_error(adapter, source))?;
    let path = adapter.join(Tuning::FILE);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(read_error(&path, source)),
    };
    let tuning: Tuning = serde_json::from_str(&text).map_err(|source| Error::Tuning {
        path: path.clone(),
        source,
    })?;
    if tuning.prompt_version != PROMPT_VERSION {
        return Err(Error::PromptVersion {
            path,
            found: tuning.prompt_version,
            ours: PROMPT_VERSION,
        });
    }
    Ok(Some(tuning))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        input: InputArgs,
    }

    fn adapter(prompt_version: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (instruction, window, overlap, captions) = (Instruction::Short, 12, 3, false);
        let tuning = Tuning {
            prompt_version,
            instruction,
            window,
            overlap,
            captions,
        };
        fs::write(
            folder.path().join(Tuning::FILE),
            serde_json::to_string(&tuning).unwrap(),
        )
        .unwrap();
        folder
    }

    /// Window, overlap, captions and instruction.
    fn resolve(
        flags: &str,
        adapter: Option<&Path>,
    ) -> Result<(usize, usize, bool, Instruction), Error> {
        let mut input =
            Line::parse_from(format!("memextract chat.txt {flags}").split_whitespace()).input;
        input.adapter = adapter.map(Path::to_owned);
        Settings::resolve(&input).map(|settings| {
            let Segmentation {
                window,
                overlap,
                captions,
            } = settings.segmentation;
            (window, overlap, captions, settings.instruction)
        })
    }

    #[test]
    fn flags_come_before_the_preset_before_the_adapter() {
        let tuned = adapter(PROMPT_VERSION);
        let tuned = Some(tuned.path());
        let foreign = tempfile::tempdir().unwrap();
        let cases = [
            ("", None, (10, 2, true, Instruction::Long)),
            ("", Some(foreign.path()), (10, 2, true, Instruction::Long)),
            ("", tuned, (12, 3, false, Instruction::Short)),
            ("--preset locomo", tuned, (25, 5, false, Instruction::Short)),
            (
                "--preset longmemeval",
                None,
                (15, 3, false, Instruction::Long),
            ),
            (
                "--preset locomo --window 8 --captions on --instruction long",
                tuned,
                (8, 5, true, Instruction::Long),
            ),
            (
                "--overlap 0 --captions off --instruction short",
                None,
                (10, 0, false, Instruction::Short),
            ),
        ];
        for (flags, adapter, expected) in cases {
            assert_eq!(resolve(flags, adapter).unwrap(), expected, "{flags}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let sizes = resolve("--window 2", None).unwrap_err();
        assert!(matches!(sizes, Error::Segmentation(_)), "{sizes}");
        let newer = adapter(PROMPT_VERSION + 1);
        let version = resolve("", Some(newer.path())).unwrap_err();
        assert!(
            matches!(version, Error::PromptVersion { found, .. } if found == PROMPT_VERSION + 1),
            "{version}"
        );
        fs::write(newer.path().join(Tuning::FILE), "{}").unwrap();
        let tuning = resolve("", Some(newer.path())).unwrap_err();
        assert!(matches!(tuning, Error::Tuning { .. }), "{tuning}");
    }
}
