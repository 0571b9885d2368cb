//! The output buffer, and content that waits for it.

use leno_http2::{Drained, FieldSection, StreamKey};

use super::Connection;
use crate::exchange::Outgoing;
use crate::limits::OUTPUT_HIGH_WATER_BYTES;
use crate::write;

/// Output capacity that a connection with an open exchange keeps, unless memory is short.
const KEPT_OUTPUT_BYTES: usize = 2 * OUTPUT_HIGH_WATER_BYTES;
/// The send window that a connection reports, in bytes. HTTP/1 has no windows, so this is the largest window of HTTP/2.
const NO_WINDOW_BYTES: usize = (1 << 31) - 1;

impl Connection {
    /// Bytes to write to the socket now. Report the written number to [`Connection::advance_output`], then call this
    /// again: queued content may follow.
    pub fn output(&mut self) -> &[u8] {
        self.send_queued();
        self.out.waiting()
    }

    /// Reports that the socket has accepted `n` bytes of the output.
    pub fn advance_output(&mut self, n: usize) {
        self.written += n as u64;
        self.out.advance(n, if self.exchange.is_none() { 0 } else { KEPT_OUTPUT_BYTES });
    }

    /// Sets whether memory is short. While memory is short, the connection keeps no empty output buffer.
    pub fn save_memory(&mut self, on: bool) {
        self.out.save_memory(on);
    }

    /// Unsent bytes in the output buffer.
    pub fn pending_output(&self) -> usize {
        self.out.waiting_bytes()
    }

    /// Whether there is output to write now.
    pub fn wants_write(&self) -> bool {
        let has_queue = !self.over
            && self.exchange.as_deref().is_some_and(|exchange| {
                exchange.outgoing != Outgoing::Awaited
                    && (!exchange.queue.waiting().is_empty() || exchange.end_after_queue || exchange.trailers.is_some())
            });
        self.pending_output() > 0 || has_queue
    }

    /// Content that the caller has received but not yet released, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.exchange.as_deref().map_or(0, |exchange| exchange.unreleased as u64)
    }

    /// Memory of an incomplete header section and of the output, in bytes, without the connection itself.
    pub fn memory_bytes(&self) -> usize {
        self.incomplete.capacity_bytes() + self.out.bytes.capacity()
    }

    /// Memory of content that waits for the socket, and of trailers that wait for content, in bytes.
    pub fn queue_memory_bytes(&self) -> usize {
        self.exchange.as_deref().map_or(0, |exchange| {
            let trailers = exchange.trailers.as_ref().map_or(0, |trailers| trailers.capacity_bytes());
            exchange.queue.capacity_bytes() + trailers
        })
    }

    /// Content that waits for the socket, or for a tunnel to be accepted, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.exchange.as_deref().map_or(0, |exchange| exchange.queue.waiting().len())
    }

    /// Content that the peer can accept, in bytes. Always the same large number, because HTTP/1 leaves flow control to
    /// TCP.
    pub fn send_window_bytes(&self) -> usize {
        NO_WINDOW_BYTES
    }

    /// Returns the next report of queued content that moved into the output; the oldest report comes first.
    pub fn next_drained(&mut self) -> Option<Drained> {
        let next = self.drained.pop_front();
        if next.is_none() && self.drained.capacity() > 0 {
            self.drained = Default::default();
        }
        next
    }

    pub(super) fn awaits_tunnel(&self) -> bool {
        self.exchange.as_deref().is_some_and(|exchange| exchange.outgoing == Outgoing::Awaited)
    }

    pub(super) fn drop_queue(&mut self) {
        if let Some(exchange) = self.exchange.as_deref_mut() {
            exchange.queue.give_back(Vec::new(), 0);
            exchange.trailers = None;
        }
    }

    /// Moves queued content into the output.
    fn send_queued(&mut self) {
        if self.over || self.awaits_tunnel() {
            return;
        }
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        let (stream, token) = (StreamKey::numbered(exchange.id), exchange.token);
        let (queue, start) = exchange.queue.lend();
        let n = self.write_content(queue.get(start..).unwrap_or_default());
        if n > 0 {
            self.drained.push_back(Drained { stream, token, bytes: u32::try_from(n).unwrap_or(u32::MAX) });
        }
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        exchange.queue.give_back(queue, start + n);
        if self.over || !exchange.queue.waiting().is_empty() {
            return;
        }
        if let Some(trailers) = exchange.trailers.take() {
            self.write_end(Some(&trailers));
        } else if exchange.end_after_queue {
            self.write_end(None);
        }
    }

    /// Writes content as far as the output has room. Returns the number of bytes written.
    pub(super) fn write_content(&mut self, bytes: &[u8]) -> usize {
        let room = OUTPUT_HIGH_WATER_BYTES.saturating_sub(self.pending_output());
        let Some(exchange) = self.exchange.as_deref_mut() else { return bytes.len() };
        let part = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        match &mut exchange.outgoing {
            Outgoing::Nothing => return bytes.len(),
            Outgoing::Awaited => return 0,
            _ if part.is_empty() => return 0,
            Outgoing::Length(left) => match left.checked_sub(part.len() as u64) {
                Some(less) => {
                    *left = less;
                    self.out.bytes.extend_from_slice(part);
                }
                // End the connection if the caller sends more content than announced: the peer would parse the excess
                // as the next message.
                None => {
                    self.end();
                    return bytes.len();
                }
            },
            Outgoing::Chunked => {
                self.out.bytes.extend_from_slice(format!("{:x}\r\n", part.len()).as_bytes());
                self.out.bytes.extend_from_slice(part);
                self.out.bytes.extend_from_slice(b"\r\n");
            }
            Outgoing::UntilClose | Outgoing::Tunnel => self.out.bytes.extend_from_slice(part),
        }
        part.len()
    }

    /// Writes the end of our message. If the content is shorter than announced, ends the connection instead, so that
    /// the peer notices the error.
    pub(super) fn write_end(&mut self, trailers: Option<&FieldSection>) {
        match self.exchange.as_deref().map(|exchange| exchange.outgoing) {
            // The connection has already ended, for example because the caller sent more content than announced.
            _ if self.over => return,
            Some(Outgoing::Length(1..)) => return self.end(),
            Some(Outgoing::Chunked) => write::last_chunk(&mut self.out.bytes, trailers),
            _ => {}
        }
        self.end_sending();
    }
}
