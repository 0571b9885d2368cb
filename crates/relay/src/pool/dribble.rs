//! Dribble: request content that arrives a few bytes at a time.
//!
//! A DATA frame of a few bytes costs a server far more work than its bytes are worth. So servers close a connection
//! that carries many small frames. A client may send a small frame now and then. The proxy gathers the bytes of small
//! frames in the queues of the streams if an account sends many small frames, if a connection to a server carries many
//! small frames, or if the frames belong to a mirrored copy. The proxy sends the gathered bytes of a stream in these
//! cases:
//!
//! - There are enough bytes for a frame.
//! - The request ends.
//! - The relay's periodic sweep reaches the stream.

use leno_http2::StreamKey;

use crate::Relay;
use crate::call::CallId;
use crate::call::attempt::AttemptId;
use crate::link::LinkId;
use crate::pool::upstream::UpstreamId;

/// Maximum number of streams of one connection whose gathered bytes the relay sends in one sweep, that is, in a tenth
/// of a second.
const MAX_RELEASED_PER_SWEEP: usize = 16;
/// Maximum number of short pieces that a connection sends at once in the time of one sweep, all accounts together. With
/// [`MAX_RELEASED_PER_SWEEP`], a connection has at most 9,600 small frames in 10 s, and another Leno proxy accepts
/// 10,000 (`max_dribbled_frames`).
const MAX_SENT_AT_ONCE_PER_SWEEP: u32 = 80;

impl Relay {
    /// Queues a small piece of content on its stream, if the client's account or the connection sends too many such
    /// pieces, or if the call is a mirrored copy. Otherwise returns `false`, and the caller must send the piece.
    ///
    /// A piece counts against the account only if it follows another small piece (`is_repeated`): the end of a large
    /// message may be small. Servers count all small frames, so all count against the connection.
    #[cold]
    pub(crate) fn collect(
        &mut self,
        id: CallId,
        (upstream_id, stream): (UpstreamId, StreamKey),
        bytes: &[u8],
        is_repeated: bool,
    ) -> bool {
        let Some(client) = self.calls.get(id).map(|call| call.client) else { return false };
        // A mirrored copy has no client, so no account limits it. No client waits for its answer.
        let is_too_much = client.is_none() || is_repeated && self.downstreams.dribbled(client, &self.limits.relay);
        let window = self.downstreams.accounts().sweeps();
        let Some(upstream) = self.pools.upstream_mut(upstream_id) else { return false };
        let Some(http2) = upstream.link.codec.http2() else { return false };
        if !is_too_much && upstream.dribbles.add(window) <= MAX_SENT_AT_ONCE_PER_SWEEP {
            return false;
        }
        http2.collect_data(stream, bytes);
        if !std::mem::replace(&mut upstream.collects, true) {
            self.pools.list_collecting(upstream_id);
        }
        self.mark_dirty(LinkId::Endpoint(upstream_id));
        true
    }

    /// Sends a few bytes of content that arrived before their call was sent, or queues them ([`Self::collect`]).
    #[cold]
    pub(crate) fn send_short_body(&mut self, id: AttemptId, upstream_id: UpstreamId, stream: StreamKey, bytes: &[u8]) {
        if self.collect(id.call, (upstream_id, stream), bytes, true) {
            return;
        }
        if let Some(upstream) = self.pools.upstream_mut(upstream_id) {
            let taken = upstream.link.codec.send_data(stream, bytes, false);
            self.request_bytes_sent(id, taken);
        }
    }

    /// Sends the gathered bytes of up to [`MAX_RELEASED_PER_SWEEP`] streams on each connection.
    pub(crate) fn release_collected(&mut self) {
        for id in self.pools.take_collecting() {
            let Some(upstream) = self.pools.upstream_mut(id).filter(|upstream| upstream.collects) else { continue };
            let http2 = upstream.link.codec.http2();
            upstream.collects = http2.is_some_and(|http2| http2.release_collected(MAX_RELEASED_PER_SWEEP));
            if upstream.collects {
                self.pools.list_collecting(id);
            }
            self.mark_dirty(LinkId::Endpoint(id));
        }
    }
}

#[cfg(test)]
#[path = "dribble_tests.rs"]
mod tests;
