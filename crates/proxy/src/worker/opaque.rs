//! Opaque bytes as one CONNECT stream, so that they are relayed by the loop that relays calls.
//!
//! What a connection brings becomes the content of a request (we accepted it) or of a response (we opened it); its end is
//! END_STREAM, either way for itself (TCP's half-close).

use leno_http2::fields::Known;
use leno_http2::limits::OUTPUT_HIGH_WATER_BYTES;
use leno_http2::{Drained, ErrorCode, Event, FieldSection, OutputBuffer, Role, Section, StreamKey};

use super::detect::is_server_preface;

/// Bytes that were read and have not gone on, at most; with as many the socket is left unread.
pub(super) const MAX_UNRELEASED_BYTES: usize = 256 << 10;
/// Output capacity that a connection keeps: most are idle most of the time.
const KEPT_OUTPUT_BYTES: usize = 16 << 10;
/// A fatal alert: there is no such server here (RFC 6066 section 3, RFC 8446 section 6).
const UNRECOGNIZED_NAME: [u8; 7] = [21, 3, 3, 0, 2, 2, 112];
/// The one stream.
const STREAM: u32 = 1;

/// What is known of the bytes.
#[derive(Debug)]
pub(super) enum Contents {
    Unknown,
    /// TLS of the application's own, to this server name if there is one.
    Tls(Option<Box<str>>),
}

/// A connection without a protocol of its own.
#[derive(Debug)]
pub(super) struct Opaque {
    role: Role,
    /// What it is for, as CONNECT's `:authority` says it.
    target: Box<str>,
    contents: Contents,
    token: u32,
    /// The first event has been given: the request, or the response.
    announced: bool,
    /// We opened it, and a call has it.
    taken: bool,
    unreleased_bytes: usize,
    /// With as many unreleased bytes the socket is left unread: less than the maximum where many share a tunnel.
    max_unreleased_bytes: usize,
    /// The socket is left unread until the tunnel that it shares has room.
    held: bool,
    received_end: bool,
    out: OutputBuffer,
    /// Memory is short.
    saves_memory: bool,
    /// Bytes of the output for which the far side has not been given room.
    owed_bytes: usize,
    sent_end: bool,
    aborted: bool,
    opening: Opening,
}

/// Who speaks first on a connection that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// It does not matter, or it has happened.
    Settled,
    /// Neither side has spoken: that the bytes are opaque is a guess.
    Guess,
    /// The server has, and the client has not.
    ServerSpoke,
    /// The client has, and not in bytes that are opaque; or the server has, in HTTP/2. The guess was wrong.
    Recalled,
}

impl Opaque {
    /// A connection that an application opened, to `target`.
    pub(super) fn accepted(target: String, contents: Contents) -> Self {
        Self { contents, ..Self::new(Role::Server, target.into()) }
    }

    /// A connection that an application opened, to `target`, and on which it has said nothing.
    pub(super) fn guessed(target: String) -> Self {
        Self { opening: Opening::Guess, ..Self::new(Role::Server, target.into()) }
    }

