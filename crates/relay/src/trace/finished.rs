//! A traced call that has ended, with everything that its spans show.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use super::{SpanId, TraceId};
use crate::metrics::Direction;

/// A traced call that has ended. Texts that a peer has chosen are cut to [`FinishedCall::MAX_TEXT_BYTES`].
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    pub trace: TraceId,
    pub span: SpanId,
    /// The caller's span; `None` if the proxy began the trace.
    pub parent: Option<SpanId>,
    pub is_sampled: bool,
    /// The request's `tracestate`.
    pub trace_state: String,
    pub direction: Direction,
    pub started: SystemTime,
    pub duration: Duration,
    pub is_grpc: bool,
    /// The request's method.
    pub method: String,
    /// The request's `:path` without its query.
    pub path: String,
    pub authority: String,
    /// The Service's port, or the address, that the call goes to; empty if it is unknown.
    pub target: String,
    /// The kind, namespace and name of the route that the call matched.
    pub route: Option<String>,
    /// The client's address, and its workload if its certificate proves it.
    pub client: SocketAddr,
    pub client_id: Option<String>,
    pub http_status: Option<u16>,
    pub grpc_status: Option<u8>,
    /// Why the proxy itself ended the call, as in `leno-proxy-error`.
    pub proxy_error: Option<&'static str>,
    pub was_cancelled: bool,
    pub has_failed: bool,
    pub retries: u8,
    pub hedges: u8,
    /// The attempts in the order in which they began, at most [`FinishedCall::MAX_ATTEMPTS`].
    pub attempts: Vec<FinishedAttempt>,
}

/// An attempt of a traced call. Times count from the start of the call.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedAttempt {
    pub span: SpanId,
    /// Number of the attempt, from 1.
    pub number: u32,
    pub endpoint: Option<SocketAddr>,
    /// The identity that the endpoint must prove.
    pub server_id: Option<String>,
    pub is_hedge: bool,
    /// Why the balancer chose the endpoint.
    pub reason: Option<String>,
    pub began: Duration,
    /// When the attempt was sent; `None` if it was not sent.
    pub sent: Option<Duration>,
    /// When the response headers arrived.
    pub answered: Option<Duration>,
    pub ended: Duration,
    pub http_status: Option<u16>,
    pub grpc_status: Option<u8>,
    /// Why the attempt ended without an answer.
    pub error: Option<&'static str>,
    pub has_failed: bool,
}

impl FinishedCall {
    /// Longest text of a peer, in bytes.
    pub const MAX_TEXT_BYTES: usize = 256;
    /// Highest number of attempts with a span of their own. Further attempts are sent with the span of the call.
    pub const MAX_ATTEMPTS: usize = 8;

    /// Returns the memory of the call, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let texts = [&self.trace_state, &self.method, &self.path, &self.authority, &self.target];
        let more = [&self.route, &self.client_id].into_iter().flatten();
        let text_bytes: usize = texts.into_iter().chain(more).map(String::capacity).sum();
        let attempts = self.attempts.iter().map(|attempt| {
            let texts = [&attempt.server_id, &attempt.reason].into_iter().flatten();
            size_of::<FinishedAttempt>() + texts.map(String::capacity).sum::<usize>()
        });
        size_of::<Self>() + text_bytes + attempts.sum::<usize>()
    }
}

/// Returns a peer's text, printable and at most [`FinishedCall::MAX_TEXT_BYTES`] long.
pub(crate) fn text(bytes: &[u8]) -> String {
    let mut text = bytes.escape_ascii().to_string();
    text.truncate(FinishedCall::MAX_TEXT_BYTES);
    text
}
