//! One HTTP/1.1 connection, either role, without a socket or a clock (RFC 9112).
//!
//! In: [`Connection::receive`] turns bytes into [`Event`]s, one at a time, so that content can point into the caller's
//! buffer. Out: whatever is sent gathers in one buffer, [`Connection::output`], and leaves as one write.
//! Where a connection must wait, it takes no more input, and says so ([`Connection::is_paused`]): its owner keeps the rest.

mod content;
mod end;
mod output;
mod receive;
mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use leno_http2::{Drained, Event, FieldSection, OutputBuffer, Role, StreamKey};

use crate::block::Incomplete;
use crate::error::ConnectionError;
use crate::exchange::{Exchange, Half, Outgoing};
use crate::limits::{Limits, OUTPUT_HIGH_WATER_BYTES};

/// What the next bytes of input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    /// The head of a request or response.
    Head,
    /// So many bytes of content.
    Length(u64),
    /// A chunk's size.
    ChunkLine,
    /// So many bytes of a chunk.
    ChunkData(u64),
    /// The line end after a chunk.
    ChunkEnd,
    /// Trailers and the empty line after them.
    Trailers,
    /// Content, up to the end of the connection.
    UntilClose,
    /// A tunnel's, if it is accepted; they wait for that.
    Undecided,
    /// A tunnel was not accepted: the owner has yet to hear that the request ends.
    Rejected,
    /// Of a tunnel, up to the end of the connection.
    Tunnel,
    /// The message is complete, the exchange is not.
    Complete,
    /// Nothing is read any more.
    Dead,
}

/// A connection. One owner; nothing here blocks, locks or reads a clock.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    limits: Arc<Limits>,
    input: Input,
    /// The front of a head, a chunk's line or trailers.
    incomplete: Incomplete,
    incomplete_since: Option<Instant>,
    /// Empty lines before the request that is awaited.
    empty_lines: u8,
    exchange: Option<Box<Exchange>>,
    /// Of the latest exchange; the first is 1.
    last_id: u32,
    /// Of the latest exchange that some byte of the answer has come of.
    answered_id: u32,
    out: OutputBuffer,
    /// Bytes that the socket has taken.
    written: u64,
    /// Bytes that the socket had to take before our request.
    request_starts_at: u64,
    drained: VecDeque<Drained>,
    shutting_down: bool,
    /// The peer has closed its side.
    peer_ended: bool,
    /// Nothing more is read or sent, what is in the output aside.
    over: bool,
    /// Content whose end is the end of the connection is not complete.
    cut_short: bool,
}

impl Connection {
    /// A connection on which nothing has been said. HTTP/1 has no use for `now` yet.
    pub fn new(role: Role, limits: Arc<Limits>, _now: Instant) -> Self {
        Self {
            role,
            limits,
            input: Input::Head,
            incomplete: Incomplete::default(),
            incomplete_since: None,
            empty_lines: 0,
            exchange: None,
            last_id: 0,
            answered_id: 0,
            out: OutputBuffer::default(),
            written: 0,
            request_starts_at: 0,
            drained: VecDeque::new(),
            shutting_down: false,
            peer_ended: false,
            over: false,
            cut_short: false,
        }
    }

