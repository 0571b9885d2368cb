//! Parses frames into events, and enforces the rules for them (RFC 9113 sections 4 to 6).

mod control;
mod data;
mod headers;

use std::time::Instant;

use super::{Connection, Event, Input, Role};
use crate::error::{ConnectionError, ErrorCode, Flood, Violation};
use crate::fields::FieldSection;
use crate::frame::{self, FrameHeader, HEADER_BYTES, PREFACE, flag, kind};
use crate::stream::{Half, StreamKey};

type Received = Result<Option<Event<'static>>, ConnectionError>;

/// How to handle a frame for a stream that is not open.
enum Absent {
    /// Ignore the frame. Either the peer may have sent it before our reset or GOAWAY arrived; or the peer is a server,
    /// and we tolerate any late frame.
    Expected,
    /// The peer itself has ended or reset the stream, so the frame violates the protocol.
    Ended,
}

impl Connection {
    pub(super) fn read_frames<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        self.floods.advance(now, &self.limits);
        if !input.is_empty() && self.has_much_unread_output() {
            return if self.is_paused() { Ok(None) } else { Err(ConnectionError::flood(Flood::UnreadOutput)) };
        }
        loop {
            match self.input {
                Input::Dead => return Ok(None),
                Input::Preface(matched) => {
                    if !self.read_preface(matched, input)? {
                        return Ok(None);
                    }
                }
                Input::Header => {
                    let Some(header) = self.read_header(now, input) else { return Ok(None) };
                    if let Some(event) = self.begin_frame(header)? {
                        return Ok(Some(event));
                    }
                }
                Input::Payload(header) => {
                    let (event, complete) = self.read_payload(now, header, input, fields)?;
                    if event.is_some() || !complete {
                        return Ok(event);
                    }
                }
                Input::Data(data) => {
                    let (event, complete) = self.read_data(data, input)?;
                    if event.is_some() || !complete {
                        return Ok(event);
                    }
                }
            }
        }
    }

    /// Matches the client's preface; `true` once it is complete.
    fn read_preface(&mut self, matched: usize, input: &mut &[u8]) -> Result<bool, ConnectionError> {
        let expected = PREFACE.get(matched..).unwrap_or_default();
        let n = expected.len().min(input.len());
        let (got, rest) = input.split_at(n);
        if expected.get(..n) != Some(got) {
            return Err(ConnectionError { code: ErrorCode::PROTOCOL_ERROR, why: Violation::BadPreface });
        }
        *input = rest;
        let complete = n == expected.len();
        self.input = if complete { Input::Header } else { Input::Preface(matched + n) };
        Ok(complete)
    }

    fn read_header(&mut self, now: Instant, input: &mut &[u8]) -> Option<FrameHeader> {
        if self.partial.is_empty()
            && let Some((header, rest)) = input.split_first_chunk::<HEADER_BYTES>()
        {
            *input = rest;
            return Some(FrameHeader::parse(header));
        }
        if !self.collect(now, HEADER_BYTES, input) {
            return None;
        }
        let header = self.partial.first_chunk::<HEADER_BYTES>().map(FrameHeader::parse);
        self.partial.clear();
        self.incomplete_ends();
        header
    }

    /// Collects `wanted` bytes in `partial`; `true` once they are complete.
    fn collect(&mut self, now: Instant, wanted: usize, input: &mut &[u8]) -> bool {
        let n = wanted.saturating_sub(self.partial.len()).min(input.len());
        let (taken, rest) = input.split_at(n);
        self.partial.extend_from_slice(taken);
        *input = rest;
        let complete = self.partial.len() >= wanted;
        if !complete && (!self.partial.is_empty() || wanted > HEADER_BYTES) {
            self.incomplete_since.get_or_insert(now);
        }
        complete
    }

    fn incomplete_ends(&mut self) {
        if self.block.is_none() {
            self.incomplete_since = None;
        }
    }

    /// Checks the rules for a frame that do not depend on its payload.
    fn begin_frame(&mut self, header: FrameHeader) -> Received {
        if !self.settings_received && (header.kind != kind::SETTINGS || header.has(flag::ACK)) {
            return Err(ConnectionError::protocol("the first frame is not SETTINGS"));
        }
        if header.length > self.limits.max_frame_bytes {
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "a frame is larger than announced"));
        }
        match &self.block {
            Some(block) if header.kind != kind::CONTINUATION || header.stream != block.stream => {
                return Err(ConnectionError::protocol("a header block is interrupted by another frame"));
            }
            None if header.kind == kind::CONTINUATION => {
                return Err(ConnectionError::protocol("CONTINUATION without a header block"));
            }
            _ => {}
        }
        if header.kind == kind::DATA {
            return self.begin_data(header);
        }
        self.input = Input::Payload(header);
        Ok(None)
    }

    /// Reads a payload, directly from the input if the input contains the whole payload. The returned flag is true if
    /// the payload is complete.
    fn read_payload(
        &mut self,
        now: Instant,
        header: FrameHeader,
        input: &mut &[u8],
        fields: &mut FieldSection,
    ) -> Result<(Option<Event<'static>>, bool), ConnectionError> {
        let length = header.length as usize;
        if self.partial.is_empty()
            && let Some((payload, rest)) = input.split_at_checked(length)
        {
            *input = rest;
            self.input = Input::Header;
            // The frame is complete now. It was incomplete so far if its header came with an earlier input.
            self.incomplete_ends();
            return Ok((self.on_frame(now, header, payload, fields)?, true));
        }
        if !self.collect(now, length, input) {
            return Ok((None, false));
        }
        self.input = Input::Header;
        // A frame rarely spans two reads, so free the memory at once.
        let payload = std::mem::take(&mut self.partial);
        self.incomplete_ends();
        Ok((self.on_frame(now, header, &payload, fields)?, true))
    }

    fn on_frame(&mut self, now: Instant, header: FrameHeader, payload: &[u8], fields: &mut FieldSection) -> Received {
        match header.kind {
            kind::HEADERS => self.on_headers(now, header, payload, fields),
            kind::CONTINUATION => self.on_continuation(now, header, payload, fields),
            kind::PRIORITY => self.on_priority(header, payload),
            kind::RST_STREAM => self.on_rst_stream(now, header, payload),
            kind::SETTINGS => self.on_settings(header, payload),
            kind::PUSH_PROMISE => Err(ConnectionError::protocol("PUSH_PROMISE is not allowed here")),
            kind::PING => self.on_ping(header, payload),
            kind::GOAWAY => self.on_goaway(header, payload),
            kind::WINDOW_UPDATE => self.on_window_update(header, payload),
            // Unknown frames are ignored (section 5.5), but their number is limited.
            _ => self.floods.count(Flood::EmptyFrames, &self.limits).map(|()| None),
        }
    }

    /// Whether a stream has not been opened yet (section 5.1).
    fn is_idle(&self, id: u32) -> bool {
        match self.role {
            _ if id == 0 || id.is_multiple_of(2) => true,
            Role::Server => id > self.highest_peer_stream,
            Role::Client => id >= self.next_stream,
        }
    }

    /// Decides how to handle DATA or HEADERS for a stream that is not open (section 5.1, closed).
    fn absent_stream(&self, id: u32) -> Result<Absent, ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::protocol("a frame on an idle stream"));
        }
        let ignored_after_goaway = self.goaway_sent.is_some_and(|last| id > last);
        // As a client, accept late frames for any closed stream: many clients share the connection, and an error would
        // end all their calls.
        let is_expected = self.role == Role::Client || ignored_after_goaway || self.reset_by_us.contains(id);
        Ok(if is_expected { Absent::Expected } else { Absent::Ended })
    }

    /// Sends RST_STREAM for a stream that is not open. We then ignore later frames for this stream.
    fn reset_absent(&mut self, id: u32, code: ErrorCode) {
        frame::write_rst_stream(&mut self.out.bytes, id, code);
        self.remember_reset(id);
        self.floods.stream_closed();
    }

    /// Resets a stream on which the peer violated the protocol.
    fn stream_error(&mut self, key: StreamKey, code: ErrorCode) -> Received {
        let token = self.streams.get(key).map_or(0, |stream| stream.token);
        self.reset(key, code);
        self.count_after_event(Flood::MadeYouReset);
        Ok(Some(Event::Reset { stream: key, token, code, by_peer: false }))
    }

    fn end_receiving(&mut self, key: StreamKey) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.receive = Half::Closed;
            if stream.is_closed() {
                self.forget_stream(key);
            }
        }
    }
}