    /// A connection that we open.
    pub(super) fn opened() -> Self {
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
            saves_memory: false,
            owed_bytes: 0,
            sent_end: false,
            aborted: false,
            opening: Opening::Settled,
        }
    }

    /// Gives the request or the response first, and then the bytes as they are.
    pub(super) fn receive<'a>(&mut self, input: &mut &'a [u8], fields: &mut FieldSection) -> Option<Event<'a>> {
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
        if input.is_empty() || self.is_paused() || self.received_end {
            return None;
        }
        let bytes = std::mem::take(input);
        self.unreleased_bytes += bytes.len();
        Some(Event::Data { stream, token: self.token, bytes, end_stream: false })
    }

    /// The peer sends nothing more.
    pub(super) fn input_ended(&mut self) -> Option<Event<'static>> {
        if !self.announced || std::mem::replace(&mut self.received_end, true) {
            return None;
        }
        Some(Event::Data { stream: StreamKey::numbered(STREAM), token: self.token, bytes: &[], end_stream: true })
    }

    /// Takes the one call that this connection is for.
    pub(super) fn open(&mut self, token: u32) -> StreamKey {
        self.taken = true;
        self.token = token;
        StreamKey::numbered(STREAM)
    }

    pub(super) fn takes_streams(&self) -> bool {
        self.role == Role::Client && !self.taken && !self.aborted
    }

    pub(super) fn set_token(&mut self, token: u32) {
        self.token = token;
    }

    pub(super) fn token(&self) -> u32 {
        self.token
    }

    /// An answer other than success means that there is no connection. The client learns so from a TCP reset, or from an alert
    /// where it waits for a TLS handshake; an orderly end would look like an answer. Bytes that are for no server at all are no
    /// protocol of this listener's: it closes, as RFC 9113 section 3.4 wants of an HTTP/2 server.
    pub(super) fn send_headers(&mut self, fields: &FieldSection, end_stream: bool) {
        let status = fields.get(Known::Status).unwrap_or(b"200");
        let is_refused = status != b"200";
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

    /// Returns how many bytes the far side may send again at once; the rest comes back as [`Drained`].
    pub(super) fn send_data(&mut self, bytes: &[u8], end_stream: bool) -> usize {
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

    pub(super) fn output(&self) -> &[u8] {
        if self.aborted { &[] } else { self.out.waiting() }
    }

    pub(super) fn advance_output(&mut self, n: usize) {
        self.out.advance(n, if self.saves_memory { 0 } else { KEPT_OUTPUT_BYTES });
    }

    /// Whether memory is short: then the connection keeps no empty output buffer.
    pub(super) fn save_memory(&mut self, on: bool) {
        self.saves_memory = on;
        // Nothing has been written: this only gives back what is empty.
        self.advance_output(0);
    }

    pub(super) fn pending_output(&self) -> usize {
        self.out.waiting_bytes()
    }

    /// Memory of the output, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.out.bytes.capacity()
    }

    /// Bytes that were read and have not gone on.
    pub(super) fn held_bytes(&self) -> u64 {
        self.unreleased_bytes as u64
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.owed_bytes
    }

    pub(super) fn next_drained(&mut self) -> Option<Drained> {
        let bytes = self.owed_bytes.min(OUTPUT_HIGH_WATER_BYTES.saturating_sub(self.pending_output()));
        if bytes == 0 {
            return None;
        }
        self.owed_bytes -= bytes;
        Some(Drained { stream: StreamKey::numbered(STREAM), token: self.token, bytes: bytes as u32 })
    }

    /// Bytes have gone on: so many more may be read.
    pub(super) fn release(&mut self, bytes: usize) {
        self.unreleased_bytes = self.unreleased_bytes.saturating_sub(bytes);
    }

    /// Whether the socket is to be left unread until what was read has gone on.
    pub(super) fn is_paused(&self) -> bool {
        self.held || self.unreleased_bytes >= self.max_unreleased_bytes || self.is_recalled()
    }

    /// Leaves the socket unread, or does so no more.
    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Sets how many bytes may be read that have not gone on.
    pub(super) fn limit_unreleased(&mut self, bytes: usize) {
        self.max_unreleased_bytes = bytes.min(MAX_UNRELEASED_BYTES);
    }

    /// Bytes that may be read now.
    pub(super) fn read_room(&self) -> usize {
        self.max_unreleased_bytes.saturating_sub(self.unreleased_bytes)
    }

    /// Nobody takes what the peer still sends: the connection ends with our output.
    pub(super) fn stop_receiving(&mut self) {
        self.received_end = true;
    }

    pub(super) fn reset(&mut self, _code: ErrorCode) {
        self.aborted = true;
    }

    /// Whether there is a call that is not over.
    pub(super) fn is_open(&self) -> bool {
        let begun = if self.role == Role::Server { self.announced } else { self.taken };
        begun && !self.aborted && !(self.received_end && self.sent_end)
    }

    /// Whether we send nothing more after the output.
    pub(super) fn ends_output(&self) -> bool {
        self.sent_end
    }

    /// Whether nothing more is to come either way.
    pub(super) fn is_drained(&self) -> bool {
        self.received_end && self.sent_end
    }

    /// Whether neither side has spoken, and the server may still do so. After its end the client's bytes are for nobody, as they
    /// would be without a proxy.
    pub(super) fn is_guess(&self) -> bool {
        self.opening == Opening::Guess && !self.sent_end
    }

    /// Tells once that the server has spoken before the client.
    pub(super) fn takes_server_first(&mut self) -> bool {
        let is_first = self.opening == Opening::ServerSpoke;
        if is_first {
            self.opening = Opening::Settled;
        }
        is_first
    }

    /// The bytes are opaque, as was guessed.
    pub(super) fn keep_guess(&mut self) {
        self.opening = Opening::Settled;
    }

    /// The bytes are something else: nothing more is read here, and nothing of what the server says goes on.
    pub(super) fn recall(&mut self) {
        self.opening = Opening::Recalled;
    }

    pub(super) fn is_recalled(&self) -> bool {
        self.opening == Opening::Recalled
    }

    /// Whether its bytes are TLS of the application's own.
    pub(super) fn carries_tls(&self) -> bool {
        self.server().is_some()
    }

    /// The server that its TLS is for, if it carries TLS; the inner one is `None` if the client names none.
    pub(super) fn server(&self) -> Option<Option<&str>> {
        match &self.contents {
            Contents::Unknown => None,
            Contents::Tls(name) => Some(name.as_deref()),
        }
    }

    /// Whether the connection is to be cut, without a word.
    pub(super) fn is_aborted(&self) -> bool {
        self.aborted
    }
}

#[cfg(test)]
#[path = "opaque_tests.rs"]
mod tests;
