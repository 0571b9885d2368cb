//! One HTTP/2 connection in either role, without a socket or a clock (RFC 9113).
//!
//! Input: [`Connection::receive`] parses bytes into [`Event`]s, one at a time, so that DATA can point into the caller's
//! buffer. Output: all bytes to send are collected in one buffer, [`Connection::output`], for one write. The engine
//! does not interpret requests. The caller, the code that uses the connection, gives every stream a token, which
//! accompanies every event.

mod credit;
mod floods;
mod memory;
mod output;
mod receive;
mod send;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crate::buffer::OutputBuffer;
use crate::error::{ConnectionError, ErrorCode};
use crate::fields::FieldSection;
use crate::frame::{self, FrameHeader, MAX_31_BITS, PREFACE};
use crate::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use crate::limits::Limits;
use crate::message::Section;
use crate::settings::{self, DEFAULT_WINDOW_BYTES, PeerSettings};
use crate::stream::{Stream, StreamKey, Streams};
use floods::Floods;
use send::RecentResets;

pub use credit::Windows;
pub use output::Drained;
pub use send::OpenError;

/// Our role on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// We opened the connection and send requests.
    Client,
    /// The peer opened the connection; we answer.
    Server,
}

/// An event that received bytes cause.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A field section. Its fields are in the `fields` given to [`Connection::receive`].
    Headers {
        stream: StreamKey,
        /// The caller's token; 0 for a new request.
        token: u32,
        section: Section,
        /// The peer sends no more on the stream.
        end_stream: bool,
        /// The section exceeds our limit and is truncated (RFC 9113 section 10.5.1); answer with status 431 or reset
        /// the stream.
        oversize: bool,
    },
    /// Content of a message. Return the credit with [`Connection::release`] once the bytes have been forwarded.
    Data {
        stream: StreamKey,
        /// The caller's token.
        token: u32,
        /// The content, without padding.
        bytes: &'a [u8],
        /// The peer sends no more on the stream.
        end_stream: bool,
    },
    /// The stream is closed: the peer reset it, or violated the protocol on it and we have reset it.
    Reset {
        stream: StreamKey,
        /// The caller's token.
        token: u32,
        /// The code that was received or sent.
        code: ErrorCode,
        /// Whether the peer sent the reset.
        by_peer: bool,
    },
    /// The peer will close the connection. It did not process streams above `last_stream`
    /// ([`Connection::streams_above`]). A further GOAWAY causes an event only if its last stream is lower, or its code
    /// differs.
    GoAway {
        /// The highest stream that the peer may have processed.
        last_stream: u32,
        /// The reason.
        code: ErrorCode,
    },
    /// The peer's settings changed ([`Connection::peer_settings`]).
    Settings,
}

/// The kind of the next input bytes.
#[derive(Debug, Clone, Copy)]
enum Input {
    /// The client's preface. The number counts its bytes that have arrived.
    Preface(usize),
    Header,
    Payload(FrameHeader),
    Data(DataFrame),
    /// Input is ignored after a connection error.
    Dead,
}

/// A partly received DATA frame.
#[derive(Debug, Clone, Copy)]
struct DataFrame {
    /// `None` if the stream is closed: the content is then dropped.
    stream: Option<StreamKey>,
    awaits_pad_length: bool,
    data_left: u32,
    pad_left: u32,
    end_stream: bool,
}

/// A header block that continues in CONTINUATION frames.
#[derive(Debug)]
struct OpenBlock {
    stream: u32,
    end_stream: bool,
    depends_on_itself: bool,
    fragments: Vec<u8>,
    continuations: u32,
}

/// An HTTP/2 connection in either role. No method blocks, locks or reads a clock.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    limits: Arc<Limits>,
    started: Instant,
    /// The latest time for which [`Self::age_ms`] was called, and its result.
    latest_age: (Instant, u32),
    streams: Streams,
    peer: PeerSettings,

    input: Input,
    /// The beginning of an incomplete frame.
    partial: Vec<u8>,
    block: Option<Box<OpenBlock>>,
    /// The time at which the incomplete frame or header block began; `None` if nothing is incomplete.
    incomplete_since: Option<Instant>,
    settings_received: bool,
    /// Whether the peer has acknowledged our settings.
    settings_acknowledged: bool,
    decoder: Decoder,
    receive_window: i64,
    connection_credit: u32,
    highest_peer_stream: u32,
    /// Highest identifier of our streams for which the server has sent headers.
    highest_answered: u32,
    /// Highest identifier of our streams for which the server has sent a header section without END_STREAM.
    highest_with_content: u32,
    /// Streams that we reset; frames for them may still arrive.
    reset_by_us: RecentResets,
    floods: Floods,
    /// An error found while sending, reported by the next [`Connection::receive`].
    fault: Option<ConnectionError>,

    encoder: Encoder,
    out: OutputBuffer,
    last_data: Option<output::LastData>,
    send_window: i64,
    next_stream: u32,
    /// Streams with queued DATA and an open window, in the order of their turns.
    ready: VecDeque<StreamKey>,
    /// Streams with queued DATA that wait because only the reserve of the connection's window is left
    /// (`output::shared_window`).
    held_back: VecDeque<StreamKey>,
    /// Streams with DATA that waits to be merged into larger frames ([`Connection::release_collected`]), the longest
    /// waiting first.
    collected: VecDeque<StreamKey>,
    drained: VecDeque<Drained>,
    queued_bytes: usize,
    /// Memory of the queued DATA, and of trailers that wait for it.
    queue_memory_bytes: usize,

    /// The last stream identifier in our final GOAWAY; `None` until that GOAWAY is sent.
    goaway_sent: Option<u32>,
    shutting_down: bool,
    /// The lowest last stream identifier in the peer's GOAWAYs, and the error code of the latest GOAWAY.
    goaway_received: Option<(u32, ErrorCode)>,
}

