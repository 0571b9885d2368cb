//! Tests `leno ca`: openssl verifies its certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use leno_identity::authority::Authority;
use leno_identity::directory::write_authority;
use tempfile::TempDir;

/// Runs a program in a directory.
fn run(directory: &TempDir, program: &str, arguments: &str) -> Output {
    let arguments = arguments.split_whitespace();
    Command::new(program).args(arguments).current_dir(directory).output().expect("the program is installed")
}

fn leno(directory: &TempDir, arguments: &str) -> Output {
    run(directory, env!("CARGO_BIN_EXE_leno"), arguments)
}

/// Checks that a command succeeded, and returns its standard output.
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks that a command failed, and returns its standard error.
fn complained(output: &Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A directory with an authority for example.org in `ca`.
fn authority() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    printed(&leno(&directory, "ca init --trust-domain example.org --out ca"));
    directory
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("the file is there").permissions().mode() & 0o777
}

#[test]
fn init_says_what_it_wrote_and_what_to_type_next_and_keeps_the_key_secret() {
    let directory = tempfile::tempdir().expect("a directory");
    let text = printed(&leno(&directory, "ca init --trust-domain example.org --out ca/"));
    assert_eq!(
        text,
        "ca/ has an authority for example.org: ca.crt, trust-bundle.pem, and ca.key, a secret\n\
         next: leno-proxy --config DIR --identity ns/<namespace>/sa/<service-account> --issuer ca/\n"
    );
    assert_eq!(mode(&directory.path().join("ca/ca.key")), 0o600);
    assert_eq!(mode(&directory.path().join("ca/ca.crt")), 0o644);
}

#[test]
fn init_replaces_an_authority_only_when_it_is_forced() {
    let directory = authority();
    let certificate = directory.path().join("ca/ca.crt");
    let first = fs::read(&certificate).expect("a certificate");
    let error = complained(&leno(&directory, "ca init --trust-domain example.org --out ca"));
    assert_eq!(error, "leno: ca/ca.crt exists; add --force to replace it, or choose another --out\n");
    assert_eq!(fs::read(&certificate).expect("a certificate"), first);

    printed(&leno(&directory, "ca init --trust-domain example.org --out ca --force"));
    assert_ne!(fs::read(&certificate).expect("a certificate"), first);
}

#[test]
fn init_refuses_a_trust_domain_that_is_none() {
    let directory = tempfile::tempdir().expect("a directory");
    let error = complained(&leno(&directory, "ca init --trust-domain Example.org"));
    assert!(error.contains("is not a trust domain; use at most 255 lower-case letters"), "{error}");
}

