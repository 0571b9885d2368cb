//! What goes wrong on a connection through the peer's fault.

/// The peer broke the connection's rules: nothing more is read, the output must be flushed and the connection closed.
/// As a server, the answer that says so is queued already, unless another one has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{why} ({status})")]
pub struct ConnectionError {
    /// The status code that says it: as a server the one that we answer with, as a client 502, for whoever waits.
    pub status: u16,
    /// What the peer did, for logs and metrics.
    pub why: &'static str,
}

impl ConnectionError {
    pub(crate) fn new(status: u16, why: &'static str) -> Self {
        Self { status, why }
    }

    /// 400 (RFC 9110 section 15.5.1).
    pub(crate) fn bad(why: &'static str) -> Self {
        Self::new(400, why)
    }
}
