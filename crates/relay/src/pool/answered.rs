//! Answered: streams of calls that have ended with the whole answer, although the server has not accepted the whole
//! request yet.
//!
//! A server may answer a call before it has read the whole request. The call then ends, but the rest of its request may
//! still wait for the server's flow-control window, or for the socket. The worker continues to send this rest as long
//! as the server accepts some bytes of it within a time limit. Otherwise, the worker resets the stream. An HTTP/1 stream
//! may have ended already, so that the rest is only in the output: the worker then closes the connection. While the
//! rest waits, the worker's memory budget counts it as memory of the connection.

use std::time::{Duration, Instant};

use leno_http2::{ErrorCode, StreamKey};

use crate::Relay;
use crate::call::NO_CALL;
use crate::limits::ms;
use crate::link::LinkId;
use crate::pool::hop::{Hop, Protocol};
use crate::pool::upstream::{Upstream, UpstreamId};

/// Time after which the relay resets the stream of an answered call if the server accepts no byte of the request's
/// rest. For opaque bytes, the limit `unread_timeout_ms` applies instead.
const FINISH_WITHIN: Duration = Duration::from_secs(10);
/// Maximum number of streams of answered calls that the relay keeps open on one connection, to send the rest of their
/// requests. Above this limit, the relay cancels the stream when the call ends.
const ANSWERED_MAX: usize = 16;
/// The limit [`ANSWERED_MAX`] for a tunnel. It is higher because a tunnel carries connections of many applications.
const ANSWERED_IN_TUNNEL_MAX: usize = 256;
/// Longest time for sending the rest of a request, even with progress, as a multiple of the longest time without
/// progress.
const FINISH_FACTOR: u32 = 10;
/// Time without progress after which the relay resets the stream of an answered call, if memory is short.
const FINISH_SOON: Duration = Duration::from_secs(1);

/// A stream on which the server has sent its whole answer, but has not accepted the whole request.
#[derive(Debug)]
pub(crate) struct Answered {
    stream: StreamKey,
    /// Number of waiting bytes at the time `since`.
    waiting_bytes: usize,
    /// When a sweep last found fewer waiting bytes than before. Before the first such sweep: when the call ended.
    since: Instant,
    /// When the call ended.
    ended: Instant,
}

impl Upstream {
    /// Returns the number of bytes of an answered call that wait for the server.
    fn waiting_bytes(&self, stream: StreamKey) -> usize {
        self.link.codec.queued_on(stream) + self.waiting_output()
    }

    /// Returns the number of bytes of answered calls in the output. Returns 0 for a shared connection, because most of
    /// its output belongs to other calls.
    fn waiting_output(&self) -> usize {
        if self.key.hop.is_shared() { 0 } else { self.link.codec.pending_output() }
    }

    /// Returns whether the request of an answered call has not been sent completely. Also checks the output, because an
    /// HTTP/1 stream ends as soon as the last bytes of its request are in the output.
    fn is_unfinished(&self, stream: StreamKey) -> bool {
        self.link.codec.is_open(stream) || self.waiting_output() > 0
    }

    /// Returns whether the waiting output is the rest of an HTTP/1 request whose call was cancelled, and the server's
    /// socket accepts no bytes. The caller then closes the connection. Otherwise, a server that does not read could
    /// keep the output in memory for an unlimited time.
    pub(crate) fn has_useless_rest(&self) -> bool {
        self.link.codec.must_close() && self.link.is_blocked() && self.answered.is_empty()
    }

    /// Returns whether the server has answered a request before all bytes of the request were sent.
    pub(crate) fn has_unfinished_requests(&self) -> bool {
        let is_open = |answered: &Answered| self.link.codec.is_open(answered.stream);
        (self.has_answered_output || !self.answered.is_empty()) && self.has_output()
            || self.answered.iter().any(is_open)
    }

    /// Returns whether output waits for the socket.
    pub(crate) fn has_output(&self) -> bool {
        self.link.codec.pending_output() > 0 || self.link.is_blocked()
    }

