//! Tunnel: what the streams of one client's tunnel share.
//!
//! Each stream is a connection of another application, which may leave it unread for as long as it likes. What the own
//! application sends meanwhile is held here, so the streams of one tunnel have a common bound: while they are few each may
//! hold much, while they are many each may hold its share, and beyond the bound the application's sockets are left unread.

use super::Worker;
use super::link::LinkId;
use super::opaque::MAX_UNRELEASED_BYTES;

/// Streams of a tunnel that may hold [`MAX_UNRELEASED_BYTES`] each.
const FEW_STREAMS: usize = 16;
/// What each stream of more than these may hold at most.
const MANY_STREAMS_BYTES: usize = 64 << 10;
/// What each of any number of streams may hold.
const MIN_STREAM_BYTES: usize = 4 << 10;

/// What one of so many streams may hold of a tunnel's bound.
fn share_bytes(max_bytes: usize, streams: usize) -> usize {
    let most = if streams <= FEW_STREAMS { MAX_UNRELEASED_BYTES } else { MANY_STREAMS_BYTES };
    (max_bytes / 2 / streams.max(1)).clamp(MIN_STREAM_BYTES, most)
}

impl Worker {
    /// Whether a connection to the application may be read. If it serves a stream of a tunnel that holds enough, it is left
    /// unread.
    pub(super) fn has_room_in_tunnel(&mut self, index: usize) -> bool {
        let max_bytes = self.limits.relay.max_tunnel_bytes_per_client as usize;
        let Some(upstream) = self.upstreams.get_mut(index) else { return false };
        let Some(opaque) = upstream.link.codec.opaque() else { return true };
        let Some(call) = self.calls.get(opaque.token() as usize) else { return true };
        let Some(client) = self.clients.get_mut(call.client).filter(|client| client.is_tunnel()) else { return true };
        opaque.limit_unreleased(share_bytes(max_bytes, client.link.codec.stream_count()));
        if client.link.codec.queued_bytes() >= max_bytes {
            opaque.hold(true);
            client.held_back.push(index);
        }
        let is_paused = opaque.is_paused();
        upstream.link.paused |= is_paused;
        !is_paused
    }

    /// Reads on from the connections that were left unread for a tunnel, once half of its bound is free.
    pub(super) fn read_on_for_tunnel(&mut self, client: usize) {
        let max_bytes = self.limits.relay.max_tunnel_bytes_per_client as usize;
        let Some(client) = self.clients.get_mut(client).filter(|client| !client.held_back.is_empty()) else { return };
        if client.link.codec.queued_bytes() > max_bytes / 2 {
            return;
        }
        for index in std::mem::take(&mut client.held_back) {
            let Some(upstream) = self.upstreams.get_mut(index) else { continue };
            if let Some(opaque) = upstream.link.codec.opaque() {
                opaque.hold(false);
            }
            self.mark_unfinished(LinkId::endpoint(index));
        }
    }
}

#[cfg(test)]
#[path = "tunnel_tests.rs"]
mod tests;
