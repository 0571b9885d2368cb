//! The output buffer: frames in the order of sending, and the scheduling of queued DATA.

use super::send::{count_later, line_up};
use super::{Connection, Input, Role};
use crate::error::{ErrorCode, Flood};
use crate::fields::FieldSection;
use crate::frame::{self, FrameHeader, HEADER_BYTES, flag, kind};
use crate::limits::{DRIBBLE_BYTES, OUTPUT_HIGH_WATER_BYTES, SMALL_UPLOAD_BYTES};
use crate::settings::DEFAULT_WINDOW_BYTES;
use crate::stream::{Half, StreamKey};

/// Output capacity that a connection with open streams keeps, unless memory is short.
const KEPT_OUTPUT_BYTES: usize = 2 * OUTPUT_HIGH_WATER_BYTES;

/// A report that queued DATA has moved into the output. A relay may now return credit for the same number of bytes to
/// the peer that sent the DATA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// The stream; it may have ended since.
    pub stream: StreamKey,
    /// The caller's token.
    pub token: u32,
    /// Bytes of DATA.
    pub bytes: u32,
}

/// The DATA frame at the end of the output. Later bytes of the same stream may be added to the frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastData {
    stream: u32,
    start: usize,
    end: usize,
}

impl Connection {
    /// Bytes to write to the socket now. Report the written number to [`Connection::advance_output`], then call this
    /// again: queued DATA may follow.
    pub fn output(&mut self) -> &[u8] {
        // We send nothing until the peer's preface is complete: it is possible that the peer does not use HTTP/2.
        if matches!(self.input, Input::Preface(_)) {
            return &[];
        }
        // Credit for the connection may have become due since the last call: the caller may have released content, or a
        // stream with unreleased content may have ended.
        self.announce_connection_credit();
        self.send_queued();
        self.out.waiting()
    }

    /// Reports that the socket has accepted `n` bytes of the output.
    pub fn advance_output(&mut self, n: usize) {
        let is_idle = self.streams.len() == 0;
        self.out.advance(n, if is_idle { 0 } else { KEPT_OUTPUT_BYTES });
        self.last_data = None;
        if is_idle && self.pending_output() == 0 {
            self.ready = Default::default();
            self.held_back = Default::default();
        }
    }

    /// Unsent bytes in the output buffer.
    pub fn pending_output(&self) -> usize {
        self.out.waiting_bytes()
    }

    /// Whether there is output to write now.
    pub fn wants_write(&self) -> bool {
        let queued_has_room = !self.ready.is_empty() && self.send_window > 0;
        !matches!(self.input, Input::Preface(_)) && (self.pending_output() > 0 || queued_has_room)
    }

    /// DATA of all streams that waits for windows or for the socket, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// DATA of one stream that waits for windows or for its turn, in bytes.
    pub fn queued_on(&self, stream: StreamKey) -> usize {
        self.streams.get(stream).map_or(0, |stream| stream.queue.waiting().len())
    }

    /// DATA that we may still send on all streams together according to the connection's window, in bytes.
    pub fn send_window_bytes(&self) -> usize {
        usize::try_from(self.send_window).unwrap_or(0)
    }

    /// Returns the next report of queued DATA that moved into the output; the oldest report comes first.
    pub fn next_drained(&mut self) -> Option<Drained> {
        let next = self.drained.pop_front();
        if next.is_none() && self.drained.capacity() > 64 {
            self.drained = Default::default();
        }
        next
    }

    /// Moves queued DATA into the output, one frame per turn.
    fn send_queued(&mut self) {
        while self.send_window > 0 && self.pending_output() < OUTPUT_HIGH_WATER_BYTES {
            let Some(key) = self.ready.pop_front() else { break };
            let max_frame = self.peer.max_frame_bytes as usize;
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.in_ready = false;
            let (queue, start) = stream.queue.lend();
            let frame_end = queue.len().min(start + max_frame);
            let n = self.write_data(key, queue.get(start..frame_end).unwrap_or_default());
            self.queued_bytes -= n;
            let Some(stream) = self.streams.get_mut(key) else { continue };
            let before = queue.capacity();
            stream.queue.give_back(queue, start + n);
            self.queue_memory_bytes -= before - stream.queue.capacity_bytes();
            if n > 0 {
                self.drained.push_back(Drained { stream: key, token: stream.token, bytes: n as u32 });
            }
            if stream.queue.waiting().is_empty() {
                let (end, reset) = (stream.end_after_queue, stream.reset_after_queue);
                if let Some(trailers) = stream.trailers.take() {
                    self.queue_memory_bytes -= trailers.capacity_bytes();
                    self.write_headers(key.id, &trailers, true);
                    self.end_sending(key);
                } else if end {
                    self.write_end(key);
                }
                // No effect if the stream has ended now.
                if let Some(code) = reset {
                    self.reset(key, code);
                }
            } else if n == 0 && stream.send_window > 0 {
                stream.in_ready = true;
                line_up(&mut self.held_back, key, &self.streams);
            } else {
                self.wake(key);
            }
        }
    }

    /// Lets the held-back streams take turns again: they waited because only the reserve of the connection's window was
    /// left. Call this function when the connection's window has grown.
    pub(super) fn end_holding_back(&mut self) {
        self.ready.extend(self.held_back.drain(..));
    }

