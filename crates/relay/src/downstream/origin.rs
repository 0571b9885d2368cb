//! Origin: the source of a connection, and its original destination.

use std::net::SocketAddr;

use leno_model::protocol::Protocol;

/// The kind of connections that a listener accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Door {
    /// Connections from our own application to other servers.
    Outbound,
    /// Connections from other clients to our own application.
    Inbound,
    /// Connections from other proxies. Each stream leads to a TCP port of our own application (HBONE).
    Tunnel,
}

impl Door {
    /// Returns the door with this [`Door::name`].
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Outbound, Self::Inbound, Self::Tunnel].into_iter().find(|door| door.name() == name)
    }

    /// Returns the name of the command-line flag that sets the door's addresses, without `--`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
            Self::Tunnel => "tunnel",
        }
    }
}

/// The source and the destination of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Origin {
    pub door: Door,
    pub peer: SocketAddr,
    pub local: SocketAddr,
    /// The address that the client connected to, if netfilter redirected the connection to the proxy (SO_ORIGINAL_DST).
    pub original_destination: Option<SocketAddr>,
}

/// The detection that the worker performs on the first bytes of a connection, before it relays them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inspection {
    /// Nothing: the bytes are opaque, and the server may speak first.
    Nothing,
    /// The server name of a TLS ClientHello. Any other bytes are opaque.
    ServerName,
    /// The protocol: HTTP, TLS or opaque bytes.
    Protocol,
}

impl From<Protocol> for Inspection {
    fn from(declared: Protocol) -> Self {
        if declared == Protocol::Opaque { Self::Nothing } else { Self::Protocol }
    }
}
