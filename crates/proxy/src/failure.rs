//! Connections that fail, each told in one line that says which side, why and what to do, and counted by reason.

mod handshake;
mod log;

use std::fmt;
use std::net::SocketAddr;

use leno_identity::PeerIdError;
use leno_model::spiffe::SpiffeId;

pub(crate) use log::FailureLog;

use crate::metrics::{Direction, Peer};

/// Longest text of others within a line, in characters.
const QUOTED_MAX_CHARS: usize = 500;

/// A connection that failed, or that was turned away. Its text is the line for the log.
#[derive(Debug)]
pub(crate) struct FailedConnection {
    /// Which side this proxy is.
    pub(crate) direction: Direction,
    /// Whether the connection is from a client or to a server.
    pub(crate) peer: Peer,
    /// The address of the client or of the server.
    pub(crate) address: SocketAddr,
    /// Why it failed.
    pub(crate) why: ConnectionFailure,
}

/// Why a connection failed. Its text says that and what to do.
#[derive(Debug)]
pub(crate) enum ConnectionFailure {
    /// The TLS handshake failed.
    Handshake(rustls::Error),
    /// The peer closed the connection within the TLS handshake.
    HandshakeCut,
    /// The TLS handshake took too long.
    HandshakeTimeout,
    /// The client said too little in time, and nothing else tells where it was going.
    Silent,
    /// The client does not speak HTTP/2 within the mesh's TLS.
    NoAlpn,
    /// The client wants the mesh's TLS, and we have no identity.
    NoIdentity,
    /// The peer's certificate names no workload of the mesh.
    BadPeerId(PeerIdError),
    /// The server's certificate is good, and another workload's than it must be.
    WrongIdentity {
        /// What the certificate says.
        found: SpiffeId,
        /// What the endpoint must be.
        expected: SpiffeId,
    },
    /// There is no place for another connection of the client's.
    NoPlace,
    /// Another client needed the connection's place more.
    Yielded,
    /// The tunnel takes mutual TLS only, and the client began without.
    PlaintextInTunnel,
    /// The port speaks HTTP and the client does not.
    NotHttp,
    /// The client's certificate has expired since it connected.
    Expired,
    /// No anchor that is trusted now vouches for the peer's certificate.
    NoLongerTrusted(rustls::Error),
    /// Policy allowed it once and does not any more.
    Withdrawn {
        /// The client's identity, if it proved one.
        client: Option<SpiffeId>,
        /// Our own, if we have one.
        server: Option<SpiffeId>,
        /// The application's port.
        port: u16,
        /// What decided, and how.
        reason: String,
    },
    /// Policy does not allow it.
    Denied {
        /// The client's identity, if it proved one.
        client: Option<SpiffeId>,
        /// Our own, if we have one.
        server: Option<SpiffeId>,
        /// The application's port.
        port: u16,
        /// What decided, and how.
        reason: String,
    },
    /// The server broke the protocol.
    Violation {
        /// What it did.
        error: String,
    },
    /// The connection to the server was not established, or is not of use.
    Connect {
        /// What the system says.
        error: String,
    },
}

impl ConnectionFailure {
    /// Its label in metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Handshake(error) => handshake::label(error),
            Self::HandshakeCut => "tls-cut",
            Self::HandshakeTimeout => "tls-timeout",
            Self::Silent => "silent",
            Self::NoAlpn => "no-alpn",
            Self::NoIdentity => "no-identity",
            Self::BadPeerId(_) => "certificate-identity",
            Self::WrongIdentity { .. } => "wrong-identity",
            Self::NoPlace => "no-place",
            Self::Yielded => "yielded",
            Self::PlaintextInTunnel => "plaintext-in-tunnel",
            Self::NotHttp => "not-http",
            Self::Expired => "expired",
            Self::NoLongerTrusted(_) => "no-longer-trusted",
            Self::Withdrawn { .. } => "withdrawn",
            Self::Denied { .. } => "denied",
            Self::Violation { .. } => "protocol-error",
            Self::Connect { .. } => "connect-failed",
        }
    }
}

