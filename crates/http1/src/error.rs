//! Protocol errors of the peer.

/// The peer violated the protocol. Nothing more is read: flush the output and close the connection. A server has queued
/// an error response, unless another response has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why} ({status})")]
pub struct ConnectionError {
    /// HTTP status for this error. A server answers the client of the connection with this status. On a connection on
    /// which we are the client, the status is always 502, and the connection's owner can answer its own caller with
    /// this status.
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
