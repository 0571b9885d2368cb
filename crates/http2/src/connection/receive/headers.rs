//! HEADERS, CONTINUATION and PRIORITY (RFC 9113 sections 6.2, 6.10, 6.3): field sections, and their effect on streams.

use std::time::Instant;

use super::{Absent, Received};
use crate::connection::{Connection, Event, OpenBlock, Role};
use crate::error::{ConnectionError, ErrorCode, Flood};
use crate::fields::{Defects, FieldSection};
use crate::frame::{self, FrameHeader, MAX_31_BITS, flag};
use crate::hpack::DecodeError;
use crate::message::{self, Framing, Malformed, Section};
use crate::settings::DEFAULT_WINDOW_BYTES;
use crate::stream::{Half, Stream, StreamKey};

impl Connection {
    pub(super) fn on_headers(
        &mut self,
        now: Instant,
        header: FrameHeader,
        payload: &[u8],
        fields: &mut FieldSection,
    ) -> Received {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("HEADERS on stream 0"));
        }
        let mut fragment =
            frame::unpad(header, payload).ok_or(ConnectionError::protocol("padding is longer than its frame"))?;
        let mut depends_on_itself = false;
        if header.has(flag::PRIORITY) {
            let (priority, rest) = fragment
                .split_at_checked(5)
                .ok_or(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "HEADERS is too short for its priority"))?;
            depends_on_itself = frame::read_u32(priority).is_some_and(|id| id & MAX_31_BITS == header.stream);
            fragment = rest;
        }
        let mut block = OpenBlock {
            stream: header.stream,
            end_stream: header.has(flag::END_STREAM),
            depends_on_itself,
            fragments: Vec::new(),
            continuations: 0,
        };
        if header.has(flag::END_HEADERS) {
            return self.on_block(now, &block, fragment, fields);
        }
        if fragment.is_empty() {
            self.floods.count(Flood::EmptyFrames, &self.limits)?;
        }
        block.fragments.extend_from_slice(fragment);
        self.block = Some(Box::new(block));
        self.incomplete_since.get_or_insert(now);
        Ok(None)
    }

    pub(super) fn on_continuation(
        &mut self,
        now: Instant,
        header: FrameHeader,
        payload: &[u8],
        fields: &mut FieldSection,
    ) -> Received {
        let Some(mut block) = self.block.take() else { return Ok(None) };
        if payload.is_empty() {
            self.floods.count(Flood::EmptyFrames, &self.limits)?;
        }
        block.continuations += 1;
        let bytes = block.fragments.len() + payload.len();
        if block.continuations > self.limits.max_continuation_frames
            || bytes > self.limits.max_header_block_bytes as usize
        {
            return Err(ConnectionError::flood(Flood::Continuation));
        }
        block.fragments.extend_from_slice(payload);
        if !header.has(flag::END_HEADERS) {
            self.block = Some(block);
            return Ok(None);
        }
        self.incomplete_since = None;
        let fragments = std::mem::take(&mut block.fragments);
        self.on_block(now, &block, &fragments, fields)
    }

    /// Processes a complete header block. Every block is decoded, even if its section is then ignored, to keep the
    /// dynamic table in sync (section 4.3).
    fn on_block(&mut self, now: Instant, block: &OpenBlock, bytes: &[u8], fields: &mut FieldSection) -> Received {
        fields.clear();
        self.decoder.decode(bytes, self.limits.max_header_list_bytes as usize, fields).map_err(
            |error| match error {
                DecodeError::TooManyCopies => ConnectionError::flood(Flood::HeaderList),
                _ => ConnectionError::coded(ErrorCode::COMPRESSION_ERROR, "a header block cannot be decoded"),
            },
        )?;
        if fields.defects().contains(Defects::PADDED_VALUE) {
            fields.trim_values();
        }
        if fields.defects().contains(Defects::OVERSIZE) {
            self.floods.count(Flood::HeaderList, &self.limits)?;
        }
        match self.streams.find(block.stream) {
            Some(key) if block.depends_on_itself => self.stream_error(key, ErrorCode::PROTOCOL_ERROR),
            Some(key) => self.on_later_section(key, block.end_stream, fields),
            None if self.role == Role::Server => self.on_request(now, block, fields),
            None => self.section_of_absent_stream(block.stream),
        }
    }

    fn on_request(&mut self, now: Instant, block: &OpenBlock, fields: &FieldSection) -> Received {
        let id = block.stream;
        if id.is_multiple_of(2) {
            return Err(ConnectionError::protocol("a client used an even stream identifier"));
        }
        if id <= self.highest_peer_stream {
            return self.section_of_absent_stream(id);
        }
        self.highest_peer_stream = id;
        if self.goaway_sent.is_some() {
            self.floods.count(Flood::EmptyFrames, &self.limits)?;
            // The client may cancel the request before it reads our GOAWAY.
            self.floods.stream_closed();
            return Ok(None);
        }
        self.floods.stream_opened();
        if self.streams.opened_by_peer() >= self.limits.max_concurrent_streams {
            return self.refuse_request(id, ErrorCode::REFUSED_STREAM);
        }
        let oversize = fields.defects().contains(Defects::OVERSIZE);
        let framing = match message::check_request(fields) {
            _ if block.depends_on_itself => return self.refuse_request(id, ErrorCode::PROTOCOL_ERROR),
            _ if oversize => Framing::default(),
            Ok(Framing { content_length: Some(1..), .. }) if block.end_stream => {
                return self.refuse_request(id, ErrorCode::PROTOCOL_ERROR);
            }
            Ok(framing) => framing,
            Err(_) => return self.refuse_request(id, ErrorCode::PROTOCOL_ERROR),
        };
        let mut stream = self.new_stream(id, now);
        stream.receive = if block.end_stream { Half::Closed } else { Half::Body };
        stream.by_peer = true;
        stream.head = framing.head;
        stream.connect = framing.connect;
        stream.content_left = framing.content_length;
        let stream = self.streams.insert(stream);
        Ok(Some(Event::Headers { stream, token: 0, section: Section::Request, end_stream: block.end_stream, oversize }))
    }

    pub(in crate::connection) fn new_stream(&mut self, id: u32, now: Instant) -> Stream {
        let opened_ms = self.age_ms(now);
        let assumed_window = if self.settings_acknowledged { 0 } else { DEFAULT_WINDOW_BYTES };
        let receive_window = self.limits.initial_window_bytes.max(assumed_window);
        Stream::new(id, opened_ms, self.peer.initial_window_bytes, receive_window)
    }

    /// Rejects a request: sends RST_STREAM without registering the stream.
    fn refuse_request(&mut self, id: u32, code: ErrorCode) -> Received {
        self.reset_absent(id, code);
        self.floods.count(Flood::MadeYouReset, &self.limits)?;
        Ok(None)
    }

    /// Handles a field section for a stream that is not open. Ignores the section if the stream is
    /// [`Absent::Expected`]; otherwise closes the connection with an error. DATA in the same case does not close the
    /// connection, because dropping DATA costs less than decoding a section. Because of this cost, the number of
    /// ignored sections is limited, too.
    fn section_of_absent_stream(&mut self, id: u32) -> Received {
        self.floods.count(Flood::EmptyFrames, &self.limits)?;
        match self.absent_stream(id)? {
            Absent::Expected => Ok(None),
            Absent::Ended => Err(ConnectionError::coded(ErrorCode::STREAM_CLOSED, "HEADERS on a closed stream")),
        }
    }

    /// Handles a response's header section or trailers.
    fn on_later_section(&mut self, key: StreamKey, end_stream: bool, fields: &FieldSection) -> Received {
        self.highest_answered = self.highest_answered.max(key.id);
        if !end_stream {
            self.highest_with_content = self.highest_with_content.max(key.id);
        }
        let oversize = fields.defects().contains(Defects::OVERSIZE);
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let token = stream.token;
        let section = match stream.receive {
            Half::Closed => return self.stream_error(key, ErrorCode::STREAM_CLOSED),
            _ if oversize => Ok(if stream.receive == Half::Body { Section::Trailers } else { Section::Response }),
            Half::Body => trailers(stream, end_stream, fields),
            Half::Headers => response(stream, end_stream, fields),
        };
        let Ok(section) = section else { return self.stream_error(key, ErrorCode::PROTOCOL_ERROR) };
        if section == Section::Response {
            stream.receive = Half::Body;
        }
        if end_stream {
            self.end_receiving(key);
        }
        Ok(Some(Event::Headers { stream: key, token, section, end_stream, oversize }))
    }

    pub(super) fn on_priority(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY on stream 0"));
        }
        self.floods.count(Flood::Priority, &self.limits)?;
        let code = match frame::read_u32(payload) {
            _ if payload.len() != 5 => ErrorCode::FRAME_SIZE_ERROR,
            Some(id) if id & MAX_31_BITS == header.stream => ErrorCode::PROTOCOL_ERROR,
            // Priorities are obsolete (section 5.3.2), so the frame is ignored.
            _ => return Ok(None),
        };
        match self.streams.find(header.stream) {
            Some(key) => self.stream_error(key, code),
            None => Err(ConnectionError::coded(code, "a PRIORITY frame that is not valid")),
        }
    }
}

fn trailers(stream: &Stream, end_stream: bool, fields: &FieldSection) -> Result<Section, Malformed> {
    message::check_trailers(fields)?;
    if !end_stream {
        return Err("trailers do not end the stream");
    }
    if stream.content_left.is_some_and(|left| left > 0) {
        return Err("content is shorter than content-length");
    }
    Ok(Section::Trailers)
}

fn response(stream: &mut Stream, end_stream: bool, fields: &FieldSection) -> Result<Section, Malformed> {
    let framing = message::check_response(fields)?;
    if framing.status < 200 {
        return if end_stream { Err("an interim response ends the stream") } else { Ok(Section::Interim) };
    }
    // A response to HEAD, and a response with status 204 or 304, has no content, whatever its content-length (RFC 9110
    // section 6.4.1).
    let empty = stream.head || matches!(framing.status, 204 | 304);
    // A tunnel's content-length must be ignored (RFC 9110 section 9.3.6).
    let tunnel = stream.connect && framing.status < 300;
    stream.content_left = if empty { Some(0) } else { framing.content_length.filter(|_| !tunnel) };
    if end_stream && stream.content_left.is_some_and(|left| left > 0) {
        return Err("content is shorter than content-length");
    }
    Ok(Section::Response)
}
