//! Sends the caller's requests, field sections, DATA within the windows, and resets (RFC 9113 sections 5.2 and 6).
//!
//! DATA goes directly into the output buffer while the windows and the buffer have room. Further DATA waits in its
//! stream's queue, and the streams take turns to send one frame each. A relay receives the queued DATA from another
//! peer. The relay returns credit to that peer only when the DATA has left the queue, so a queue never holds more than
//! that peer's window.

use std::collections::VecDeque;
use std::time::Instant;

use rustc_hash::FxHashSet;

use super::floods::Floods;
use super::{Connection, Input, Role};
use crate::error::{ConnectionError, ErrorCode, Flood};
use crate::fields::{FieldSection, Known};
use crate::frame::{self, MAX_31_BITS};
use crate::limits::{COLLECTED_ENOUGH_BYTES, Limits};
use crate::message::Section;
use crate::stream::{Half, Stream, StreamKey, Streams};

/// Maximum number of reset streams that we remember, because late frames for them may still arrive. A client may have
/// this many streams open, and we may have to reset all of them at once.
const MAX_REMEMBERED_RESETS: usize = 10_000;
/// Memory of one stream id in a hash set, in bytes: 4 for the id, one for its tag, and its part of the eighth of all
/// slots that always stays free.
const SET_PLACE_BYTES: usize = 6;
/// Length of a queue of waiting streams that we always tolerate, in addition to two entries for each open stream. From
/// a longer queue, we remove the entries of ended streams.
const MIN_READY_PLACES: usize = 16;

/// The latest streams that we reset.
#[derive(Debug, Default)]
pub(super) struct RecentResets {
    /// Oldest first.
    order: VecDeque<u32>,
    ids: FxHashSet<u32>,
}

impl RecentResets {
    pub(super) fn contains(&self, id: u32) -> bool {
        self.ids.contains(&id)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let places = self.order.capacity().saturating_mul(size_of::<u32>());
        places.saturating_add(self.ids.capacity().saturating_mul(SET_PLACE_BYTES))
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        assert_eq!(self.order.len(), self.ids.len());
        self.order.len()
    }

    fn remember(&mut self, id: u32) {
        if self.order.len() >= MAX_REMEMBERED_RESETS
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        self.order.push_back(id);
        self.ids.insert(id);
    }
}

/// The reason why [`Connection::open`] cannot open a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// As many streams are open as the peer's SETTINGS_MAX_CONCURRENT_STREAMS allows. Try again once a stream has
    /// ended.
    #[error("the server's limit of concurrent streams is reached")]
    StreamLimit,
    /// The peer sent GOAWAY, the connection failed, or stream identifiers are used up: use another connection.
    #[error("the connection takes no more streams")]
    Closed,
}

impl Connection {
    /// Opens a stream with a request (client only).
    ///
    /// # Errors
    /// See [`OpenError`]; nothing was sent.
    pub fn open(
        &mut self,
        now: Instant,
        token: u32,
        fields: &FieldSection,
        end_stream: bool,
    ) -> Result<StreamKey, OpenError> {
        if !self.takes_streams() {
            return Err(OpenError::Closed);
        }
        if self.streams.len() >= self.peer.max_concurrent_streams as usize {
            return Err(OpenError::StreamLimit);
        }
        let id = self.next_stream;
        self.next_stream += 2;
        let mut stream = self.new_stream(id, now);
        stream.token = token;
        let method = fields.get(Known::Method);
        stream.head = method == Some(b"HEAD");
        stream.connect = method == Some(b"CONNECT");
        let key = self.streams.insert(stream);
        self.send_headers(key, Section::Request, fields, end_stream);
        Ok(key)
    }

    /// Whether we may open streams on the connection. Does not consider the peer's limit of concurrent streams.
    pub fn takes_streams(&self) -> bool {
        self.role == Role::Client
            && self.goaway_received.is_none()
            && !self.shutting_down
            && !matches!(self.input, Input::Dead)
            && self.next_stream <= MAX_31_BITS
    }

