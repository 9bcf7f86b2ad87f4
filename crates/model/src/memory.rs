//! How much memory can be had, asked before much of it is taken: where an allocation fails the process ends at once.

use std::fs;
use std::path::Path;

/// Bytes that this process can still take without swapping: what the machine has free, what its control group (version
/// 2) leaves, and what its limit of address space leaves. Only Linux tells them.
pub fn available_bytes() -> Option<u64> {
    let machine = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemAvailable:")?;
    let group = fs::read_to_string("/proc/self/cgroup").ok();
    let group = group.and_then(|groups| {
        let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
        group_left(Path::new("/sys/fs/cgroup"), path)
    });
    [Some(machine), group, address_space_left()]
        .into_iter()
        .flatten()
        .min()
}

/// A field in kB of a file of `/proc`, in bytes.
fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// What `group` and the groups above it, up to `root`, leave; files that the group has read give way and do not count.
fn group_left(root: &Path, group: &str) -> Option<u64> {
    let folder = root.join(group);
    let folders = folder
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    folders
        .filter_map(|folder| {
            let number = |name| -> Option<u64> { read(folder, name)?.trim().parse().ok() };
            let most = number("memory.max")?;
            let stat = read(folder, "memory.stat")?;
            let files = stat.lines().find_map(|line| line.strip_prefix("file "))?;
            let taken = number("memory.current")?.saturating_sub(files.trim().parse().ok()?);
            Some(most.saturating_sub(taken))
        })
        .min()
}

fn read(folder: &Path, name: &str) -> Option<String> {
    fs::read_to_string(folder.join(name)).ok()
}

/// What `ulimit -v` leaves.
fn address_space_left() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let limit = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max address space"))?;
    let limit: u64 = limit.split_whitespace().next()?.parse().ok()?;
    let taken = field(&fs::read_to_string("/proc/self/status").ok()?, "VmSize:")?;
    Some(limit.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn free_memory_is_in_bytes() {
        let bytes = available_bytes().unwrap();
        assert!((1 << 20..1 << 45).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_narrowest_group_counts() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        let write = |folder: &Path, max: &str, current: &str| {
            fs::write(folder.join("memory.max"), max).unwrap();
            fs::write(folder.join("memory.current"), current).unwrap();
            fs::write(folder.join("memory.stat"), "anon 1\nfile 100\n").unwrap();
        };
        assert_eq!(group_left(root.path(), "outer/inner"), None);
        write(&inner, "max\n", "500\n");
        assert_eq!(group_left(root.path(), "outer/inner"), None);
        write(inner.parent().unwrap(), "1000\n", "700\n");
        assert_eq!(group_left(root.path(), "outer/inner"), Some(400));
        write(&inner, "300\n", "500\n");
        assert_eq!(group_left(root.path(), "outer/inner"), Some(0));
    }
}
