//! Tests the messages that `leno diagnostics bootstrap` prints on standard error, beside the configuration.

use std::process::Command;

fn bootstrap(arguments: &[&str]) -> (serde_json::Value, String) {
    let leno = Command::new(env!("CARGO_BIN_EXE_leno"))
        .args(["diagnostics", "bootstrap"])
        .args(arguments)
        .output()
        .expect("leno starts");
    assert!(leno.status.success(), "{leno:?}");
    let configuration = serde_json::from_slice(&leno.stdout).expect("standard output is JSON alone");
    (configuration, String::from_utf8_lossy(&leno.stderr).into_owned())
}

#[test]
fn a_configuration_without_certificates_is_called_insecure() {
    for client in ["grpc", "envoy"] {
        let (_, said) = bootstrap(&[client]);
        assert!(said.starts_with("leno: warning: this configuration is insecure"), "{said}");
        assert!(said.contains("--certificate, --key and --trust"), "{said}");
    }
}

#[test]
fn a_configuration_with_certificates_is_not() {
    let files = ["--certificate", "svid.pem", "--key", "key.pem", "--trust", "bundle.pem"];
    let (configuration, said) = bootstrap(&[&["grpc"], &files[..]].concat());
    assert!(configuration["certificate_providers"].is_object(), "{configuration}");
    assert_eq!(said, "");
}
