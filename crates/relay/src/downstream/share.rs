//! Share: the bytes that may wait in the proxy for one client are limited. Each stream of the client has an equal share of
//! half of the limit. So many streams at once do not reach the limit if the client is only slower than the servers, and
//! streams that the client does not read leave room for the others.

use crate::downstream::client::Client;
use crate::limits::RelayLimits;

/// Number of bytes that each stream may always buffer, however many streams the client has.
const MIN_STREAM_BYTES: usize = 4 << 10;

/// Returns the share of each of a client's streams. `max_bytes` is the limit of all streams together.
pub(crate) fn equal_share(max_bytes: usize, streams: usize) -> usize {
    (max_bytes / 2 / streams.max(1)).max(MIN_STREAM_BYTES)
}

impl Client {
    /// Returns how many bytes of one response may wait in the proxy for this client.
    pub(crate) fn response_share(&self, relay: &RelayLimits) -> usize {
        equal_share(relay.max_buffered_bytes_per_client as usize, self.link.codec.stream_count())
    }
}

#[cfg(test)]
#[path = "share_tests.rs"]
mod tests;