/// Opaque data of the PING whose acknowledgement shows that the peer has seen our GOAWAY (RFC 9113 section 6.8).
const SHUTDOWN_PING: [u8; 8] = *b"lenobye!";
/// Opaque data of keepalive pings.
const KEEPALIVE_PING: [u8; 8] = *b"lenolive";

impl Connection {
    /// Creates a connection. Its preface and SETTINGS wait in [`Connection::output`].
    pub fn new(role: Role, limits: Arc<Limits>, now: Instant) -> Self {
        let mut out = OutputBuffer::default();
        out.bytes.reserve(128);
        let as_server = role == Role::Server;
        if !as_server {
            out.bytes.extend_from_slice(PREFACE);
        }
        settings::write_initial(&mut out.bytes, &limits, as_server);
        let extra = limits.connection_window_bytes.saturating_sub(DEFAULT_WINDOW_BYTES);
        if extra > 0 {
            frame::write_window_update(&mut out.bytes, 0, extra);
        }
        Self {
            role,
            started: now,
            latest_age: (now, 0),
            streams: Streams::default(),
            peer: PeerSettings::default(),
            input: if as_server { Input::Preface(0) } else { Input::Header },
            partial: Vec::new(),
            block: None,
            incomplete_since: None,
            settings_received: false,
            settings_acknowledged: false,
            // Start with at least the default table size: a smaller size that we announce applies only once the peer
            // has acknowledged our settings (RFC 7541 section 4.2).
            decoder: Decoder::new((limits.header_table_bytes as usize).max(DEFAULT_TABLE_SIZE)),
            receive_window: i64::from(limits.connection_window_bytes.max(DEFAULT_WINDOW_BYTES)),
            connection_credit: 0,
            highest_peer_stream: 0,
            highest_answered: 0,
            highest_with_content: 0,
            reset_by_us: RecentResets::default(),
            floods: Floods::new(now, &limits),
            fault: None,
            encoder: Encoder::new(),
            out,
            last_data: None,
            send_window: i64::from(DEFAULT_WINDOW_BYTES),
            next_stream: 1,
            ready: VecDeque::new(),
            held_back: VecDeque::new(),
            collected: VecDeque::new(),
            drained: VecDeque::new(),
            queued_bytes: 0,
            queue_memory_bytes: 0,
            goaway_sent: None,
            shutting_down: false,
            goaway_received: None,
            limits,
        }
    }

