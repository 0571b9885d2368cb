//! Tests that need their own network, process table and /run.
//!
//! Such a test runs this test program again, in new namespaces. The second run executes one test that is marked as
//! ignored. When the second run ends, all of its processes end too.

use std::process::Command;

use crate::programs;

/// Shell script that prepares the namespaces, and then becomes the test program.
const SCRIPT: &str = "mount -t tmpfs tmpfs /run && ip link set lo up && exec \"$0\" \"$@\"";

/// Runs the test `name` in separate namespaces, with the environment `variables`. `name` is the test's full name in the
/// test program.
///
/// Root needs no user namespace for this; other users need one with several user ids (uidmap, /etc/subuid).
///
/// # Panics
/// If the test fails.
pub fn run_test_inside(name: &str, variables: &[(&str, &str)]) {
    let is_root = rustix::process::geteuid().is_root();
    let users: &[&str] = if is_root { &[] } else { &["--map-root-user", "--map-auto"] };
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(users)
        .args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec", SCRIPT])
        .arg(program)
        .args(["--exact", name, "--ignored", "--nocapture"])
        .envs(variables.iter().copied())
        .output()
        .expect("unshare (util-linux) runs");
    let printed = programs::text(&output);
    assert!(output.status.success() && printed.contains("1 passed"), "{}: {printed}", output.status);
}
