use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};

use super::*;
use crate::fixtures::{authority, bundle, id, svid};

/// Returns an end-entity's certificate and `count` self-signed authorities. All authorities have the name of the
/// end-entity's issuer, so each authority may have signed every other authority.
fn tangle(count: usize) -> Vec<CertificateDer<'static>> {
    let named = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    };
    let mut authority = named("everyone");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = || KeyPair::generate().expect("a key");
    let signer = Issuer::new(authority.clone(), key());
    let mut leaf = named("leaf");
    leaf.subject_alt_names = vec![SanType::URI(id("web").to_string().try_into().expect("ASCII"))];
    let leaf = leaf.signed_by(&key(), &signer).expect("a certificate");
    let others = (0..count).map(|_| authority.self_signed(&key()).expect("a certificate").der().clone());
    std::iter::once(leaf.der().clone()).chain(others).collect()
}

#[test]
fn a_chain_with_more_certificates_than_one_needs_is_not_verified_by_anybody() {
    let (ca, provider) = (authority("example.org"), provider());
    let trusted = bundle(&[&ca]);
    let server = ServerVerifier::new(ca.trust_domain().clone(), &trusted, &provider);
    let client = ClientVerifier::new(ca.trust_domain().clone(), &trusted, &provider, WithoutCertificate::Accept);
    let long = tangle(CHAIN_MAX_CERTIFICATES);
    let (leaf, rest) = long.split_first().expect("a leaf");
    let refused = [
        trusted.verify(&long, SystemTime::now()),
        server.verify(leaf, rest, UnixTime::now()),
        client.verify_client_cert(leaf, rest, UnixTime::now()).map(drop),
    ];
    for refused in refused {
        let error = refused.expect_err("it is too long");
        let Error::InvalidCertificate(CertificateError::Other(OtherError(why))) = &error else { panic!("{error:?}") };
        assert!(why.to_string().starts_with("its chain has 5 certificates with "), "{why}");
    }
    // Without its last certificate, the chain is short enough to be verified. But it leads to no anchor.
    let error =
        trusted.verify(&long[..CHAIN_MAX_CERTIFICATES], SystemTime::now()).expect_err("the chain leads to no anchor");
    assert_eq!(error, Error::InvalidCertificate(CertificateError::UnknownIssuer));
}

#[test]
fn a_chain_with_too_many_bytes_is_not_verified() {
    let ca = authority("example.org");
    let svid = svid(&ca, &id("web"));
    let trusted = bundle(&[&ca]);
    let mut chain = svid.chain().to_vec();
    assert_eq!(trusted.verify(&chain, SystemTime::now()), Ok(()));
    chain.push(CertificateDer::from(vec![0; CHAIN_MAX_BYTES]));
    let error = trusted.verify(&chain, SystemTime::now()).expect_err("it is too long");
    assert!(matches!(error, Error::InvalidCertificate(CertificateError::Other(_))), "{error:?}");
}
