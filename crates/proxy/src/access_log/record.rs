//! What a line of the access log says.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use leno_model::route::RouteName;
use leno_model::spiffe::SpiffeId;

use super::Queries;
use crate::metrics::Direction;

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
    /// HTTP/2.
    Http2,
    /// Something that the proxy does not read.
    Opaque,
}

/// The facts about one call, or about one connection that carries no calls.
///
/// The slices are bytes as the peer sent them and may hold anything; an empty one stands for nothing sent.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// When the call began.
    pub time: SystemTime,
    /// Which side this proxy is.
    pub direction: Direction,
    /// Who called, as seen from here.
    pub client: SocketAddr,
    /// The client's workload, where its certificate proves it.
    pub client_id: Option<&'a SpiffeId>,
    /// Where the call was sent; none if it was not.
    pub server: Option<SocketAddr>,
    /// The server's workload, where its certificate proves it.
    pub server_id: Option<&'a SpiffeId>,
    /// How the other proxy is authenticated: what [`Tls::label`](crate::metrics::Tls::label) says.
    pub tls: &'static str,
    /// What the client speaks.
    pub protocol: Protocol,
    /// The request's method.
    pub method: &'a [u8],
    /// The request's `:authority` or `Host`.
    pub authority: &'a [u8],
    /// The request's `:path` or target, with its query.
    pub path: &'a [u8],
    /// The route that decided where the call went, and its rule's name; none where no route did.
    pub route: Option<(&'a RouteName, Option<&'a str>)>,
    /// The response's status; none if there was no response.
    pub status: Option<u16>,
    /// The `grpc-status`, if it is a gRPC call that was answered.
    pub grpc_status: Option<u8>,
    /// Bytes of content that the client sent.
    pub request_bytes: u64,
    /// Bytes of content that the client was sent.
    pub response_bytes: u64,
    /// From the call's first byte to its last.
    pub duration: Duration,
    /// The request's `x-request-id`.
    pub request_id: &'a [u8],
    /// The request's `user-agent`.
    pub user_agent: &'a [u8],
    /// Why the proxy itself ended it: what `leno-proxy-error` says.
    pub proxy_error: Option<&'static str>,
}

impl Protocol {
    /// Its name.
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
    /// The path as it is written.
    pub(super) fn shown_path(&self, queries: Queries) -> &'a [u8] {
        match queries {
            Queries::Keep => self.path,
            // A fragment does not belong into a request, so one that comes is not there for the log either.
            Queries::Drop => self.path.split(|byte| b"?#".contains(byte)).next().unwrap_or_default(),
        }
    }
}
