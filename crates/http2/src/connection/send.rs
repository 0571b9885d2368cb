//! Bytes out: header sections, DATA within the windows, credit, resets (RFC 9113 sections 5.2 and 6).
//!
//! DATA goes straight into the output buffer while the windows and the buffer have room; the rest waits in its stream's
//! queue, and streams take turns of one frame. Queues are as long as the window that the far side was given.

use std::time::Instant;

use super::floods::Floods;
use super::{Connection, Input, Role};
use crate::error::{ConnectionError, ErrorCode, Flood};
use crate::fields::{FieldSection, Known};
use crate::frame::{self, FrameHeader, HEADER_BYTES, MAX_31_BITS, flag, kind};
use crate::limits::{DRIBBLE_BYTES, Limits, OUTPUT_HIGH_WATER_BYTES};
use crate::message::Section;
use crate::stream::{Half, Stream, StreamKey};

/// Streams that we reset and whose late frames we still expect.
const MAX_REMEMBERED_RESETS: usize = 1_024;
/// Places in the order of turns that are not worth looking through for streams that have ended.
const MIN_READY_PLACES: usize = 16;
/// What a stream may send while the connection's window is nearly used up.
const SMALL_UPLOAD_BYTES: u64 = 1_024;
/// Output memory that a connection with open streams keeps.
const KEPT_OUTPUT_BYTES: usize = 2 * OUTPUT_HIGH_WATER_BYTES;

/// Why [`Connection::open`] cannot open a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The peer's SETTINGS_MAX_CONCURRENT_STREAMS are open; one may be free later.
    #[error("the server's limit of concurrent streams is reached")]
    StreamLimit,
    /// The peer goes away, the connection broke, or stream identifiers are used up: take another connection.
    #[error("the connection takes no more streams")]
    Closed,
}

/// Queued DATA that has gone into the output: room for as much from the far side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// The stream; it may have ended since.
    pub stream: StreamKey,
    /// The owner's token.
    pub token: u32,
    /// Bytes of DATA.
    pub bytes: u32,
}

