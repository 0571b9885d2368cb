//! Codec: what a connection speaks. Every protocol gives the same events and takes the same orders, so that a call goes
//! from any to any through one relay.

use std::time::Instant;

use leno_http2::{Connection, ConnectionError, Drained, ErrorCode, Event, FieldSection, OpenError, Section, StreamKey};

use super::opaque::Opaque;
use super::violation_label;

/// The protocol of one connection, and its state.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every connection is HTTP/2")]
pub(super) enum Codec {
    /// RFC 9113.
    Http2(Connection),
    /// RFC 9112.
    Http1(leno_http1::Connection),
    /// Bytes.
    Opaque(Opaque),
}

/// Why a connection cannot go on: its peer broke the protocol or a limit. What is to be said is in the output.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    #[error("{0}")]
    Http2(#[from] ConnectionError),
    #[error("{0}")]
    Http1(#[from] leno_http1::ConnectionError),
}

impl CodecError {
    /// The label in metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Http2(error) => violation_label(&error.why),
            Self::Http1(_) => "http1_error",
        }
    }
}

/// Evaluates the same expression for each protocol.
macro_rules! each {
    ($self:expr, $inner:ident => $expression:expr) => {
        match $self {
            Codec::Http2($inner) => $expression,
            Codec::Http1($inner) => $expression,
            Codec::Opaque($inner) => $expression,
        }
    };
}

