use std::time::SystemTime;

use leno_identity::TlsIdentity;
use leno_identity::authority::{Authority, SVID_LIFETIME};
use leno_identity::bundle::TrustBundle;
use leno_identity::svid::Request;
use leno_identity::{Validity, peer_id};
use leno_model::spiffe::SpiffeId;

use super::*;

fn authority() -> Authority {
    Authority::create("example.org".parse().expect("a trust domain"), SystemTime::now()).expect("an authority")
}

fn identity(authority: &Authority, workload: &str) -> TlsIdentity {
    let now = SystemTime::now();
    let id: SpiffeId = format!("spiffe://example.org/ns/shop/sa/{workload}").parse().expect("an id");
    let request = Request::new(id.clone()).expect("a request");
    let certificate =
        authority.sign(&id, request.csr(), Validity::starting(now, SVID_LIFETIME), now).expect("a certificate");
    let bundle = TrustBundle::from_pem(authority.certificate_pem().as_bytes()).expect("a bundle");
    TlsIdentity::new(&request.accept(vec![certificate], &bundle, now).expect("an SVID"), &bundle)
}

/// Returns the client configuration of a workload that has a certificate of `own` and trusts both authorities.
fn trusting(own: &Authority, other: &Authority) -> Arc<ClientConfig> {
    let now = SystemTime::now();
    let id: SpiffeId = "spiffe://example.org/ns/shop/sa/web".parse().expect("an id");
    let request = Request::new(id.clone()).expect("a request");
    let certificate = own.sign(&id, request.csr(), Validity::starting(now, SVID_LIFETIME), now).expect("a certificate");
    let both = format!("{}{}", own.certificate_pem(), other.certificate_pem());
    let bundle = TrustBundle::from_pem(both.as_bytes()).expect("a bundle");
    TlsIdentity::new(&request.accept(vec![certificate], &bundle, now).expect("an SVID"), &bundle).client
}

/// Both ends of a connection, and the content that each has received.
struct Pair {
    client: Tls,
    server: Tls,
    at_client: Vec<u8>,
    at_server: Vec<u8>,
}

impl Pair {
    fn new(client: &TlsIdentity, server: &TlsIdentity) -> Self {
        let client = Tls::connect(&client.client, 50_051).expect("a client");
        let server = Tls::accept(&server.server).expect("a server");
        Self { client, server, at_client: Vec::new(), at_server: Vec::new() }
    }

    /// Delivers all output to the other end, `step` bytes at a time, until neither end has more.
    fn talk(&mut self, step: usize) -> Result<(), rustls::Error> {
        let mut sealed = Vec::new();
        self.client.seal(&[], &mut sealed);
        loop {
            let quiet = self.client.pending().is_empty() && self.server.pending().is_empty();
            if quiet {
                return Ok(());
            }
            carry(&mut self.client, &mut self.server, &mut self.at_server, step)?;
            carry(&mut self.server, &mut self.client, &mut self.at_client, step)?;
        }
    }
}

fn carry(from: &mut Tls, to: &mut Tls, received: &mut Vec<u8>, step: usize) -> Result<(), rustls::Error> {
    let bytes = from.pending().to_vec();
    from.advance(bytes.len());
    deliver(&bytes, to, received, step)
}

fn deliver(bytes: &[u8], to: &mut Tls, received: &mut Vec<u8>, step: usize) -> Result<(), rustls::Error> {
    for part in bytes.chunks(step) {
        let mut raw = vec![0; 70_000];
        let start = to.lend_partial(&mut raw);
        raw[start..start + part.len()].copy_from_slice(part);
        to.open(&mut raw[..start + part.len()], received)?;
    }
    Ok(())
}

#[test]
fn both_ends_know_each_other_however_the_bytes_are_cut() {
    let authority = authority();
    let (cart, web) = (identity(&authority, "cart"), identity(&authority, "web"));
    for step in [1, 7, 1_000, 65_536] {
        let mut pair = Pair::new(&web, &cart);
        assert!(!pair.client.is_established());
        pair.talk(step).expect("a handshake");
        for (tls, peer) in [(&pair.client, &cart), (&pair.server, &web)] {
            assert!(tls.is_established() && tls.is_http2());
            assert_eq!(peer_id(tls.peer_certificates()).expect("an id"), peer.id);
            assert!(
                tls.held_bytes() >= chain_bytes(tls.peer_certificates()) && chain_bytes(tls.peer_certificates()) > 0
            );
        }
    }
}

