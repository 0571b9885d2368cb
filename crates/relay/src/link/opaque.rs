//! Opaque: presents an opaque connection as one CONNECT stream, so that the relay can treat the connection as one call.
//!
//! On a connection that we accepted, the received bytes become the content of a request. On a connection that we
//! opened, they become the content of a response. The end of the input becomes END_STREAM. Each direction ends on its
//! own (TCP's half-close).

use leno_http2::fields::Known;
use leno_http2::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http2::{Drained, ErrorCode, Event, FieldSection, OutputBuffer, Role, Section, StreamKey};

use crate::link::detect::is_server_preface;

/// Maximum number of bytes that the relay has read and not yet forwarded. While so many bytes wait, the relay does not
/// read the socket.
pub(crate) const MAX_UNRELEASED_BYTES: usize = 256 << 10;
/// Largest empty output buffer that a connection keeps, in bytes. Larger buffers are freed when they are empty, because
/// most connections are idle most of the time.
const KEPT_OUTPUT_BYTES: usize = 16 << 10;
/// TLS record with the fatal alert unrecognized_name: the proxy knows no server with the client's server name (RFC 6066
/// section 3, RFC 8446 section 6).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// Number of the connection's only stream.
const STREAM: u32 = 1;

/// The contents that the proxy detected in an opaque connection.
#[derive(Debug)]
pub enum Contents {
    Unknown,
    /// The application's own TLS, to the server with this name (SNI) if the client names one.
    Tls(Option<Box<str>>),
}

/// A connection whose protocol the proxy does not parse.
#[derive(Debug)]
pub(crate) struct Opaque {
    role: Role,
    /// The destination, in the form of CONNECT's `:authority`.
    target: Box<str>,
    contents: Contents,
    token: u32,
    /// Whether [`Opaque::receive`] has returned its first event: the headers of the request or of the response.
    announced: bool,
    /// Whether a call uses the connection. Only set on a connection that we opened.
    taken: bool,
    unreleased_bytes: usize,
    /// The relay does not read the socket while at least this number of bytes have been read and not yet forwarded. The
    /// number is below [`MAX_UNRELEASED_BYTES`] if many connections share a tunnel.
    max_unreleased_bytes: usize,
    /// The tunnel that carries the bytes of this connection has no room, so the relay does not read the socket.
    held: bool,
    received_end: bool,
    out: OutputBuffer,
    /// Number of output bytes for which the sender waits for new flow-control window.
    owed_bytes: usize,
    sent_end: bool,
    aborted: bool,
    /// The connection ends with a reset after the output ([`Opaque::refuse_rest`]).
    refuses_rest: bool,
    opening: Opening,
}

/// State of an accepted connection: which side has sent the first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// The protocol of the connection is not a guess, or no longer a guess.
    Settled,
    /// Neither side has sent bytes. The proxy guesses that the bytes will be opaque.
    Guess,
    /// The protocol was a guess, and the server has sent the first bytes.
    ServerSpoke,
    /// The guess was wrong: the client has sent bytes that are not opaque, the server has sent HTTP/2, or the server's
    /// proxy accepts no opaque bytes.
    Recalled,
}

impl Opaque {
    /// Creates the state of a connection that an application has opened to `target`.
    pub(crate) fn accepted(target: String, contents: Contents) -> Self {
        Self { contents, ..Self::new(Role::Server, target.into()) }
    }

    /// Creates the state of a connection that an application has opened to `target`, but on which the application has
    /// sent nothing yet.
    pub(crate) fn guessed(target: String) -> Self {
        Self { opening: Opening::Guess, ..Self::new(Role::Server, target.into()) }
    }

    /// Creates the state of a connection that we open.
    pub(crate) fn opened() -> Self {
        Self::new(Role::Client, Box::default())
    }

    fn new(role: Role, target: Box<str>) -> Self {
        Self {
            role,
            target,
            contents: Contents::Unknown,
            token: 0,
            announced: false,
            taken: false,
            unreleased_bytes: 0,
            max_unreleased_bytes: MAX_UNRELEASED_BYTES,
            held: false,
            received_end: false,
            out: OutputBuffer::default(),
            owed_bytes: 0,
            sent_end: false,
            aborted: false,
            refuses_rest: false,
            opening: Opening::Settled,
        }
    }

