//! Codec: the protocol of a connection. All protocols have the same events and methods, so that one relay forwards a
//! call from any protocol to any other.

use std::time::{Duration, Instant};

use leno_http1::Heads;
use leno_http2::{Connection, ConnectionError, Drained, ErrorCode, Event, FieldSection, OpenError, Section, StreamKey};

use crate::limits::{RelayLimits, ms};
use crate::link::opaque::Opaque;
use crate::violation_label;

/// The protocol of one connection, and its state.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly every connection is HTTP/2")]
pub(crate) enum Codec {
    /// RFC 9113.
    Http2(Connection),
    /// RFC 9112.
    Http1(leno_http1::Connection),
    /// Bytes that the proxy does not parse.
    Opaque(Opaque),
}

/// Error that ends a connection: the peer broke the protocol or a limit. The codec's output contains the message that
/// tells the peer, for example a GOAWAY.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CodecError {
    #[error("{0}")]
    Http2(#[from] ConnectionError),
    #[error("{0}")]
    Http1(#[from] leno_http1::ConnectionError),
}

/// Reason why a call's stream could not be opened on a connection.
#[derive(Debug)]
pub(crate) enum CannotOpen {
    /// The connection accepts no stream now, or no further stream at all.
    NoRoom,
    /// The connection's protocol cannot express the request.
    Unwritable(leno_http1::Unwritable),
}

impl From<OpenError> for CannotOpen {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::StreamLimit | OpenError::Closed => Self::NoRoom,
        }
    }
}

impl From<leno_http1::OpenError> for CannotOpen {
    fn from(error: leno_http1::OpenError) -> Self {
        match error {
            leno_http1::OpenError::Busy | leno_http1::OpenError::Closed => Self::NoRoom,
            leno_http1::OpenError::Unwritable(why) => Self::Unwritable(why),
        }
    }
}

impl CodecError {
    /// Returns the label of this error in metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Http2(error) => violation_label(&error.why),
            Self::Http1(_) => "http1_error",
        }
    }
}

/// Evaluates the same expression for each protocol.
macro_rules! for_protocol {
    ($self:expr, $inner:ident => $expression:expr) => {
        match $self {
            Codec::Http2($inner) => $expression,
            Codec::Http1($inner) => $expression,
            Codec::Opaque($inner) => $expression,
        }
    };
}

