//! The configured protocol of a port. The value [`Protocol::Detect`] means that the proxy detects the protocol.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Ports that are opaque by default: the usual ports of SMTP, MySQL, Galera, PostgreSQL, Redis, Elasticsearch and
/// memcached. In some of these protocols, for example SMTP and MySQL, the server sends first. A proxy that waited for
/// the client's first bytes would block the connection. Other meshes have the same defaults.
pub const OPAQUE_PORTS: [u16; 8] = [25, 587, 3306, 4444, 5432, 6379, 9300, 11211];

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Protocol {
    /// Detected from the client's first bytes.
    #[default]
    Detect,
    /// HTTP/2, unencrypted and without an upgrade; gRPC uses it.
    Http2,
    /// HTTP/1.1; WebSockets begin with it.
    Http1,
    /// Bytes that the proxy does not parse, including the application's own TLS.
    Opaque,
}

/// Returns whether a Service's `appProtocol` declares that the endpoints themselves speak TLS. Ignores upper and lower
/// case.
pub(crate) fn declares_tls(app_protocol: &str) -> bool {
    ["https", "tls", "kubernetes.io/wss"].iter().any(|name| app_protocol.eq_ignore_ascii_case(name))
}

impl Protocol {
    /// Returns the protocol for a Service's `appProtocol`; `None` if the value is unknown. Ignores upper and lower
    /// case.
    pub fn from_app_protocol(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "kubernetes.io/h2c" | "h2c" | "http2" | "grpc" => Some(Self::Http2),
            "http" | "http/1.1" | "kubernetes.io/ws" => Some(Self::Http1),
            "tcp" => Some(Self::Opaque),
            _ if declares_tls(text) => Some(Self::Opaque),
            _ => None,
        }
    }

    /// Returns the default protocol of a port: `Opaque` for the [`OPAQUE_PORTS`], otherwise `Detect`.
    pub fn of_port(port: u16) -> Self {
        if OPAQUE_PORTS.contains(&port) { Self::Opaque } else { Self::Detect }
    }

    /// Returns whether the protocol is a version of HTTP.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http1 | Self::Http2)
    }

    /// Returns the protocol's name, as messages show it.
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

/// Error: a text is not a list of ports. The message says what to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a list of ports; use 1 to 65535 and ranges, for example 3306,9000-9010")]
pub struct BadPorts;

impl PortRanges {
    /// Returns whether the list contains `port`.
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }

    /// Returns the list with one more port.
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
    number(text.trim()).ok_or(BadPorts)
}

/// Parses a number from 1 to 65535 that consists of digits only.
pub fn number(text: &str) -> Option<u16> {
    // `parse` would also accept a plus sign.
    let digits = Some(text).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits?.parse().ok().filter(|number| *number != 0)
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