    /// Returns the content that waits on the streams of answered calls, in bytes.
    pub(crate) fn answered_bytes(&self) -> usize {
        let open = self.answered.iter().filter(|answered| self.link.codec.is_open(answered.stream));
        open.map(|answered| self.link.codec.queued_on(answered.stream)).sum()
    }
}

impl Relay {
    /// Keeps the stream of an ended call open for a limited time, if the server has not accepted the whole request.
    #[inline]
    pub(crate) fn finish_upstream(&mut self, id: UpstreamId, stream: StreamKey) {
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        if upstream.is_unfinished(stream) {
            self.finish_later(id, stream);
        } else {
            // The last frame of the request may still wait in the output because the socket is blocked.
            upstream.has_answered_output |= upstream.has_output();
        }
    }

    #[cold]
    fn finish_later(&mut self, id: UpstreamId, stream: StreamKey) {
        let (now, is_short_of_memory) = (self.now, self.is_short_of_memory());
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        let most = if upstream.key.hop == Hop::Tunnel { ANSWERED_IN_TUNNEL_MAX } else { ANSWERED_MAX };
        // Do not cancel an HTTP/1 stream or an opaque connection that has ended in both directions. Only output is
        // left, and the flush of this turn may send it.
        let codec = &upstream.link.codec;
        let is_ended = !codec.is_open(stream) || (codec.is_opaque() && codec.is_drained());
        let is_to_be_cancelled = is_short_of_memory && !is_ended;
        if is_to_be_cancelled || upstream.answered.len() >= most {
            return self.cancel_upstream(id, stream, None);
        }
        upstream.link.codec.set_token(stream, NO_CALL);
        let waiting_bytes = upstream.waiting_bytes(stream);
        upstream.answered.push(Answered { stream, waiting_bytes, since: now, ended: now });
        self.mark_dirty(LinkId::Endpoint(id));
    }

    /// Removes an answered call from the connection's list once its request has been sent completely. Resets the stream
    /// of an answered call that has made no progress for too long, or has taken too long in total. If this stream has
    /// ended already, closes the connection.
    pub(crate) fn sweep_answered(&mut self, id: UpstreamId) {
        let (now, unread_timeout) = (self.now, ms(self.limits.relay.unread_timeout_ms));
        let is_short_of_memory = self.is_short_of_memory();
        let Some(upstream) = self.pools.upstream_mut(id) else { return };
        upstream.has_answered_output &= upstream.has_output();
        if upstream.answered.is_empty() {
            return;
        }
        let is_opaque = matches!(upstream.key.hop, Hop::Tunnel | Hop::Plain(Protocol::Opaque));
        let limit = if is_short_of_memory {
            FINISH_SOON
        } else if is_opaque {
            unread_timeout
        } else {
            FINISH_WITHIN
        };
        let mut answered = std::mem::take(&mut upstream.answered);
        let (before, mut is_given_up) = (answered.len(), false);
        answered.retain_mut(|call| {
            let waiting_bytes = upstream.waiting_bytes(call.stream);
            if waiting_bytes < call.waiting_bytes {
                (call.waiting_bytes, call.since) = (waiting_bytes, now);
            }
            let is_late = now - call.since >= limit || now - call.ended >= limit * FINISH_FACTOR;
            let is_unfinished = upstream.is_unfinished(call.stream);
            if is_late && is_unfinished {
                is_given_up |= !upstream.link.codec.is_open(call.stream);
                upstream.link.codec.reset(call.stream, ErrorCode::CANCEL);
            }
            is_unfinished && !is_late
        });
        upstream.has_answered_output |= answered.len() < before && upstream.has_output();
        upstream.answered = answered;
        if is_given_up {
            return self.close_upstream(id, "it did not read the rest of a request that it had answered");
        }
        self.mark_dirty(LinkId::Endpoint(id));
    }
}

#[cfg(test)]
#[path = "answered_tests.rs"]
mod tests;
