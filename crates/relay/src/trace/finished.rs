//! A traced call that has ended, with everything that its spans show.
//!
//! A worker allocates the memory of a finished call, and the exporter frees the memory on another thread. This is the
//! slowest case for an allocator. So a finished call has only one allocation for all its texts. If the call has only
//! one attempt, this attempt needs no allocation of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leno_model::balance::PickReason;
use leno_model::spiffe::SpiffeId;
use smallvec::SmallVec;

use super::texts::Texts;
use super::{SpanId, TraceId};
use crate::metrics::Direction;

/// A traced call that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedCall {
    pub trace: TraceId,
    pub span: SpanId,
    /// The caller's span; `None` if the proxy began the trace.
    pub parent: Option<SpanId>,
    pub is_sampled: bool,
    pub direction: Direction,
    pub started: SystemTime,
    pub duration: Duration,
    pub is_grpc: bool,
    pub texts: Texts,
    /// The client's address. If the client's certificate proves its workload, `client_id` is this workload.
    pub client: SocketAddr,
    pub client_id: Option<Arc<SpiffeId>>,
    pub http_status: Option<u16>,
    pub grpc_status: Option<u8>,
    /// The value of `leno-proxy-error`, if the proxy itself ended the call with an error or an endpoint's response broke
    /// off.
    pub proxy_error: Option<&'static str>,
    pub was_cancelled: bool,
    pub has_failed: bool,
    pub retries: u8,
    pub hedges: u8,
    /// The attempts in the order in which they began, at most [`FinishedCall::MAX_ATTEMPTS`].
    pub attempts: SmallVec<[FinishedAttempt; 1]>,
}

/// An attempt of a traced call. All times are measured from the start of the call.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedAttempt {
    pub span: SpanId,
    /// Number of the attempt, from 1.
    pub number: u32,
    pub endpoint: Option<SocketAddr>,
    /// The identity that the endpoint must prove.
    pub server_id: Option<Arc<SpiffeId>>,
    pub is_hedge: bool,
    /// The balancer's reason for the choice of the endpoint.
    pub reason: Option<PickReason>,
    pub began: Duration,
    /// When the attempt was sent; `None` if it was not sent.
    pub sent: Option<Duration>,
    /// When the response headers arrived.
    pub answered: Option<Duration>,
    pub ended: Duration,
    pub http_status: Option<u16>,
    pub grpc_status: Option<u8>,
    /// The reason why the attempt ended without an answer.
    pub error: Option<&'static str>,
    pub has_failed: bool,
}

impl FinishedCall {
    /// Maximum number of attempts with a span of their own. Further attempts are sent with the span of the call.
    pub const MAX_ATTEMPTS: usize = 8;

    /// Returns the memory of the call, in bytes.
    pub fn memory_bytes(&self) -> usize {
        let attempts =
            if self.attempts.spilled() { self.attempts.capacity() * size_of::<FinishedAttempt>() } else { 0 };
        size_of::<Self>() + self.texts.memory_bytes() + attempts
    }
}
