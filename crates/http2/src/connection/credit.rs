//! Flow-control credit for the peer: WINDOW_UPDATE after content was forwarded (RFC 9113 section 6.9).

use crate::connection::Connection;
use crate::frame;
use crate::limits::Limits;
use crate::settings::DEFAULT_WINDOW_BYTES;
use crate::stream::{Half, StreamKey};

/// A connection's flow-control windows as one side counts them (RFC 9113 section 5.2).
///
/// While no bytes are in transit, `send_bytes` of one side equals `receive_bytes` of the other side. If the caller has
/// released all content, the sum of `receive_bytes` and `owed_bytes` is the whole receive window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Number of content bytes that we may still send, over all streams.
    pub send_bytes: i64,
    /// Number of content bytes that the peer may still send, over all streams.
    pub receive_bytes: i64,
    /// Credit that we owe the peer, in bytes: we have not yet sent a WINDOW_UPDATE for it.
    pub owed_bytes: u32,
    /// The whole receive window, which we announced at the start.
    pub whole_bytes: u32,
}

impl Connection {
    /// Returns the connection's windows. Tests compare the windows of both sides, because an error of a few bytes would
    /// stop a connection only after hours.
    pub fn windows(&self) -> Windows {
        Windows {
            send_bytes: self.send_window,
            receive_bytes: self.receive_window,
            owed_bytes: self.connection_credit,
            whole_bytes: self.limits.connection_window_bytes.max(DEFAULT_WINDOW_BYTES),
        }
    }

    /// Returns credit for `bytes` of received DATA to the peer. `bytes` excludes padding, because the engine itself
    /// returns the credit for padding. The engine merges small credits: it sends a WINDOW_UPDATE once it owes half of
    /// the receive window (section 6.9).
    pub fn release(&mut self, key: StreamKey, bytes: usize) {
        self.release_within(key, bytes, usize::MAX);
    }

    /// Like [`Connection::release`], but the stream's receive window does not grow above `window_bytes`. A window that is
    /// larger already keeps its size.
    pub fn release_within(&mut self, key: StreamKey, bytes: usize, window_bytes: usize) {
        self.streams.count_released(key, bytes);
        self.announce_credit_within(key, u32::try_from(window_bytes).unwrap_or(u32::MAX));
    }

    pub(super) fn release_padding(&mut self, key: StreamKey, bytes: u32) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.credit = stream.credit.saturating_add(bytes);
            self.announce_credit(key);
        }
    }

    pub(super) fn announce_credit(&mut self, key: StreamKey) {
        self.announce_credit_within(key, u32::MAX);
    }

    fn announce_credit_within(&mut self, key: StreamKey, window_bytes: u32) {
        let Limits { max_stream_window_bytes, max_tunnel_window_bytes, max_grown_window_bytes, .. } = *self.limits;
        let most_grown = if self.out.saves_memory() { 0 } else { max_grown_window_bytes };
        let room = most_grown.saturating_sub(self.streams.grown_bytes());
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.receive == Half::Closed || stream.credit < stream.receive_target / 2 || stream.credit == 0 {
            return;
        }
        let most = if stream.connect { max_tunnel_window_bytes } else { max_stream_window_bytes };
        let most = most.min(window_bytes);
        // Grow the window only if the caller has released all content. If the caller still holds content, the caller is
        // the bottleneck, and a larger window would not help.
        let growth = if stream.unreleased == 0 {
            stream.receive_target.min(most.saturating_sub(stream.receive_target)).min(room)
        } else {
            0
        };
        let increment = stream.credit + growth;
        stream.receive_target += growth;
        stream.credit = 0;
        stream.receive_window += i64::from(increment);
        self.streams.count_growth(key, growth);
        frame::write_window_update(&mut self.out.bytes, key.id, increment);
    }

    /// Sets whether memory is short. While memory is short, receive windows neither grow nor shrink, the connection
    /// keeps no memory for an empty output buffer, and HPACK remembers no blocks.
    pub fn save_memory(&mut self, on: bool) {
        self.out.save_memory(on);
        self.decoder.save_memory(on);
        self.encoder.save_memory(on);
    }

    /// Returns credit for the connection's window as soon as half of the window is owed, even if the caller has not
    /// released the content. So only each stream's own window limits the peer, and a stalled stream never blocks other
    /// streams. The credit waits only while the caller holds more than `max_held_bytes` of content, all streams
    /// together.
    pub(super) fn credit_connection(&mut self, bytes: u32) {
        self.connection_credit += bytes;
        self.announce_connection_credit();
    }

    pub(super) fn announce_connection_credit(&mut self) {
        if self.connection_credit >= self.limits.connection_window_bytes / 2
            && self.streams.held_bytes() <= u64::from(self.limits.max_held_bytes)
        {
            self.receive_window += i64::from(self.connection_credit);
            frame::write_window_update(&mut self.out.bytes, 0, self.connection_credit);
            self.connection_credit = 0;
        }
    }
}