    /// Returns the headers of the request or response first, and then the bytes unchanged.
    pub(crate) fn receive<'a>(&mut self, input: &mut &'a [u8], fields: &mut FieldSection) -> Option<Event<'a>> {
        let stream = StreamKey::numbered(STREAM);
        if !self.announced {
            if self.role == Role::Client && !self.taken {
                return None;
            }
            self.announced = true;
            fields.clear();
            let section = match self.role {
                Role::Server => {
                    fields.push(b":method", b"CONNECT");
                    fields.push(b":authority", self.target.as_bytes());
                    Section::Request
                }
                Role::Client => {
                    fields.push(b":status", b"200");
                    Section::Response
                }
            };
            return Some(Event::Headers { stream, token: self.token, section, end_stream: false, oversize: false });
        }
        if self.received_end {
            // Drop bytes that arrive after the end of the request or response, because no call takes them. If the link
            // kept them, the worker would not read the socket to its end.
            *input = &[];
        }
        if input.is_empty() || self.is_paused() {
            return None;
        }
        let bytes = std::mem::take(input);
        self.unreleased_bytes += bytes.len();
        Some(Event::Data { stream, token: self.token, bytes, end_stream: false })
    }

    /// Handles the end of the peer's bytes. Returns the event with END_STREAM once.
    pub(crate) fn input_ended(&mut self) -> Option<Event<'static>> {
        if !self.announced || std::mem::replace(&mut self.received_end, true) {
            return None;
        }
        Some(Event::Data { stream: StreamKey::numbered(STREAM), token: self.token, bytes: &[], end_stream: true })
    }

    /// Assigns the connection to its only call, and returns the call's stream. `end_stream` means that the client sends
    /// no bytes.
    pub(crate) fn open(&mut self, token: u32, end_stream: bool) -> StreamKey {
        self.taken = true;
        self.sent_end = end_stream;
        self.token = token;
        StreamKey::numbered(STREAM)
    }

    pub(crate) fn takes_streams(&self) -> bool {
        self.role == Role::Client && !self.taken && !self.aborted
    }

    pub(crate) fn set_token(&mut self, token: u32) {
        self.token = token;
    }

    /// Returns the key and the token of the only stream.
    pub(crate) fn stream(&self) -> (StreamKey, u32) {
        (StreamKey::numbered(STREAM), self.token)
    }

    /// Handles the headers of a response. A status other than 200 means that the proxy could not connect the client to
    /// a server:
    ///
    /// - If the client waits for a TLS handshake, the client gets an alert.
    /// - Otherwise, the client gets a TCP reset, because an orderly close would look like a response.
    /// - Exception: if the status is 404 and the client does not use TLS, no server accepts the client's bytes. The
    ///   proxy then closes the connection in an orderly way, as RFC 9113 section 3.4 demands of an HTTP/2 server.
    pub(crate) fn send_headers(&mut self, fields: &FieldSection, end_stream: bool) {
        let status = fields.get(Known::Status).unwrap_or(b"200");
        let is_refused = status != b"200";
        if self.opening == Opening::Guess && status == b"404" {
            // The server's proxy relays no opaque bytes to this port (`--http-ports`). So the guess was wrong: the
            // client will send HTTP.
            return self.recall();
        }
        if is_refused && status != b"404" && !self.carries_tls() {
            self.aborted = true;
            return;
        }
        if is_refused {
            if self.carries_tls() {
                self.out.bytes.extend_from_slice(&UNRECOGNIZED_NAME);
            }
            self.received_end = true;
        }
        self.sent_end |= end_stream || is_refused;
    }

    /// Queues output. Returns the number of bytes for which the sender gets new flow-control window at once. For the
    /// other bytes, the sender gets new window later, by [`Drained`] events.
    pub(crate) fn send_data(&mut self, bytes: &[u8], end_stream: bool) -> usize {
        if self.sent_end || self.aborted || self.is_recalled() {
            return bytes.len();
        }
        if self.opening == Opening::Guess && !bytes.is_empty() {
            if is_server_preface(bytes) {
                self.recall();
                return bytes.len();
            }
            self.opening = Opening::ServerSpoke;
        }
        let room = OUTPUT_HIGH_WATER_BYTES.saturating_sub(self.pending_output());
        let taken = if self.owed_bytes == 0 { bytes.len().min(room) } else { 0 };
        self.owed_bytes += bytes.len() - taken;
        self.out.bytes.extend_from_slice(bytes);
        self.sent_end = end_stream;
        taken
    }

    pub(crate) fn output(&self) -> &[u8] {
        if self.aborted { &[] } else { self.out.waiting() }
    }

    pub(crate) fn advance_output(&mut self, n: usize) {
        self.out.advance(n, KEPT_OUTPUT_BYTES);
    }

    /// Sets whether memory is short. If it is, the connection keeps no empty output buffer.
    pub(crate) fn save_memory(&mut self, on: bool) {
        self.out.save_memory(on);
    }

    pub(crate) fn pending_output(&self) -> usize {
        self.out.waiting_bytes()
    }

    /// Returns the memory of the output, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.out.bytes.capacity()
    }

    /// Returns how many bytes were read and not yet forwarded.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.unreleased_bytes as u64
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        self.owed_bytes
    }

    pub(crate) fn next_drained(&mut self) -> Option<Drained> {
        let bytes = self.owed_bytes.min(OUTPUT_HIGH_WATER_BYTES.saturating_sub(self.pending_output()));
        if bytes == 0 {
            return None;
        }
        self.owed_bytes -= bytes;
        Some(Drained { stream: StreamKey::numbered(STREAM), token: self.token, bytes: bytes as u32 })
    }

    /// Records that bytes were forwarded, so that as many more may be read.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.unreleased_bytes = self.unreleased_bytes.saturating_sub(bytes);
    }

    /// Returns whether the socket must not be read now: too many bytes have not been forwarded, the tunnel has no room,
    /// or the guess was wrong.
    pub(crate) fn is_paused(&self) -> bool {
        self.held || self.unreleased_bytes >= self.max_unreleased_bytes || self.is_recalled()
    }

    /// Stops reading the socket, or allows it again.
    pub(crate) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Sets how many bytes may be read and not yet forwarded.
    pub(crate) fn limit_unreleased(&mut self, bytes: usize) {
        self.max_unreleased_bytes = bytes.min(MAX_UNRELEASED_BYTES);
    }

    /// Returns how many bytes may be read now.
    pub(crate) fn read_room(&self) -> usize {
        self.max_unreleased_bytes.saturating_sub(self.unreleased_bytes)
    }

    /// Stops reading what the peer sends. The connection ends when our output has been sent.
    pub(crate) fn stop_receiving(&mut self) {
        self.received_end = true;
    }

    /// Stops reading what the peer sends, and lets the connection end with a reset after our output. So the peer learns
    /// that its bytes were not accepted.
    pub(crate) fn refuse_rest(&mut self) {
        self.received_end = true;
        self.refuses_rest = true;
    }

    /// Returns whether the connection ends with a reset after the output.
    pub(crate) fn refuses_rest(&self) -> bool {
        self.refuses_rest
    }

    pub(crate) fn reset(&mut self, _code: ErrorCode) {
        self.aborted = true;
    }

    /// Returns whether the connection has a call in progress, or the peer has not accepted all bytes of the call.
    pub(crate) fn is_open(&self) -> bool {
        let begun = if self.role == Role::Server { self.announced } else { self.taken };
        begun && !self.aborted && !(self.is_drained() && self.pending_output() == 0)
    }

    /// Returns whether we send nothing after the queued output.
    pub(crate) fn ends_output(&self) -> bool {
        self.sent_end
    }

    /// Returns whether both directions have ended.
    pub(crate) fn is_drained(&self) -> bool {
        self.received_end && self.sent_end
    }

    /// Returns whether the protocol is still a guess: neither side has sent bytes, and the server may still send some.
    /// Returns `false` if the server has closed its sending side: such a server answers in no protocol, so the guess no
    /// longer matters.
    pub(crate) fn is_guess(&self) -> bool {
        self.opening == Opening::Guess && !self.sent_end
    }

    /// Returns whether the server has sent bytes before the client. Returns `true` only once.
    pub(crate) fn takes_server_first(&mut self) -> bool {
        let is_first = self.opening == Opening::ServerSpoke;
        if is_first {
            self.opening = Opening::Settled;
        }
        is_first
    }

    /// Confirms the guess: the bytes are opaque.
    pub(crate) fn keep_guess(&mut self) {
        self.opening = Opening::Settled;
    }

    /// Withdraws the guess that the connection is opaque. From now on, the relay does not read the client's socket, and
    /// drops the bytes of the server.
    pub(crate) fn recall(&mut self) {
        self.opening = Opening::Recalled;
    }

    pub(crate) fn is_recalled(&self) -> bool {
        self.opening == Opening::Recalled
    }

    /// Returns whether the bytes are the application's own TLS.
    pub(crate) fn carries_tls(&self) -> bool {
        self.server().is_some()
    }

    /// Returns the server name (SNI) of the application's own TLS. The outer `None` means that there is no TLS. The
    /// inner `None` means that the client sent no name.
    pub(crate) fn server(&self) -> Option<Option<&str>> {
        match &self.contents {
            Contents::Unknown => None,
            Contents::Tls(name) => Some(name.as_deref()),
        }
    }

    /// Returns whether the connection must be reset, without its remaining output.
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted
    }
}

#[cfg(test)]
#[path = "opaque_tests.rs"]
mod tests;
