//! Dribble: content that comes a few bytes at a time.
//!
//! A server pays far more for a DATA frame of a few bytes than for these bytes, and closes the connection of a peer that sends
//! many. A client may send them now and then. From an account that sends a lot of them, they are collected in their streams'
//! queues, and leave when there is enough for a frame, when the request ends, or when the stream's turn comes in a sweep.

use leno_http2::StreamKey;

use super::Worker;
use super::link::LinkId;

/// Streams of one connection whose collected content leaves in one sweep, a tenth of a second.
const MAX_RELEASED_PER_SWEEP: usize = 16;

impl Worker {
    /// Collects content of a few bytes if its account sends too much of that; `false` leaves it to the caller.
    #[cold]
    pub(super) fn collect(&mut self, slot: u32, index: usize, stream: StreamKey, bytes: &[u8]) -> bool {
        let client = self.calls.get(slot as usize).and_then(|call| self.clients.get(call.client));
        let Some(account) = client.map(|client| client.account) else { return false };
        if !self.accounts.dribbled(account, &self.limits.relay) {
            return false;
        }
        let Some(upstream) = self.upstreams.get_mut(index) else { return false };
        let Some(http2) = upstream.link.codec.http2() else { return false };
        http2.collect_data(stream, bytes);
        if !std::mem::replace(&mut upstream.collects, true) {
            self.collecting.push(index);
        }
        self.mark_dirty(LinkId::endpoint(index));
        true
    }

    /// Sends the few bytes that have come before a call was sent, unless they are collected.
    #[cold]
    pub(super) fn send_short_body(&mut self, slot: u32, index: usize, stream: StreamKey, bytes: &[u8]) {
        if self.collect(slot, index, stream, bytes) {
            return;
        }
        if let Some(upstream) = self.upstreams.get_mut(index) {
            let taken = upstream.link.codec.send_data(stream, bytes, false);
            self.request_bytes_sent(slot, taken);
        }
    }

    /// Lets some of the collected content go.
    pub(super) fn release_collected(&mut self) {
        for index in std::mem::take(&mut self.collecting) {
            let Some(upstream) = self.upstreams.get_mut(index).filter(|upstream| upstream.collects) else { continue };
            let http2 = upstream.link.codec.http2();
            upstream.collects = http2.is_some_and(|http2| http2.release_collected(MAX_RELEASED_PER_SWEEP));
            if upstream.collects {
                self.collecting.push(index);
            }
            self.mark_dirty(LinkId::endpoint(index));
        }
    }
}