impl fmt::Display for FailedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, address, why) = (self.direction.label(), self.address, &self.why);
        match self.peer {
            Peer::Source => write!(f, "{side} connection from {address} failed: {why}"),
            Peer::Destination => write!(f, "{side} connection to {address} failed: {why}"),
        }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(error) => Quoted(&leno_identity::explain(error)).fmt(f),
            Self::HandshakeCut => f.write_str("the peer closed it within the TLS handshake; its log says why"),
            Self::HandshakeTimeout => f.write_str(
                "the TLS handshake took longer than detect_timeout_ms; look at the peer's load and at the network \
                 between",
            ),
            Self::Silent => f.write_str(
                "within detect_timeout_ms nothing came that tells what it is for; let the client speak first, or \
                 redirect its connections here, so that their destination is known",
            ),
            Self::NoAlpn => f.write_str(
                "the client does not offer HTTP/2 by ALPN; connect to this port from a proxy of this mesh, or without \
                 a server name of the mesh's",
            ),
            Self::NoIdentity => f.write_str(
                "the client wants the mesh's TLS and this proxy has no identity; give it one, or do not name it as part \
                 of the mesh",
            ),
            Self::BadPeerId(error) => Quoted(&error.to_string()).fmt(f),
            Self::WrongIdentity { found, expected } => write!(
                f,
                "the server is {found} and must be {expected}; correct the endpoint if its service account has changed, \
                 or else find out what listens there"
            ),
            Self::NoPlace => f.write_str(
                "all places for connections are taken and this client has most of them; have it close some, or raise \
                 max_outbound_connections, max_inbound_connections or max_identified_connections",
            ),
            Self::Yielded => f.write_str(
                "another client needed its place; if clients are well-behaved, raise max_outbound_connections, \
                 max_inbound_connections or max_identified_connections",
            ),
            Self::PlaintextInTunnel => f.write_str(
                "the tunnel takes mutual TLS only and the client began without; connect to it from a proxy of this mesh",
            ),
            Self::NotHttp => f.write_str(
                "the port is declared to speak HTTP and the client's first bytes are no HTTP; correct the client, or what \
                 declares the port: the Service's appProtocol, --http-ports or the Pod's probe (--opaque-ports overrides a probe)",
            ),
            Self::Expired => f.write_str(
                "the client's certificate has expired since it connected; have it connect again with a new certificate",
            ),
            Self::NoLongerTrusted(error) => write!(
                f,
                "the trust bundle has changed since it connected: {}",
                Quoted(&leno_identity::explain(error))
            ),
            Self::Withdrawn { client, server, port, reason } => write!(
                f,
                "a change of policy ends what {} had open to port {port} of {}: {}; add a rule if it should stay",
                OrUnknown(client.as_ref(), "a client without identity"),
                OrUnknown(server.as_ref(), "this workload"),
                Quoted(reason)
            ),
            Self::Denied { client, server, port, reason } => write!(
                f,
                "{} may not use port {port} of {}: {}; add a rule if it should",
                OrUnknown(client.as_ref(), "a client without identity"),
                OrUnknown(server.as_ref(), "this workload"),
                Quoted(reason)
            ),
            Self::Violation { error } => {
                write!(f, "the server broke the protocol: {}; correct the server", Quoted(error))
            }
            Self::Connect { error } => write!(
                f,
                "{}; look whether anything listens there and whether the network lets connections through",
                Quoted(error)
            ),
        }
    }
}

struct OrUnknown<'a>(Option<&'a SpiffeId>, &'static str);

impl fmt::Display for OrUnknown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(id) => id.fmt(f),
            None => f.write_str(self.1),
        }
    }
}

/// A text that may hold what a peer sent: shown on one line and not without end.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars().take(QUOTED_MAX_CHARS) {
            match c {
                ' '..='~' => write!(f, "{c}")?,
                other => write!(f, "{}", other.escape_unicode())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "failure_tests.rs"]
mod tests;
