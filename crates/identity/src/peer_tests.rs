use rcgen::{CertificateParams, IsCa, KeyPair, SanType};
use rustls::pki_types::CertificateDer;

use super::{PeerIdError, peer_id, peer_id_in};
use crate::fixtures::{authority, id, svid};

/// A self-signed certificate with these names.
fn certificate(names: Vec<SanType>) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::ExplicitNoCa;
    params.subject_alt_names = names;
    params.self_signed(&KeyPair::generate().expect("a key")).expect("a certificate").into()
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().expect("ASCII"))
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().expect("ASCII"))
}

fn error_of(certificate: CertificateDer<'static>) -> PeerIdError {
    peer_id(&[certificate]).expect_err("it names no workload")
}

#[test]
fn a_workloads_certificate_names_it() {
    let svid = svid(&authority("example.org"), &id("cart"));
    assert_eq!(peer_id(svid.chain()), Ok(id("cart")));
}

#[test]
fn names_of_other_kinds_do_not_matter() {
    let certificate = certificate(vec![dns("cart.shop"), uri(&id("cart").to_string())]);
    assert_eq!(peer_id(&[certificate]), Ok(id("cart")));
}

#[test]
fn only_the_first_certificate_is_the_peers() {
    let stranger = certificate(vec![uri(&id("web").to_string())]);
    let svid = svid(&authority("example.org"), &id("cart"));
    let chain: Vec<_> = svid.chain().iter().cloned().chain([stranger]).collect();
    assert_eq!(peer_id(&chain), Ok(id("cart")));
}

#[test]
fn a_certificate_without_a_uri_is_nobodys() {
    assert_eq!(error_of(certificate(Vec::new())), PeerIdError::NoUri);
    assert_eq!(error_of(certificate(vec![dns("cart.shop")])), PeerIdError::NoUri);
}

#[test]
fn a_certificate_with_two_spiffe_ids_is_nobodys() {
    let error = error_of(certificate(vec![uri(&id("cart").to_string()), uri(&id("web").to_string())]));
    assert_eq!(
        error.to_string(),
        "the peer's certificate has several URIs, [\"spiffe://example.org/ns/shop/sa/cart\", \
         \"spiffe://example.org/ns/shop/sa/web\"]; issue it with exactly one SPIFFE id"
    );
}

#[test]
fn an_error_shows_few_of_many_long_uris() {
    let many = (0..200).map(|n| uri(&format!("spiffe://example.org/{n}/{}", "a".repeat(200)))).collect();
    assert!(error_of(certificate(many)).to_string().len() < 600);
}

#[test]
fn a_uri_that_names_no_workload_is_shown() {
    let error = error_of(certificate(vec![uri("https://example.org/cart")])).to_string();
    assert!(error.starts_with("the peer's certificate: \"https://example.org/cart\" is not a workload's"), "{error}");
}

#[test]
fn a_uri_of_control_characters_is_shown_escaped() {
    let error = error_of(certificate(vec![uri("spiffe://\n\u{7f}")])).to_string();
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn bytes_that_are_no_certificate_are_nobodys() {
    assert_eq!(peer_id(&[]), Err(PeerIdError::NoCertificate));
    for bytes in [&b""[..], b"\x30", b"\x30\x82\xff\xff", b"GET / HTTP/1.1"] {
        let error = error_of(CertificateDer::from(bytes.to_vec()));
        assert!(matches!(error, PeerIdError::Malformed(_)), "{error:?}");
    }
}

#[test]
fn every_part_of_a_certificate_can_be_missing() {
    let svid = svid(&authority("example.org"), &id("cart"));
    let whole = svid.chain().first().expect("a certificate");
    for length in 0..whole.len() {
        assert!(peer_id(&[CertificateDer::from(whole[..length].to_vec())]).is_err(), "{length} bytes are enough");
    }
}

#[test]
fn a_trust_domain_is_compared_whole() {
    let certificate = certificate(vec![uri("spiffe://example.org.evil.com/ns/shop/sa/cart")]);
    let ours = "example.org".parse().expect("a trust domain");
    let error = peer_id_in(&ours, &certificate).expect_err("it is another's");
    assert!(matches!(error, PeerIdError::WrongTrustDomain { .. }), "{error:?}");
}
