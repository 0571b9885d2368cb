//! Failed connections. The relay counts each failure by its reason, and logs it in one line. The line names the client
//! or the server, the reason and the remedy. The module `log` limits the number of lines.

mod handshake;
mod log;

use std::fmt;
use std::net::SocketAddr;

use leno_identity::PeerIdError;
use leno_model::spiffe::SpiffeId;

pub(crate) use log::FailureLog;

use crate::metrics::{Direction, PeerLabel};

/// Longest quoted text in a line, in characters.
const QUOTED_MAX_CHARS: usize = 500;

/// A connection that failed or was rejected. Its text is the log line.
#[derive(Debug)]
pub struct FailedConnection {
    /// The direction of the connection, as seen from this proxy.
    pub direction: Direction,
    /// The peer: the client that opened the connection, or the server that we connect to.
    pub peer: PeerLabel,
    /// The address of the peer.
    pub address: SocketAddr,
    pub why: ConnectionFailure,
}

/// Reason why a connection failed. The text has the reason and the remedy.
#[derive(Debug, Clone)]
pub enum ConnectionFailure {
    /// The TLS handshake failed.
    Handshake(rustls::Error),
    /// The peer closed the connection during the TLS handshake.
    HandshakeCut,
    /// The TLS handshake took too long.
    HandshakeTimeout,
    /// The client's first bytes did not arrive in time, so the proxy cannot find the connection's destination.
    Silent,
    /// The client does not negotiate HTTP/2 within the mesh's TLS.
    NoAlpn,
    /// The client requests the mesh's TLS, and we have no identity.
    NoIdentity,
    /// The peer's certificate names no workload of the mesh.
    BadPeerId(PeerIdError),
    /// The server's certificate is valid, but belongs to another workload than required.
    WrongIdentity {
        /// The identity in the certificate.
        found: SpiffeId,
        /// The required identity.
        expected: SpiffeId,
    },
    /// The number of connections has reached its limit, and the proxy closes no other connection for this client.
    NoPlace,
    /// The number of connections had reached its limit, and the proxy ended this connection in favor of another client.
    Yielded,
    /// The tunnel requires mutual TLS, and the client began without it.
    PlaintextInTunnel,
    /// The port requires HTTP, and the client speaks another protocol.
    NotHttp,
    /// The client's certificate has expired since the client connected.
    Expired,
    /// No current trust anchor verifies the peer's certificate.
    NoLongerTrusted(rustls::Error),
    /// A policy allowed the client's calls earlier, and no longer does.
    Withdrawn {
        /// The client's identity, if the client proved one.
        client: Option<SpiffeId>,
        /// Our own identity, if we have one.
        server: Option<SpiffeId>,
        /// The application's port.
        port: u16,
        /// The policy that decided, and the reason for its decision.
        reason: String,
    },
    /// No policy allows the client's connection.
    Denied {
        /// The client's identity, if the client proved one.
        client: Option<SpiffeId>,
        /// Our own identity, if we have one.
        server: Option<SpiffeId>,
        /// The application's port.
        port: u16,
        /// The policy that decided, and the reason for its decision.
        reason: String,
    },
    /// The server violated the protocol.
    Violation {
        /// The violation.
        error: String,
    },
    /// The connection to the server was not established, or cannot be used.
    Connect {
        /// The system's error.
        error: String,
    },
    /// This proxy or its machine could not open a socket, so it says nothing about the server.
    NoSocket {
        /// The resource that is used up, and the remedy.
        error: String,
    },
}

impl ConnectionFailure {
    /// Returns the failure's label in metrics.
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
            Self::NoSocket { .. } => "no-socket",
        }
    }
}

impl fmt::Display for FailedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, address, why) = (self.direction.label(), self.address, &self.why);
        match self.peer {
            PeerLabel::Source => write!(f, "{side} connection from {address} failed: {why}"),
            PeerLabel::Destination => write!(f, "{side} connection to {address} failed: {why}"),
        }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handshake(error) => Quoted(&leno_identity::explain(error)).fmt(f),
            Self::HandshakeCut => f.write_str("the peer closed it during the TLS handshake; see the peer's log"),
            Self::HandshakeTimeout => f.write_str(
                "the TLS handshake took longer than detect_timeout_ms; look at the peer's load and at the network \
                 between",
            ),
            Self::Silent => f.write_str(
                "the client sent nothing within detect_timeout_ms that shows its destination; let the client speak first, \
                 or redirect its connections here, so that their destination is known",
            ),
            Self::NoAlpn => f.write_str(
                "the client does not offer HTTP/2 by ALPN; connect to this port from a proxy of this mesh, or without \
                 a server name of the mesh's",
            ),
            Self::NoIdentity => f.write_str(
                "the client requests the mesh's TLS and this proxy has no identity; give it one, or do not list it as \
                 part of the mesh",
            ),
            Self::BadPeerId(error) => Quoted(&error.to_string()).fmt(f),
            Self::WrongIdentity { found, expected } => write!(
                f,
                "the server is {found} and must be {expected}; correct the endpoint if its service account has changed, \
                 or else find out what listens there"
            ),
            Self::NoPlace => f.write_str(
                "all places for connections are taken, and no client has clearly more of them than this client; have it \
                 close some, or raise max_outbound_connections, max_inbound_connections or max_identified_connections",
            ),
            Self::Yielded => f.write_str(
                "another client needed its place; if clients are well-behaved, raise max_outbound_connections, \
                 max_inbound_connections or max_identified_connections",
            ),
            Self::PlaintextInTunnel => f.write_str(
                "the tunnel takes mutual TLS only and the client began without; connect to it from a proxy of this mesh",
            ),
            Self::NotHttp => f.write_str(
                "the port is declared to speak HTTP and the client's first bytes are not HTTP; correct the client, or what \
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
                "{}; check that a server listens there and that the network allows connections to it",
                Quoted(error)
            ),
            Self::NoSocket { error } => f.write_str(error),
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

/// Text that may contain a peer's bytes: escaped to one line and shortened.
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