    /// Parses `input` up to the next event, and removes the parsed bytes from it. Returns `None` at the end of the
    /// input, or if the connection is paused. The caller must keep input that remains after `None`, and pass it again
    /// once [`Connection::is_paused`] is false.
    ///
    /// Each field section overwrites `fields`; after an [`Event::Headers`], `fields` holds the event's section.
    ///
    /// # Errors
    /// If the peer violated the protocol. A GOAWAY is queued: flush [`Connection::output`] and close the connection.
    pub fn receive<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'a>>, ConnectionError> {
        if matches!(self.input, Input::Dead) {
            *input = &[];
            return Ok(None);
        }
        let result = match self.fault.take() {
            Some(fault) => Err(fault),
            None => self.read_frames(now, input, fields),
        };
        if let Err(error) = &result {
            self.input = Input::Dead;
            // The last stream of a GOAWAY must not increase later (section 6.8).
            let last_stream = self.goaway_sent.unwrap_or(self.highest_peer_stream);
            frame::write_goaway(&mut self.out.bytes, last_stream, error.code, &error.why.to_string());
        }
        result
    }

    /// Whether the connection consumes no input for now, because its client has left too much output unread. A correct
    /// client may have thousands of calls in flight, and their answers wait here while its network stalls. So do not
    /// end its calls: wait until it reads. Meanwhile it cannot make us send more.
    ///
    /// A connection to a server never pauses: some servers do not read before we have read their output.
    pub fn is_paused(&self) -> bool {
        self.role == Role::Server && self.has_much_unread_output()
    }

    fn has_much_unread_output(&self) -> bool {
        self.pending_output() > self.limits.max_unread_output_bytes as usize
    }

    /// Sets the token that accompanies every later event of `stream`.
    pub fn set_token(&mut self, stream: StreamKey, token: u32) {
        if let Some(stream) = self.streams.get_mut(stream) {
            stream.token = token;
        }
    }

    /// The settings that the peer announced.
    pub fn peer_settings(&self) -> &PeerSettings {
        &self.peer
    }

    /// Whether the peer's SETTINGS have arrived. Until then, it is possible that the peer does not use HTTP/2.
    pub fn is_established(&self) -> bool {
        self.settings_received
    }

    /// Number of open streams.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Received content of all streams that the caller has not released, in bytes.
    pub fn held_bytes(&self) -> u64 {
        self.streams.held_bytes()
    }

    /// Whether the peer, a client, has reached the limit of open streams that we announced. False on a connection that
    /// we opened.
    pub fn is_full(&self) -> bool {
        self.role == Role::Server && self.streams.opened_by_peer() >= self.limits.max_concurrent_streams
    }

    /// Whether the stream is open in at least one direction.
    pub fn is_open(&self, stream: StreamKey) -> bool {
        self.streams.get(stream).is_some()
    }

    /// Whether we may still send on `stream`: END_STREAM has not been sent or queued.
    pub fn can_send(&self, stream: StreamKey) -> bool {
        self.streams.get(stream).is_some_and(Stream::takes_output)
    }

    /// Whether the server has begun to process `stream`, as far as we can see: it has sent headers on this stream or on
    /// a later one.
    pub fn is_taken_up(&self, stream: StreamKey) -> bool {
        stream.id <= self.highest_answered
    }

    /// Returns the highest stream on which the server has sent a header section without END_STREAM, so that content or
    /// trailers follow; 0 before the first.
    pub fn highest_with_content(&self) -> u32 {
        self.highest_with_content
    }

    /// Returns the keys and tokens of the open streams above `last_stream`. With the `last_stream` of the peer's
    /// GOAWAY, these are our streams that the peer did not process.
    pub fn streams_above(&self, last_stream: u32) -> Vec<(StreamKey, u32)> {
        self.streams.iter().filter(|(key, _)| key.id > last_stream).map(|(key, stream)| (key, stream.token)).collect()
    }

    /// All open streams and their tokens.
    pub fn open_streams(&self) -> Vec<(StreamKey, u32)> {
        self.streams_above(0)
    }

    /// Returns the time at which the incomplete frame or header block began; `None` if nothing is incomplete. If that
    /// time is long ago, the peer sends too slowly.
    pub fn incomplete_since(&self) -> Option<Instant> {
        self.incomplete_since
    }

    /// The lowest last stream of the peer's GOAWAYs, if one arrived.
    pub fn goaway_received(&self) -> Option<u32> {
        self.goaway_received.map(|(last_stream, _)| last_stream)
    }

    /// Announces the end of the connection with a GOAWAY (RFC 9113 section 6.8). Open streams finish. We accept new
    /// streams until the peer acknowledges a PING that follows the GOAWAY. The shutdown is complete when
    /// [`Connection::is_drained`] is true.
    pub fn shut_down(&mut self) {
        if self.shutting_down || matches!(self.input, Input::Dead) {
            return;
        }
        self.shutting_down = true;
        frame::write_goaway(&mut self.out.bytes, MAX_31_BITS, ErrorCode::NO_ERROR, "");
        self.send_ping(SHUTDOWN_PING);
    }

    /// Sends a final GOAWAY with the last stream that we process. We ignore later streams, so the peer may send their
    /// requests again on another connection.
    pub fn go_away(&mut self, code: ErrorCode, debug: &str) {
        if self.goaway_sent.is_none() && !matches!(self.input, Input::Dead) {
            self.shutting_down = true;
            self.goaway_sent = Some(self.highest_peer_stream);
            frame::write_goaway(&mut self.out.bytes, self.highest_peer_stream, code, debug);
        }
    }

    /// Whether [`Connection::shut_down`] is complete: the final GOAWAY was sent, and no stream is open.
    pub fn is_drained(&self) -> bool {
        self.goaway_sent.is_some() && self.streams.len() == 0
    }

    /// Sends a PING to check that the peer is alive; the acknowledgement arrives as input.
    pub fn ping(&mut self) {
        self.send_ping(KEEPALIVE_PING);
    }

    fn send_ping(&mut self, data: [u8; 8]) {
        frame::write(&mut self.out.bytes, frame::kind::PING, 0, 0, &data);
        self.floods.ping_sent();
    }

    /// Returns the age of the connection at `now`. Keeps the latest result, because the caller passes the same time for
    /// many streams.
    #[inline]
    fn age_ms(&mut self, now: Instant) -> u32 {
        if self.latest_age.0 != now {
            let age = now.saturating_duration_since(self.started);
            self.latest_age = (now, u32::try_from(age.as_millis()).unwrap_or(u32::MAX));
        }
        self.latest_age.1
    }
}

#[cfg(test)]
mod memory_tests;
