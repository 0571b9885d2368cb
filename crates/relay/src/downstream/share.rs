//! Share: the bytes that may wait in the proxy for one client are limited. The responses to a client that is only slower
//! than the servers together get about half of the limit. The rest is the room that these responses keep if the client
//! leaves other streams unread. Each response always gets a minimum, so very many responses can exceed the half.
//!
//! - A response of an HTTP/1 server may wait with an equal share of the half, and with less while memory is short.
//! - An HTTP/2 server may send its whole window at any time, so windows count even if nothing waits. While the windows of
//!   all responses fit into the half, each window may grow into the rest of the half. So many quiet streams do not slow a
//!   download down. Otherwise, windows above the equal share shrink to the share when their responses move on. The
//!   windows of quiet responses keep their size. From three quarters of the limit on, no window grows.

use crate::Relay;
use crate::call::CallId;
use crate::downstream::client::Client;
use crate::limits::{Limits, RelayLimits};
use crate::pool::upstream::UpstreamId;

/// Number of bytes that each stream may always buffer, however many streams the client has.
const MIN_STREAM_BYTES: usize = 4 << 10;

/// Maximum number of bytes of one response of an HTTP/1 server that may wait while memory is short. The kernel's receive
/// buffers of the paused connections then take most of the memory.
const MAX_BYTES_WHILE_SHORT: usize = 16 << 10;

/// Returns the share of each of a client's streams. `max_bytes` is the limit of all streams together.
pub(crate) fn equal_share(max_bytes: usize, streams: usize) -> usize {
    (max_bytes / 2 / streams.max(1)).max(MIN_STREAM_BYTES)
}

impl Client {
    /// Returns the equal share of one response: how many of its bytes may wait in the proxy for this client.
    fn response_share(&self, relay: &RelayLimits) -> usize {
        equal_share(relay.max_buffered_bytes_per_client as usize, self.link.codec.stream_count())
    }

    /// Returns the size up to which the receive window of one response, `window_bytes` now, may grow, or down to which it
    /// shrinks. The engine keeps at least the initial size.
    pub(crate) fn response_window(&self, limits: &Limits, window_bytes: u32) -> u32 {
        let share = self.response_share(&limits.relay);
        let initial_bytes = self.link.codec.stream_count() * limits.endpoint.initial_window_bytes as usize;
        // The rest of a complete response has no window any more, but may still wait for the client.
        let used_bytes = (self.grown_bytes + initial_bytes).max(self.link.codec.queued_bytes());
        let half = limits.relay.max_buffered_bytes_per_client as usize / 2;
        let most = match half.checked_sub(used_bytes) {
            Some(spare) => share.max(window_bytes as usize + spare),
            // The windows of quiet responses do not shrink. They must not use up the room for unread streams.
            None if used_bytes >= half + half / 2 => share.min(window_bytes as usize),
            None => share,
        };
        u32::try_from(most).unwrap_or(u32::MAX)
    }
}

impl Relay {
    /// Counts that the receive window of a call's response has grown by `growth` bytes, or has shrunk if `growth` is
    /// negative.
    #[cold]
    pub(crate) fn count_window_growth(&mut self, id: CallId, growth: i64) {
        let Some(call) = self.calls.get_mut(id) else { return };
        let before = call.grown_bytes;
        let after = (i64::from(before) + growth).max(0);
        call.grown_bytes = u32::try_from(after).unwrap_or(u32::MAX);
        if let Some(client) = self.downstreams.get_mut(call.client) {
            client.grown_bytes = (client.grown_bytes + call.grown_bytes as usize).saturating_sub(before as usize);
        }
    }

    /// Returns whether the worker may read a connection to an endpoint. If the endpoint speaks HTTP/1, limits how much of
    /// its response may wait for the client, and returns `false` while that much waits.
    pub(crate) fn has_room_in_share(&mut self, id: UpstreamId) -> bool {
        let most_bytes = if self.is_short_of_memory() { MAX_BYTES_WHILE_SHORT } else { usize::MAX };
        let Some(upstream) = self.pools.upstream_mut(id) else { return false };
        let Some(http1) = upstream.link.codec.http1() else { return true };
        let Some((stream, token)) = http1.open_exchange() else { return true };
        let call = self.calls.on(id, stream, token).and_then(|id| self.calls.get(id.call));
        // The response to a mirrored copy waits for no client.
        let client = self.downstreams.get(call.and_then(|call| call.client));
        let share = client.map_or(usize::MAX, |client| client.response_share(&self.limits.relay));
        http1.limit_content(share.min(most_bytes));
        let is_paused = http1.is_paused();
        upstream.link.paused |= is_paused;
        !is_paused
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