impl Codec {
    /// Parses `input` from the front, until there is an event or no more input. The caller keeps the input that the
    /// codec has not parsed, and passes it again once the connection is no longer paused.
    pub(crate) fn receive<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
        heads: &mut Heads,
    ) -> Result<Option<Event<'a>>, CodecError> {
        match self {
            Self::Http2(http2) => Ok(http2.receive(now, input, fields)?),
            Self::Http1(http1) => Ok(http1.receive(now, input, fields, heads)?),
            Self::Opaque(opaque) => Ok(opaque.receive(input, fields)),
        }
    }

    /// Handles the end of the peer's input. Returns the event that it causes, if any.
    pub(crate) fn input_ended(&mut self, now: Instant) -> Option<Event<'static>> {
        match self {
            Self::Http2(_) => None,
            Self::Http1(http1) => http1.input_ended(now),
            Self::Opaque(opaque) => opaque.input_ended(),
        }
    }

    /// Returns whether the protocol has half-closed connections: a peer that has closed its sending side may still
    /// read. HTTP/2 has no half-closed connections. In HTTP/1, a server or a tunnel may be half-closed. A client that
    /// closes its sending side still gets a response that the relay has received completely.
    pub(crate) fn is_half_closable(&self) -> bool {
        !matches!(self, Self::Http2(_))
    }

    /// Returns whether input must not be read for now. While an HTTP/1 client waits for its response, the relay reads
    /// on: if the client leaves, its call is cancelled.
    pub(crate) fn is_paused(&self) -> bool {
        match self {
            Self::Http2(http2) => http2.is_paused(),
            Self::Http1(http1) => http1.is_paused() && !http1.awaits_end(),
            Self::Opaque(opaque) => opaque.is_paused(),
        }
    }

    /// Returns whether the codec takes input while it is not paused. There are two exceptions:
    ///
    /// - An opaque connection to an endpoint takes no input before a call uses the connection.
    /// - The connection of an HTTP/1 client takes no further request before the response is complete.
    pub(crate) fn takes_input(&self) -> bool {
        match self {
            Self::Http2(_) => true,
            Self::Http1(http1) => !http1.is_paused(),
            Self::Opaque(opaque) => !opaque.takes_streams(),
        }
    }

    /// Returns the maximum number of bytes to read from the socket now. This is at least one, so that the worker
    /// notices the end of the input.
    pub(crate) fn read_room(&self) -> usize {
        match self {
            Self::Http2(_) => usize::MAX,
            Self::Http1(http1) => http1.read_room(),
            Self::Opaque(opaque) => opaque.read_room().max(1),
        }
    }

    /// Returns the codec of opaque bytes, if the proxy does not parse the connection's protocol.
    pub(crate) fn opaque(&mut self) -> Option<&mut Opaque> {
        match self {
            Self::Opaque(opaque) => Some(opaque),
            Self::Http2(_) | Self::Http1(_) => None,
        }
    }

    /// Returns the server name (SNI) of the application's own TLS, which the proxy relays as opaque bytes. The outer
    /// `None` means that the connection does not carry such TLS. The inner `None` means that the client sent no server
    /// name.
    pub(crate) fn server(&self) -> Option<Option<&str>> {
        match self {
            Self::Opaque(opaque) => opaque.server(),
            Self::Http2(_) | Self::Http1(_) => None,
        }
    }

    /// See [`Connection::open`].
    ///
    /// # Errors
    /// See [`CannotOpen`].
    pub(crate) fn open(
        &mut self,
        now: Instant,
        token: u32,
        fields: &FieldSection,
        end_stream: bool,
        heads: &mut Heads,
    ) -> Result<StreamKey, CannotOpen> {
        match self {
            Self::Http2(http2) => Ok(http2.open(now, token, fields, end_stream)?),
            Self::Http1(http1) => Ok(http1.open(now, token, fields, end_stream, heads)?),
            Self::Opaque(opaque) if opaque.takes_streams() => Ok(opaque.open(token, end_stream)),
            Self::Opaque(_) => Err(CannotOpen::NoRoom),
        }
    }

    /// Returns whether another stream can be opened, now or after the current streams have ended.
    pub(crate) fn takes_streams(&self) -> bool {
        for_protocol!(self, codec => codec.takes_streams())
    }

    /// Returns whether another stream can be opened now.
    pub(crate) fn has_free_stream(&self) -> bool {
        match self {
            Self::Http2(http2) => {
                http2.takes_streams() && http2.stream_count() < http2.peer_settings().max_concurrent_streams as usize
            }
            Self::Http1(http1) => http1.takes_streams() && http1.stream_count() == 0,
            Self::Opaque(opaque) => opaque.takes_streams(),
        }
    }

    /// Returns the size of the largest field section that the peer accepts, in bytes (SETTINGS_MAX_HEADER_LIST_SIZE,
    /// RFC 9113 section 6.5.2).
    pub(crate) fn max_section_bytes(&self) -> u32 {
        match self {
            Self::Http2(http2) => http2.peer_settings().max_header_list_bytes,
            Self::Http1(_) | Self::Opaque(_) => u32::MAX,
        }
    }

    pub(crate) fn set_token(&mut self, stream: StreamKey, token: u32) {
        match self {
            Self::Http2(http2) => http2.set_token(stream, token),
            Self::Http1(http1) => http1.set_token(stream, token),
            Self::Opaque(opaque) => opaque.set_token(token),
        }
    }

    pub(crate) fn send_headers(
        &mut self,
        stream: StreamKey,
        section: Section,
        fields: &FieldSection,
        end: bool,
        heads: &mut Heads,
    ) {
        match self {
            Self::Http2(http2) => http2.send_headers(stream, section, fields, end),
            Self::Http1(http1) => http1.send_headers(stream, section, fields, end, heads),
            Self::Opaque(opaque) => opaque.send_headers(fields, end),
        }
    }

    /// See [`Connection::send_data`].
    pub(crate) fn send_data(&mut self, stream: StreamKey, bytes: &[u8], end: bool) -> usize {
        match self {
            Self::Http2(http2) => http2.send_data(stream, bytes, end),
            Self::Http1(http1) => http1.send_data(stream, bytes, end),
            Self::Opaque(opaque) => opaque.send_data(bytes, end),
        }
    }

    pub(crate) fn reset(&mut self, stream: StreamKey, code: ErrorCode) {
        match self {
            Self::Http2(http2) => http2.reset(stream, code),
            Self::Http1(http1) => http1.reset(stream, code),
            Self::Opaque(opaque) => opaque.reset(code),
        }
    }

    /// Resets a stream after its queued content, see [`Connection::reset_after_queue`]. The other protocols reset it at
    /// once: their reset always shows that content is missing.
    pub(crate) fn reset_after_queue(&mut self, stream: StreamKey, code: ErrorCode) {
        match self {
            Self::Http2(http2) => http2.reset_after_queue(stream, code),
            Self::Http1(_) | Self::Opaque(_) => self.reset(stream, code),
        }
    }

    /// See [`Connection::stop_receiving`].
    pub(crate) fn stop_receiving(&mut self, stream: StreamKey) {
        match self {
            Self::Http2(http2) => http2.stop_receiving(stream),
            Self::Http1(http1) => http1.stop_receiving(stream),
            Self::Opaque(opaque) => opaque.stop_receiving(),
        }
    }

    /// Ends the call of an opaque connection whose server has sent everything, and does not accept all bytes of the
    /// client. The client still gets the output. After a clean end, the client would believe that the server has
    /// accepted its bytes, so a reset follows where the protocol has one:
    ///
    /// - Opaque bytes: the proxy closes its sending side after the output. If the client does not close its own side
    ///   too, a TCP reset follows after a second. If the client has closed its side, TCP sends no reset any more.
    /// - HTTP/2: RST_STREAM follows. The stream ends cleanly if content still waits for the client's windows, because a
    ///   reset would drop this content.
    /// - HTTP/1: a tunnel, such as CONNECT, always ends cleanly.
    pub(crate) fn refuse_rest(&mut self, stream: StreamKey) {
        match self {
            // The end of the response is in the output, so the reset follows it (RFC 9113 section 8.5).
            Self::Http2(http2) if http2.queued_on(stream) == 0 => http2.reset(stream, ErrorCode::CONNECT_ERROR),
            Self::Http2(http2) => http2.stop_receiving(stream),
            Self::Http1(http1) => http1.stop_receiving(stream),
            Self::Opaque(opaque) => opaque.refuse_rest(),
        }
    }

    pub(crate) fn release(&mut self, stream: StreamKey, bytes: usize) {
        match self {
            Self::Http2(http2) => http2.release(stream, bytes),
            Self::Http1(http1) => http1.release(stream, bytes),
            Self::Opaque(opaque) => opaque.release(bytes),
        }
    }

    /// Releases content of a response, like [`Self::release`]. In HTTP/2, limits the window of the stream
    /// ([`Connection::release_within`]), and returns the number of bytes by which the window has grown. The other
    /// protocols have no windows: limit how much the relay reads instead.
    pub(crate) fn release_within(
        &mut self,
        stream: StreamKey,
        bytes: usize,
        most_bytes: impl FnOnce(u32) -> u32,
    ) -> i64 {
        match self {
            Self::Http2(http2) => http2.release_within(stream, bytes, most_bytes),
            Self::Http1(_) | Self::Opaque(_) => {
                self.release(stream, bytes);
                0
            }
        }
    }

    pub(crate) fn output(&mut self) -> &[u8] {
        for_protocol!(self, codec => codec.output())
    }

    pub(crate) fn advance_output(&mut self, n: usize) {
        for_protocol!(self, codec => codec.advance_output(n));
    }

    pub(crate) fn pending_output(&self) -> usize {
        for_protocol!(self, codec => codec.pending_output())
    }

    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Http2(http2) => http2.wants_write(),
            Self::Http1(http1) => http1.wants_write(),
            Self::Opaque(opaque) => !opaque.output().is_empty(),
        }
    }

    /// Returns how many bytes of content were received and have not been forwarded.
    pub(crate) fn held_bytes(&self) -> usize {
        usize::try_from(for_protocol!(self, codec => codec.held_bytes())).unwrap_or(usize::MAX)
    }

    /// Frees memory that only a busy connection needs.
    pub(crate) fn rest(&mut self) {
        if let Self::Http2(http2) = self {
            http2.rest();
        }
    }

    /// Sets whether memory is short. If it is, the codec keeps no empty buffers, and receive windows stop growing.
    pub(crate) fn save_memory(&mut self, on: bool) {
        for_protocol!(self, codec => codec.save_memory(on));
    }

    /// Returns the memory of the codec's buffers, tables and lists, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        for_protocol!(self, codec => codec.memory_bytes())
    }

    /// Returns the memory of content and trailers that wait for the peer, in bytes.
    pub(crate) fn queue_memory_bytes(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.queue_memory_bytes(),
            Self::Http1(http1) => http1.queue_memory_bytes(),
            // Opaque bytes wait only in the output buffer, which [`Self::memory_bytes`] counts.
            Self::Opaque(_) => 0,
        }
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        for_protocol!(self, codec => codec.queued_bytes())
    }

    /// Returns how many bytes of a stream's content wait for the peer. A connection that does not speak HTTP/2 has only
    /// one stream.
    pub(crate) fn queued_on(&self, stream: StreamKey) -> usize {
        match self {
            Self::Http2(http2) => http2.queued_on(stream),
            Self::Http1(http1) => http1.queued_bytes(),
            Self::Opaque(opaque) => opaque.queued_bytes(),
        }
    }

    /// Returns the number of bytes of content for which the peer's connection window has room; [`usize::MAX`] if the
    /// protocol has no windows.
    pub(crate) fn send_window_bytes(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.send_window_bytes(),
            Self::Http1(_) | Self::Opaque(_) => usize::MAX,
        }
    }

    pub(crate) fn next_drained(&mut self) -> Option<Drained> {
        for_protocol!(self, codec => codec.next_drained())
    }

    pub(crate) fn stream_count(&self) -> usize {
        match self {
            Self::Http2(http2) => http2.stream_count(),
            Self::Http1(http1) => http1.stream_count(),
            Self::Opaque(opaque) => usize::from(opaque.is_open()),
        }
    }

    /// Returns all open streams and their tokens.
    pub(crate) fn open_streams(&self) -> Vec<(StreamKey, u32)> {
        match self {
            Self::Http2(http2) => http2.open_streams(),
            Self::Http1(http1) => http1.open_streams(),
            // Also return the stream of an aborted connection: the relay must still end its call.
            Self::Opaque(opaque) if opaque.is_open() || opaque.is_aborted() => vec![opaque.stream()],
            Self::Opaque(_) => Vec::new(),
        }
    }

    pub(crate) fn is_open(&self, stream: StreamKey) -> bool {
        match self {
            Self::Http2(http2) => http2.is_open(stream),
            Self::Http1(http1) => http1.is_open(stream),
            Self::Opaque(opaque) => opaque.is_open(),
        }
    }

    /// Returns whether the head of an HTTP/1 response that we have sent tells the client that its connection ends.
    pub(crate) fn has_announced_end(&self, stream: StreamKey) -> bool {
        match self {
            Self::Http1(http1) => http1.has_announced_end(stream),
            Self::Http2(_) | Self::Opaque(_) => false,
        }
    }

    /// Returns whether this stream may have caused the failure of the connection. For HTTP/1, returns `true` only if
    /// the response on this stream has begun.
    pub(crate) fn is_taken_up(&self, stream: StreamKey) -> bool {
        match self {
            Self::Http1(http1) => http1.is_taken_up(stream),
            Self::Http2(_) | Self::Opaque(_) => true,
        }
    }

    /// Returns whether the socket may have accepted a byte of our request on this stream. Only HTTP/1 can rule this
    /// out.
    pub(crate) fn has_sent(&self, stream: StreamKey) -> bool {
        match self {
            Self::Http1(http1) => http1.has_sent(stream),
            Self::Http2(_) | Self::Opaque(_) => true,
        }
    }

    /// Returns the HTTP/2 engine, if the connection speaks HTTP/2.
    pub(crate) fn http2(&mut self) -> Option<&mut Connection> {
        match self {
            Self::Http2(http2) => Some(http2),
            Self::Http1(_) | Self::Opaque(_) => None,
        }
    }

    /// Returns the HTTP/1 engine, if the connection speaks HTTP/1.
    pub(crate) fn http1(&mut self) -> Option<&mut leno_http1::Connection> {
        match self {
            Self::Http1(http1) => Some(http1),
            Self::Http2(_) | Self::Opaque(_) => None,
        }
    }

    /// Returns whether the peer is known to speak the protocol.
    pub(crate) fn is_established(&self) -> bool {
        match self {
            Self::Http2(http2) => http2.is_established(),
            Self::Http1(_) | Self::Opaque(_) => true,
        }
    }

    /// Returns when the first byte of an incomplete frame or header section arrived; `None` if the input has no
    /// incomplete one.
    pub(crate) fn incomplete_since(&self) -> Option<Instant> {
        match self {
            Self::Http2(http2) => http2.incomplete_since(),
            Self::Http1(http1) => http1.incomplete_since(),
            Self::Opaque(_) => None,
        }
    }

    /// Returns how long an HTTP/1 server keeps the connection open without a request, if the server has announced this.
    pub(crate) fn keep_alive(&self) -> Option<Duration> {
        match self {
            Self::Http1(http1) => http1.keep_alive(),
            Self::Http2(_) | Self::Opaque(_) => None,
        }
    }

    /// Announces the end of the connection. Open streams may finish.
    pub(crate) fn shut_down(&mut self) {
        match self {
            Self::Http2(http2) => http2.shut_down(),
            Self::Http1(http1) => http1.announce_end(),
            Self::Opaque(_) => {}
        }
    }

    /// Makes the connection accept no more streams. HTTP/2 sends GOAWAY with `code` and `why`.
    pub(crate) fn go_away(&mut self, code: ErrorCode, why: &str) {
        match self {
            Self::Http2(http2) => http2.go_away(code, why),
            Self::Http1(http1) => http1.shut_down(),
            Self::Opaque(_) => {}
        }
    }

    /// Returns whether the end of the connection was announced, and all streams have finished.
    pub(crate) fn is_drained(&self) -> bool {
        for_protocol!(self, codec => codec.is_drained())
    }

    /// Returns whether the connection must be closed once the output is written, even if streams are open.
    pub(crate) fn must_close(&self) -> bool {
        match self {
            Self::Http2(_) | Self::Opaque(_) => false,
            Self::Http1(http1) => http1.must_close(),
        }
    }

    /// Returns whether the codec will send nothing after its current output. The event loop then closes the sending
    /// side of the socket.
    pub(crate) fn ends_output(&self) -> bool {
        match self {
            Self::Http2(_) => false,
            Self::Http1(http1) => http1.ends_output(),
            Self::Opaque(opaque) => opaque.ends_output(),
        }
    }

    /// Returns whether the connection must be reset at once.
    pub(crate) fn is_aborted(&self) -> bool {
        match self {
            Self::Http2(_) => false,
            Self::Http1(http1) => http1.must_abort(),
            Self::Opaque(opaque) => opaque.is_aborted(),
        }
    }

    /// Returns whether an orderly close now would hide from the peer that content is incomplete: the peer would take
    /// the close for the end of the content, or would believe that all of its own bytes were accepted.
    pub(crate) fn hides_cut(&self) -> bool {
        match self {
            Self::Http2(_) => false,
            Self::Http1(http1) => http1.hides_cut(),
            Self::Opaque(opaque) => {
                opaque.is_aborted() || opaque.refuses_rest() || (opaque.is_open() && !opaque.is_guess())
            }
        }
    }

    /// Returns whether the end of the connection is a reset that follows the output ([`Self::refuse_rest`]).
    pub(crate) fn refuses_rest(&self) -> bool {
        matches!(self, Self::Opaque(opaque) if opaque.refuses_rest())
    }

    /// Returns whether the connection is a guess: we assume opaque bytes and a server that speaks first, and neither
    /// side has sent anything.
    pub(crate) fn is_guess(&self) -> bool {
        matches!(self, Self::Opaque(opaque) if opaque.is_guess())
    }

    /// Returns whether the guess that the connection is opaque has turned out to be wrong.
    pub(crate) fn is_recalled(&self) -> bool {
        matches!(self, Self::Opaque(opaque) if opaque.is_recalled())
    }

    /// Returns whether the proxy does not parse the connection's bytes. If so, the peers may be silent for an unlimited
    /// time, because the proxy does not know their protocol.
    pub(crate) fn is_opaque(&self) -> bool {
        matches!(self, Self::Opaque(_))
    }

    /// Returns how long the peer may leave its socket unread; `None` for an unlimited time.
    pub(crate) fn unread_limit(&self, relay: &RelayLimits) -> Option<Duration> {
        match self {
            Self::Http2(_) => Some(ms(relay.unread_timeout_ms)),
            // HTTP/1 has no flow-control windows, so a slow application leaves its socket unread. The limit is the one
            // for closed windows in HTTP/2.
            Self::Http1(http1) if !http1.carries_tunnel() => Some(ms(relay.stall_timeout_ms)),
            // The proxy does not parse the bytes of a tunnel, such as a WebSocket, either.
            Self::Http1(_) | Self::Opaque(_) => None,
        }
    }

    /// Returns whether the protocol has flow-control windows. If it has, a peer that wants no more content still reads
    /// its socket, and only stops sending WINDOW_UPDATE.
    pub(crate) fn has_windows(&self) -> bool {
        matches!(self, Self::Http2(_))
    }
}
