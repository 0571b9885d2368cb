//! Tunnel: a limit on buffered bytes that all streams of one client's tunnel share.
//!
//! Each stream carries a connection of another application. That application may stop reading, with no time limit.
//! Meanwhile, the worker buffers the bytes that our own application sends. If the tunnel has few streams, each stream
//! may buffer much. If the tunnel has many streams, each stream may buffer an equal share of the limit. Above the
//! limit, the worker does not read our application's sockets.

use crate::Relay;
use crate::downstream::client::ClientId;
use crate::downstream::share::equal_share;
use crate::link::LinkId;
use crate::link::opaque::MAX_UNRELEASED_BYTES;
use crate::pool::upstream::UpstreamId;

/// Number of streams up to which each stream of a tunnel may buffer [`MAX_UNRELEASED_BYTES`].
const FEW_STREAMS: usize = 16;
/// Maximum number of bytes that each stream may buffer if the tunnel has more than [`FEW_STREAMS`] streams.
const MANY_STREAMS_BYTES: usize = 64 << 10;

/// Returns how many bytes each stream of a tunnel may buffer. `max_bytes` is the limit of the whole tunnel.
fn share_bytes(max_bytes: usize, streams: usize) -> usize {
    let most = if streams <= FEW_STREAMS { MAX_UNRELEASED_BYTES } else { MANY_STREAMS_BYTES };
    equal_share(max_bytes, streams).min(most)
}

impl Relay {
    /// Returns whether the worker may read a connection to the application. Returns `false` if the connection serves a
    /// stream of a tunnel, and the stream or the tunnel has reached its limit.
    pub(crate) fn has_room_in_tunnel(&mut self, id: UpstreamId) -> bool {
        let max_bytes = self.limits.relay.max_tunnel_bytes_per_client as usize;
        let Some(upstream) = self.pools.upstream_mut(id) else { return false };
        let Some(opaque) = upstream.link.codec.opaque() else { return true };
        let (stream, token) = opaque.stream();
        let call = self.calls.on(id, stream, token).and_then(|id| self.calls.get(id.call));
        let client = self.downstreams.get_mut(call.and_then(|call| call.client));
        let Some(client) = client.filter(|client| client.is_tunnel()) else { return true };
        opaque.limit_unreleased(share_bytes(max_bytes, client.link.codec.stream_count()));
        if client.link.codec.queued_bytes() >= max_bytes {
            opaque.hold(true);
            client.held_back.push(id);
        }
        let is_paused = opaque.is_paused();
        upstream.link.paused |= is_paused;
        !is_paused
    }

    /// Continues to read connections to the application that were paused because their tunnel had reached its limit.
    /// Does nothing until the tunnel buffers at most half of its limit.
    pub(crate) fn read_on_for_tunnel(&mut self, client: ClientId) {
        let max_bytes = self.limits.relay.max_tunnel_bytes_per_client as usize;
        let Some(client) = self.downstreams.get_mut(client).filter(|client| !client.held_back.is_empty()) else {
            return;
        };
        if client.link.codec.queued_bytes() > max_bytes / 2 {
            return;
        }
        for id in std::mem::take(&mut client.held_back) {
            let Some(upstream) = self.pools.upstream_mut(id) else { continue };
            if let Some(opaque) = upstream.link.codec.opaque() {
                opaque.hold(false);
            }
            self.read_on(LinkId::Endpoint(id));
        }
    }
}

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
