//! Bytes in: frames, their rules, the events they make (RFC 9113 sections 4 to 6).

use std::time::Instant;

use super::{Connection, DataFrame, Event, Input, OpenBlock, Role, SHUTDOWN_PING};
use crate::error::{ConnectionError, ErrorCode, Flood, Violation};
use crate::fields::{Defects, FieldSection};
use crate::frame::{self, FrameHeader, HEADER_BYTES, MAX_31_BITS, PREFACE, flag, kind};
use crate::limits::{DRIBBLE_BYTES, RAPID_RESET_AGE};
use crate::message::{self, Framing, Malformed, Section};
use crate::settings::{DEFAULT_WINDOW_BYTES, PeerSettings};
use crate::stream::{Half, Stream, StreamKey};

type Received = Result<Option<Event<'static>>, ConnectionError>;

impl Connection {
    pub(super) fn read_frames<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        self.floods.advance(now);
        if !input.is_empty() && self.pending_output() > self.limits.max_unread_output_bytes as usize {
            return Err(ConnectionError::flood(Flood::UnreadOutput));
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

    /// Matches the client's preface; `true` when it is complete.
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

    /// Gathers `wanted` bytes in `partial`; `true` when they are there.
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

    /// Rules that hold for a frame whatever its payload.
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

    /// Reads a payload, from the input itself when all of it is there. The flag says whether it was.
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
            return Ok((self.on_frame(now, header, payload, fields)?, true));
        }
        if !self.collect(now, length, input) {
            return Ok((None, false));
        }
        self.input = Input::Header;
        // Frames seldom straddle two reads: the memory goes back at once.
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
            // Unknown frames are ignored (section 5.5), but not without end.
            _ => self.floods.count(Flood::EmptyFrames, &self.limits).map(|()| None),
        }
    }

    // --- DATA (section 6.1) ---

    fn begin_data(&mut self, header: FrameHeader) -> Received {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("DATA on stream 0"));
        }
        let end_stream = header.has(flag::END_STREAM);
        if !end_stream && header.length == 0 {
            self.floods.count(Flood::EmptyFrames, &self.limits)?;
        } else if !end_stream && (header.length as usize) < DRIBBLE_BYTES {
            self.floods.count(Flood::DataDribble, &self.limits)?;
        }
        self.receive_window -= i64::from(header.length);
        if self.receive_window < 0 {
            return Err(ConnectionError::coded(ErrorCode::FLOW_CONTROL_ERROR, "DATA exceeds the connection's window"));
        }
        self.credit_connection(header.length);
        let stream = match self.streams.find(header.stream) {
            Some(key) => Some(key),
            None => self.absent_stream(header.stream, "DATA on a closed stream").map(|()| None)?,
        };
        self.input = Input::Data(DataFrame {
            stream,
            awaits_pad_length: header.has(flag::PADDED),
            data_left: header.length,
            pad_left: 0,
            end_stream,
        });
        if header.has(flag::PADDED) && header.length == 0 {
            return Err(ConnectionError::protocol("a padded frame has no pad length"));
        }
        let Some(key) = stream else { return Ok(None) };
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        stream.receive_window -= i64::from(header.length);
        let error = match stream.receive {
            Half::Closed => Some(ErrorCode::STREAM_CLOSED),
            Half::Headers => Some(ErrorCode::PROTOCOL_ERROR),
            // An empty frame needs no room, even where the window is negative (section 6.9.1).
            Half::Body if stream.receive_window < 0 && header.length > 0 => Some(ErrorCode::FLOW_CONTROL_ERROR),
            Half::Body => None,
        };
        if let Some(code) = error {
            return self.data_error(key, code);
        }
        if header.has(flag::PADDED) { Ok(None) } else { self.check_content(key, header.length, end_stream) }
    }

    /// A stream error while a DATA frame is being read: what is left of the frame is dropped.
    fn data_error(&mut self, key: StreamKey, code: ErrorCode) -> Received {
        if let Input::Data(data) = &mut self.input {
            data.stream = None;
        }
        self.stream_error(key, code)
    }

    /// Content must be as long as content-length says (section 8.1.1).
    fn check_content(&mut self, key: StreamKey, length: u32, end_stream: bool) -> Received {
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        let Some(left) = stream.content_left else { return Ok(None) };
        match left.checked_sub(u64::from(length)) {
            Some(left) if !end_stream || left == 0 => {
                stream.content_left = Some(left);
                Ok(None)
            }
            _ => self.data_error(key, ErrorCode::PROTOCOL_ERROR),
        }
    }

    /// Hands on what has come of a DATA frame. The flag says whether the frame is complete.
    fn read_data<'a>(
        &mut self,
        mut data: DataFrame,
        input: &mut &'a [u8],
    ) -> Result<(Option<Event<'a>>, bool), ConnectionError> {
        if data.awaits_pad_length {
            let Some((&pad, rest)) = input.split_first() else { return Ok((None, false)) };
            *input = rest;
            data.awaits_pad_length = false;
            data.pad_left = u32::from(pad);
            let Some(left) = data.data_left.checked_sub(1 + u32::from(pad)) else {
                return Err(ConnectionError::protocol("padding is longer than its frame"));
            };
            data.data_left = left;
            self.input = Input::Data(data);
            if let Some(key) = data.stream {
                self.release_padding(key, 1 + u32::from(pad));
                if let Some(event) = self.check_content(key, left, data.end_stream)? {
                    return Ok((Some(event), true));
                }
            }
        }
        let n = (data.data_left as usize).min(input.len());
        let (bytes, rest) = input.split_at(n);
        *input = rest;
        data.data_left -= n as u32;
        let skipped = if data.data_left == 0 { (data.pad_left as usize).min(input.len()) } else { 0 };
        *input = input.get(skipped..).unwrap_or_default();
        data.pad_left -= skipped as u32;

        let complete = data.data_left == 0 && data.pad_left == 0;
        self.input = if complete { Input::Header } else { Input::Data(data) };
        let end_stream = complete && data.end_stream;
        let event = match data.stream {
            Some(key) if n > 0 || end_stream => self.data_event(key, bytes, end_stream),
            _ => None,
        };
        Ok((event, complete))
    }

    fn data_event<'a>(&mut self, key: StreamKey, bytes: &'a [u8], end_stream: bool) -> Option<Event<'a>> {
        let stream = self.streams.get_mut(key)?;
        stream.unreleased += bytes.len() as u32;
        let token = stream.token;
        if end_stream {
            self.end_receiving(key);
        }
        Some(Event::Data { stream: key, token, bytes, end_stream })
    }

    // --- HEADERS, CONTINUATION, PRIORITY (sections 6.2, 6.10, 6.3) ---

    fn on_headers(&mut self, now: Instant, header: FrameHeader, payload: &[u8], fields: &mut FieldSection) -> Received {
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

    fn on_continuation(
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

    /// A complete header block. It is decoded whatever becomes of it, to keep the dynamic table right (section 4.3).
    fn on_block(&mut self, now: Instant, block: &OpenBlock, bytes: &[u8], fields: &mut FieldSection) -> Received {
        fields.clear();
        self.decoder
            .decode(bytes, self.limits.max_header_list_bytes as usize, fields)
            .map_err(|_| ConnectionError::coded(ErrorCode::COMPRESSION_ERROR, "a header block cannot be decoded"))?;
        if fields.defects().contains(Defects::OVERSIZE) {
            self.floods.count(Flood::HeaderList, &self.limits)?;
        }
        match self.streams.find(block.stream) {
            Some(key) if block.depends_on_itself => self.stream_error(key, ErrorCode::PROTOCOL_ERROR),
            Some(key) => self.on_later_section(key, block.end_stream, fields),
            None if self.role == Role::Server => self.on_request(now, block, fields),
            None => self.absent_stream(block.stream, "HEADERS on a closed stream").map(|()| None),
        }
    }

    fn on_request(&mut self, now: Instant, block: &OpenBlock, fields: &FieldSection) -> Received {
        let id = block.stream;
        if id.is_multiple_of(2) {
            return Err(ConnectionError::protocol("a client used an even stream identifier"));
        }
        if id <= self.highest_peer_stream {
            return self.absent_stream(id, "HEADERS on a closed stream").map(|()| None);
        }
        self.highest_peer_stream = id;
        if self.goaway_sent.is_some() {
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
        stream.content_left = framing.content_length;
        let stream = self.streams.insert(stream);
        Ok(Some(Event::Headers { stream, token: 0, section: Section::Request, end_stream: block.end_stream, oversize }))
    }

    pub(super) fn new_stream(&self, id: u32, now: Instant) -> Stream {
        let opened_ms = self.age_ms(now);
        let assumed_window = if self.settings_acknowledged { 0 } else { DEFAULT_WINDOW_BYTES };
        let receive_window = self.limits.initial_window_bytes.max(assumed_window);
        Stream::new(id, opened_ms, self.peer.initial_window_bytes, receive_window)
    }

    /// Resets a stream that never became one of ours.
    fn refuse_request(&mut self, id: u32, code: ErrorCode) -> Received {
        frame::write_rst_stream(&mut self.out, id, code);
        self.remember_reset(id);
        self.floods.count(Flood::MadeYouReset, &self.limits)?;
        Ok(None)
    }

    /// A response's header section, or the trailers of either side.
    fn on_later_section(&mut self, key: StreamKey, end_stream: bool, fields: &FieldSection) -> Received {
        self.highest_answered = self.highest_answered.max(key.id);
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

    fn on_priority(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if header.stream == 0 {
            return Err(ConnectionError::protocol("PRIORITY on stream 0"));
        }
        self.floods.count(Flood::Priority, &self.limits)?;
        let code = match frame::read_u32(payload) {
            _ if payload.len() != 5 => ErrorCode::FRAME_SIZE_ERROR,
            Some(id) if id & MAX_31_BITS == header.stream => ErrorCode::PROTOCOL_ERROR,
            // Priorities are obsolete (section 5.3.2).
            _ => return Ok(None),
        };
        match self.streams.find(header.stream) {
            Some(key) => self.stream_error(key, code),
            None => Err(ConnectionError::coded(code, "a PRIORITY frame that is not valid")),
        }
    }

    // --- RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE (sections 6.4 to 6.9) ---

    fn on_rst_stream(&mut self, now: Instant, header: FrameHeader, payload: &[u8]) -> Received {
        let code = exactly_u32(payload, "RST_STREAM is not four bytes")?;
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("RST_STREAM on an idle stream"));
        }
        let Some(key) = self.streams.find(header.stream) else { return Ok(None) };
        let now_ms = self.age_ms(now);
        let Some(stream) = self.forget_stream(key) else { return Ok(None) };
        let age_ms = u128::from(now_ms.saturating_sub(stream.opened_ms));
        if stream.by_peer && stream.send == Half::Headers && age_ms < RAPID_RESET_AGE.as_millis() {
            self.count_after_event(Flood::RapidReset);
        }
        Ok(Some(Event::Reset { stream: key, token: stream.token, code: ErrorCode(code), by_peer: true }))
    }

    fn on_settings(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        if header.has(flag::ACK) {
            if payload.is_empty() {
                self.on_acknowledgement();
                return Ok(None);
            }
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "a SETTINGS acknowledgement is not empty"));
        }
        self.floods.count(Flood::Settings, &self.limits)?;
        let before = self.peer;
        self.peer.apply(payload, self.role == Role::Client)?;
        self.settings_received = true;
        self.settings_changed(before)?;
        frame::write(&mut self.out, kind::SETTINGS, flag::ACK, 0, &[]);
        Ok(Some(Event::Settings))
    }

    /// Where we announced less than a peer may assume at first, that holds from now on (sections 6.5.3 and 6.9.2).
    fn on_acknowledgement(&mut self) {
        if std::mem::replace(&mut self.settings_acknowledged, true) {
            return;
        }
        self.decoder.set_max_table_size(self.limits.header_table_bytes as usize);
        let excess = DEFAULT_WINDOW_BYTES.saturating_sub(self.limits.initial_window_bytes);
        let mut open = Vec::new();
        for (key, stream) in self.streams.iter_mut() {
            stream.receive_window -= i64::from(excess);
            stream.receive_target = stream.receive_target.saturating_sub(excess);
            open.push(key);
        }
        // Credit that was small beside the window may not be small beside the new one.
        for key in open {
            self.announce_credit(key);
        }
    }

    /// A new initial window moves every stream's window, below zero even (section 6.9.2).
    fn settings_changed(&mut self, before: PeerSettings) -> Result<(), ConnectionError> {
        if self.peer.header_table_bytes != before.header_table_bytes {
            self.encoder.set_max_table_size(self.peer.header_table_bytes as usize);
        }
        let change = i64::from(self.peer.initial_window_bytes) - i64::from(before.initial_window_bytes);
        if change == 0 {
            return Ok(());
        }
        let mut woken = Vec::new();
        for (key, stream) in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > i64::from(MAX_31_BITS) {
                return Err(ConnectionError::coded(
                    ErrorCode::FLOW_CONTROL_ERROR,
                    "SETTINGS makes a window larger than 2^31-1",
                ));
            }
            woken.push(key);
        }
        for key in woken {
            self.wake(key);
        }
        Ok(())
    }

    fn on_ping(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if payload.len() != 8 {
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "PING is not eight bytes"));
        }
        if header.stream != 0 {
            return Err(ConnectionError::protocol("PING on a stream"));
        }
        if !header.has(flag::ACK) {
            self.floods.count(Flood::Ping, &self.limits)?;
            frame::write(&mut self.out, kind::PING, flag::ACK, 0, payload);
        } else if payload == SHUTDOWN_PING && self.shutting_down {
            self.go_away(ErrorCode::NO_ERROR, "");
        }
        Ok(None)
    }

    fn on_goaway(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("GOAWAY on a stream"));
        }
        let (Some(last), Some(code)) = (frame::read_u32(payload), payload.get(4..).and_then(frame::read_u32)) else {
            return Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, "GOAWAY is too short"));
        };
        let last_stream = (last & MAX_31_BITS).min(self.goaway_received.unwrap_or(MAX_31_BITS));
        self.goaway_received = Some(last_stream);
        Ok(Some(Event::GoAway { last_stream, code: ErrorCode(code) }))
    }

    fn on_window_update(&mut self, header: FrameHeader, payload: &[u8]) -> Received {
        let increment = exactly_u32(payload, "WINDOW_UPDATE is not four bytes")? & MAX_31_BITS;
        self.floods.count(Flood::WindowUpdate, &self.limits)?;
        if header.stream == 0 {
            if increment == 0 {
                return Err(ConnectionError::protocol("WINDOW_UPDATE of 0"));
            }
            self.send_window += i64::from(increment);
            if self.send_window > i64::from(MAX_31_BITS) {
                return Err(ConnectionError::coded(
                    ErrorCode::FLOW_CONTROL_ERROR,
                    "the connection's window exceeds 2^31-1",
                ));
            }
            self.send_window_peak = self.send_window_peak.max(self.send_window);
            self.end_holding_back();
            return Ok(None);
        }
        if self.is_idle(header.stream) {
            return Err(ConnectionError::protocol("WINDOW_UPDATE on an idle stream"));
        }
        let Some(key) = self.streams.find(header.stream) else { return Ok(None) };
        if increment == 0 {
            return self.stream_error(key, ErrorCode::PROTOCOL_ERROR);
        }
        let Some(stream) = self.streams.get_mut(key) else { return Ok(None) };
        stream.send_window += i64::from(increment);
        if stream.send_window > i64::from(MAX_31_BITS) {
            return self.stream_error(key, ErrorCode::FLOW_CONTROL_ERROR);
        }
        self.wake(key);
        Ok(None)
    }

    // --- streams that are not there, streams that end ---

    /// A stream that nobody has opened yet (section 5.1).
    fn is_idle(&self, id: u32) -> bool {
        match self.role {
            _ if id == 0 || id.is_multiple_of(2) => true,
            Role::Server => id > self.highest_peer_stream,
            Role::Client => id >= self.next_stream,
        }
    }

    /// DATA or HEADERS for a stream that is not open: fine where our reset crossed it on the way (section 5.1, closed).
    fn absent_stream(&mut self, id: u32, why: &'static str) -> Result<(), ConnectionError> {
        if self.is_idle(id) {
            return Err(ConnectionError::protocol("a frame on an idle stream"));
        }
        let ignored_after_goaway = self.goaway_sent.is_some_and(|last| id > last);
        // A server's connection is shared: what it says of a stream that we have forgotten is not worth the others.
        if self.role == Role::Client || ignored_after_goaway || self.reset_by_us.contains(&id) {
            return Ok(());
        }
        Err(ConnectionError::coded(ErrorCode::STREAM_CLOSED, why))
    }

    /// Resets a stream on which the peer broke a rule.
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
                self.streams.remove(key);
            }
        }
    }
}

fn exactly_u32(payload: &[u8], why: &'static str) -> Result<u32, ConnectionError> {
    match payload {
        [a, b, c, d] => Ok(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => Err(ConnectionError::coded(ErrorCode::FRAME_SIZE_ERROR, why)),
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
    // These have no content, whatever content-length says (RFC 9110 section 6.4.1).
    let empty = stream.head || matches!(framing.status, 204 | 304);
    // A tunnel's is to be ignored (section 9.3.6 there).
    let tunnel = stream.connect && framing.status < 300;
    stream.content_left = if empty { Some(0) } else { framing.content_length.filter(|_| !tunnel) };
    if end_stream && stream.content_left.is_some_and(|left| left > 0) {
        return Err("content is shorter than content-length");
    }
    Ok(Section::Response)
}
