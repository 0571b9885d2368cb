//! Fuzzes certificates and certificate requests, which a peer chooses: any bytes are read as a workload's certificate,
//! are signed as a workload's request, or are rejected with a one-line error.
#![no_main]

use std::sync::LazyLock;
use std::time::SystemTime;

use leno_identity::authority::{Authority, SVID_LIFETIME};
use leno_identity::bundle::TrustBundle;
use leno_identity::svid::Request;
use leno_identity::{Validity, peer_id};
use leno_model::spiffe::SpiffeId;
use libfuzzer_sys::fuzz_target;
use rustls::pki_types::CertificateDer;

/// Maximum length of an error about a peer's bytes.
const LINE_MAX_BYTES: usize = 3_000;

/// A workload's certificate, and a workload's certificate request, both in DER.
const CERTIFICATE: &[u8] = include_bytes!("svid/certificate.der");
const REQUEST: &[u8] = include_bytes!("svid/request.der");

static AUTHORITY: LazyLock<Authority> = LazyLock::new(|| {
    let trust_domain = "example.org".parse().expect("a trust domain");
    Authority::create(trust_domain, SystemTime::now()).expect("an authority")
});

static BUNDLE: LazyLock<TrustBundle> =
    LazyLock::new(|| TrustBundle::from_pem(AUTHORITY.certificate_pem().as_bytes()).expect("a bundle"));

fuzz_target!(|bytes: &[u8]| {
    check_certificate(bytes);
    check_request(bytes);
    check_certificate(&changed(CERTIFICATE, bytes));
    check_request(&changed(REQUEST, bytes));
});

/// Returns the original with some bytes replaced: every three bytes of `changes` are a position (two bytes, big-endian)
/// and the new byte.
fn changed(original: &[u8], changes: &[u8]) -> Vec<u8> {
    let mut copy = original.to_vec();
    for change in changes.chunks_exact(3) {
        let position = usize::from(u16::from_be_bytes([change[0], change[1]])) % copy.len();
        copy[position] = change[2];
    }
    copy
}

fn check_certificate(bytes: &[u8]) {
    let certificate = CertificateDer::from(bytes.to_vec());
    match peer_id(std::slice::from_ref(&certificate)) {
        Ok(id) => assert_eq!(id.to_string().parse(), Ok(id)),
        Err(error) => check_line(&error),
    }
    if let Err(error) = TrustBundle::new(vec![certificate.clone()]) {
        check_line(&error);
    }
    let request = Request::new(cart()).expect("a request");
    let error = request.accept(vec![certificate], &BUNDLE, SystemTime::now());
    check_line(&error.expect_err("the certificate is for another key"));
}

fn check_request(bytes: &[u8]) {
    let now = SystemTime::now();
    let validity = Validity::starting(now, SVID_LIFETIME);
    match AUTHORITY.sign(&cart(), bytes, validity, now) {
        Ok(certificate) => assert_eq!(peer_id(&[certificate]), Ok(cart())),
        Err(error) => check_line(&error),
    }
}

fn check_line(error: &dyn std::error::Error) {
    let line = error.to_string();
    assert!(line.len() <= LINE_MAX_BYTES && !line.contains('\n'), "{line:?}");
}

fn cart() -> SpiffeId {
    "spiffe://example.org/ns/shop/sa/cart".parse().expect("an id")
}