/// The DATA frame at the end of the output, which later bytes of its stream may still join.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastData {
    stream: u32,
    start: usize,
    end: usize,
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

    /// Whether new streams are possible at all, the peer's limit aside.
    pub fn takes_streams(&self) -> bool {
        self.role == Role::Client
            && self.goaway_received.is_none()
            && !self.shutting_down
            && !matches!(self.input, Input::Dead)
            && self.next_stream <= MAX_31_BITS
    }

    /// Sends a field section. Trailers wait for the stream's queued DATA. A stream that is gone takes nothing.
    pub fn send_headers(&mut self, key: StreamKey, section: Section, fields: &FieldSection, end_stream: bool) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.send == Half::Closed || stream.end_after_queue || stream.trailers.is_some() {
            return;
        }
        if !stream.queued().is_empty() {
            stream.trailers = Some(Box::new(fields.clone()));
            return;
        }
        if section != Section::Interim {
            stream.send = Half::Body;
        }
        self.write_headers(key.id, fields, end_stream);
        if end_stream {
            self.end_sending(key);
        }
    }

    /// Sends content. Returns how many of `bytes` are in the output already; the others are queued, and come back as
    /// [`Drained`] when they follow. A stream that is gone takes all of them, to nowhere.
    pub fn send_data(&mut self, key: StreamKey, bytes: &[u8], end_stream: bool) -> usize {
        let Some(stream) = self.streams.get(key) else { return bytes.len() };
        if stream.send == Half::Closed || stream.end_after_queue || stream.trailers.is_some() {
            return bytes.len();
        }
        let queue_is_empty = stream.queued().is_empty();
        let taken = if queue_is_empty { self.write_data(key, bytes) } else { 0 };
        let rest = bytes.get(taken..).unwrap_or_default();
        if rest.is_empty() && queue_is_empty {
            if end_stream {
                self.write_end(key);
            }
            return taken;
        }
        if let Some(stream) = self.streams.get_mut(key) {
            stream.enqueue(rest);
            stream.end_after_queue = end_stream;
        }
        self.queued_bytes += rest.len();
        self.wake(key);
        taken
    }

    /// Returns room for `bytes` of received DATA to the peer, padding not included (the engine returns that itself).
    /// Small credits are merged: WINDOW_UPDATE goes out when half a window is owed (section 6.9).
    pub fn release(&mut self, key: StreamKey, bytes: usize) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).min(stream.unreleased);
        stream.unreleased -= bytes;
        stream.credit = stream.credit.saturating_add(bytes);
        self.announce_credit(key);
    }

    pub(super) fn release_padding(&mut self, key: StreamKey, bytes: u32) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.credit = stream.credit.saturating_add(bytes);
            self.announce_credit(key);
        }
    }

    pub(super) fn announce_credit(&mut self, key: StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if stream.receive == Half::Closed || stream.credit < stream.receive_target / 2 || stream.credit == 0 {
            return;
        }
        // The far side has taken everything: a larger window keeps more under way.
        let grown = if stream.unreleased == 0 {
            stream.receive_target.saturating_mul(2).min(self.limits.max_stream_window_bytes.max(stream.receive_target))
        } else {
            stream.receive_target
        };
        let increment = stream.credit + (grown - stream.receive_target);
        stream.receive_target = grown;
        stream.credit = 0;
        stream.receive_window += i64::from(increment);
        frame::write_window_update(&mut self.out, key.id, increment);
    }

    /// The connection's own room comes back at once: each stream's window alone holds data back, so that a stalled
    /// stream never blocks its neighbours.
    pub(super) fn credit_connection(&mut self, bytes: u32) {
        self.connection_credit += bytes;
        if self.connection_credit >= self.limits.connection_window_bytes / 2 {
            self.receive_window += i64::from(self.connection_credit);
            frame::write_window_update(&mut self.out, 0, self.connection_credit);
            self.connection_credit = 0;
        }
    }

    /// Ends a stream with RST_STREAM; what was queued for it is dropped. A stream that is gone is left alone.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        if self.forget_stream(key).is_some() {
            frame::write_rst_stream(&mut self.out, key.id, code);
            self.remember_reset(key.id);
        }
    }

    /// Forgets a stream that a GOAWAY says was never processed: nothing about it needs to be said (section 6.8).
    pub fn abandon(&mut self, key: StreamKey) {
        self.forget_stream(key);
    }

    /// The answer is complete without the rest of the request: once END_STREAM has gone, RST_STREAM with NO_ERROR asks
    /// the client to stop (section 8.1).
    pub fn stop_receiving(&mut self, key: StreamKey) {
        match self.streams.get_mut(key) {
            Some(stream) if stream.send == Half::Closed => self.reset(key, ErrorCode::NO_ERROR),
            Some(stream) => stream.stop_when_sent = true,
            None => {}
        }
    }

    pub(super) fn forget_stream(&mut self, key: StreamKey) -> Option<Stream> {
        let stream = self.streams.remove(key)?;
        self.queued_bytes -= stream.queued().len();
        Some(stream)
    }

    pub(super) fn remember_reset(&mut self, id: u32) {
        if self.reset_by_us.len() >= MAX_REMEMBERED_RESETS {
            self.reset_by_us.pop_front();
        }
        self.reset_by_us.push_back(id);
    }

    /// Bytes to write to the socket now. Say with [`Connection::advance_output`] how many went, then ask again: more may
    /// follow from the queues.
    pub fn output(&mut self) -> &[u8] {
        // A client that is not known to speak HTTP/2 hears nothing of it.
        if matches!(self.input, Input::Preface(_)) {
            return &[];
        }
        self.send_queued();
        self.out.get(self.out_start..).unwrap_or_default()
    }

    /// The socket has taken `n` bytes of the output.
    pub fn advance_output(&mut self, n: usize) {
        self.out_start += n;
        self.last_data = None;
        if self.out_start >= self.out.len() {
            self.out_start = 0;
            if self.streams.len() == 0 {
                self.out = Vec::new();
                self.ready = Default::default();
                self.held_back = Vec::new();
            } else if self.out.capacity() > KEPT_OUTPUT_BYTES {
                self.out = Vec::new();
            } else {
                self.out.clear();
            }
        } else if self.out_start > OUTPUT_HIGH_WATER_BYTES {
            self.out.drain(..self.out_start);
            self.out_start = 0;
        }
    }

    /// Bytes that wait in the output buffer.
    pub fn pending_output(&self) -> usize {
        self.out.len() - self.out_start
    }

    /// Whether there is something to write now.
    pub fn wants_write(&self) -> bool {
        !matches!(self.input, Input::Preface(_)) && self.has_output()
    }

    fn has_output(&self) -> bool {
        self.pending_output() > 0 || (!self.ready.is_empty() && self.send_window > 0)
    }

    /// DATA that waits for windows or for the socket, all streams together, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// DATA that the peer's connection window has room for, in bytes.
    pub fn send_window_bytes(&self) -> usize {
        usize::try_from(self.send_window).unwrap_or(0)
    }

    /// Queued DATA that has moved on since it was last asked.
    pub fn next_drained(&mut self) -> Option<Drained> {
        let next = self.drained.pop_front();
        if next.is_none() && self.drained.capacity() > 64 {
            self.drained = Default::default();
        }
        next
    }

    /// Counts what ends a stream: the owner hears of the stream first, and of the error next.
    pub(super) fn count_after_event(&mut self, flood: Flood) {
        count_later(&mut self.floods, &self.limits, &mut self.fault, flood);
    }

    /// Gives a stream its turn when it has both DATA and room.
    pub(super) fn wake(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key)
            && !stream.in_ready
            && stream.send_window > 0
            && !stream.queued().is_empty()
        {
            stream.in_ready = true;
            self.ready.push_back(key);
            // Streams that end while they wait leave their places behind.
            if self.ready.len() > 2 * self.streams.len() + MIN_READY_PLACES {
                self.ready.retain(|key| self.streams.get(*key).is_some());
            }
        }
    }

    /// Moves queued DATA into the output, one frame a turn.
    fn send_queued(&mut self) {
        while self.send_window > 0 && self.pending_output() < OUTPUT_HIGH_WATER_BYTES {
            let Some(key) = self.ready.pop_front() else { break };
            let max_frame = self.peer.max_frame_bytes as usize;
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.in_ready = false;
            let (queue, start) = stream.lend_queue();
            let frame_end = queue.len().min(start + max_frame);
            let n = self.write_data(key, queue.get(start..frame_end).unwrap_or_default());
            self.queued_bytes -= n;
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.return_queue(queue, start + n);
            if n > 0 {
                self.drained.push_back(Drained { stream: key, token: stream.token, bytes: n as u32 });
            }
            if stream.queued().is_empty() {
                let end = stream.end_after_queue;
                if let Some(trailers) = stream.trailers.take() {
                    self.write_headers(key.id, &trailers, true);
                    self.end_sending(key);
                } else if end {
                    self.write_end(key);
                }
            } else if n == 0 && stream.send_window > 0 {
                stream.in_ready = true;
                self.held_back.push(key);
            } else {
                self.wake(key);
            }
        }
    }

    /// The connection has more room: streams that were held back have their turn again.
    pub(super) fn end_holding_back(&mut self) {
        self.ready.extend(self.held_back.drain(..));
    }

    /// Writes DATA frames as far as windows and buffer go; returns how many bytes went.
    fn write_data(&mut self, key: StreamKey, bytes: &[u8]) -> usize {
        let max_frame = self.peer.max_frame_bytes as usize;
        let mut left = bytes;
        while !left.is_empty() && self.pending_output() < OUTPUT_HIGH_WATER_BYTES {
            let Some(stream) = self.streams.get_mut(key) else { break };
            let shared = shared_window(self.role, self.send_window, self.send_window_peak, stream.sent_bytes);
            let window = usize::try_from(stream.send_window.min(shared)).unwrap_or(0);
            // Bytes of the same stream join the frame that is last in the output, so that dribbled DATA leaves whole.
            let open = self.last_data.filter(|last| last.stream == key.id && last.end == self.out.len());
            let room = open.map_or(max_frame, |last| max_frame - (last.end - last.start - HEADER_BYTES).min(max_frame));
            let room = if room == 0 { max_frame } else { room };
            let n = left.len().min(window).min(room);
            if n == 0 {
                break;
            }
            if n < DRIBBLE_BYTES && n < left.len() && n == window {
                count_later(&mut self.floods, &self.limits, &mut self.fault, Flood::DataDribble);
            }
            let (now, later) = left.split_at(n);
            left = later;
            stream.send_window -= n as i64;
            stream.sent_bytes += n as u64;
            self.send_window -= n as i64;
            let start = match open {
                Some(last) if last.end - last.start - HEADER_BYTES + n <= max_frame => last.start,
                _ => {
                    let start = self.out.len();
                    self.out.extend_from_slice(
                        &FrameHeader { length: 0, kind: kind::DATA, flags: 0, stream: key.id }.encode(),
                    );
                    self.floods.frame_sent();
                    start
                }
            };
            self.out.extend_from_slice(now);
            let end = self.out.len();
            self.patch_header(start, (end - start - HEADER_BYTES) as u32, kind::DATA, 0, key.id);
            self.last_data = Some(LastData { stream: key.id, start, end });
        }
        bytes.len() - left.len()
    }

    /// Sends END_STREAM, on the DATA frame that is last in the output where that is the stream's own.
    fn write_end(&mut self, key: StreamKey) {
        match self.last_data.filter(|last| last.stream == key.id && last.end == self.out.len()) {
            Some(last) => {
                let length = (last.end - last.start - HEADER_BYTES) as u32;
                self.patch_header(last.start, length, kind::DATA, flag::END_STREAM, key.id);
                self.last_data = None;
            }
            None => frame::write(&mut self.out, kind::DATA, flag::END_STREAM, key.id, &[]),
        }
        self.end_sending(key);
    }

    fn write_headers(&mut self, id: u32, fields: &FieldSection, end_stream: bool) {
        let start = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.encode(fields, &mut self.out);
        self.floods.frame_sent();
        let length = self.out.len() - start - HEADER_BYTES;
        let end_flag = if end_stream { flag::END_STREAM } else { 0 };
        let max_frame = self.peer.max_frame_bytes as usize;
        if length <= max_frame {
            self.patch_header(start, length as u32, kind::HEADERS, end_flag | flag::END_HEADERS, id);
        } else {
            self.split_headers(start, end_flag, id, max_frame);
        }
    }

    /// Cuts a block that is larger than a frame into HEADERS and CONTINUATION (section 4.3).
    fn split_headers(&mut self, start: usize, end_flag: u8, id: u32, max_frame: usize) {
        let block = self.out.split_off(start).split_off(HEADER_BYTES);
        let last = block.len().div_ceil(max_frame) - 1;
        for (i, fragment) in block.chunks(max_frame).enumerate() {
            let (kind, flags) = if i == 0 { (kind::HEADERS, end_flag) } else { (kind::CONTINUATION, 0) };
            let end = if i == last { flag::END_HEADERS } else { 0 };
            frame::write(&mut self.out, kind, flags | end, id, fragment);
        }
    }

    fn patch_header(&mut self, start: usize, length: u32, kind: u8, flags: u8, stream: u32) {
        let header = FrameHeader { length, kind, flags, stream }.encode();
        if let Some(place) = self.out.get_mut(start..start + HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
    }

    fn end_sending(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.send = Half::Closed;
            stream.end_after_queue = false;
            if stream.is_closed() {
                self.streams.remove(key);
            } else if stream.stop_when_sent {
                self.reset(key, ErrorCode::NO_ERROR);
            }
        }
    }
}

/// What a stream may use of the connection's window.
///
/// A server's connection is shared by many clients, and a server application that does not read its uploads keeps what it
/// was sent. So the last quarter of the window is for streams that have sent little: calls with small messages get
/// through beside stalled uploads. Servers return credit by the time that half of the window is used.
fn shared_window(role: Role, send_window: i64, peak: i64, sent_bytes: u64) -> i64 {
    if role == Role::Server {
        return send_window;
    }
    let little_left = i64::try_from(SMALL_UPLOAD_BYTES.saturating_sub(sent_bytes)).unwrap_or(0);
    (send_window - peak / 4).max(send_window.min(little_left))
}

/// Counts; an error is reported by the next [`Connection::receive`].
fn count_later(floods: &mut Floods, limits: &Limits, fault: &mut Option<ConnectionError>, flood: Flood) {
    if let Err(error) = floods.count(flood, limits) {
        fault.get_or_insert(error);
    }
}
