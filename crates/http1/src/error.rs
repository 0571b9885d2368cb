//! Protocol errors of the peer.

/// The peer violated the protocol. Nothing more is read: flush the output and close the connection. A server has queued
/// an error response, unless another response has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why} ({status})")]
pub struct ConnectionError {
    /// The matching status code. A server answers the client of this connection with this status. For a client, the
    /// status is always 502, and the owner can answer its own caller with this status.
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
