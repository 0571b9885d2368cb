//! Parses header sections, chunk sizes and trailers into events.

use std::borrow::Cow;
use std::time::Instant;

use leno_http2::{Event, FieldSection, Role, Section, StreamKey};

use super::{Connection, Input};
use crate::block::{Fault, Kind};
use crate::chunk;
use crate::error::ConnectionError;
use crate::exchange::{Exchange, Half, Outgoing};
use crate::head::Head;
use crate::limits::MAX_EMPTY_LINES;
use crate::message::Content;
use crate::repeats::{Heads, Reader, SectionHash};
use crate::request::{self, RequestHead};
use crate::response::{self, Asked, ResponseHead};
use crate::trailers;

impl Connection {
    pub(super) fn read<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
        heads: &mut Heads,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        loop {
            if self.is_paused() {
                return Ok(None);
            }
            if input.is_empty() && self.peer_ended {
                return Ok(self.on_end_of_input());
            }
            match self.input {
                Input::Head => {
                    if self.role == Role::Client && !self.awaits_response(input)? {
                        return Ok(None);
                    }
                    let Some(head) = self.take_head(now, input, fields, heads)? else { return Ok(None) };
                    if let Some(event) = self.on_head(head)? {
                        return Ok(Some(event));
                    }
                }
                Input::Length(left) | Input::ChunkData(left) => return Ok(self.read_content(left, input)),
                Input::UntilClose | Input::Tunnel => return Ok(self.read_content(u64::MAX, input)),
                Input::ChunkLine => {
                    let max_bytes = self.limits.max_chunk_line_bytes;
                    let Some(line) = self.take_block(now, input, Kind::Line, max_bytes)? else { return Ok(None) };
                    self.on_chunk_line(&line)?;
                }
                Input::ChunkEnd => {
                    let Some(_) = self.take_block(now, input, Kind::Line, 2)? else { return Ok(None) };
                    self.input = Input::ChunkLine;
                }
                Input::Trailers => {
                    let max_bytes = self.limits.max_trailer_bytes;
                    let Some(section) = self.take_block(now, input, Kind::Section, max_bytes)? else { return Ok(None) };
                    return self.on_trailers(&section, fields);
                }
                Input::Rejected => return Ok(self.end_of_content()),
                Input::Complete => return Ok(None),
                Input::Undecided => return Ok(None),
                Input::Dead => {
                    *input = &[];
                    return Ok(None);
                }
            }
        }
    }

    /// Whether `input` begins or continues a response to our request (client only). Returns an error if a response
    /// comes before its request has been sent.
    fn awaits_response(&mut self, input: &[u8]) -> Result<bool, ConnectionError> {
        let Some(exchange) = self.exchange.as_deref() else { return Ok(false) };
        if input.is_empty() {
            return Ok(false);
        }
        if !self.has_sent(StreamKey::numbered(exchange.id)) {
            return Err(ConnectionError::bad("a response came before its request"));
        }
        self.answered_id = exchange.id;
        Ok(true)
    }

    /// Takes a header section from `input`, and writes its fields to `fields`. If `heads` remembers the section, copies
    /// the remembered fields instead of parsing.
    fn take_head(
        &mut self,
        now: Instant,
        input: &mut &[u8],
        fields: &mut FieldSection,
        heads: &mut Heads,
    ) -> Result<Option<Head>, ConnectionError> {
        let reader = self.reader();
        if let Some(reader) = reader.filter(|_| self.incomplete.is_empty())
            && let Some((known, rest)) = heads.at(self.head_place, reader, input)
        {
            *input = rest;
            return Ok(Some(known.read_again(fields)));
        }
        let max_bytes = self.limits.max_header_list_bytes;
        let Some(section) = self.take_block(now, input, Kind::Section, max_bytes)? else { return Ok(None) };
        let hash = reader.and_then(|reader| Some((reader, SectionHash::of(&section, reader)?)));
        if let Some((reader, hash)) = hash
            && let Some((known, place)) = heads.find(hash, reader, &section)
        {
            self.head_place = place;
            return Ok(Some(known.read_again(fields)));
        }
        let head = self.parse_head(&section, fields)?;
        if let Some((reader, hash)) = hash
            && head.may_repeat()
        {
            heads.note_read(hash, reader, &section, fields, &head);
        }
        Ok(Some(head))
    }

    /// Returns the kind of header section that this connection reads now. Returns `None` if the section must not be
    /// remembered: as a client, if our request asks for a tunnel, or if we have sent no request.
    fn reader(&self) -> Option<Reader> {
        match (self.role, self.exchange.as_deref()) {
            (Role::Server, _) => Some(Reader::Server),
            (Role::Client, Some(exchange)) if exchange.asks_for_tunnel() => None,
            (Role::Client, Some(exchange)) if exchange.head => Some(Reader::ClientOfHead),
            (Role::Client, Some(_)) => Some(Reader::Client),
            (Role::Client, None) => None,
        }
    }

    fn parse_head(&self, section: &[u8], fields: &mut FieldSection) -> Result<Head, ConnectionError> {
        match (self.role, self.exchange.as_deref()) {
            (Role::Server, _) if section == b"\r\n" => Ok(Head::EmptyLine),
            (Role::Client, Some(exchange)) => {
                let (head, connect, upgrade) = (exchange.head, exchange.connect, exchange.upgrade.as_deref());
                response::parse(section, Asked { head, connect, upgrade }, &self.limits, fields).map(Head::Response)
            }
            (Role::Client, None) => Err(ConnectionError::bad("a response came without a request")),
            (Role::Server, _) => request::parse(section, &self.limits, self.keeps_absolute, fields).map(Head::Request),
        }
    }

    /// Takes a line or a section of at most `max_bytes` from `input`; `None` if its end has not arrived.
    fn take_block<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        kind: Kind,
        max_bytes: u32,
    ) -> Result<Option<Cow<'a, [u8]>>, ConnectionError> {
        let block = self.incomplete.take(input, kind, max_bytes as usize).map_err(|fault| self.explain(fault))?;
        if block.is_some() || self.incomplete.is_empty() {
            self.incomplete_since = None;
        } else {
            self.incomplete_since.get_or_insert(now);
        }
        Ok(block)
    }

    fn explain(&self, fault: Fault) -> ConnectionError {
        match (fault, self.input) {
            (Fault::BareLineFeed, _) => ConnectionError::bad("a line does not end with CR LF"),
            (Fault::TooLong { in_first_line: true }, Input::Head) => {
                ConnectionError::new(414, "the first line of a message is too long")
            }
            (_, Input::Head) => ConnectionError::new(431, "the header fields are too large"),
            (_, Input::Trailers) => ConnectionError::new(431, "the trailer fields are too large"),
            (_, Input::ChunkEnd) => ConnectionError::bad("a chunk is longer than its size"),
            _ => ConnectionError::bad("a chunk size line is too long"),
        }
    }

    /// Processes a header section, which may be an interim response. Returns `None` for an empty line.
    fn on_head(&mut self, head: Head) -> Result<Option<Event<'static>>, ConnectionError> {
        match head {
            Head::Request(request) => Ok(Some(self.on_request(request))),
            Head::Response(response) => self.on_response(&response),
            Head::EmptyLine => {
                self.empty_lines += 1;
                let too_many = self.empty_lines > MAX_EMPTY_LINES;
                if too_many { Err(ConnectionError::bad("empty lines instead of a request")) } else { Ok(None) }
            }
        }
    }

    fn on_request(&mut self, request: RequestHead) -> Event<'static> {
        self.empty_lines = 0;
        self.last_id += 1;
        let end_stream = request.content == Content::None;
        let mut exchange = Exchange::new(self.last_id, 0);
        exchange.receive = if end_stream { Half::Closed } else { Half::Body };
        exchange.head = request.head;
        exchange.connect = request.connect;
        exchange.peer_is_1_0 = request.is_1_0;
        exchange.upgrade = request.upgrade;
        exchange.awaits_continue = request.expects_continue;
        // After the exchange with the largest identifier, the connection ends, so identifiers are never reused.
        exchange.persistent = request.persistent && self.last_id < u32::MAX;
        self.exchange = Some(Box::new(exchange));
        self.begin_content(request.content);
        let stream = StreamKey::numbered(self.last_id);
        Event::Headers { stream, token: 0, section: Section::Request, end_stream, oversize: false }
    }

    fn on_response(&mut self, response: &ResponseHead) -> Result<Option<Event<'static>>, ConnectionError> {
        let is_flushed = self.pending_output() == 0;
        let Some(exchange) = self.exchange.as_deref_mut() else { return Ok(None) };
        let (stream, token) = (StreamKey::numbered(exchange.id), exchange.token);
        if response.interim {
            exchange.interim_responses += 1;
            if exchange.interim_responses > self.limits.max_interim_responses {
                return Err(ConnectionError::bad("too many interim responses"));
            }
            let section = Section::Interim;
            return Ok(Some(Event::Headers { stream, token, section, end_stream: false, oversize: false }));
        }
        exchange.receive = Half::Body;
        // A server that has answered before the whole request was sent may not read the rest. It could then parse the
        // rest as the next request. This does not apply to the bytes for a tunnel: they wait until the server accepts.
        let is_all_written =
            exchange.send == Half::Closed || matches!(exchange.outgoing, Outgoing::Length(0) | Outgoing::Awaited);
        exchange.persistent &= response.persistent && is_all_written && is_flushed;
        // Some servers do not send the field with every response, for example not with 304.
        self.keep_alive_s = response.keep_alive_s.or(self.keep_alive_s);
        let refused = exchange.outgoing == Outgoing::Awaited && response.content != Content::Tunnel;
        if response.content == Content::Tunnel {
            exchange.outgoing = Outgoing::Tunnel;
            exchange.persistent = false;
        }
        self.begin_content(response.content);
        if refused {
            self.drop_queue();
            self.end_sending();
        }
        let end_stream = response.content == Content::None;
        if end_stream {
            self.end_receiving();
        }
        Ok(Some(Event::Headers { stream, token, section: Section::Response, end_stream, oversize: false }))
    }

    fn begin_content(&mut self, content: Content) {
        self.input = match content {
            Content::None => Input::Complete,
            Content::Length(length) => Input::Length(length),
            Content::Chunked => Input::ChunkLine,
            Content::UntilClose => Input::UntilClose,
            Content::Tunnel if self.role == Role::Server => Input::Undecided,
            Content::Tunnel => Input::Tunnel,
        };
    }

    fn on_chunk_line(&mut self, line: &[u8]) -> Result<(), ConnectionError> {
        let line = chunk::parse_line(line)?;
        let Some(exchange) = self.exchange.as_deref_mut() else { return Ok(()) };
        exchange.awaits_continue = false;
        exchange.extension_bytes += line.extension_bytes;
        if exchange.extension_bytes > self.limits.max_chunk_extension_bytes as usize {
            return Err(ConnectionError::bad("too many chunk extensions"));
        }
        self.input = if line.size == 0 { Input::Trailers } else { Input::ChunkData(line.size) };
        Ok(())
    }

    fn on_trailers(
        &mut self,
        section: &[u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'static>>, ConnectionError> {
        trailers::parse(section, self.limits.max_trailer_bytes, fields)?;
        if fields.is_empty() {
            return Ok(self.end_of_content());
        }
        let Some(exchange) = self.exchange.as_deref() else { return Ok(None) };
        let (stream, token) = (StreamKey::numbered(exchange.id), exchange.token);
        self.end_receiving();
        Ok(Some(Event::Headers { stream, token, section: Section::Trailers, end_stream: true, oversize: false }))
    }
}
