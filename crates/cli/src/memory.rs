//! Memory of this process, and whether a model fits before it is loaded.

use std::path::Path;

use anyhow::{Result, bail};
use mem_model::{
    generate::{Sizes, sizes},
    memory::available_bytes,
};

use crate::{say, say::count};

/// Has the allocator give large memory back when it is freed: for training, whose steps differ in size. glibc otherwise
/// raises the size from which it does so up to 32 MiB, and keeps what lies between smaller values that are still in use:
/// the quick start's fine-tune then takes 5.8 GB, not 3.2.
pub fn give_back_when_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: sets a number that the allocator reads under its own lock.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20);
    }
}

/// High-water mark of this process's resident memory; only Linux tells it.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// Refuses a model that cannot fit into memory, since a failed allocation ends the process without a word, and warns
/// where it may become tight with `rows` caches beside it.
///
/// # Errors
/// When the model's header cannot be read, or the weights and one row take more than 1.2 times of what can be had.
pub fn check(model: &Path, rows: usize) -> Result<()> {
    let Some(available) = available_bytes() else {
        return Ok(());
    };
    if let Some(warning) = verdict(model, sizes(model)?, rows, available)? {
        say!("warning: {warning}");
    }
    Ok(())
}

fn verdict(model: &Path, sizes: Sizes, rows: usize, available: u64) -> Result<Option<String>> {
    let need = |rows: usize| {
        let caches = sizes.row_bytes.saturating_mul(rows as u64);
        sizes.weight_bytes.saturating_add(caches)
    };
    let gb = |bytes: u64| bytes as f64 / 1e9;
    let (least, most) = (need(rows.min(1)), need(rows));
    if gb(least) > 1.2 * gb(available) {
        bail!(
            "`{}` takes about {:.1} GB of memory, and {:.1} GB can be had: choose a smaller model or a quantised one, \
             or end other programs",
            model.display(),
            gb(least),
            gb(available)
        );
    }
    let advice = match rows {
        0 | 1 => "choose a smaller model if it does not",
        _ => "lower `--rows` if it does not",
    };
    Ok((most > available).then(|| {
        format!(
            "`{}`{} may take {:.1} GB of memory, and {:.1} GB can be had; {advice} fit",
            model.display(),
            match rows {
                0 => String::new(),
                rows => format!(" with {}", count(rows, "row")),
            },
            gb(most),
            gb(available)
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_is_in_bytes() {
        let bytes = peak_bytes().unwrap();
        assert!((1_000_000..100_000_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn what_cannot_fit_is_refused_and_what_may_not_is_warned_of() {
        let sizes = Sizes {
            context_length: 32_768,
            weight_bytes: 5_000_000_000,
            row_bytes: 100_000_000,
        };
        let says = |rows, available| verdict(Path::new("m.gguf"), sizes, rows, available);
        assert_eq!(says(16, 7_000_000_000).unwrap(), None);
        insta::assert_snapshot!(says(16, 6_000_000_000).unwrap().unwrap(), @"`m.gguf` with 16 rows may take 6.6 GB of memory, and 6.0 GB can be had; lower `--rows` if it does not fit");
        insta::assert_snapshot!(says(0, 4_900_000_000).unwrap().unwrap(), @"`m.gguf` may take 5.0 GB of memory, and 4.9 GB can be had; choose a smaller model if it does not fit");
        insta::assert_snapshot!(says(64, 4_200_000_000).unwrap_err(), @"`m.gguf` takes about 5.1 GB of memory, and 4.2 GB can be had: choose a smaller model or a quantised one, or end other programs");
    }
}
