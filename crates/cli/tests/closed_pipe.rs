//! Tests that commands end without an error if the reader of their standard output has closed the pipe.

use std::io;
use std::process::{Command, Output};

/// Runs leno in a new directory. Its standard output is a pipe whose reader is closed.
fn unread(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let (reader, writer) = io::pipe().expect("a pipe");
    drop(reader);
    let mut leno = Command::new(env!("CARGO_BIN_EXE_leno"));
    leno.args(arguments).current_dir(&directory).stdout(writer).output().expect("leno starts")
}

#[test]
fn a_command_whose_reader_has_gone_ends_without_a_word() {
    for arguments in [
        &["ca", "init", "--out", "ca"][..],
        &["completion", "bash"],
        &["install", "--offline"],
        &["intercept", "up", "--dry-run", "--proxy-uid", "2102"],
        &["diagnostics", "bootstrap", "--control", "127.0.0.1:15010", "grpc"],
        &["lab", "list"],
        &["version", "--client"],
    ] {
        let output = unread(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !errors.contains("panicked"), "{arguments:?}: {errors}");
        assert!(!errors.contains("roken pipe"), "{arguments:?}: {errors}");
    }
}

#[test]
fn another_error_is_still_reported() {
    let output = unread(&["ca", "issue", "none", "ns/shop/sa/web", "--out", "web"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("No such file or directory"), "{errors}");
}
