//! One HTTP/1.1 connection in either role, without a socket or a clock (RFC 9112).
//!
//! Input: [`Connection::receive`] parses bytes into [`Event`]s, one at a time, so that content can point into the
//! caller's buffer. Output: all bytes to send are collected in one buffer, [`Connection::output`], for one write. While
//! a connection must wait ([`Connection::is_paused`]), it consumes no input. The caller, the code that uses the
//! connection, keeps the remaining input.

mod content;
mod end;
mod output;
mod receive;
mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Drained, Event, FieldSection, OutputBuffer, Role, StreamKey};

use crate::block::Incomplete;
use crate::error::ConnectionError;
use crate::exchange::{Exchange, Half, Outgoing};
use crate::limits::{Limits, OUTPUT_HIGH_WATER_BYTES};
use crate::repeats::{Heads, Place};
pub use send::OpenError;

/// The kind of the next input bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// The header section of a request or response.
    Head,
    /// Remaining bytes of content.
    Length(u64),
    /// A chunk's size.
    ChunkLine,
    /// Remaining bytes of a chunk.
    ChunkData(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// Trailers and the empty line after them.
    Trailers,
    /// Content until the end of the connection.
    UntilClose,
    /// Bytes of a tunnel that has been requested. They wait until the tunnel is accepted or rejected.
    Undecided,
    /// The tunnel was rejected. An event must still report the end of the request to the caller.
    Rejected,
    /// A tunnel's bytes, until the end of the connection.
    Tunnel,
    /// The message is complete, but the exchange is not.
    Complete,
    /// Input is not read any more.
    Dead,
}

/// An HTTP/1.1 connection in either role. No method blocks, locks or reads a clock.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    limits: Arc<Limits>,
    /// Largest amount of content that the caller may hold unreleased now ([`Connection::limit_content`]), in bytes.
    content_window_bytes: u32,
    input: Input,
    /// The buffered beginning of an incomplete header section, chunk size line or trailer section.
    incomplete: Incomplete,
    incomplete_since: Option<Instant>,
    /// The index in [`Heads`] at which this connection last found a remembered header section. The next section is
    /// probably there, too.
    head_place: Place,
    /// Number of empty lines before the next request.
    empty_lines: u8,
    exchange: Option<Box<Exchange>>,
    /// Number of the latest exchange; the first is 1.
    last_id: u32,
    /// Number of the latest exchange for which a byte of the response has arrived.
    answered_id: u32,
    /// How long the server keeps the connection open without a request, in seconds, if a response has announced this.
    keep_alive_s: Option<u16>,
    out: OutputBuffer,
    /// Number of output bytes that the socket has accepted so far.
    written: u64,
    /// The value of `written` at which our request begins. While `written` is not greater, the server has no byte of
    /// the request, so received bytes cannot be its response.
    request_starts_at: u64,
    drained: VecDeque<Drained>,
    shutting_down: bool,
    /// Whether requests keep an absolute-form target ([`Connection::keep_absolute_form`]).
    keeps_absolute: bool,
    /// Whether our next response announces that the connection ends after that response.
    announces_end: bool,
    /// Whether the peer has closed its side.
    peer_ended: bool,
    /// Whether the connection is over: nothing more is read, and nothing is sent beyond the current output.
    over: bool,
    /// Whether the connection must end with a TCP reset: our content is incomplete, and the peer would take an orderly
    /// close for the end of the content.
    cut_short: bool,
}

impl Connection {
    /// Creates a connection. `now` is not used: the parameter makes the signature the same as for HTTP/2.
    pub fn new(role: Role, limits: Arc<Limits>, _now: Instant) -> Self {
        Self {
            role,
            content_window_bytes: limits.content_window_bytes,
            limits,
            input: Input::Head,
            incomplete: Incomplete::default(),
            incomplete_since: None,
            head_place: Place::default(),
            empty_lines: 0,
            exchange: None,
            last_id: 0,
            answered_id: 0,
            keep_alive_s: None,
            out: OutputBuffer::default(),
            written: 0,
            request_starts_at: 0,
            drained: VecDeque::new(),
            shutting_down: false,
            keeps_absolute: false,
            announces_end: false,
            peer_ended: false,
            over: false,
            cut_short: false,
        }
    }

