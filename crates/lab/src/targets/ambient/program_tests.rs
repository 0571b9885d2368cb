use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::super::is_with_ztunnel;
use super::*;

const BUILD: &str = r#"version.BuildInfo{Version:"62d826530e5ce85764e309170205b293efcbc80b", GitRevision:"62d826530e5ce85764e309170205b293efcbc80b", RustVersion:"1.95.0", BuildProfile:"release", BuildStatus:"Clean", IstioVersion:"unknown", CryptoProvider:"tls-aws-lc"}"#;

fn judged(said: &str) -> std::result::Result<String, String> {
    judge(Path::new("/opt/ztunnel"), said).map_err(|error| error.to_string())
}

fn one_line(error: &str) -> &str {
    assert!(!error.contains('\n') && error.contains("ztunnel"), "{error}");
    error
}

/// Writes a script in place of ztunnel. With the argument `version`, it prints a version; otherwise it prints `answer`
/// and fails, as ztunnel does with an invalid configuration.
fn script(dir: &Path, answer: &str) -> PathBuf {
    let build = format!("test \"$1\" = version && echo '{BUILD}' && exit");
    executable(dir, &format!("#!/bin/sh\n{build}\necho '{answer}' >&2\nexit 1\n"))
}

fn executable(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("ztunnel");
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
fn a_ztunnel_that_fails_for_another_reason_is_not_called_too_old() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = script(dir.path(), "Error: no resolv.conf");
    let error = version(&path).expect_err("it does not start").to_string();
    assert!(one_line(&error).contains("does not start: Error: no resolv.conf; ") && error.contains(REMEDY), "{error}");
    assert!(!error.contains("too old"), "{error}");
}

#[test]
fn an_unusable_ztunnel_in_path_is_replaced_by_the_bare_tunnel_with_the_reason() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = script(dir.path(), "Error: invalid env var ZTUNNEL_WORKER_THREADS=invalid");
    let Tunnel::Bare(why) = Tunnel::found(Some(path.clone())) else { panic!("it is too old") };
    assert!(why.starts_with("because ztunnel ") && why.contains("is too old"), "{why}");
    assert!(!is_with_ztunnel(&format!("Envoy 1.40.0 with a bare TLS tunnel in place of ztunnel, {why}")));
    // If the user names a ztunnel with --ztunnel, the lab must use it, and no other tunnel, even if it is too old.
    let named = Programs { ztunnel: Some(path.clone()), ..Programs::default() };
    assert_eq!(Tunnel::choose(&named).expect("a file"), Tunnel::Ztunnel(path));
    let Tunnel::Bare(why) = Tunnel::found(None) else { panic!("there is no ztunnel") };
    assert!(why.contains("not in PATH"), "{why}");
}

#[test]
fn a_command_without_ztunnel_takes_the_bare_tunnel() {
    let programs = Programs { without_ztunnel: true, ..Programs::default() };
    assert!(matches!(Tunnel::choose(&programs), Ok(Tunnel::Bare(_))));
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = executable(dir.path(), "#!/bin/sh\necho started\nexec sleep 600\n");
    let start = Instant::now();
    let error = said(&path, &[], &[], Duration::from_secs(1)).expect_err("it does not end").to_string();
    assert!(one_line(&error).contains("did not end within 1 s: started; "), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn a_trial_has_no_variables_of_the_users_shell() {
    let said = said(Path::new("/usr/bin/env"), &[], &[("PROXY_MODE", "dedicated")], PATIENCE).expect("a program");
    let names: Vec<&str> = said.lines().filter_map(|line| line.split_once('=').map(|(name, _)| name)).collect();
    assert!(names.contains(&"PROXY_MODE"), "{said}");
    assert!(names.iter().all(|name| *name == "PROXY_MODE" || INHERITED.contains(name)), "{said}");
}

#[test]
fn a_missing_file_is_named_with_the_way_to_the_program() {
    let named = Programs { ztunnel: Some("/nowhere/ztunnel".into()), ..Programs::default() };
    let error = Tunnel::choose(&named).expect_err("no such file").to_string();
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
