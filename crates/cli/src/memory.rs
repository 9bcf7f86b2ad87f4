//! Memory that this process took.

/// High-water mark of this process's resident memory; only Linux tells it.
pub fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::peak_bytes;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_peak_is_in_bytes() {
        let bytes = peak_bytes().unwrap();
        assert!((1_000_000..100_000_000_000).contains(&bytes), "{bytes}");
    }
}