    /// Writes DATA frames as far as the windows and the output buffer allow. Returns the number of bytes written.
    pub(super) fn write_data(&mut self, key: StreamKey, bytes: &[u8]) -> usize {
        let max_frame = self.peer.max_frame_bytes as usize;
        let mut left = bytes;
        while !left.is_empty() && self.pending_output() < OUTPUT_HIGH_WATER_BYTES {
            let Some(stream) = self.streams.get_mut(key) else { break };
            let shared = shared_window(self.role, self.send_window, stream.sent_bytes);
            let window = usize::try_from(stream.send_window.min(shared)).unwrap_or(0);
            // If the last frame of the output is DATA of the same stream, add bytes to this frame, so that small pieces
            // of DATA are merged.
            let open = self.last_data.filter(|last| last.stream == key.id && last.end == self.out.bytes.len());
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
            self.floods.content_sent(n);
            let start = match open {
                Some(last) if last.end - last.start - HEADER_BYTES + n <= max_frame => last.start,
                _ => {
                    let start = self.out.bytes.len();
                    self.out.bytes.extend_from_slice(
                        &FrameHeader { length: 0, kind: kind::DATA, flags: 0, stream: key.id }.encode(),
                    );
                    self.floods.frame_sent();
                    start
                }
            };
            self.out.bytes.extend_from_slice(now);
            let end = self.out.bytes.len();
            self.patch_header(start, (end - start - HEADER_BYTES) as u32, kind::DATA, 0, key.id);
            self.last_data = Some(LastData { stream: key.id, start, end });
        }
        bytes.len() - left.len()
    }

    /// Sends END_STREAM. Sets the flag on the last frame of the output if it is a DATA frame of the stream; otherwise,
    /// appends an empty DATA frame.
    pub(super) fn write_end(&mut self, key: StreamKey) {
        match self.last_data.filter(|last| last.stream == key.id && last.end == self.out.bytes.len()) {
            Some(last) => {
                let length = (last.end - last.start - HEADER_BYTES) as u32;
                self.patch_header(last.start, length, kind::DATA, flag::END_STREAM, key.id);
                self.last_data = None;
            }
            None => frame::write(&mut self.out.bytes, kind::DATA, flag::END_STREAM, key.id, &[]),
        }
        self.end_sending(key);
    }

    pub(super) fn write_headers(&mut self, id: u32, fields: &FieldSection, end_stream: bool) {
        let start = self.out.bytes.len();
        self.out.bytes.extend_from_slice(&[0; HEADER_BYTES]);
        self.encoder.encode(fields, &mut self.out.bytes);
        self.floods.frame_sent();
        let length = self.out.bytes.len() - start - HEADER_BYTES;
        let end_flag = if end_stream { flag::END_STREAM } else { 0 };
        let max_frame = self.peer.max_frame_bytes as usize;
        if length <= max_frame {
            self.patch_header(start, length as u32, kind::HEADERS, end_flag | flag::END_HEADERS, id);
        } else {
            self.split_headers(start, end_flag, id, max_frame);
        }
    }

    /// Splits a block that is larger than a frame into HEADERS and CONTINUATION (section 4.3).
    fn split_headers(&mut self, start: usize, end_flag: u8, id: u32, max_frame: usize) {
        let block = self.out.bytes.split_off(start).split_off(HEADER_BYTES);
        let last = block.len().div_ceil(max_frame) - 1;
        for (i, fragment) in block.chunks(max_frame).enumerate() {
            let (kind, flags) = if i == 0 { (kind::HEADERS, end_flag) } else { (kind::CONTINUATION, 0) };
            let end = if i == last { flag::END_HEADERS } else { 0 };
            frame::write(&mut self.out.bytes, kind, flags | end, id, fragment);
        }
    }

    fn patch_header(&mut self, start: usize, length: u32, kind: u8, flags: u8, stream: u32) {
        let header = FrameHeader { length, kind, flags, stream }.encode();
        if let Some(place) = self.out.bytes.get_mut(start..start + HEADER_BYTES) {
            place.copy_from_slice(&header);
        }
    }

    pub(super) fn end_sending(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.send = Half::Closed;
            stream.end_after_queue = false;
            if stream.is_closed() {
                self.forget_stream(key);
            } else if stream.stop_when_sent {
                self.reset(key, ErrorCode::NO_ERROR);
            }
        }
    }
}

/// Bytes of a server's connection window that are reserved for streams that have sent little.
const RESERVE_BYTES: i64 = DEFAULT_WINDOW_BYTES as i64 / 4;

/// Returns how many bytes of the connection's window a stream may use.
///
/// Many clients share a connection to a server, and uploads that the server's application does not read occupy the
/// window. So the last part of the window is reserved for streams that have sent little: stalled uploads then do not
/// block calls with small messages. There is room for sixteen such calls until the server returns credit; the relay
/// sends further calls on other connections. The reserve does not slow an upload that the server reads: servers return
/// credit at the latest when half of the window is used. The size of the reserve is fixed, even if the window grows.
/// Some servers (gRPC's C core) shrink their window by megabytes after large messages. They return no credit until most
/// of the former window is used, so a large reserve would stop uploads.
fn shared_window(role: Role, send_window: i64, sent_bytes: u64) -> i64 {
    if role == Role::Server {
        return send_window;
    }
    let little_left = i64::try_from((SMALL_UPLOAD_BYTES as u64).saturating_sub(sent_bytes)).unwrap_or(0);
    (send_window - RESERVE_BYTES).max(send_window.min(little_left))
}
