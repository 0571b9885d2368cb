use leno_identity::PeerIdError;
use leno_model::spiffe::SpiffeId;
use rustls::CertificateError;

use super::{ConnectionFailure, FailedConnection};
use crate::metrics::{Direction, PeerLabel};

fn id(name: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{name}").parse().expect("it is a SPIFFE id")
}

fn inbound(why: ConnectionFailure) -> String {
    let address = ([10, 0, 0, 1], 4_000).into();
    FailedConnection { direction: Direction::Inbound, peer: PeerLabel::Source, address, why }.to_string()
}

fn outbound(why: ConnectionFailure) -> String {
    let address = ([10, 0, 0, 2], 8_080).into();
    FailedConnection { direction: Direction::Outbound, peer: PeerLabel::Destination, address, why }.to_string()
}

/// Returns one failure of every kind.
fn all() -> Vec<ConnectionFailure> {
    vec![
        ConnectionFailure::Handshake(CertificateError::Expired.into()),
        ConnectionFailure::HandshakeCut,
        ConnectionFailure::HandshakeTimeout,
        ConnectionFailure::Silent,
        ConnectionFailure::NoAlpn,
        ConnectionFailure::NoIdentity,
        ConnectionFailure::BadPeerId(PeerIdError::NoUri),
        ConnectionFailure::WrongIdentity { found: id("cart"), expected: id("web") },
        ConnectionFailure::PlaintextInTunnel,
        ConnectionFailure::Denied { client: None, server: None, port: 80, reason: "no rule allows it".to_owned() },
        ConnectionFailure::Connect { error: "Connection refused".to_owned() },
        ConnectionFailure::NoSocket { error: "this proxy has no file left; raise its limit of open files".to_owned() },
    ]
}

#[test]
fn every_line_says_which_side_and_what_to_do() {
    for (here, there) in all().into_iter().zip(all()) {
        for line in [inbound(here), outbound(there)] {
            assert!(
                line.starts_with("inbound connection from 10.0.0.1:4000 failed: ")
                    || line.starts_with("outbound connection to 10.0.0.2:8080 failed: "),
                "{line}"
            );
            let (_, advice) = line.split_once("; ").expect("advice follows a semicolon");
            assert!(!advice.is_empty() && line.len() < 400 && !line.contains('\n'), "{line}");
        }
    }
}

#[test]
fn every_reason_has_a_label_of_its_own() {
    let mut labels: Vec<_> = all().iter().map(ConnectionFailure::label).collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), all().len());
}

#[test]
fn a_wrong_identity_names_both() {
    let line = outbound(ConnectionFailure::WrongIdentity { found: id("cart"), expected: id("web") });
    assert!(line.contains(
        "the server is spiffe://example.org/ns/shop/sa/cart and must be spiffe://example.org/ns/shop/sa/web;"
    ));
}

#[test]
fn a_denial_names_both_identities_and_the_policy() {
    let reason = "no rule of AuthorizationPolicy shop/carts allows it".to_owned();
    let denied = ConnectionFailure::Denied { client: Some(id("web")), server: Some(id("cart")), port: 8080, reason };
    assert_eq!(
        inbound(denied),
        "inbound connection from 10.0.0.1:4000 failed: spiffe://example.org/ns/shop/sa/web may not use port 8080 of \
         spiffe://example.org/ns/shop/sa/cart: no rule of AuthorizationPolicy shop/carts allows it; add a rule if it \
         should"
    );
}

#[test]
fn what_a_peer_made_us_say_stays_on_one_line_and_ends() {
    let error = format!("a\nb\u{202e}{}", "x".repeat(10_000));
    let line = outbound(ConnectionFailure::Connect { error });
    assert!(line.contains(r"a\u{a}b\u{202e}x"));
    assert!(line.len() < 700);
}
