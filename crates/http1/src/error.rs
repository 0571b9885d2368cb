//! Protocol errors of the peer.

/// The peer violated the protocol. Nothing more is read: flush the output and close the connection. A server has queued
/// an error response, unless another response has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why} ({status})")]
pub struct ConnectionError {
    /// HTTP status for this error. If we are the server, we answer the client with this status. If we are the client,
    /// the status is always 502; the caller can answer its own client with it.
    pub status: u16,
    /// The violation, for logs and metrics.
    pub why: &'static str,
}

impl ConnectionError {
    pub(crate) fn new(status: u16, why: &'static str) -> Self {
        Self { status, why }
    }

    /// A violation with status 400 (RFC 9110 section 15.5.1).
    pub(crate) fn bad(why: &'static str) -> Self {
        Self::new(400, why)
    }
}
