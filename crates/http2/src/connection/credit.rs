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
        self.release_within(key, bytes, |_| u32::MAX);
    }

    /// Like [`Connection::release`], but limits the stream's receive window. `most_bytes` returns the limit from the
    /// present size of the window, and is called only if the window may change now. A window above the limit shrinks,
    /// but not below its initial size. Returns the number of bytes by which the window has grown; negative if the window
    /// has shrunk.
    pub fn release_within(&mut self, key: StreamKey, bytes: usize, most_bytes: impl FnOnce(u32) -> u32) -> i64 {
        self.streams.count_released(key, bytes);
        self.announce_credit_within(key, most_bytes)
    }

    pub(super) fn release_padding(&mut self, key: StreamKey, bytes: u32) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.credit = stream.credit.saturating_add(bytes);
            self.announce_credit(key);
        }
    }

    /// Returns the credit that we owe for a stream, if it is half of the window. The window keeps its size: only the
    /// caller knows how large it may be.
    pub(super) fn announce_credit(&mut self, key: StreamKey) {
        self.announce_credit_within(key, |window_bytes| window_bytes);
    }

    fn announce_credit_within(&mut self, key: StreamKey, most_bytes: impl FnOnce(u32) -> u32) -> i64 {
        let Limits { max_stream_window_bytes, max_tunnel_window_bytes, max_grown_window_bytes, .. } = *self.limits;
        let most_grown = if self.out.saves_memory() { 0 } else { max_grown_window_bytes };
        let room = most_grown.saturating_sub(self.streams.grown_bytes());
        let Some(stream) = self.streams.get_mut(key) else { return 0 };
        if stream.receive == Half::Closed || stream.credit < stream.receive_target / 2 || stream.credit == 0 {
            return 0;
        }
        let most = if stream.connect { max_tunnel_window_bytes } else { max_stream_window_bytes };
        let most = most.min(most_bytes(stream.receive_target));
        // Grow the window only if the caller has released all content. If the caller still holds content, the caller is
        // the bottleneck, and a larger window would not help.
        let growth = if stream.unreleased == 0 {
            stream.receive_target.min(most.saturating_sub(stream.receive_target)).min(room)
        } else {
            0
        };
        // We cannot take back what we have announced, but we need not return the credit that we owe (section 6.9). The
        // stream does not stop: the smaller the window, the less credit is half of it.
        let shrinkage = stream.receive_target.saturating_sub(most).min(stream.grown_bytes()).min(stream.credit);
        let increment = stream.credit - shrinkage + growth;
        stream.receive_target = stream.receive_target - shrinkage + growth;
        stream.credit = 0;
        stream.receive_window += i64::from(increment);
        self.streams.count_growth(key, growth);
        self.streams.count_shrinkage(key, shrinkage);
        // A WINDOW_UPDATE of 0 is an error of the protocol.
        if increment > 0 {
            frame::write_window_update(&mut self.out.bytes, key.id, increment);
        }
        i64::from(growth) - i64::from(shrinkage)
    }

    /// Sets whether memory is short. While memory is short, receive windows do not grow, the connection keeps no memory
    /// for an empty output buffer, and HPACK remembers no blocks.
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
