use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::*;
use crate::tls::{CLIENT, SERVER};

/// A new authority, and the temporary directory that contains its files.
fn created() -> (tempfile::TempDir, Authority) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::create(dir.path()).expect("a writable directory");
    (dir, authority)
}

#[test]
fn a_certificate_says_who_it_is_for_as_spiffe_does() {
    let (_dir, authority) = created();
    let credentials = authority.issue(CLIENT).expect("a certificate");
    let certificate = CertificateDer::from_pem_file(&credentials.certificate).expect("a certificate");
    let certificate = webpki::EndEntityCert::try_from(&certificate).expect("a certificate");
    assert_eq!(certificate.valid_uri_names().collect::<Vec<_>>(), ["spiffe://lab.local/ns/lab/sa/client"]);
    let both = fs::read_to_string(&credentials.both).expect("a file");
    assert!(both.contains("BEGIN CERTIFICATE") && both.contains("PRIVATE KEY"), "{both}");
}

#[test]
fn an_authority_that_is_opened_again_is_the_same() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    Authority::create(dir.path()).expect("a writable directory");
    let before = fs::read(dir.path().join(CERTIFICATE)).expect("a file");
    let credentials = Authority::open(dir.path()).and_then(|it| it.issue(SERVER)).expect("what was just written");
    assert_eq!(fs::read(credentials.authority).expect("a file"), before);
}

#[test]
fn a_directory_without_an_authority_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let error = Authority::open(dir.path()).map(|_| ()).expect_err("it is empty").to_string();
    assert!(error.contains(&dir.path().display().to_string()), "{error}");
}

#[test]
fn a_signed_request_becomes_a_certificate_with_both_names() {
    let (_dir, authority) = created();
    let request = Request::new("server.lab", SERVER).expect("a request");
    let signed = authority.sign(&request.csr, "server.lab").expect("the requested name");
    assert!(signed.expires > SystemTime::now() + VALID / 2);
    let from_pem = CertificateDer::from_pem_slice(signed.pem.as_bytes()).expect("a certificate");
    assert_eq!(from_pem, signed.certificate);
    let certificate = webpki::EndEntityCert::try_from(&signed.certificate).expect("a certificate");
    assert_eq!(certificate.valid_dns_names().collect::<Vec<_>>(), ["server.lab"]);
    assert_eq!(certificate.valid_uri_names().collect::<Vec<_>>(), ["spiffe://lab.local/ns/lab/sa/server"]);
}

#[test]
fn no_request_gets_a_certificate_of_another_name() {
    let (_dir, authority) = created();
    let request = Request::new("server.lab", SERVER).expect("a request");
    let error = authority.sign(&request.csr, "client.lab").map(|_| ()).expect_err("another name").to_string();
    assert!(error.contains("lacks the name client.lab"), "{error}");
    assert!(authority.sign(b"no request", "client.lab").is_err());
}

#[test]
fn a_request_may_be_named_by_its_spiffe_id() {
    let (_dir, authority) = created();
    let request = Request::new("server.lab", SERVER).expect("a request");
    authority.sign(&request.csr, &spiffe_id(SERVER)).expect("the requested id");
    assert!(authority.sign(&request.csr, &spiffe_id(CLIENT)).is_err());
}

#[test]
fn a_request_with_a_further_name_gets_no_certificate_for_one_name_only() {
    let (_dir, authority) = created();
    let request = Request::new("server.lab", SERVER).expect("a request");
    let error = authority.sign_only(&request.csr, "server.lab").map(|_| ()).expect_err("two names").to_string();
    assert!(error.contains("the request has another name than server.lab"), "{error}");
}

#[test]
fn a_server_is_verified_by_each_of_its_addresses() {
    let (_dir, authority) = created();
    let addresses = [[10, 128, 0, 1], [10, 128, 128, 1]].map(IpAddr::from);
    let credentials = authority.issue_for_addresses("service", &addresses).expect("a certificate");
    let certificate = CertificateDer::from_pem_file(&credentials.certificate).expect("a certificate");
    let certificate = webpki::EndEntityCert::try_from(&certificate).expect("a certificate");
    for address in addresses {
        certificate.verify_is_valid_for_subject_name(&address.into()).expect("one of its addresses");
    }
}
