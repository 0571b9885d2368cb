use std::sync::Arc;
use std::time::SystemTime;

use leno_model::spiffe::SpiffeId;
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};
use rustls::crypto::SupportedKxGroup;
use rustls::{AlertDescription, ClientConfig, Error, NamedGroup, ProtocolVersion, ServerConnection};

use crate::authority::{Authority, SVID_LIFETIME};
use crate::fixtures::{HOUR, Handshake, authority, bundle, handshake, id, identity, svid, svid_from};
use crate::tls::anonymous_client;
use crate::x509::Validity;
use crate::{TlsIdentity, explain, peer_expiry, peer_id};

/// A ClientHello that offers only TLS 1.2. It has one cipher suite, and the extension `signature_algorithms`.
const CLIENT_HELLO_TLS12: &[u8] = &[
    22, 3, 1, 0, 55, // a handshake record
    1, 0, 0, 51, // a ClientHello
    3, 3, // TLS 1.2
    9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, // random
    0, // no session id
    0, 2, 0xc0, 0x2b, // ECDHE-ECDSA with AES-128-GCM
    1, 0, // no compression
    0, 8, 0, 13, 0, 4, 0, 2, 4, 3, // ECDSA on P-256 with SHA-256
];

fn talk(client: &TlsIdentity, server: &TlsIdentity) -> Handshake {
    handshake(&client.client, &server.server)
}

fn assert_they_talk(client: &TlsIdentity, server: &TlsIdentity) {
    let ends = talk(client, server);
    let (client_end, server_end) = (ends.client.expect("the client's end"), ends.server.expect("the server's end"));
    assert_eq!(peer_id(client_end.peer_certificates().unwrap_or_default()), Ok(server.id.clone()));
    assert_eq!(peer_id(server_end.peer_certificates().unwrap_or_default()), Ok(client.id.clone()));
}

/// Returns a workload that trusts `trusted`. Its own certificate comes from `issuer` and is valid from `start`, so
/// peers may reject it.
fn odd_identity(issuer: &Authority, id: &SpiffeId, start: SystemTime, trusted: &Authority) -> TlsIdentity {
    TlsIdentity::new(&svid_from(issuer, id, start, HOUR), &bundle(&[trusted]))
}

/// Returns the errors with which `good` rejects `odd`: first with `odd` as the client, then as the server.
fn refusals(odd: &TlsIdentity, good: &TlsIdentity) -> [String; 2] {
    let as_client = talk(odd, good).server.expect_err("the server refuses");
    let as_server = talk(good, odd).client.expect_err("the client refuses");
    [explain(&as_client), explain(&as_server)]
}

#[test]
fn two_workloads_of_one_authority_know_each_other_after_a_handshake() {
    let ca = authority("example.org");
    assert_they_talk(&identity(&ca, "cart"), &identity(&ca, "web"));
}

#[test]
fn the_handshake_is_tls13_with_the_hybrid_key_exchange_and_http2() {
    let ca = authority("example.org");
    let ends = talk(&identity(&ca, "cart"), &identity(&ca, "web"));
    let (client, server) = (ends.client.expect("the client's end"), ends.server.expect("the server's end"));
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
    let group = server.negotiated_key_exchange_group().map(SupportedKxGroup::name);
    assert_eq!(group, Some(NamedGroup::X25519MLKEM768));
    assert_eq!(server.server_name(), Some("8080.leno.internal"));
}

#[test]
fn no_session_can_be_resumed() {
    let ca = authority("example.org");
    let (client, server) = (identity(&ca, "cart"), identity(&ca, "web"));
    for _ in 0..2 {
        let ends = talk(&client, &server);
        let client_end = ends.client.expect("the client's end");
        assert_eq!(client_end.tls13_tickets_received(), 0);
        assert_eq!(client_end.handshake_kind(), Some(rustls::HandshakeKind::Full));
    }
}

#[test]
fn a_server_of_the_mesh_gives_no_ticket_to_a_client_that_would_take_one() {
    let ca = authority("example.org");
    let (client, server) = (identity(&ca, "cart"), identity(&ca, "web"));
    let mut eager = (*client.client).clone();
    eager.resumption = rustls::client::Resumption::in_memory_sessions(8);
    let ends = handshake(&Arc::new(eager), &server.server);
    assert_eq!(ends.client.expect("the client's end").tls13_tickets_received(), 0);
}

/// A client that trusts the mesh's anchors and has no certificate.
fn without_certificate(ca: &Authority) -> Arc<ClientConfig> {
    Arc::new(anonymous_client(&"example.org".parse().expect("a trust domain"), &bundle(&[ca])))
}