    /// Lets the requests of a client keep an absolute-form target such as `http://shop/a`, with any scheme (server
    /// only). If the fields of such a request are sent on another connection of HTTP/1.1, the target has this form
    /// again, with the `:authority` and the `:path` that the fields then have.
    ///
    /// A client uses this form for requests to a forward proxy (RFC 9112 section 3.2.2). Without this call, only the
    /// scheme `http` is valid, and a request that is sent again has a path as its target.
    pub fn keep_absolute_form(&mut self) {
        self.keeps_absolute = true;
    }

    /// Parses `input` up to the next event, and removes the parsed bytes from it. Returns `None` at the end of the
    /// input, or if the connection must wait.
    ///
    /// The caller must keep input that remains after `None`, and pass it again once [`Connection::is_paused`] is false.
    /// At that time, the caller must call this function even without input: a decision that the caller has made
    /// meanwhile, such as the rejection of a tunnel, may produce an event. Each header section overwrites `fields`;
    /// after an [`Event::Headers`], `fields` holds the event's section. Every request and every response that is not
    /// reset ends with `end_stream`. `heads` is shared by all connections with the same limits.
    ///
    /// # Errors
    /// If the peer violated the protocol: flush [`Connection::output`] and close the connection.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
        heads: &mut Heads,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        let result = self.read(now, input, fields, heads);
        match result {
            Ok(event) => {
                self.check_for_unsolicited(input);
                Ok(event)
            }
            Err(error) => Err(self.break_off(error)),
        }
    }

    /// Whether the connection consumes no input for now, because:
    /// - a requested tunnel is not accepted yet;
    /// - the caller has not released enough of the content that was received;
    /// - as a server: the previous exchange is incomplete, or too much output waits.
    pub fn is_paused(&self) -> bool {
        match self.input {
            Input::Undecided => true,
            Input::Complete => self.role == Role::Server,
            Input::Head => self.role == Role::Server && self.pending_output() > OUTPUT_HIGH_WATER_BYTES,
            Input::Length(_) | Input::ChunkData(_) | Input::UntilClose | Input::Tunnel => self.content_room() == 0,
            _ => false,
        }
    }

    /// Whether the end of the input matters although the connection consumes no input for now
    /// ([`Connection::is_paused`]): as a server, after a complete request. If the client closes its side, it gives the
    /// request up ([`Connection::input_ended`]). So the caller should read until it must keep bytes.
    pub fn awaits_end(&self) -> bool {
        self.role == Role::Server && self.input == Input::Complete
    }

    /// Maximum number of bytes to read from the socket now. If the caller read more content than the connection takes, the
    /// caller would have to keep the rest, while the peer sends as much again. At least 1, so that the caller notices the
    /// end of the input. The read that brings the header section of a request is not limited.
    pub fn read_room(&self) -> usize {
        match self.input {
            Input::Length(_) | Input::ChunkData(_) | Input::UntilClose | Input::Tunnel => self.content_room().max(1),
            // The chunk follows its size at once. If there is no room for the chunk, read little more than its size.
            Input::ChunkLine | Input::ChunkEnd => self.content_room().max(self.limits.max_chunk_line_bytes as usize),
            // The content of a response may come in the same read as its header section.
            Input::Head if self.role == Role::Client => self.content_window_bytes as usize,
            _ => usize::MAX,
        }
    }

    /// Sets the token that accompanies every later event of the exchange.
    pub fn set_token(&mut self, stream: StreamKey, token: u32) {
        if let Some(exchange) = self.exchange_mut(stream) {
            exchange.token = token;
        }
    }

    /// Whether the exchange has become a tunnel, by CONNECT or by a switch of protocols. The connection does not parse
    /// the bytes of a tunnel.
    pub fn carries_tunnel(&self) -> bool {
        self.exchange.as_deref().is_some_and(|exchange| exchange.outgoing == Outgoing::Tunnel)
    }

    /// Number of open exchanges: 0 or 1.
    pub fn stream_count(&self) -> usize {
        usize::from(self.exchange.is_some())
    }

    /// The open exchange and its token.
    pub fn open_exchange(&self) -> Option<(StreamKey, u32)> {
        self.exchange.as_deref().map(|exchange| (StreamKey::numbered(exchange.id), exchange.token))
    }

    /// The open exchange and its token, in a list as for the streams of HTTP/2.
    pub fn open_streams(&self) -> Vec<(StreamKey, u32)> {
        self.open_exchange().into_iter().collect()
    }

    /// Whether the exchange is open in at least one direction.
    pub fn is_open(&self, stream: StreamKey) -> bool {
        self.exchange_of(stream).is_some()
    }

    /// Whether we may still send in the exchange: the end of our message has been neither sent nor queued.
    pub fn can_send(&self, stream: StreamKey) -> bool {
        !self.over && self.exchange_of(stream).is_some_and(Exchange::takes_output)
    }

    /// Whether the connection ends with the exchange `stream`, according to the head of the response that we have sent.
    pub fn has_announced_end(&self, stream: StreamKey) -> bool {
        self.exchange_of(stream).is_some_and(|exchange| exchange.send != Half::Headers && !exchange.persistent)
    }

    /// Whether the server has begun to answer `stream`. A server may close a reused connection just as the next request
    /// arrives. If a request is repeatable and the server has not begun to answer it, it may be sent again on another
    /// connection (RFC 9112 section 9.3.1).
    pub fn is_taken_up(&self, stream: StreamKey) -> bool {
        stream.id <= self.answered_id
    }

    /// Whether the socket has accepted a byte of our request on `stream`. If it has not, the server has nothing of the
    /// request. Any request may then be sent again on another connection, whatever its method (RFC 9110 section 9.2.2).
    pub fn has_sent(&self, stream: StreamKey) -> bool {
        stream.id < self.last_id || self.written > self.request_starts_at
    }

    /// Returns how long the server keeps the connection open without a request, if a response has announced this
    /// (client only).
    pub fn keep_alive(&self) -> Option<Duration> {
        self.keep_alive_s.map(|seconds| Duration::from_secs(seconds.into()))
    }

    /// Returns the time at which the incomplete header section, chunk size or trailer section began; `None` if nothing
    /// is incomplete. If that time is long ago, the peer sends too slowly.
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.incomplete_since
    }

    /// Whether the connection is over: flush [`Connection::output`], then close it. An exchange that is still open
    /// ([`Connection::open_streams`]) is lost.
    pub fn must_close(&self) -> bool {
        self.over
    }

    /// Whether content is incomplete, but the peer would mistake an orderly end of the connection for the end of the
    /// content. If so, end the connection with a TCP reset (`SO_LINGER` of 0).
    pub fn must_abort(&self) -> bool {
        self.cut_short
    }

    /// Whether we send nothing after the current output. If so, flush the output, then close our side of the
    /// connection. The peer may continue to send, in a tunnel or in a request that has been answered.
    ///
    /// False if the connection must end with a TCP reset ([`Connection::must_abort`]). The peer takes a close of our
    /// side for the end of the content, and a later reset does not change that.
    pub fn ends_output(&self) -> bool {
        let ended = |exchange: &Exchange| {
            let by_closing = match self.role {
                Role::Server => !exchange.persistent || self.shutting_down,
                Role::Client => exchange.outgoing == Outgoing::Tunnel,
            };
            exchange.send == Half::Closed && by_closing
        };
        (self.over && !self.cut_short) || self.exchange.as_deref().is_some_and(ended)
    }

    /// Lets a server's next response announce that the connection ends after it (RFC 9112 section 9.6). Until then, the
    /// connection stays open, because a request may be in transit. If the server closed the connection at once, the
    /// client would not know whether the server has read that request. If no request arrives, call
    /// [`Connection::shut_down`].
    pub fn announce_end(&mut self) {
        self.announces_end = true;
    }

    /// Ends the connection after the current exchange. If no exchange is open and no part of a request has arrived,
    /// ends the connection at once. A server announces the end in its response, unless the response has begun (RFC 9112
    /// section 9.6). The shutdown is complete when [`Connection::is_drained`] is true.
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        if self.exchange.is_none() && self.incomplete.is_empty() {
            self.end();
        }
    }

    /// Whether no exchange is open, and no further exchange can follow.
    pub fn is_drained(&self) -> bool {
        self.over && self.exchange.is_none()
    }

    fn exchange_of(&self, key: StreamKey) -> Option<&Exchange> {
        self.exchange.as_deref().filter(|exchange| StreamKey::numbered(exchange.id) == key)
    }

    fn exchange_mut(&mut self, key: StreamKey) -> Option<&mut Exchange> {
        self.exchange.as_deref_mut().filter(|exchange| StreamKey::numbered(exchange.id) == key)
    }

    /// Number of content bytes that may still be passed to the caller before the caller must release content.
    fn content_room(&self) -> usize {
        let held_bytes = usize::try_from(self.held_bytes()).unwrap_or(usize::MAX);
        (self.content_window_bytes as usize).saturating_sub(held_bytes)
    }
}

#[cfg(test)]
mod memory_tests;
