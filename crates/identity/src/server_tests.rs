use std::sync::Arc;
use std::time::SystemTime;

use rcgen::{CertificateParams, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, DnsName, PrivateKeyDer};
use rustls::{CertificateError, ClientConfig, Error, RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{ALPN, ServerCertificate};
use crate::TlsIdentity;
use crate::authority::{Authority, SVID_LIFETIME, SignError};
use crate::bundle::TrustBundle;
use crate::fixtures::{HOUR, authority, handshake_with, id, svid_from};
use crate::peer::{PeerIdError, peer_id};
use crate::svid::{Request, Svid};
use crate::tls::provider;
use crate::x509::Validity;

const NAME: &str = "leno-control.leno.svc";

fn day() -> Validity {
    Validity::starting(SystemTime::now(), SVID_LIFETIME)
}

fn certified(authority: &Authority) -> ServerCertificate {
    let names = [NAME, "leno-control.leno"].map(|name| DnsName::try_from(name).expect("a DNS name"));
    authority.certify_server(&names, day(), SystemTime::now()).expect("a certificate")
}

/// A client like an API server: it has the anchor and does not know SPIFFE.
fn caller(anchor: &Authority) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(anchor.certificates()[0].clone()).expect("an anchor");
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), ALPN.to_vec()];
    Arc::new(config)
}

fn server(anchor: &Authority) -> Arc<ServerConfig> {
    let issuing = anchor.delegate(SystemTime::now(), HOUR * 48).expect("an authority");
    Arc::new(certified(&issuing).into_config(issuing.certificates()))
}

fn anchor() -> Authority {
    Authority::create_anchor("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an authority")
}

#[test]
fn a_caller_that_knows_only_the_anchor_believes_the_server_by_its_names() {
    let anchor = anchor();
    let server = server(&anchor);
    for name in [NAME, "leno-control.leno"] {
        let connection = handshake_with(name, &caller(&anchor), &server).client.expect("a handshake");
        assert_eq!(connection.alpn_protocol(), Some(ALPN));
    }
    let refused = handshake_with("leno-control.other.svc", &caller(&anchor), &server).client.expect_err("no handshake");
    assert!(
        matches!(refused, Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })),
        "{refused:?}"
    );
    assert!(handshake_with(NAME, &caller(&self::anchor()), &server).client.is_err());
}

#[test]
fn a_server_certificate_names_no_workload_and_is_good_for_nothing_else() {
    let certificate: CertificateDer<'static> = certified(&authority("example.org")).certificate;
    assert_eq!(peer_id(std::slice::from_ref(&certificate)), Err(PeerIdError::NoUri));
    let parsed = X509Certificate::from_der(&certificate).expect("a certificate").1;
    let purposes = parsed.extended_key_usage().expect("well-formed").expect("there is one").value;
    assert!(purposes.server_auth && !purposes.client_auth && !purposes.any && !parsed.is_ca());
    let names = &parsed.subject_alternative_name().expect("well-formed").expect("there is one").value.general_names;
    assert_eq!(*names, [GeneralName::DNSName(NAME), GeneralName::DNSName("leno-control.leno")]);
}

#[test]
fn a_workload_never_gets_a_dns_name() {
    let mut params = CertificateParams::default();
    params.subject_alt_names = vec![
        SanType::URI(id("cart").to_string().try_into().expect("ASCII")),
        SanType::DnsName(NAME.try_into().expect("ASCII")),
    ];
    let csr = params.serialize_request(&KeyPair::generate().expect("a key")).expect("a request");
    let refused =
        authority("example.org").sign(&id("cart"), csr.der(), day(), SystemTime::now()).expect_err("no certificate");
    assert!(matches!(&refused, SignError::WrongName { found, .. } if found == NAME), "{refused}");
}

#[test]
fn a_server_certificate_ends_with_its_authority() {
    let now = SystemTime::now();
    let issuing = anchor().delegate(now, HOUR).expect("an authority");
    assert_eq!(certified(&issuing).not_after, issuing.validity().not_after);
    assert!(certified(&authority("example.org")).not_after > now + HOUR * 23);
}

#[test]
fn an_svid_with_dns_names_is_believed_by_clients_of_both_kinds() {
    let anchor = anchor();
    let names = [DnsName::try_from(NAME).expect("a DNS name")];
    let request = Request::new(id("control")).expect("a request");
    let certificate =
        anchor.sign_with_names(&id("control"), request.csr(), &names, day(), SystemTime::now()).expect("a certificate");
    assert_eq!(peer_id(std::slice::from_ref(&certificate)), Ok(id("control")), "proxies see its SPIFFE id alone");
    let bundle = TrustBundle::new(anchor.certificates().to_vec()).expect("a bundle");
    let svid = request.accept(vec![certificate], &bundle, SystemTime::now()).expect("an SVID");
    let control = TlsIdentity::new(&svid, &bundle);

    let mut by_name = Arc::unwrap_or_clone(caller(&anchor));
    by_name.alpn_protocols = vec![b"h2".to_vec()];
    let by_name = Arc::new(by_name);
    handshake_with(NAME, &by_name, &control.server).client.expect("it has this name");
    handshake_with("leno-control.other.svc", &by_name, &control.server).client.expect_err("it has no such name");
    let proxy = TlsIdentity::new(&svid_of(&anchor, "web"), &bundle);
    handshake_with("control.leno.internal", &proxy.client, &control.strict_server)
        .client
        .expect("it has this identity");
}

#[test]
fn a_program_reads_its_key_pair_and_anchors_as_pem() {
    let anchor = anchor();
    let svid = svid_of(&anchor, "web");
    let pair = svid.key_pair_pem();
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).map(|read| read.expect("PEM")).collect();
    assert_eq!(chain, svid.chain());
    let key = PrivateKeyDer::from_pem_slice(pair.private_key.as_bytes()).expect("PEM");
    rustls::sign::CertifiedKey::from_der(chain, key, &provider()).expect("the key is the certificate's");
    let bundle = TrustBundle::new(anchor.certificates().to_vec()).expect("a bundle");
    assert_eq!(TrustBundle::from_pem(bundle.to_pem().as_bytes()).expect("PEM"), bundle);
}

fn svid_of(anchor: &Authority, workload: &str) -> Svid {
    svid_from(anchor, &id(workload), SystemTime::now(), HOUR)
}