#[test]
fn a_strict_server_rejects_a_client_without_a_certificate_within_the_handshake() {
    let ca = authority("example.org");
    let (client, server) = (without_certificate(&ca), identity(&ca, "web"));
    assert!(handshake(&client, &server.server).server.is_ok(), "policy decides there");
    let error = handshake(&client, &server.strict_server).server.expect_err("it is rejected");
    assert_eq!(error, Error::NoCertificatesPresented);
    let ends = handshake(&identity(&ca, "cart").client, &server.strict_server);
    assert_eq!(peer_id(ends.server.expect("a member").peer_certificates().unwrap_or_default()), Ok(id("cart")));
}

#[test]
fn a_peers_certificates_pass_again_only_while_their_anchor_is_trusted_and_they_are_valid() {
    let (old, new) = (authority("example.org"), authority("example.org"));
    let svid = svid(&old, &id("cart"));
    let now = SystemTime::now();
    let [before, both, after] =
        [&[&old][..], &[&old, &new], &[&new]].map(|anchors| TlsIdentity::new(&svid, &bundle(anchors)));
    assert!(both.trusts_all_anchors_of(&before) && !after.trusts_all_anchors_of(&both));
    assert_eq!(both.verify_again(svid.chain(), now), Ok(()));
    assert!(after.verify_again(svid.chain(), now).is_err());
    let expiry = peer_expiry(svid.chain(), now).expect("it has dates");
    assert_eq!(expiry, svid.not_after);
    // A certificate may expire between its verification and the end of the handshake. The certificate's expiry date
    // counts even then, and even if the peer adds an issuer that expires later.
    let later = expiry + HOUR;
    let chain = [svid.chain(), old.certificates()].concat();
    assert_eq!((peer_expiry(svid.chain(), later), peer_expiry(&chain, later)), (Some(expiry), Some(expiry)));
    assert!(both.verify_again(svid.chain(), expiry + HOUR).is_err());
}

#[test]
fn a_clients_certificate_that_serves_no_server_passes_again() {
    let (ca, other) = (authority("example.org"), authority("example.org"));
    let now = SystemTime::now();
    let names = vec![SanType::URI(id("cart").to_string().try_into().expect("ASCII"))];
    let (key, validity) = (KeyPair::generate().expect("a key"), Validity { not_before: now, not_after: now + HOUR });
    let leaf = ca.certify_names(names, vec![ExtendedKeyUsagePurpose::ClientAuth], &key, validity, now);
    let chain = [leaf.expect("a certificate").der().clone()];
    assert_eq!(identity(&ca, "web").verify_again(&chain, now), Ok(()));
    assert!(identity(&other, "web").verify_again(&chain, now).is_err(), "another anchor");
    assert!(identity(&ca, "web").verify_again(&chain, now + 2 * HOUR).is_err(), "expired");
}

#[test]
fn a_peer_of_an_unknown_anchor_is_refused() {
    let (ours, theirs) = (authority("example.org"), authority("example.org"));
    let odd = odd_identity(&theirs, &id("cart"), SystemTime::now(), &ours);
    for line in refusals(&odd, &identity(&ours, "web")) {
        assert!(line.starts_with("no anchor of our trust bundle signed the peer's certificate; add"), "{line}");
    }
}

/// Returns an authority with a new key. All authorities from this function have the same name.
fn authority_of_common_name() -> Authority {
    let mut params = rcgen::CertificateParams::default();
    params.subject_alt_names = vec![SanType::URI("spiffe://example.org".try_into().expect("ASCII"))];
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    Authority::from_pem(&certificate.pem(), &key.serialize_pem()).expect("an authority")
}

#[test]
fn a_peer_whose_anchor_only_has_the_name_of_ours_is_refused() {
    let (ours, impostor) = (authority_of_common_name(), authority_of_common_name());
    let odd = odd_identity(&impostor, &id("cart"), SystemTime::now(), &ours);
    for line in refusals(&odd, &identity(&ours, "web")) {
        assert!(line.starts_with("no anchor of our trust bundle signed the peer's certificate; add"), "{line}");
    }
}

#[test]
fn a_peer_whose_certificate_expired_is_refused() {
    let ca = authority("example.org");
    let odd = odd_identity(&ca, &id("cart"), SystemTime::now() - 2 * HOUR, &ca);
    for line in refusals(&odd, &identity(&ca, "web")) {
        assert!(line.starts_with("the peer's certificate expired 360"), "{line}");
        assert!(line.contains("set the clocks"), "{line}");
    }
}

#[test]
fn a_peer_whose_certificate_is_not_valid_yet_is_refused() {
    let ca = authority("example.org");
    let odd = odd_identity(&ca, &id("cart"), SystemTime::now() + HOUR, &ca);
    for line in refusals(&odd, &identity(&ca, "web")) {
        assert!(line.starts_with("the peer's certificate is not valid for another 3"), "{line}");
    }
}

