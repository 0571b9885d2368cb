//! Dribble: request content that arrives a few bytes at a time.
//!
//! A DATA frame of a few bytes costs a server far more than these bytes, and a server closes the connection of a peer
//! that sends many such frames. A client may send such frames now and then. If an account sends many such frames, the
//! proxy gathers the bytes in the queues of the streams. The proxy sends the bytes of a stream when there are enough
//! bytes for a frame, when the request ends, or when the relay's periodic sweep comes to the stream.

use leno_http2::StreamKey;

use crate::Relay;
use crate::call::CallId;
use crate::call::attempt::AttemptId;
use crate::link::LinkId;
use crate::pool::upstream::UpstreamId;

/// Maximum number of streams of one connection whose collected content is sent in one sweep, that is, in a tenth of a
/// second.
const MAX_RELEASED_PER_SWEEP: usize = 16;

impl Relay {
    /// If the account sends too many small pieces of content, queues this piece on its stream. Otherwise returns
    /// `false`: the caller must send the piece.
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

    /// Sends some of the collected content.
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
