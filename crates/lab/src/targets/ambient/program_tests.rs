use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

const BUILD: &str = r#"version.BuildInfo{Version:"62d826530e5ce85764e309170205b293efcbc80b", GitRevision:"62d826530e5ce85764e309170205b293efcbc80b", RustVersion:"1.95.0", BuildProfile:"release", BuildStatus:"Clean", IstioVersion:"unknown", CryptoProvider:"tls-aws-lc"}"#;

fn judged(said: &str) -> std::result::Result<String, String> {
    judge(Path::new("/opt/ztunnel"), said).map_err(|error| error.to_string())
}

fn one_line(error: &str) -> &str {
    assert!(!error.contains('\n') && error.contains("ztunnel"), "{error}");
    error
}

/// A program that writes a version, and then this answer to an invalid configuration.
fn script(dir: &Path, answer: &str) -> PathBuf {
    let path = dir.join("ztunnel");
    let text = format!("#!/bin/sh\ntest \"$1\" = version && echo '{BUILD}' && exit\necho '{answer}' >&2\nexit 1\n");
    fs::write(&path, text).expect("a writable directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its own file");
    path
}

#[test]
fn the_version_of_a_checkout_is_its_short_commit() {
    assert_eq!(judged(BUILD).as_deref(), Ok("ztunnel 62d8265, release build, tls-aws-lc"));
}

#[test]
fn the_version_of_a_release_is_its_number() {
    let release = r#"version.BuildInfo{Version:"1.24.0", GitRevision:"1", BuildProfile:"release"}"#;
    assert_eq!(judged(release).as_deref(), Ok("ztunnel 1.24.0, release build"));
}

#[test]
fn another_program_is_named_with_what_it_wrote() {
    let error = judged("usage: true\n").expect_err("it is another program");
    assert!(one_line(&error).contains("/opt/ztunnel is no ztunnel") && error.contains("usage: true"), "{error}");
}

#[test]
fn a_version_that_does_not_know_the_variable_is_too_old() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = script(dir.path(), "Error: invalid env var ZTUNNEL_WORKER_THREADS=invalid");
    let error = version(&path).expect_err("it is too old").to_string();
    assert!(one_line(&error).contains("(ztunnel 62d8265, release build, tls-aws-lc) is too old"), "{error}");
    assert!(error.contains("1.24 or later") && error.contains(REMEDY), "{error}");
}

#[test]
fn a_missing_file_is_named_with_the_way_to_the_program() {
    let error = find(Some(Path::new("/nowhere/ztunnel"))).expect_err("no such file").to_string();
    assert!(one_line(&error).contains("--ztunnel /nowhere/ztunnel") && error.contains("docs/lab.md"), "{error}");
}

#[test]
fn a_file_that_is_not_executable_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("ztunnel");
    fs::write(&path, "no program").expect("a writable directory");
    let error = version(&path).expect_err("it is not executable").to_string();
    assert!(one_line(&error).contains("not executable") && error.contains("chmod +x"), "{error}");
}

#[test]
fn a_file_that_the_system_cannot_start_is_named_with_the_reason() {
    let error = version(Path::new("/nowhere/ztunnel")).expect_err("no such file").to_string();
    assert!(one_line(&error).contains("/nowhere/ztunnel does not start: ") && error.contains(REMEDY), "{error}");
}
