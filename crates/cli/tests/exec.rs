//! Tests that programs started by the lab end when the lab ends, even if the lab is killed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const LENO: &str = env!("CARGO_BIN_EXE_leno");

#[test]
fn a_program_ends_when_its_parent_is_killed() {
    let script = r#""$0" exec --parent $$ -- sleep 60 & echo $!; wait"#;
    let mut parent = Command::new("sh").args(["-c", script, LENO]).stdout(Stdio::piped()).spawn().expect("sh starts");
    let stdout = parent.stdout.take().expect("it is piped");
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("the program's process id");
    let pid = line.trim();

    assert!(within_20_s(|| command_of(pid).starts_with("sleep")), "became {:?}", command_of(pid));
    parent.kill().expect("the parent runs");
    parent.wait().expect("the parent ends");
    assert!(within_20_s(|| command_of(pid).is_empty()), "left behind: {:?}", command_of(pid));
}

#[test]
fn nothing_is_started_when_the_parent_is_gone_already() {
    let output =
        Command::new(LENO).args(["exec", "--parent", "1", "--", "echo", "started"]).output().expect("leno starts");
    assert!(!output.status.success());
    assert!(output.stdout.is_empty());
    assert_eq!(String::from_utf8_lossy(&output.stderr), "leno: the parent has ended\n");
}

/// The command line of a process; empty if it has ended.
fn command_of(pid: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

fn within_20_s(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}