impl Codec {
    /// Reads from the front of `input`, until an event or the end of the input. Input that is left belongs to the owner,
    /// who gives it again once the connection is no longer paused.
    pub(super) fn receive<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'a>>, CodecError> {
        match self {
            Self::Http2(http2) => Ok(http2.receive(now, input, fields)?),
            Self::Http1(http1) => Ok(http1.receive(now, input, fields)?),
            Self::Opaque(opaque) => Ok(opaque.receive(input, fields)),
        }
    }

    /// The peer sends nothing more; `None` once there is nothing more to tell of it.
    pub(super) fn input_ended(&mut self, now: Instant) -> Option<Event<'static>> {
        match self {
            Self::Http2(_) => None,
            Self::Http1(http1) => http1.input_ended(now),
            Self::Opaque(opaque) => opaque.input_ended(),
        }
    }

    /// Whether a peer that sends nothing more may still read: HTTP/2 has no such state.
    pub(super) fn is_half_closable(&self) -> bool {
        !matches!(self, Self::Http2(_))
    }

    /// Whether input is to be left unread for now.
    pub(super) fn is_paused(&self) -> bool {
        match self {
            Self::Http2(_) => false,
            Self::Http1(http1) => http1.is_paused(),
            Self::Opaque(opaque) => opaque.is_paused(),
        }
    }

    /// The most bytes that are to be read from the socket now; one at least, by which its end is seen.
    pub(super) fn read_room(&self) -> usize {
        match self {
            Self::Http2(_) | Self::Http1(_) => usize::MAX,
            Self::Opaque(opaque) => opaque.read_room().max(1),
        }
    }

    /// The bytes of a connection without a protocol.
    pub(super) fn opaque(&mut self) -> Option<&mut Opaque> {
        match self {
            Self::Opaque(opaque) => Some(opaque),
            Self::Http2(_) | Self::Http1(_) => None,
        }
    }

    /// The server that the application's own TLS is for, if it is TLS that is relayed; the inner one is `None` if the client
    /// names none.
    pub(super) fn server(&self) -> Option<Option<&str>> {
        match self {
            Self::Opaque(opaque) => opaque.server(),
            Self::Http2(_) | Self::Http1(_) => None,
        }
    }

    /// See [`Connection::open`].
    pub(super) fn open(
        &mut self,
        now: Instant,
        token: u32,
        fields: &FieldSection,
        end_stream: bool,
    ) -> Result<StreamKey, OpenError> {
        match self {
            Self::Http2(http2) => http2.open(now, token, fields, end_stream),
            Self::Http1(http1) => http1.open(now, token, fields, end_stream),
            Self::Opaque(opaque) if opaque.takes_streams() => Ok(opaque.open(token)),
            Self::Opaque(_) => Err(OpenError::Closed),
        }
    }

    /// Whether another stream can be opened now.
    pub(super) fn has_free_stream(&self) -> bool {
        match self {
            Self::Http2(http2) => {
                http2.takes_streams() && http2.stream_count() < http2.peer_settings().max_concurrent_streams as usize
            }
            Self::Http1(http1) => http1.takes_streams() && http1.stream_count() == 0,
            Self::Opaque(opaque) => opaque.takes_streams(),
        }
    }

    /// The largest request header section that the peer takes, in bytes.
    pub(super) fn max_request_bytes(&self) -> u32 {
        match self {
            Self::Http2(http2) => http2.peer_settings().max_header_list_bytes,
            Self::Http1(_) | Self::Opaque(_) => u32::MAX,
        }
    }

    pub(super) fn set_token(&mut self, stream: StreamKey, token: u32) {
        match self {
            Self::Http2(http2) => http2.set_token(stream, token),
            Self::Http1(http1) => http1.set_token(stream, token),
            Self::Opaque(opaque) => opaque.set_token(token),
        }
    }

    pub(super) fn send_headers(&mut self, stream: StreamKey, section: Section, fields: &FieldSection, end: bool) {
        match self {
            Self::Http2(http2) => http2.send_headers(stream, section, fields, end),
            Self::Http1(http1) => http1.send_headers(stream, section, fields, end),
            Self::Opaque(opaque) => opaque.send_headers(fields, end),
        }
    }

    /// See [`Connection::send_data`].
    pub(super) fn send_data(&mut self, stream: StreamKey, bytes: &[u8], end: bool) -> usize {
        match self {
            Self::Http2(http2) => http2.send_data(stream, bytes, end),
            Self::Http1(http1) => http1.send_data(stream, bytes, end),
            Self::Opaque(opaque) => opaque.send_data(bytes, end),
        }
    }

    pub(super) fn reset(&mut self, stream: StreamKey, code: ErrorCode) {
        match self {
            Self::Http2(http2) => http2.reset(stream, code),
            Self::Http1(http1) => http1.reset(stream, code),
            Self::Opaque(opaque) => opaque.reset(code),
        }
    }

    /// See [`Connection::stop_receiving`].
    pub(super) fn stop_receiving(&mut self, stream: StreamKey) {
        match self {
            Self::Http2(http2) => http2.stop_receiving(stream),
            Self::Http1(http1) => http1.stop_receiving(stream),
            Self::Opaque(opaque) => opaque.stop_receiving(),
        }
    }

    pub(super) fn release(&mut self, stream: StreamKey, bytes: usize) {
        match self {
            Self::Http2(http2) => http2.release(stream, bytes),
            Self::Http1(http1) => http1.release(stream, bytes),
            Self::Opaque(opaque) => opaque.release(bytes),
        }
    }

    pub(super) fn output(&mut self) -> &[u8] {
        each!(self, codec => codec.output())
    }

    pub(super) fn advance_output(&mut self, n: usize) {
        each!(self, codec => codec.advance_output(n));
    }

    pub(super) fn pending_output(&self) -> usize {
        each!(self, codec => codec.pending_output())
    }

    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Http2(http2) => http2.wants_write(),
            Self::Http1(http1) => http1.wants_write(),
            Self::Opaque(opaque) => !opaque.output().is_empty(),
        }
    }

    /// Content that was received and has not gone on, in bytes.
    pub(super) fn held_bytes(&self) -> usize {
        usize::try_from(each!(self, codec => codec.held_bytes())).unwrap_or(usize::MAX)
    }

    /// Whether memory is short: then it keeps no empty buffers, and receive windows stop growing.
    pub(super) fn save_memory(&mut self, on: bool) {
        each!(self, codec => codec.save_memory(on));
    }

    /// Memory of its buffers, tables and lists, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        each!(self, codec => codec.memory_bytes())
    }

    /// Memory of content and trailers that wait for the peer, in bytes.
    pub(super) fn queue_memory_bytes(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.queue_memory_bytes(),
            Self::Http1(http1) => http1.queue_memory_bytes(),
            // Its output is its queue.
            Self::Opaque(_) => 0,
        }
    }

    pub(super) fn queued_bytes(&self) -> usize {
        each!(self, codec => codec.queued_bytes())
    }

    /// Content that the peer's connection has room for, in bytes.
    pub(super) fn send_window_bytes(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.send_window_bytes(),
            Self::Http1(_) | Self::Opaque(_) => usize::MAX,
        }
    }

    pub(super) fn next_drained(&mut self) -> Option<Drained> {
        each!(self, codec => codec.next_drained())
    }

    pub(super) fn stream_count(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.stream_count(),
            Self::Http1(http1) => http1.stream_count(),
            Self::Opaque(opaque) => usize::from(opaque.is_open()),
        }
    }

    /// All open streams and their tokens.
    pub(super) fn open_streams(&self) -> Vec<(StreamKey, u32)> {
        match self {
            Self::Http2(http2) => http2.open_streams(),
            Self::Http1(http1) => http1.open_streams(),
            Self::Opaque(opaque) => {
                opaque.is_open().then(|| (StreamKey::numbered(1), opaque.token())).into_iter().collect()
            }
        }
    }

    pub(super) fn is_open(&self, stream: StreamKey) -> bool {
        match self {
            Self::Http2(http2) => http2.is_open(stream),
            Self::Http1(http1) => http1.is_open(stream),
            Self::Opaque(opaque) => opaque.is_open(),
        }
    }

    /// Whether a failed connection may have been the stream's doing: over HTTP/1, only once its answer has begun.
    pub(super) fn is_taken_up(&self, stream: StreamKey) -> bool {
        match self {
            Self::Http1(http1) => http1.is_taken_up(stream),
            Self::Http2(_) | Self::Opaque(_) => true,
        }
    }

    /// The engine of a protocol with many streams.
    pub(super) fn http2(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Http2(http2) => Some(http2),
            Self::Http1(_) | Self::Opaque(_) => None,
        }
    }

    /// Whether the peer is known to speak the protocol.
    pub(super) fn is_established(&self) -> bool {
        match self {
            Self::Http2(http2) => http2.is_established(),
            Self::Http1(_) | Self::Opaque(_) => true,
        }
    }

    /// When the frame or header section that is not complete began.
    pub(super) fn incomplete_since(&self) -> Option<Instant> {
        match self {
            Self::Http2(http2) => http2.incomplete_since(),
            Self::Http1(http1) => http1.incomplete_since(),
            Self::Opaque(_) => None,
        }
    }

    /// Announces the end: what is under way finishes.
    pub(super) fn shut_down(&mut self) {
        match self {
            Self::Http2(http2) => http2.shut_down(),
            Self::Http1(http1) => http1.shut_down(),
            Self::Opaque(_) => {}
        }
    }

    /// Takes no more streams from now on.
    pub(super) fn go_away(&mut self, code: ErrorCode, why: &str) {
        match self {
            Self::Http2(http2) => http2.go_away(code, why),
            Self::Http1(http1) => http1.shut_down(),
            Self::Opaque(_) => {}
        }
    }

    /// Whether the end was announced and everything has finished.
    pub(super) fn is_drained(&self) -> bool {
        each!(self, codec => codec.is_drained())
    }

    /// Whether it must be closed once the output is written, whatever is still open.
    pub(super) fn must_close(&self) -> bool {
        match self {
            Self::Http2(_) | Self::Opaque(_) => false,
            Self::Http1(http1) => http1.must_close(),
        }
    }

    /// Whether nothing more will be sent once the output is empty: the socket's sending side is closed then.
    pub(super) fn ends_output(&self) -> bool {
        match self {
            Self::Http2(_) => false,
            Self::Http1(http1) => http1.ends_output(),
            Self::Opaque(opaque) => opaque.ends_output(),
        }
    }

    /// Whether the connection is to be cut at once.
    pub(super) fn is_aborted(&self) -> bool {
        match self {
            Self::Http2(_) => false,
            Self::Http1(http1) => http1.must_abort(),
            Self::Opaque(opaque) => opaque.is_aborted(),
        }
    }

    /// Whether it is taken for opaque bytes of a server that speaks first, and neither side has spoken.
    pub(super) fn is_guess(&self) -> bool {
        matches!(self, Self::Opaque(opaque) if opaque.is_guess())
    }

    /// Whether what was taken for opaque bytes has turned out to be something else.
    pub(super) fn is_recalled(&self) -> bool {
        matches!(self, Self::Opaque(opaque) if opaque.is_recalled())
    }

    /// Whether peers may be slow for as long as they like: the mesh knows nothing of what they do.
    pub(super) fn is_opaque(&self) -> bool {
        matches!(self, Self::Opaque(_))
    }
    /// Whether the peer has flow-control windows: whoever does not want more bytes leaves them shut, and reads on.
    pub(super) fn has_windows(&self) -> bool {
        matches!(self, Self::Http2(_))
    }
}
