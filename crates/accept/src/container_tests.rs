use tempfile::TempDir;

use super::*;

/// A directory like the cgroup mount. `files` has each file's path below the directory, and its content.
fn mount(files: &[(&str, &str)]) -> TempDir {
    let mount = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        let path = mount.path().join(path);
        fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    mount
}

#[test]
fn the_smallest_limit_of_a_group_and_those_around_it_applies() {
    let mount = mount(&[
        ("memory.max", "max\n"),
        ("kubepods/memory.max", "268435456\n"),
        ("kubepods/pod7/memory.max", "67108864\n"),
        ("kubepods/pod7/proxy/memory.max", "max\n"),
        ("elsewhere/memory.max", "1\n"),
    ]);
    assert_eq!(smallest(mount.path(), "0::/kubepods/pod7/proxy\n"), Some(64 << 20));
}

#[test]
fn in_a_container_the_root_has_the_limit_whatever_the_group_is_called_outside() {
    let mount = mount(&[("memory.max", "67108864\n")]);
    assert_eq!(smallest(mount.path(), "0::/../../kubepods/pod7\n"), Some(64 << 20));
    assert_eq!(smallest(mount.path(), "0::/\n"), Some(64 << 20));
}

#[test]
fn version_1_has_a_controller_of_its_own() {
    let files =
        [("memory/memory.limit_in_bytes", "9223372036854771712"), ("memory/pod/memory.limit_in_bytes", "1048576")];
    let mount = mount(&files);
    let groups = "12:cpu,cpuacct:/pod\n5:memory:/pod\n0::/\n";
    assert_eq!(smallest(mount.path(), groups), Some(1 << 20));
    assert_eq!(smallest(mount.path(), "5:memory:/\n"), None, "a number near 2^63 is no limit");
}

#[test]
fn without_control_groups_there_is_no_limit() {
    assert_eq!(smallest(mount(&[]).path(), ""), None);
    assert_eq!(smallest(mount(&[]).path(), "0::/gone\nrubbish\n"), None);
}
