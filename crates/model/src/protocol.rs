//! What is spoken on a port, as far as that is said before its first byte.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Ports whose protocols let the server speak first, so that waiting for the client's first bytes would hold both up:
/// SMTP, MySQL, Galera, PostgreSQL, Redis, Elasticsearch and memcached. Other meshes have the same defaults.
pub const OPAQUE_PORTS: [u16; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Protocol {
    /// Whatever the client's first bytes are.
    #[default]
    Detect,
    /// HTTP/2, in clear and without an upgrade; gRPC is.
    Http2,
    /// HTTP/1.1; WebSockets begin so.
    Http1,
    /// Bytes that are carried unread, TLS of the application's own among them.
    Opaque,
}

impl Protocol {
    /// What a Service's `appProtocol` says, in any case; `None` if it says nothing that we know.
    pub fn from_app_protocol(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "kubernetes.io/h2c" | "h2c" | "http2" | "grpc" => Some(Self::Http2),
            "http" | "http/1.1" | "kubernetes.io/ws" => Some(Self::Http1),
            "tcp" | "https" | "tls" | "kubernetes.io/wss" => Some(Self::Opaque),
            _ => None,
        }
    }

    /// What is spoken where nothing is said of it: bytes on the [`OPAQUE_PORTS`], else what the first bytes show.
    pub fn of_port(port: u16) -> Self {
        if OPAQUE_PORTS.contains(&port) { Self::Opaque } else { Self::Detect }
    }

    /// The name that people read.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Detect => "detect",
            Self::Http2 => "http2",
            Self::Http1 => "http1",
            Self::Opaque => "opaque",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Protocol {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Ports and ranges of ports, written as `3306,9000-9010`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PortRanges(Box<[RangeInclusive<u16>]>);

/// The text is no list of ports; it says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of ports; use 1 to 65535 and ranges, as 3306,9000-9010")]
pub struct BadPorts;

impl PortRanges {
    /// Whether `port` is one of them.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }

    /// These ports and one more.
    #[must_use]
    pub fn with(self, port: u16) -> Self {
        if self.contains(port) { self } else { Self(self.0.into_iter().chain([port..=port]).collect()) }
    }
}

impl FromStr for PortRanges {
    type Err = BadPorts;

    fn from_str(text: &str) -> Result<Self, BadPorts> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (port(first)?, port(last)?);
            if first <= last { Ok(first..=last) } else { Err(BadPorts) }
        };
        text.split(',').map(range).collect::<Result<_, _>>().map(Self)
    }
}

fn port(text: &str) -> Result<u16, BadPorts> {
    // `parse` would take a plus sign.
    let digits = Some(text.trim()).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).filter(|port| *port != 0).ok_or(BadPorts)
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
