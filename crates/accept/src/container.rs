//! The memory limit of this container, from its cgroup (cgroups(7)). Leno's programs derive limits in bytes from this
//! limit.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory where cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// cgroup version 1 writes "no limit" as a number near 2^63, so a number of at least this value means no limit.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Returns the smallest limit of this process's cgroup and its ancestors, in bytes; `None` without a limit.
pub fn container_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    smallest(Path::new(MOUNT), &groups)
}

/// Returns the smallest limit below `mount` for a process whose `/proc/PID/cgroup` contains `groups`.
fn smallest(mount: &Path, groups: &str) -> Option<u64> {
    let files = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, group) = (parts.next()?, parts.next()?);
        let (root, file) = match controllers {
            "" => (mount.to_owned(), "memory.max"),
            v1 if v1.split(',').any(|controller| controller == "memory") => {
                (mount.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        Some(files_up(&root, group, file))
    });
    let limits = files.flatten().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.filter(|&bytes: &u64| bytes < UNLIMITED_BYTES).min()
}

/// Returns the path of `file` in a group and in every ancestor. In a container the root is the container's own group,
/// even if this group has another path outside the container.
fn files_up(root: &Path, group: &str, file: &str) -> Vec<PathBuf> {
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().map(|group| root.join(group).join(file)).collect()
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
