use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use leno_identity::authority::Authority;
use leno_identity::issuer::{Issuer, Signer};
use leno_identity::svid::Request;
use leno_model::spiffe::TrustDomain;
use tempfile::TempDir;

use super::{IdentityService, ServiceIssuer, read_token};

fn authority() -> Authority {
    let trust_domain: TrustDomain = "cluster.local".parse().expect("a trust domain");
    Authority::create(trust_domain, SystemTime::now()).expect("random numbers")
}

/// An issuer at an unused port.
fn issuer(directory: &Path) -> ServiceIssuer {
    let service = IdentityService {
        address: "127.0.0.1:1".to_owned(),
        workload: "ns/leno/sa/leno-control".parse().expect("a workload"),
        trust_domain: "cluster.local".parse().expect("a trust domain"),
        trust_bundle: directory.join("ca.crt"),
        token: directory.join("token"),
    };
    ServiceIssuer { service, signer: RefCell::default() }
}

#[test]
fn whom_to_trust_is_what_the_file_says_now() {
    let directory = TempDir::new().expect("a directory");
    let issuer = issuer(directory.path());
    let missing = issuer.trust().expect_err("there is no file").to_string();
    assert!(missing.contains("--trust-bundle") && missing.contains("ca.crt"), "{missing}");

    let (first, second) = (authority(), authority());
    let write = |text: &str| fs::write(directory.path().join("ca.crt"), text).expect("a file");
    write(first.certificate_pem());
    assert_eq!(issuer.trust().expect("one anchor").bundle.anchors(), first.certificates());
    write(&[first.certificate_pem(), second.certificate_pem()].concat());
    assert_eq!(issuer.trust().expect("two anchors").bundle.anchors().len(), 2);
    issuer.signer.replace(Some(Signer("an intermediate".to_owned())));
    assert_eq!(issuer.trust().expect("two anchors").signer, Signer("an intermediate".to_owned()));
}

#[test]
fn a_token_without_text_is_refused_with_the_name_of_its_file() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("token");
    for text in [None, Some(""), Some(" \n")] {
        if let Some(text) = text {
            fs::write(&path, text).expect("a file");
        }
        let error = read_token(&path).expect_err("no token");
        assert!(error.contains("--token") && error.contains("token:"), "{error}");
    }
    fs::write(&path, "abc.def\n").expect("a file");
    assert_eq!(read_token(&path).as_deref(), Ok("abc.def"));
}

#[tokio::test(flavor = "current_thread")]
async fn a_service_that_is_not_there_is_an_error_that_says_so() {
    let directory = TempDir::new().expect("a directory");
    fs::write(directory.path().join("token"), "abc").expect("a file");
    fs::write(directory.path().join("ca.crt"), authority().certificate_pem()).expect("a file");
    let id = "spiffe://cluster.local/ns/a/sa/b".parse().expect("an id");
    let request = Request::new(id).expect("random numbers");
    let error = issuer(directory.path()).issue(&request).await.expect_err("nobody listens").to_string();
    assert!(error.contains("refused"), "{error}");
}
