//! An endpoint for tests: one engine, the record of its events, and the methods that tests call.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http2::{Connection, ConnectionError, ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey};

use crate::frames::{self, Frame, kind};

/// An event in a form that tests can keep. Adjacent DATA of a stream is merged, however it was split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    Headers { stream: u32, section: Section, fields: Fields, end_stream: bool },
    Oversize { stream: u32, section: Section },
    Data { stream: u32, bytes: Vec<u8>, end_stream: bool },
    Reset { stream: u32, code: ErrorCode, by_peer: bool },
    GoAway { last_stream: u32, code: ErrorCode },
    Settings,
}

pub(crate) type Fields = Vec<(String, String)>;

pub(crate) struct Endpoint {
    pub(crate) http2: Connection,
    pub(crate) now: Instant,
    /// Whether received DATA is released at once.
    pub(crate) releases: bool,
    pub(crate) error: Option<ConnectionError>,
    happened: Vec<Happening>,
    keys: HashMap<u32, StreamKey>,
    fields: FieldSection,
}

impl Endpoint {
    pub(crate) fn new(role: Role, limits: Limits, now: Instant) -> Self {
        Self {
            http2: Connection::new(role, Arc::new(limits), now),
            now,
            releases: true,
            error: None,
            happened: Vec::new(),
            keys: HashMap::new(),
            fields: FieldSection::new(),
        }
    }

    /// A server whose client has sent its preface and empty SETTINGS, and has read the server's SETTINGS.
    pub(crate) fn server(limits: Limits) -> Self {
        let mut server = Self::new(Role::Server, limits, Instant::now());
        server.greet(&[frames::PREFACE, &frames::settings(&[])].concat());
        server
    }

    /// A client whose server has sent empty SETTINGS, and has read the client's SETTINGS.
    pub(crate) fn client(limits: Limits) -> Self {
        let mut client = Self::new(Role::Client, limits, Instant::now());
        client.greet(&frames::settings(&[]));
        client
    }

    fn greet(&mut self, bytes: &[u8]) {
        self.feed(bytes);
        self.feed(&frames::frame(kind::SETTINGS, frames::flag::ACK, 0, &[]));
        self.written();
        assert_eq!(self.take(), [Happening::Settings]);
    }

    /// Passes bytes of the peer to the engine; an error is stored in `error`.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        let mut input = bytes;
        loop {
            match self.http2.receive(self.now, &mut input, &mut self.fields) {
                Ok(Some(event)) => {
                    let release = note(&mut self.happened, &mut self.keys, &event, &self.fields);
                    if self.releases
                        && let Some((stream, bytes)) = release
                    {
                        self.http2.release(stream, bytes);
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    assert!(self.error.is_none(), "an error is reported once");
                    self.error = Some(error);
                }
            }
        }
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
    }

    /// Returns the events since the last call.
    pub(crate) fn take(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happened)
    }

    /// Returns all output of the engine.
    pub(crate) fn written(&mut self) -> Vec<u8> {
        let mut written = Vec::new();
        loop {
            let output = self.http2.output();
            if output.is_empty() {
                return written;
            }
            written.extend_from_slice(output);
            let n = output.len();
            self.http2.advance_output(n);
        }
    }

    /// Returns all frames in the engine's output.
    pub(crate) fn sent(&mut self) -> Vec<Frame> {
        frames::parse(&self.written())
    }

    pub(crate) fn key(&self, stream: u32) -> StreamKey {
        self.keys[&stream]
    }

    pub(crate) fn open(&mut self, fields: &FieldSection, end_stream: bool) -> StreamKey {
        let key = self.http2.open(self.now, 0, fields, end_stream).expect("the stream can be opened");
        self.keys.insert(key.id, key);
        key
    }

    pub(crate) fn respond(&mut self, stream: u32, fields: &FieldSection, end_stream: bool) {
        self.http2.send_headers(self.key(stream), Section::Response, fields, end_stream);
    }

    pub(crate) fn trail(&mut self, stream: u32, fields: &FieldSection) {
        self.http2.send_headers(self.key(stream), Section::Trailers, fields, true);
    }

    pub(crate) fn send(&mut self, stream: u32, bytes: &[u8], end_stream: bool) -> usize {
        self.http2.send_data(self.key(stream), bytes, end_stream)
    }
}

/// Records an event. Returns the bytes that it occupies in the stream's window.
fn note(
    happened: &mut Vec<Happening>,
    keys: &mut HashMap<u32, StreamKey>,
    event: &Event<'_>,
    fields: &FieldSection,
) -> Option<(StreamKey, usize)> {
    let mut taken = None;
    let happening = match *event {
        Event::Headers { stream, section, oversize: true, .. } => {
            keys.insert(stream.id, stream);
            Happening::Oversize { stream: stream.id, section }
        }
        Event::Headers { stream, section, end_stream, .. } => {
            keys.insert(stream.id, stream);
            Happening::Headers { stream: stream.id, section, fields: strings(fields), end_stream }
        }
        Event::Data { stream, bytes, end_stream, .. } => {
            taken = Some((stream, bytes.len()));
            match happened.last_mut() {
                Some(Happening::Data { stream: last, bytes: before, end_stream: ended }) if *last == stream.id => {
                    before.extend_from_slice(bytes);
                    *ended = end_stream;
                    return taken;
                }
                _ => Happening::Data { stream: stream.id, bytes: bytes.to_vec(), end_stream },
            }
        }
        Event::Reset { stream, code, by_peer, .. } => Happening::Reset { stream: stream.id, code, by_peer },
        Event::GoAway { last_stream, code } => Happening::GoAway { last_stream, code },
        Event::Settings => Happening::Settings,
    };
    happened.push(happening);
    taken
}

/// Returns the fields as text. Bytes that are not text are escaped.
pub(crate) fn strings(fields: &FieldSection) -> Fields {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    fields.iter().map(|field| (text(field.name), text(field.value))).collect()
}

pub(crate) fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    for (name, value) in fields {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section
}

/// A gRPC call's request.
pub(crate) fn request() -> FieldSection {
    section(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/leno.echo.v1.Echo/Unary"),
        (":authority", "echo.default:50051"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ])
}

pub(crate) fn response() -> FieldSection {
    section(&[(":status", "200"), ("content-type", "application/grpc")])
}

pub(crate) fn trailers() -> FieldSection {
    section(&[("grpc-status", "0"), ("grpc-message", "")])
}

pub(crate) fn headers(stream: u32, section: Section, fields: &FieldSection, end_stream: bool) -> Happening {
    Happening::Headers { stream, section, fields: strings(fields), end_stream }
}

pub(crate) fn data(stream: u32, bytes: &[u8], end_stream: bool) -> Happening {
    Happening::Data { stream, bytes: bytes.to_vec(), end_stream }
}

pub(crate) fn reset(stream: u32, code: ErrorCode, by_peer: bool) -> Happening {
    Happening::Reset { stream, code, by_peer }
}
