use std::fs;

use super::*;

const START: &str =
    "[     0.000096s]  INFO ThreadId(01) linkerd2_proxy: release 2.366.0 (29637b6) by linkerd on 2026-08-21T15:03:02Z";
const OTHER_VARIABLE: &str = "[ 0.1s] ERROR ThreadId(01) linkerd_app::env: LINKERD2_PROXY_IDENTITY_DIR must be set.";

fn judged(said: &str) -> std::result::Result<String, String> {
    judge(Path::new("/opt/linkerd2-proxy"), said).map_err(|error| error.to_string())
}

fn one_line(error: &str) -> &str {
    assert!(!error.contains('\n') && error.contains("linkerd2-proxy"), "{error}");
    error
}

#[test]
fn the_version_is_in_the_first_line_of_the_log() {
    let said = format!("{START}\n[ 0.1s] ERROR ThreadId(01) linkerd_app::env: {VARIABLE}=\"invalid\" is not valid");
    assert_eq!(judged(&said).as_deref(), Ok("linkerd2-proxy 2.366.0 (29637b6), release build"));
    let outside_of_a_repository = said.replace("(29637b6)", "()");
    assert_eq!(judged(&outside_of_a_repository).as_deref(), Ok("linkerd2-proxy 2.366.0, release build"));
}

#[test]
fn a_release_that_ignores_the_variable_is_too_old() {
    let error = judged(&format!("{START}\n{OTHER_VARIABLE}")).expect_err("it is too old");
    assert!(one_line(&error).contains("too old") && error.contains("2.228.0 or later"), "{error}");
}

#[test]
fn another_program_is_named_with_what_it_wrote() {
    let error = judged("usage: true\n").expect_err("it is another program");
    assert!(one_line(&error).contains("/opt/linkerd2-proxy is no linkerd2-proxy") && error.contains("usage: true"));
}

#[test]
fn a_missing_file_is_named_with_the_way_to_the_program() {
    let error = version(Some(Path::new("/nowhere/linkerd2-proxy"))).expect_err("no such file").to_string();
    assert!(
        one_line(&error).contains("--linkerd2-proxy /nowhere/linkerd2-proxy") && error.contains("docs/lab.md"),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_executable_is_named_with_the_remedy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("linkerd2-proxy");
    fs::write(&path, "no program").expect("a writable directory");
    let error = version(Some(&path)).expect_err("it is not executable").to_string();
    assert!(one_line(&error).contains("not executable") && error.contains("chmod +x"), "{error}");
}

#[test]
fn a_file_that_the_system_cannot_start_is_named_with_the_reason() {
    let error =
        start_without_configuration(Path::new("/nowhere/linkerd2-proxy")).expect_err("no such file").to_string();
    assert!(one_line(&error).contains("/nowhere/linkerd2-proxy does not start: ") && error.contains(REMEDY), "{error}");
}