#[test]
fn a_certificate_that_was_just_issued_is_valid_by_a_clock_that_is_behind() {
    let ca = authority("example.org");
    let ahead = odd_identity(&ca, &id("cart"), SystemTime::now() + crate::authority::CLOCK_SKEW / 2, &ca);
    assert_they_talk(&ahead, &identity(&ca, "web"));
}

#[test]
fn a_peer_of_another_trust_domain_is_refused_though_its_anchor_is_known() {
    let (ours, theirs) = (authority("example.org"), authority("example.com"));
    let stranger: SpiffeId = "spiffe://example.com/ns/shop/sa/cart".parse().expect("an id");
    let both = bundle(&[&ours, &theirs]);
    let web = TlsIdentity::new(&svid(&ours, &id("web")), &both);
    let mut stranger = TlsIdentity::new(&svid(&theirs, &stranger), &both);
    // As a client, the stranger would itself reject our servers. Give it a configuration that accepts them, so that the
    // test sees our server's rejection.
    let mut trusting = (*web.client).clone();
    trusting.client_auth_cert_resolver = stranger.client.client_auth_cert_resolver.clone();
    stranger.client = Arc::new(trusting);
    for line in refusals(&stranger, &web) {
        assert_eq!(
            line,
            "the peer is spiffe://example.com/ns/shop/sa/cart, of another trust domain than ours, example.org; issue \
             its certificate in example.org"
        );
    }
}

#[test]
fn a_client_without_a_certificate_is_let_in_and_has_no_id() {
    let ca = authority("example.org");
    let (client, server) = (identity(&ca, "cart"), identity(&ca, "web"));
    let mut anonymous = (*client.client).clone();
    anonymous.client_auth_cert_resolver = Arc::new(NoCertificate);
    let ends = handshake(&Arc::new(anonymous), &server.server);
    let server_end = ends.server.expect("the server's end");
    let error = peer_id(server_end.peer_certificates().unwrap_or_default()).expect_err("there is no certificate");
    assert_eq!(error.to_string(), "the peer sent no certificate; run it behind a proxy of this mesh");
}

#[derive(Debug)]
struct NoCertificate;

impl rustls::client::ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[test]
fn a_client_that_speaks_only_tls12_is_refused() {
    let ca = authority("example.org");
    let mut server = ServerConnection::new(identity(&ca, "web").server).expect("a server");
    server.read_tls(&mut &CLIENT_HELLO_TLS12[..]).expect("reading from a slice cannot fail");
    let error = server.process_new_packets().expect_err("it is refused");
    assert!(explain(&error).starts_with("the peer does not speak TLS 1.3; "), "{error:?}");
    let mut alert = Vec::new();
    server.write_tls(&mut alert).expect("writing to a Vec cannot fail");
    assert_eq!(alert.last(), Some(&u8::from(AlertDescription::ProtocolVersion)), "{alert:?}");
}

#[test]
fn a_refused_end_learns_why_from_the_alert() {
    let (ours, theirs) = (authority("example.org"), authority("example.org"));
    let odd = odd_identity(&theirs, &id("cart"), SystemTime::now(), &ours);
    let alert = talk(&odd, &identity(&ours, "web")).client.expect_err("an alert comes");
    assert_eq!(alert, Error::AlertReceived(AlertDescription::UnknownCA));
    assert!(explain(&alert).contains("add our anchor to its trust bundle"));
}

#[test]
fn anchors_are_rotated_while_every_peer_talks_with_every_other() {
    let (old, new) = (authority("example.org"), authority("example.org"));
    let (old_svid, new_svid) = (svid(&old, &id("cart")), svid(&new, &id("cart")));
    let (only_old, both, only_new) = (bundle(&[&old]), bundle(&[&old, &new]), bundle(&[&new]));
    // The steps of a rotation. Not all peers take a step at the same time, so peers that are one step apart must be
    // able to connect to each other.
    let steps = [
        TlsIdentity::new(&old_svid, &only_old),
        TlsIdentity::new(&old_svid, &both),
        TlsIdentity::new(&new_svid, &both),
        TlsIdentity::new(&new_svid, &only_new),
    ];
    for step in &steps {
        assert_they_talk(step, step);
    }
    for pair in steps.windows(2) {
        assert_they_talk(&pair[0], &pair[1]);
        assert_they_talk(&pair[1], &pair[0]);
    }
    assert!(talk(&steps[0], &steps[3]).client.is_err(), "the old anchor is trusted no more");
}

#[test]
fn the_identity_says_when_it_ends() {
    let ca = authority("example.org");
    let left = identity(&ca, "cart").not_after.duration_since(SystemTime::now()).expect("in the future");
    assert!(left <= SVID_LIFETIME && left > SVID_LIFETIME - HOUR, "{left:?}");
}
