//! A proxy is started with an issuer's directory that it cannot use.

use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use leno_tests::programs;

use super::sides::Authority;

fn start_proxy(issuer: &str) -> Output {
    let config = tempfile::tempdir().expect("a temporary directory");
    let proxy = programs::program("leno-proxy");
    let mut command = Command::new("timeout");
    command.arg("10s").arg(proxy).arg("--config").arg(config.path());
    command.args(["--outbound", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    command.args(["--identity", "ns/default/sa/web", "--issuer", issuer]).output().expect("timeout (coreutils) runs")
}

/// Asserts that the proxy ends with an error, and that its log has exactly one line that is not INFO, with these words.
fn assert_ends_with_one_line(issuer: &str, words: &[&str]) {
    let began = Instant::now();
    let output = start_proxy(issuer);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(8), "it does not try for long");
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(words.iter().all(|word| lines[0].contains(word)), "{text}");
}

#[test]
fn an_issuer_that_cannot_be_used_ends_the_proxy_with_one_line() {
    assert_ends_with_one_line("/proc/none", &["--issuer /proc/none", "/proc/none/ca.crt", "leno ca init"]);

    let authority = Authority::new();
    let file = |name: &str| authority.path().join(name);
    let key = fs::read_to_string(file("ca.key")).expect("it is there");

    fs::write(file("ca.key"), "no key").expect("the directory is ours");
    assert_ends_with_one_line(authority.text(), &["ca.key", "the private key cannot be used", "leno ca init"]);

    let other = Authority::new();
    fs::copy(other.path().join("ca.key"), file("ca.key")).expect("the directory is ours");
    assert_ends_with_one_line(authority.text(), &["the certificate is for another key", "from one directory"]);

    fs::write(file("ca.key"), key).expect("the directory is ours");
    fs::write(file("trust-bundle.pem"), "").expect("the directory is ours");
    assert_ends_with_one_line(authority.text(), &["trust-bundle.pem", "no certificate", "at least one trust anchor"]);

    // A trust bundle that lacks the anchor of the authority in the same directory.
    fs::copy(other.path().join("trust-bundle.pem"), file("trust-bundle.pem")).expect("the directory is ours");
    assert_ends_with_one_line(authority.text(), &["--issuer", "anchor"]);

    fs::remove_file(file("ca.crt")).expect("it is there");
    fs::create_dir(file("ca.crt")).expect("the directory is ours");
    assert_ends_with_one_line(authority.text(), &["ca.crt", "this user may read"]);
}
