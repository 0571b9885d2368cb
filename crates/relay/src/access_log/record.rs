//! The content of an access log line.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use leno_model::route::RouteName;
use leno_model::spiffe::SpiffeId;

use super::Queries;
use crate::audit::AuditedParts;
use crate::metrics::Direction;
use crate::trace::TraceId;

/// A client's protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// A protocol that the proxy does not parse.
    Opaque,
}

/// The facts about one call, or about one connection that carries no calls.
///
/// The slices contain the peer's bytes unchanged; a slice is empty if the peer did not send the value.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Start of the call.
    pub time: SystemTime,
    /// The direction of the call, as seen from this proxy.
    pub direction: Direction,
    /// The client's address, as seen by this proxy.
    pub client: SocketAddr,
    /// The client's workload, if its certificate proves it.
    pub client_id: Option<&'a SpiffeId>,
    /// The server's address; `None` if the call was not sent.
    pub server: Option<SocketAddr>,
    /// The server's workload, if its certificate proves it.
    pub server_id: Option<&'a SpiffeId>,
    /// How the other proxy is authenticated: a value of [`TlsLabel::label`](crate::metrics::TlsLabel::label). `None` if
    /// the call came from our own application and was not sent.
    pub tls: Option<&'static str>,
    /// The client's protocol.
    pub protocol: Protocol,
    /// The request's method.
    pub method: &'a [u8],
    /// The request's `:authority` or `Host`.
    pub authority: &'a [u8],
    /// The request's `:path` or target, with its query.
    pub path: &'a [u8],
    /// The route that selected the destination, and its rule's name; `None` without a route.
    pub route: Option<(&'a RouteName, Option<&'a str>)>,
    /// The response's status; `None` without a response.
    pub status: Option<u16>,
    /// The `grpc-status` of a gRPC call that was answered.
    pub grpc_status: Option<u8>,
    /// Number of content bytes from the client.
    pub request_bytes: u64,
    /// Number of content bytes to the client.
    pub response_bytes: u64,
    /// Time from the call's first byte to its last byte.
    pub duration: Duration,
    /// Number of times that the call was sent again because its rule has retries.
    pub retries: u8,
    /// Number of further attempts (hedges) that began because the first attempt had not answered in time.
    pub hedges: u8,
    /// The settings in mode Audit of the call's policy that the proxy would have applied in mode Enforce.
    pub audited: AuditedParts,
    /// The request's `x-request-id`.
    pub request_id: &'a [u8],
    /// The id of the call's trace.
    pub trace_id: Option<TraceId>,
    /// The request's `user-agent`.
    pub user_agent: &'a [u8],
    /// Why the proxy itself ended the call or connection, or why an endpoint's response broke off: a value of
    /// `leno-proxy-error`.
    pub proxy_error: Option<&'static str>,
}

impl Protocol {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Opaque => "TCP",
        }
    }
}

impl<'a> Record<'a> {
    /// Returns the path that the log shows: with or without its query.
    pub(super) fn shown_path(&self, queries: Queries) -> &'a [u8] {
        match queries {
            Queries::Keep => self.path,
            // HTTP allows no fragment (`#...`) in a request target. If a client sends one anyway, drop it too.
            Queries::Drop => self.path.split(|byte| b"?#".contains(byte)).next().unwrap_or_default(),
        }
    }
}