    /// Sends a field section. Trailers wait for the stream's queued DATA. Without an open stream this has no effect.
    pub fn send_headers(&mut self, key: StreamKey, section: Section, fields: &FieldSection, end_stream: bool) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if !stream.takes_output() {
            return;
        }
        if !stream.queue.waiting().is_empty() {
            let trailers = Box::new(fields.clone());
            self.queue_memory_bytes += trailers.capacity_bytes();
            stream.trailers = Some(trailers);
            // Trailers are the last part of a message, so its collected DATA need not wait for more DATA.
            return self.wake(key);
        }
        if section != Section::Interim {
            stream.send = Half::Body;
        }
        if section == Section::Response {
            self.floods.stream_answered(&self.limits);
        }
        self.write_headers(key.id, fields, end_stream);
        if end_stream {
            self.end_sending(key);
        }
    }

    /// Sends content. Returns the number of bytes that moved into the output at once. The other bytes are queued, and
    /// reported as [`Drained`](super::Drained) when they move. Without an open stream, drops all bytes and returns
    /// their number.
    pub fn send_data(&mut self, key: StreamKey, bytes: &[u8], end_stream: bool) -> usize {
        let Some(stream) = self.streams.get(key) else { return bytes.len() };
        if !stream.takes_output() {
            return bytes.len();
        }
        let queue_is_empty = stream.queue.waiting().is_empty();
        let taken = if queue_is_empty { self.write_data(key, bytes) } else { 0 };
        let rest = bytes.get(taken..).unwrap_or_default();
        if rest.is_empty() && queue_is_empty {
            if end_stream {
                self.write_end(key);
            }
            return taken;
        }
        if let Some(stream) = self.streams.get_mut(key) {
            stream.end_after_queue = end_stream;
        }
        self.queue(key, rest);
        self.wake(key);
        taken
    }

    /// Collects content, so that several small pieces are sent as one frame. Some servers close a connection on which
    /// they receive many frames of a few bytes each.
    ///
    /// The content waits in the stream's queue until [`Connection::send_data`] adds content, the stream ends,
    /// [`Connection::release_collected`] reaches the stream, or at least `COLLECTED_ENOUGH_BYTES` wait.
    pub fn collect_data(&mut self, key: StreamKey, bytes: &[u8]) {
        if !self.can_send(key) {
            return;
        }
        self.queue(key, bytes);
        let Some(stream) = self.streams.get_mut(key) else { return };
        let waiting_bytes = stream.queue.waiting().len();
        if !std::mem::replace(&mut stream.in_collected, true) {
            line_up(&mut self.collected, key, &self.streams);
        }
        if waiting_bytes >= COLLECTED_ENOUGH_BYTES {
            self.wake(key);
        }
    }

    /// Puts content at the end of a stream's queue.
    fn queue(&mut self, key: StreamKey, bytes: &[u8]) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let before = stream.queue.capacity_bytes();
        stream.queue.push(bytes);
        self.queued_bytes += bytes.len();
        self.queue_memory_bytes += stream.queue.capacity_bytes() - before;
    }

    /// Sends the collected content of up to `most` streams; the streams that have waited longest come first. Returns
    /// whether further streams have collected content.
    pub fn release_collected(&mut self, most: usize) -> bool {
        for _ in 0..most {
            let Some(key) = self.collected.pop_front() else { break };
            if let Some(stream) = self.streams.get_mut(key) {
                stream.in_collected = false;
                self.wake(key);
            }
        }
        if self.collected.is_empty() {
            self.collected = VecDeque::new();
        }
        !self.collected.is_empty()
    }

    /// Drops a stream's queued DATA and trailers; the stream stays open. Call this function only for a stream that will
    /// be reset: the peer never gets the rest of the message. Without an open stream this has no effect.
    pub fn drop_queued(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let (queue, trailers) = (std::mem::take(&mut stream.queue), stream.trailers.take());
        // The message is not complete, so it must not end.
        stream.end_after_queue = false;
        stream.reset_after_queue = None;
        self.queued_bytes -= queue.waiting().len();
        self.queue_memory_bytes -= queue.capacity_bytes() + trailers.map_or(0, |trailers| trailers.capacity_bytes());
    }

    /// Ends a stream with RST_STREAM and drops its queue. Without an open stream this has no effect.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        if self.forget_stream(key).is_some() {
            frame::write_rst_stream(&mut self.out.bytes, key.id, code);
            self.remember_reset(key.id);
        }
    }

    /// Ends a stream with RST_STREAM like [`Connection::reset`], but sends the queued DATA first. The peer may still send
    /// on the stream until then.
    pub fn reset_after_queue(&mut self, key: StreamKey, code: ErrorCode) {
        match self.streams.get_mut(key) {
            Some(stream) if !stream.queue.waiting().is_empty() => stream.reset_after_queue = Some(code),
            _ => self.reset(key, code),
        }
    }

    /// Forgets a stream that, according to the peer's GOAWAY, the peer did not process. Such a stream needs no
    /// RST_STREAM (section 6.8).
    pub fn abandon(&mut self, key: StreamKey) {
        self.forget_stream(key);
    }

    /// Asks the client to stop sending a request, because the response does not depend on the rest of the request:
    /// after our END_STREAM, sends RST_STREAM with NO_ERROR (section 8.1).
    pub fn stop_receiving(&mut self, key: StreamKey) {
        match self.streams.get_mut(key) {
            Some(stream) if stream.send == Half::Closed => self.reset(key, ErrorCode::NO_ERROR),
            Some(stream) => stream.stop_when_sent = true,
            None => {}
        }
    }

    pub(super) fn forget_stream(&mut self, key: StreamKey) -> Option<Stream> {
        let stream = self.streams.remove(key)?;
        self.queued_bytes -= stream.queue.waiting().len();
        let trailers = stream.trailers.as_ref().map_or(0, |trailers| trailers.capacity_bytes());
        self.queue_memory_bytes -= stream.queue.capacity_bytes() + trailers;
        self.floods.stream_closed();
        Some(stream)
    }

    pub(super) fn remember_reset(&mut self, id: u32) {
        // Only a server must remember its resets: a client ignores late frames for every closed stream.
        if self.role == Role::Server {
            self.reset_by_us.remember(id);
        }
    }

    /// Counts an event for which [`Connection::receive`] returns a reset of the stream. If the peer exceeds the limit,
    /// the call after that returns the error.
    pub(super) fn count_after_event(&mut self, flood: Flood) {
        count_later(&mut self.floods, &self.limits, &mut self.fault, flood);
    }

    /// Gives a stream a turn if it has both DATA and an open window.
    pub(super) fn wake(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key)
            && !stream.in_ready
            && stream.send_window > 0
            && !stream.queue.waiting().is_empty()
        {
            stream.in_ready = true;
            line_up(&mut self.ready, key, &self.streams);
        }
    }
}

/// Puts a stream at the end of a queue of streams that wait for a turn. Streams that end leave stale entries, which are
/// removed when the queue gets too long.
pub(super) fn line_up(line: &mut VecDeque<StreamKey>, key: StreamKey, streams: &Streams) {
    line.push_back(key);
    if line.len() > 2 * streams.len() + MIN_READY_PLACES {
        line.retain(|key| streams.get(*key).is_some());
    }
}

/// Counts an event of the kind `flood`. If the peer exceeds the limit, the next call of [`Connection::receive`] returns
/// the error.
pub(super) fn count_later(floods: &mut Floods, limits: &Limits, fault: &mut Option<ConnectionError>, flood: Flood) {
    if let Err(error) = floods.count(flood, limits) {
        fault.get_or_insert(error);
    }
}
