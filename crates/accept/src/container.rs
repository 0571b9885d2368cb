//! How much memory this container may use, as its control group says (cgroups(7)). What strangers may make a program hold is a
//! part of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// Version 1 has no word for "no limit" but a number near 2^63.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// The smallest limit of this process's control group and of those around it, in bytes; `None` where there is none.
pub fn container_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    smallest(Path::new(MOUNT), &groups)
}

/// The smallest limit below `mount` that applies to a process whose `/proc/PID/cgroup` is `groups`.
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

/// `file` of a group and of every group around it. In a container the root is the container's own group, whatever the
/// group is called outside.
fn files_up(root: &Path, group: &str, file: &str) -> Vec<PathBuf> {
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().map(|group| root.join(group).join(file)).collect()
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