#[test]
fn an_issued_certificate_is_an_svid_by_openssls_judgement() {
    let directory = authority();
    let text = printed(&leno(&directory, "ca issue ca ns/shop/sa/cart --out cart"));
    assert!(
        text.starts_with("cart/tls.crt and cart/tls.key make a program spiffe://example.org/ns/shop/sa/cart until ")
    );
    assert_eq!(mode(&directory.path().join("cart/tls.key")), 0o600);
    for purpose in ["sslclient", "sslserver"] {
        let verified = format!("verify -x509_strict -purpose {purpose} -CAfile ca/trust-bundle.pem cart/tls.crt");
        assert_eq!(printed(&run(&directory, "openssl", &verified)), "cart/tls.crt: OK\n");
    }
    let text = printed(&run(&directory, "openssl", "x509 -in cart/tls.crt -noout -text"));
    for part in [
        "Subject: \n",
        "X509v3 Subject Alternative Name: critical\n                URI:spiffe://example.org/ns/shop/sa/cart\n",
        "X509v3 Key Usage: critical\n                Digital Signature\n",
        "X509v3 Extended Key Usage: \n                TLS Web Server Authentication, TLS Web Client Authentication\n",
        "ASN1 OID: prime256v1\n",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let public_key = |arguments: &str| printed(&run(&directory, "openssl", arguments));
    let of_certificate = public_key("x509 -in cart/tls.crt -noout -pubkey");
    assert_eq!(of_certificate, public_key("pkey -in cart/tls.key -pubout"));
}

#[test]
fn the_certificate_of_an_intermediate_authority_follows_an_issued_certificate() {
    let (directory, now) = (tempfile::tempdir().expect("a directory"), SystemTime::now());
    let ca = directory.path().join("ca");
    let anchor = Authority::create_anchor("example.org".parse().expect("a trust domain"), now).expect("an anchor");
    write_authority(&ca, &anchor).expect("written");
    let delegate = anchor.delegate(now, Duration::from_secs(3_600)).expect("an authority");
    fs::write(ca.join("ca.crt"), delegate.certificate_pem()).expect("written");
    fs::write(ca.join("ca.key"), delegate.key_pem()).expect("written");
    let next = printed(&leno(&directory, "ca issue ca ns/shop/sa/cart --out cart"));
    assert!(next.contains(" -cert cart/tls.crt -cert_chain cart/tls.crt -key cart/tls.key "), "{next}");
    let verified = "verify -x509_strict -CAfile ca/trust-bundle.pem -untrusted cart/tls.crt cart/tls.crt";
    assert_eq!(printed(&run(&directory, "openssl", verified)), "cart/tls.crt: OK\n");

    fs::write(ca.join("ca.crt"), delegate.certificate_pem().repeat(4)).expect("written");
    let error = complained(&leno(&directory, "ca issue ca ns/shop/sa/cart --out cart"));
    assert!(
        error.contains("ca/ca.crt has 4 certificates below the trust anchor, and a chain has at most 3"),
        "{error}"
    );
}

#[test]
fn a_certificate_can_be_issued_expired_or_not_valid_yet() {
    let directory = authority();
    let verify = "verify -CAfile ca/trust-bundle.pem odd/tls.crt";
    printed(&leno(&directory, "ca issue ca ns/shop/sa/cart --out odd --not-before -2h --lifetime 1h"));
    let error = complained(&run(&directory, "openssl", verify));
    assert!(error.contains("certificate has expired"), "{error}");

    printed(&leno(&directory, "ca issue ca ns/shop/sa/cart --out odd --not-before=10m"));
    let error = complained(&run(&directory, "openssl", verify));
    assert!(error.contains("certificate is not yet valid"), "{error}");
}

#[test]
fn the_end_of_a_certificate_is_printed_and_whether_the_authority_shortened_it() {
    let directory = authority();
    let printed_end = |lifetime: &str| {
        let arguments = format!("ca issue ca ns/shop/sa/cart --out cart --lifetime {lifetime}");
        let text = printed(&leno(&directory, &arguments));
        let line = text.lines().next().unwrap_or_default().to_owned();
        let (_, end) = line.split_once(" until ").unwrap_or_else(|| panic!("{line}"));
        end.to_owned()
    };
    let real_end = || {
        let line = printed(&run(&directory, "openssl", "x509 -in cart/tls.crt -noout -enddate -dateopt iso_8601"));
        line.trim().trim_start_matches("notAfter=").replace(' ', "T")
    };
    let end = printed_end("24h");
    assert_eq!(end, real_end());
    let end = printed_end("99999h");
    assert_eq!(end, format!("{}, when the authority's own certificate ends", real_end()));
}

#[test]
fn issue_names_what_is_wrong_and_what_to_do() {
    let directory = authority();
    for (arguments, wanted) in [
        ("ca issue none ns/shop/sa/cart --out cart", "none/ca.crt: No such file or directory"),
        ("ca issue ca shop/cart --out cart", "write ns/<namespace>/sa/<service-account>"),
        ("ca issue ca ns/shop/sa/cart --out cart --lifetime 0s", "write at least one second"),
        ("ca issue ca ns/shop/sa/cart --out cart --not-before yesterday", "write a time from now"),
    ] {
        let error = complained(&leno(&directory, arguments));
        assert!(error.contains(wanted), "{arguments}: {error}");
    }
    assert!(!directory.path().join("cart").exists());
}
