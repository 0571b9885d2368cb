//! Reads this container's memory limit from its cgroup (cgroups(7)). Leno's programs derive their own limits in bytes
//! from it.

use std::fs;
use std::path::{Path, PathBuf};

/// The directory where cgroups are mounted.
const MOUNT: &str = "/sys/fs/cgroup";
/// cgroup version 1 writes "no limit" as a number near 2^63, so a number of at least this value means no limit.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Returns the smallest memory limit of this process's cgroup and of the groups around it, in bytes; `None` if no group
/// has a limit.
pub fn container_memory() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    smallest(Path::new(MOUNT), &groups)
}

/// Returns the smallest memory limit, in bytes, that applies to a process. `groups` is the text of its
/// `/proc/PID/cgroup`; `mount` is the directory where cgroups are mounted.
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

/// Returns the path of `file` in a group and in each of its ancestors; the last path is the file in `root`. In a
/// container, `root` is the container's own group, and `group` may be a path that exists only on the host.
fn files_up(root: &Path, group: &str, file: &str) -> Vec<PathBuf> {
    let group = Path::new(group.trim_start_matches('/'));
    group.ancestors().map(|group| root.join(group).join(file)).collect()
}

#[cfg(test)]
#[path = "container_tests.rs"]
mod tests;