    /// Reads from the front of `input`, until an event, the end of the input, or a reason to wait (`None`).
    ///
    /// Input that is left with `None` must be kept, and given again when [`Connection::is_paused`] is false; then call
    /// this even with nothing left, for what was decided meanwhile may be an event. `fields` is overwritten, and holds
    /// the section of an [`Event::Headers`]. Every request and every response that is not reset ends with `end_stream`.
    ///
    /// # Errors
    /// The peer broke the connection: flush [`Connection::output`] and close.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        let result = self.read(now, input, fields);
        match result {
            Ok(event) => {
                self.check_for_unsolicited(input);
                Ok(event)
            }
            Err(error) => Err(self.break_off(error)),
        }
    }

    /// Whether no input is taken for now: a tunnel that was asked for is not accepted yet, content is not released, or as
    /// a server, the exchange before is not complete.
    pub fn is_paused(&self) -> bool {
        match self.input {
            Input::Undecided => true,
            Input::Complete => self.role == Role::Server,
            Input::Head => self.role == Role::Server && self.pending_output() > OUTPUT_HIGH_WATER_BYTES,
            Input::Length(_) | Input::ChunkData(_) | Input::UntilClose | Input::Tunnel => self.content_room() == 0,
            _ => false,
        }
    }

    /// Sets the token that comes with every later event of the exchange.
    pub fn set_token(&mut self, stream: StreamKey, token: u32) {
        if let Some(exchange) = self.exchange_mut(stream) {
            exchange.token = token;
        }
    }

    /// Open exchanges: 0 or 1.
    pub fn stream_count(&self) -> usize {
        usize::from(self.exchange.is_some())
    }

    /// The open exchange and its token.
    pub fn open_streams(&self) -> Vec<(StreamKey, u32)> {
        self.exchange.iter().map(|exchange| (StreamKey::numbered(exchange.id), exchange.token)).collect()
    }

    /// Whether the exchange is still open in some direction.
    pub fn is_open(&self, stream: StreamKey) -> bool {
        self.exchange_of(stream).is_some()
    }

    /// Whether we may still send in the exchange: its end has not been sent or queued.
    pub fn can_send(&self, stream: StreamKey) -> bool {
        !self.over && self.exchange_of(stream).is_some_and(Exchange::takes_output)
    }

    /// Whether the server has begun to answer `stream`. A server may close a connection that is used again just as the
    /// next request is on its way: one that can be repeated, and that was not taken up, may be sent elsewhere (RFC 9112
    /// section 9.3.1).
    pub fn is_taken_up(&self, stream: StreamKey) -> bool {
        stream.id <= self.answered_id
    }

    /// When the head, chunk size or trailer section that is not complete began; a slow writer's is old.
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.incomplete_since
    }

    /// Whether the connection is over: flush [`Connection::output`], then close it. An exchange that is still open then
    /// ([`Connection::open_streams`]) is lost.
    pub fn must_close(&self) -> bool {
        self.over
    }

    /// Whether the peer would take an orderly end of the connection for the end of content that is not complete: end it
    /// with a TCP reset (`SO_LINGER` of 0).
    pub fn must_abort(&self) -> bool {
        self.cut_short
    }

    /// Whether we send nothing after what is in the output: flush it, then close our side of the connection. The peer
    /// may go on, in a tunnel or with a request that is answered already.
    pub fn ends_output(&self) -> bool {
        let ended = |exchange: &Exchange| {
            let by_closing = match self.role {
                Role::Server => !exchange.persistent || self.shutting_down,
                Role::Client => exchange.outgoing == Outgoing::Tunnel,
            };
            exchange.send == Half::Closed && by_closing
        };
        self.over || self.exchange.as_deref().is_some_and(ended)
    }

    /// Ends the connection with the exchange under way, or at once when there is none. As a server, a response that has
    /// not begun says so (RFC 9112 section 9.6). Done when [`Connection::is_drained`].
    pub fn shut_down(&mut self) {
        self.shutting_down = true;
        if self.exchange.is_none() && self.incomplete.is_empty() {
            self.end();
        }
    }

    /// Whether no exchange is open and none can follow.
    pub fn is_drained(&self) -> bool {
        self.over && self.exchange.is_none()
    }

    fn exchange_of(&self, key: StreamKey) -> Option<&Exchange> {
        self.exchange.as_deref().filter(|exchange| StreamKey::numbered(exchange.id) == key)
    }

    fn exchange_mut(&mut self, key: StreamKey) -> Option<&mut Exchange> {
        self.exchange.as_deref_mut().filter(|exchange| StreamKey::numbered(exchange.id) == key)
    }

    /// Content that may be handed out before some is released, in bytes.
    fn content_room(&self) -> usize {
        let held_bytes = usize::try_from(self.held_bytes()).unwrap_or(usize::MAX);
        (self.limits.content_window_bytes as usize).saturating_sub(held_bytes)
    }
}

#[cfg(test)]
mod memory_tests;
