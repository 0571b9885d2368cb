//! Answered: streams of calls that have ended with the whole answer, although the server has not accepted the whole
//! request yet.
//!
//! A server may answer a call before it has read the whole request. The call then ends, but the rest of its request may
//! still wait for the server's flow-control window, or for the socket. The worker sends this rest if the server accepts
//! it within a limited time, and resets the stream otherwise. Until then, the worker's budget counts the rest as memory
//! of the connection.

use std::time::{Duration, Instant};

use leno_http2::{ErrorCode, StreamKey};

use crate::Relay;
use crate::call::NO_CALL;
use crate::link::LinkId;
use crate::pool::upstream::{Upstream, UpstreamId};

/// Time within which the server must accept the rest of a request. After this time, the stream is reset.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of answered calls on one connection whose requests the server has not accepted. The streams of further
/// calls are cancelled.
const ANSWERED_MAX: usize = 16;

/// A stream on which the server has answered, and has not accepted the whole request.
#[derive(Debug)]
pub(crate) struct Answered {
    stream: StreamKey,
    since: Instant,
}

impl Upstream {
    /// Returns whether the server has answered a request before it got all of it.
    pub(crate) fn has_unfinished_requests(&self) -> bool {
        let codec = &self.link.codec;
        let has_output = codec.pending_output() > 0 || self.link.is_blocked();
        !self.answered.is_empty() && (has_output || self.answered.iter().any(|answered| codec.is_open(answered.stream)))
    }

    /// Returns the content that waits on the streams of answered calls, in bytes.
    pub(crate) fn answered_bytes(&self) -> usize {
        self.answered.iter().map(|answered| self.link.codec.queued_on(answered.stream)).sum()
    }
}

impl Relay {
    /// Keeps the stream of an ended call open for a limited time, if the server has not accepted the whole request.
    #[inline]
    pub(crate) fn finish_upstream(&mut self, id: UpstreamId, stream: StreamKey) {
        if self.pools.upstream(id).is_some_and(|upstream| upstream.link.codec.is_open(stream)) {
            self.finish_open(id, stream);
        }
    }

    #[cold]
    fn finish_open(&mut self, id: UpstreamId, stream: StreamKey) {
        let (now, is_short_of_memory) = (self.now, self.is_short_of_memory());
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        if is_short_of_memory || upstream.answered.len() >= ANSWERED_MAX {
            return self.cancel_upstream(id, stream, None);
        }
        upstream.link.codec.set_token(stream, NO_CALL);
        upstream.answered.push(Answered { stream, since: now });
        self.mark_dirty(LinkId::Endpoint(id));
    }

    /// Forgets the answered calls of a connection whose requests are complete, and resets those that have taken too
    /// long.
    pub(crate) fn sweep_answered(&mut self, id: UpstreamId) {
        let now = self.now;
        let Some(upstream) = self.pools.upstream_mut(id).filter(|upstream| !upstream.answered.is_empty()) else {
            return;
        };
        let has_unfinished = upstream.has_unfinished_requests();
        let Upstream { answered, link, .. } = upstream;
        answered.retain(|answered| {
            let is_late = now - answered.since >= FINISH_WITHIN;
            if is_late && link.codec.is_open(answered.stream) {
                link.codec.reset(answered.stream, ErrorCode::CANCEL);
            }
            has_unfinished && !is_late
        });
        self.mark_dirty(LinkId::Endpoint(id));
    }
}
