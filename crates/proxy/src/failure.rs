//! Connections that fail, each told in one line that says which side, why and what to do, and counted by reason.

mod handshake;
mod log;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use leno_model::spiffe::SpiffeId;

pub use handshake::HandshakeFailure;
pub use log::FailureLog;

use crate::metrics::{Direction, Peer};

/// Longest text of others within a line, in characters.
const QUOTED_MAX_CHARS: usize = 500;

/// A connection that failed, or that was turned away. Its text is the line for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedConnection {
    /// Which side this proxy is.
    pub direction: Direction,
    /// Whether the connection is from a client or to a server.
    pub peer: Peer,
    /// The address of the client or of the server.
    pub address: SocketAddr,
    /// Why it failed.
    pub why: ConnectionFailure,
}

/// Why a connection failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionFailure {
    /// The TLS handshake failed.
    Handshake {
        /// How.
        kind: HandshakeFailure,
        /// Why and what to do, as `leno_identity` explains it.
        explanation: String,
    },
    /// The peer closed the connection within the TLS handshake.
    HandshakeCut,
    /// The TLS handshake took too long.
    HandshakeTimeout {
        /// The limit.
        waited: Duration,
    },
    /// The server's certificate is good, and another workload's than it must be.
    WrongIdentity {
        /// What the certificate says.
        found: SpiffeId,
        /// What the endpoint must be.
        expected: SpiffeId,
    },
    /// Policy wants to know the client, and it showed no certificate.
    NoClientCertificate {
        /// The application's port.
        port: u16,
    },
    /// Policy wants mutual TLS, and the client began without.
    Plaintext {
        /// The application's port.
        port: u16,
    },
    /// The client did not send enough to tell what it speaks.
    DetectionTimeout {
        /// The limit.
        waited: Duration,
        /// Bytes that it did send.
        received_bytes: usize,
    },
    /// The connection's destination is this proxy.
    Loop {
        /// The destination.
        destination: SocketAddr,
    },
    /// The connection is for a port that the workload does not serve.
    UnknownPort {
        /// The port.
        port: u16,
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
    /// The connection to the server was not established.
    Connect {
        /// What the system says.
        error: String,
    },
}

impl ConnectionFailure {
    /// Its label in metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Handshake { kind, .. } => kind.label(),
            Self::HandshakeCut => "tls-cut",
            Self::HandshakeTimeout { .. } => "tls-timeout",
            Self::WrongIdentity { .. } => "wrong-identity",
            Self::NoClientCertificate { .. } => "no-client-certificate",
            Self::Plaintext { .. } => "plaintext",
            Self::DetectionTimeout { .. } => "detection-timeout",
            Self::Loop { .. } => "loop",
            Self::UnknownPort { .. } => "unknown-port",
            Self::Denied { .. } => "denied",
            Self::Connect { .. } => "connect-failed",
        }
    }
}

impl fmt::Display for FailedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (side, address) = (self.direction.label(), self.address);
        match self.peer {
            Peer::Source => write!(f, "{side} connection from {address} failed: ")?,
            Peer::Destination => write!(f, "{side} connection to {address} failed: ")?,
        }
        match &self.why {
            ConnectionFailure::Handshake { explanation, .. } => write!(f, "{}", Quoted(explanation)),
            ConnectionFailure::HandshakeCut => {
                f.write_str("the peer closed it within the TLS handshake; its log says why")
            }
            ConnectionFailure::HandshakeTimeout { waited } => write!(
                f,
                "the TLS handshake was not over after {} ms; look at the peer's load and at the network between",
                waited.as_millis()
            ),
            ConnectionFailure::WrongIdentity { found, expected } => write!(
                f,
                "the server is {found} and must be {expected}; correct the endpoint if its service account has changed, \
                 or else find out what listens there"
            ),
            ConnectionFailure::NoClientCertificate { port } => write!(
                f,
                "policy wants a client certificate on port {port} and the client showed none; run it behind a proxy of \
                 this mesh that has an identity, or allow its network"
            ),
            ConnectionFailure::Plaintext { port } => write!(
                f,
                "policy wants mutual TLS on port {port} and the client began without; run it behind a proxy of this \
                 mesh, or allow its network"
            ),
            ConnectionFailure::DetectionTimeout { waited, received_bytes } => write!(
                f,
                "{received_bytes} bytes came within {} ms, too few to tell what the client speaks; declare the port \
                 opaque if the server speaks first",
                waited.as_millis()
            ),
            ConnectionFailure::Loop { destination } => write!(
                f,
                "its destination {destination} is this proxy; connect to the application's own port, and exempt the \
                 proxy's user from interception"
            ),
            ConnectionFailure::UnknownPort { port } => {
                write!(f, "the workload serves no port {port}; connect to one that it serves")
            }
            ConnectionFailure::Denied { client, server, port, reason } => {
                let (client, server) =
                    (OrUnknown(client, "a client without identity"), OrUnknown(server, "this workload"));
                let reason = Quoted(reason);
                write!(f, "{client} may not use port {port} of {server}: {reason}; add a rule if it should")
            }
            ConnectionFailure::Connect { error } => {
                let error = Quoted(error);
                match self.direction {
                    Direction::Inbound => write!(f, "{error}; look whether the application listens on that port"),
                    Direction::Outbound => {
                        write!(f, "{error}; look whether it listens there and the network lets connections through")
                    }
                }
            }
        }
    }
}

struct OrUnknown<'a>(&'a Option<SpiffeId>, &'static str);

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
