//! Fixtures that the tests of this crate share: authorities, identities, and handshakes in memory.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_model::spiffe::SpiffeId;
use rustls::{ClientConfig, ClientConnection, Connection, Error, ServerConfig, ServerConnection};

use crate::TlsIdentity;
use crate::authority::{Authority, SVID_LIFETIME};
use crate::bundle::TrustBundle;
use crate::svid::{Request, Svid};
use crate::x509::Validity;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn id(workload: &str) -> SpiffeId {
    format!("spiffe://example.org/ns/shop/sa/{workload}").parse().expect("an id")
}

pub(crate) fn authority(trust_domain: &str) -> Authority {
    Authority::create(trust_domain.parse().expect("a trust domain"), SystemTime::now()).expect("an authority")
}

pub(crate) fn bundle(authorities: &[&Authority]) -> TrustBundle {
    let text: String = authorities.iter().map(|authority| authority.certificate_pem()).collect();
    TrustBundle::from_pem(text.as_bytes()).expect("a bundle")
}

/// An SVID that is valid for `lifetime` from `start`, and was checked at `start`.
pub(crate) fn svid_from(authority: &Authority, id: &SpiffeId, start: SystemTime, lifetime: Duration) -> Svid {
    let request = Request::new(id.clone()).expect("a request");
    let certificate =
        authority.sign(id, request.csr(), Validity::starting(start, lifetime), start).expect("a certificate");
    request.accept(vec![certificate], &bundle(&[authority]), start).expect("an SVID")
}

pub(crate) fn svid(authority: &Authority, id: &SpiffeId) -> Svid {
    svid_from(authority, id, SystemTime::now(), SVID_LIFETIME)
}

/// A workload of `example.org` that trusts its own authority only.
pub(crate) fn identity(authority: &Authority, workload: &str) -> TlsIdentity {
    TlsIdentity::new(&svid(authority, &id(workload)), &bundle(&[authority]))
}

/// The result of a handshake at each end: the connection, or the end's first error.
pub(crate) struct Handshake {
    pub(crate) client: Result<ClientConnection, Error>,
    pub(crate) server: Result<ServerConnection, Error>,
}

/// Exchanges messages between both ends until neither has more to send.
pub(crate) fn handshake(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Handshake {
    handshake_with("8080.leno.internal", client, server)
}

/// Like [`handshake`], with the given server name.
pub(crate) fn handshake_with(name: &'static str, client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Handshake {
    let name = name.try_into().expect("a server name");
    let mut client = Connection::from(ClientConnection::new(client.clone(), name).expect("a client"));
    let mut server = Connection::from(ServerConnection::new(server.clone()).expect("a server"));
    let (mut client_error, mut server_error) = (None, None);
    loop {
        let sent = transfer(&mut client, &mut server, &mut server_error);
        let answered = transfer(&mut server, &mut client, &mut client_error);
        if !sent && !answered {
            break;
        }
    }
    let (Connection::Client(client), Connection::Server(server)) = (client, server) else {
        unreachable!("they were made so");
    };
    let failed = client_error.is_some() || server_error.is_some();
    assert!(failed || !(client.is_handshaking() || server.is_handshaking()), "each end waits for the other");
    Handshake { client: client_error.map_or(Ok(client), Err), server: server_error.map_or(Ok(server), Err) }
}

/// Moves the output of `from` to `to`; returns whether there was any output.
fn transfer(from: &mut Connection, to: &mut Connection, error: &mut Option<Error>) -> bool {
    let mut bytes = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut bytes).expect("writing to a Vec cannot fail");
    }
    let mut rest = bytes.as_slice();
    while !rest.is_empty() && error.is_none() {
        to.read_tls(&mut rest).expect("reading from a slice cannot fail");
        *error = to.process_new_packets().err();
    }
    !bytes.is_empty()
}
