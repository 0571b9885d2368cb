//! The exchange that the clients of a load repeat.

use http::uri::{InvalidUri, PathAndQuery};
use serde::{Deserialize, Serialize};

use super::handshake::Hello;

/// The name recorded for every server of an exchange whose answers carry no server names.
pub const NAMELESS: &str = "server";
/// Longest request message of a [`UnaryCall`], in bytes. In the plan's JSON, each byte takes up to four characters.
pub(crate) const CALL_MAX_BYTES: usize = 1 << 20;

/// An exchange of a client with a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// A gRPC call to an echo server: unary or streaming, as the plan's traffic defines. The plan's pattern limits the
    /// calls in flight.
    Grpc,
    /// Like `Grpc`, but each call begins a trace: it has its own `traceparent`, like calls of an application with
    /// OpenTelemetry.
    TracedGrpc,
    /// An HTTP/1.1 request to an echo server; one at a time for each client.
    Http1,
    /// An HTTP/2 request without gRPC to an echo server. The plan's pattern limits the requests in flight.
    Http2,
    /// A gRPC call to any server. The plan's pattern limits the calls in flight.
    Call(UnaryCall),
    /// A GET request for this path over HTTP/1.1, to any server; one at a time for each client.
    Http1Get(String),
    /// A GET request for this path over HTTP/2, to any server. The plan's pattern limits the requests in flight.
    Http2Get(String),
    /// A TLS connection that opens and closes; one at a time for each client. This exchange cannot be written as JSON,
    /// because [`Hello`] contains keys.
    #[serde(skip)]
    Handshake(Hello),
}

/// A unary gRPC call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnaryCall {
    /// The `:path`, in the form `/package.Service/Method`.
    pub path: String,
    /// The encoded request message, at most 1 MiB.
    pub message: Vec<u8>,
}

impl Exchange {
    /// Returns whether an answer has the name of its server. Without names, all servers count as one server:
    /// [`NAMELESS`].
    pub fn has_server_names(&self) -> bool {
        match self {
            Self::Grpc | Self::TracedGrpc | Self::Http1 | Self::Http2 => true,
            Self::Call(_) | Self::Http1Get(_) | Self::Http2Get(_) | Self::Handshake(_) => false,
        }
    }

    /// Checks an exchange that another process has sent.
    pub(super) fn check(&self) -> Result<(), String> {
        let path = match self {
            Self::Grpc | Self::TracedGrpc | Self::Http1 | Self::Http2 | Self::Handshake(_) => return Ok(()),
            Self::Call(UnaryCall { message, .. }) if message.len() > CALL_MAX_BYTES => {
                return Err(format!("its request of {} bytes is larger than {CALL_MAX_BYTES}", message.len()));
            }
            Self::Call(UnaryCall { path, .. }) | Self::Http1Get(path) | Self::Http2Get(path) => path,
        };
        parse_path(path).map(drop).map_err(|error| format!("its path {path:?}: {error}"))
    }
}

/// The path and query of a request. Anything else in the text, such as a line break, is an error.
pub(crate) fn parse_path(text: &str) -> Result<PathAndQuery, InvalidUri> {
    PathAndQuery::try_from(text)
}