#[test]
fn content_arrives_whole_and_partial_records_are_kept_until_their_rest_comes() {
    let authority = authority();
    let mut pair = Pair::new(&identity(&authority, "web"), &identity(&authority, "cart"));
    pair.talk(65_536).expect("a handshake");
    let content: Vec<u8> = (0..SEAL_BYTES).map(|n| n as u8).collect();
    let mut sealed = Vec::new();
    let length = pair.client.seal(&content, &mut sealed);
    assert!(length > content.len());
    deliver(&sealed[..length], &mut pair.server, &mut pair.at_server, 10_000).expect("records");
    assert!(pair.at_server == content, "what came is not what was sent");
    assert!(pair.server.partial.is_empty() && pair.server.pending().is_empty());
}

#[test]
fn nothing_is_sealed_before_the_peer_is_known() {
    let authority = authority();
    let mut pair = Pair::new(&identity(&authority, "web"), &identity(&authority, "cart"));
    let mut sealed = Vec::new();
    assert_eq!(pair.client.seal(b"secret", &mut sealed), 0);
    assert!(!pair.client.pending().is_empty(), "the ClientHello");
    assert!(!pair.client.pending().windows(6).any(|window| window == b"secret"));
}

#[test]
fn a_peer_of_another_authority_is_refused_and_hears_of_it() {
    let (ours, theirs) = (authority(), authority());
    let mut pair = Pair::new(&identity(&theirs, "web"), &identity(&ours, "cart"));
    let error = pair.talk(65_536).expect_err("a refusal");
    assert!(matches!(error, rustls::Error::InvalidCertificate(_)), "{error}");
    assert!(!pair.client.pending().is_empty(), "the alert");
}

/// Divides the content of a record into two records.
fn cut_in_two_records(record: &[u8]) -> Vec<u8> {
    let (header, content) = record.split_at(5);
    let (first, second) = content.split_at(content.len() / 2);
    let framed = |part: &[u8]| [&header[..3], &(part.len() as u16).to_be_bytes(), part].concat();
    [framed(first), framed(second)].concat()
}

#[test]
fn a_handshake_message_in_parts_waits_for_the_rest_whatever_is_sealed_meanwhile() {
    let authority = authority();
    let mut pair = Pair::new(&identity(&authority, "web"), &identity(&authority, "cart"));
    let mut sealed = Vec::new();
    pair.client.seal(&[], &mut sealed);
    let hello = cut_in_two_records(pair.client.pending());
    pair.client.advance(pair.client.pending().len());
    for part in hello.chunks(200) {
        deliver(part, &mut pair.server, &mut pair.at_server, 65_536).expect("a part of a ClientHello");
        if pair.server.pending().is_empty() {
            assert_eq!(pair.server.seal(b"too early", &mut sealed), 0);
        }
    }
    pair.talk(65_536).expect("a handshake");
    assert!(pair.client.is_established() && pair.server.is_established());
}

#[test]
fn a_client_of_another_authority_is_refused_whatever_is_sealed_after() {
    let (ours, theirs) = (authority(), authority());
    let (server, stranger) = (identity(&ours, "cart"), identity(&theirs, "web"));
    let mut trusting_stranger = stranger;
    trusting_stranger.client = trusting(&theirs, &ours);
    let trusting = trusting_stranger;
    let mut pair = Pair::new(&trusting, &server);
    let error = pair.talk(65_536).expect_err("a refusal");
    assert!(matches!(error, rustls::Error::InvalidCertificate(_)), "{error}");
    let mut sealed = Vec::new();
    assert_eq!(pair.server.seal(b"more", &mut sealed), 0);
    assert!(pair.server.open(&mut [23, 3, 3, 0, 1, 0], &mut Vec::new()).is_err());
}

#[test]
fn garbage_is_an_error_and_no_panic() {
    let authority = authority();
    let mut tls = Tls::accept(&identity(&authority, "cart").server).expect("a server");
    let mut received = Vec::new();
    assert!(deliver(&[22, 3, 1, 0, 2, 9, 9, 23, 3, 3, 255, 255], &mut tls, &mut received, 100).is_err());
    assert!(received.is_empty());
}
