//! Tests the whole demo, with output that does not go to a terminal.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn the_demo_ends_by_itself_with_a_row_for_each_way_and_no_failed_call() {
    let output = Command::new(env!("CARGO_BIN_EXE_leno"))
        .args(["demo", "--seconds-per-phase=1", "--rate=200"])
        .output()
        .expect("leno starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");

    let (_, closing) = text.split_once("Five gRPC servers").expect("the closing table");
    let row = |label: &str| -> Vec<&str> {
        let row = closing.lines().find_map(|line| line.strip_prefix(label));
        row.unwrap_or_else(|| panic!("no row {label}: {text}")).split_whitespace().collect()
    };
    let [.., share, "%", "0"] = row("round robin  ")[..] else {
        panic!("round robin lost calls: {text}");
    };
    // Allow a range: the first and the last round of calls may be counted only in part, so a server's share is not
    // exactly a fifth.
    let share: f64 = share.parse().expect("a number");
    assert!((18.0..=22.0).contains(&share), "each of five servers has a fifth: {text}");
    assert_eq!(row("Leno  ").last(), Some(&"0"), "Leno lost calls: {text}");
    // Do not compare the number of the server after `(s`: which server the worst client is pinned to varies.
    assert!(closing.contains("pinned, worst client (s"), "{text}");
}

#[test]
fn a_signal_ends_the_demo_and_leaves_no_file() {
    for signal in ["INT", "TERM", "HUP"] {
        let scratch = tempfile::tempdir().expect("a directory");
        let is_empty = || fs::read_dir(&scratch).expect("a scratch directory").next().is_none();
        // Reset the handling of SIGHUP: if this test runs under nohup, its child processes inherit that SIGHUP is
        // ignored.
        let mut demo = Command::new("env")
            .args(["--default-signal=HUP", env!("CARGO_BIN_EXE_leno"), "demo", "--plain", "--rate=100"])
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("leno starts");
        let started = Instant::now();
        while is_empty() && started.elapsed() < Duration::from_secs(30) {
            thread::sleep(Duration::from_millis(20));
        }
        assert!(!is_empty(), "the demo has written its configuration");
        Command::new("kill").args(["-s", signal, &demo.id().to_string()]).status().expect("kill starts");
        let status = demo.wait().expect("the demo ends");
        assert_eq!(status.code(), Some(1), "SIG{signal}");
        assert!(is_empty(), "SIG{signal}");
    }
}

#[test]
fn a_wrong_option_of_the_proxy_is_the_proxys_error() {
    let output =
        Command::new(env!("CARGO_BIN_EXE_leno")).args(["proxy", "--no-such-option"]).output().expect("leno starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("leno-proxy: "), "{errors}");
}
