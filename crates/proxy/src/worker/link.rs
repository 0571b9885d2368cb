//! Link: a connection with its codec, one side of the relay. Its bytes come from a `wire` and go to it.

use std::time::Instant;

use super::accept::ArrivalId;
use super::client::ClientId;
use super::codec::Codec;
use super::upstream::UpstreamId;
use super::wire::{Buffers, Wire, WireError, WireId};

/// Most bytes that the peer of a closing connection may still send before the connection is closed.
const MAX_LINGER_BYTES: usize = 4 << 20;

/// If a client's socket accepts no bytes and more content than this waits for it, no further requests of the client are
/// read.
const MAX_QUEUED_WHILE_BLOCKED_BYTES: usize = 4 << 20;

/// Identifies a link within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkId {
    /// A client opened the connection, and its protocol is not known yet.
    Arrival(ArrivalId),
    /// A client opened the connection.
    Client(ClientId),
    /// We opened the connection, to an endpoint.
    Endpoint(UpstreamId),
}

/// A connection with its codec: one side of the relay.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) wire: WireId,
    pub(super) codec: Codec,
    /// Input that the codec did not take because it is paused.
    pub(super) held: Vec<u8>,
    /// Memory that the worker's budget counts for this link, in bytes.
    pub(super) charged_bytes: usize,
    /// The link is in the worker's list of links to flush.
    pub(super) dirty: bool,
    /// The socket is not read, because the codec is paused or because of [`Link::is_deaf`].
    pub(super) paused: bool,
    /// When the socket stopped accepting bytes; `None` while it accepts them.
    pub(super) blocked_since: Option<Instant>,
    pub(super) opened: Instant,
    pub(super) last_read: Instant,
    /// When queued DATA began to wait for the peer's windows without progress.
    pub(super) stalled_since: Option<Instant>,
    /// When the proxy sent its last output. Bytes that still arrive are dropped.
    pub(super) closing_since: Option<Instant>,
    lingered_bytes: usize,
}

impl Link {
    pub(super) fn new(wire: WireId, codec: Codec, now: Instant) -> Self {
        Self {
            wire,
            codec,
            held: Vec::new(),
            charged_bytes: 0,
            dirty: false,
            paused: false,
            blocked_since: None,
            opened: now,
            last_read: now,
            stalled_since: None,
            closing_since: None,
            lingered_bytes: 0,
        }
    }

    /// Records that bytes were received. Returns whether the connection is closing and has received as many bytes as it
    /// may meanwhile.
    pub(super) fn note_received(&mut self, now: Instant, bytes: usize) -> bool {
        if bytes == 0 {
            return false;
        }
        self.last_read = now;
        if self.closing_since.is_some() {
            self.lingered_bytes += bytes;
        }
        self.lingered_bytes > MAX_LINGER_BYTES
    }

    /// Writes until nothing is left or the socket is full.
    pub(super) fn flush(&mut self, now: Instant, wire: &mut Wire, buffers: &mut Buffers) -> Result<(), WireError> {
        loop {
            let output = self.codec.output();
            let wanted = output.len();
            let written = wire.write(output, buffers)?;
            if written > 0 {
                self.blocked_since = None;
                self.stalled_since = None;
                self.codec.advance_output(written);
            }
            if wanted == 0 && !wire.is_pending() {
                self.blocked_since = None;
                break;
            }
            if written == 0 {
                self.blocked_since.get_or_insert(now);
                break;
            }
        }
        if self.codec.queued_bytes() == 0 {
            self.stalled_since = None;
        } else {
            self.stalled_since.get_or_insert(now);
        }
        if self.codec.ends_output() && self.codec.pending_output() == 0 && !wire.is_pending() {
            wire.close_write();
        }
        Ok(())
    }

    /// Sends the last output and waits for the peer to close. If the proxy closed the socket at once, a TCP reset could
    /// discard that output before the peer reads it.
    pub(super) fn begin_closing(&mut self, now: Instant, wire: &mut Wire, buffers: &mut Buffers) {
        if self.closing_since.is_some() {
            return;
        }
        // The result does not matter: a peer that does not read the last output does not get it.
        let _ = self.flush(now, wire, buffers);
        self.closing_since = Some(now);
        wire.close_write();
    }

    /// Returns whether an HTTP/2 client does not read its socket while much content waits for it. Then the worker does
    /// not read from the client either, so that it cannot make the proxy hold the responses to ever more requests. Its
    /// frames are not needed meanwhile: the output that waits needs no window from the client.
    pub(super) fn is_deaf(&self) -> bool {
        self.blocked_since.is_some()
            && self.codec.has_windows()
            && self.codec.queued_bytes() > MAX_QUEUED_WHILE_BLOCKED_BYTES
    }
}
