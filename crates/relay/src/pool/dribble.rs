//! Dribble: request content that arrives a few bytes at a time.
//!
//! A DATA frame of a few bytes costs a server far more work than its bytes are worth. So servers close a connection
//! that carries many small frames. A client may send a small frame now and then. If an account sends many small frames,
//! the proxy gathers their bytes in the queues of the streams. The proxy sends the gathered bytes of a stream in these
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

impl Relay {
    /// Queues a small piece of content on its stream, if the client's account sends too many such pieces. Otherwise
    /// returns `false`, and the caller must send the piece.
    #[cold]
    pub(crate) fn collect(&mut self, id: CallId, upstream_id: UpstreamId, stream: StreamKey, bytes: &[u8]) -> bool {
        let Some(client) = self.calls.get(id).map(|call| call.client) else { return false };
        if !self.downstreams.dribbled(client, &self.limits.relay) {
            return false;
        }
        let Some(upstream) = self.pools.upstream_mut(upstream_id) else { return false };
        let Some(http2) = upstream.link.codec.http2() else { return false };
        http2.collect_data(stream, bytes);
        if !std::mem::replace(&mut upstream.collects, true) {
            self.pools.list_collecting(upstream_id);
        }
        self.mark_dirty(LinkId::Endpoint(upstream_id));
        true
    }

    /// Sends a few bytes of content that arrived before their call was sent. If the account sends too many such pieces,
    /// queues the bytes instead ([`Self::collect`]).
    #[cold]
    pub(crate) fn send_short_body(&mut self, id: AttemptId, upstream_id: UpstreamId, stream: StreamKey, bytes: &[u8]) {
        if self.collect(id.call, upstream_id, stream, bytes) {
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
