//! An endpoint for tests: one engine, the record of its events, and the methods that tests call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leno_http1::{
    Connection, ConnectionError, ErrorCode, Event, FieldSection, Heads, Limits, OpenError, Role, Section, StreamKey,
};

/// An event in a form that tests can keep. Adjacent content is merged, however it was split.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    Headers { section: Section, fields: Fields, end_stream: bool },
    Data { bytes: Vec<u8>, end_stream: bool },
    Reset { code: ErrorCode, by_peer: bool },
}

pub(crate) type Fields = Vec<(String, String)>;

pub(crate) struct Endpoint {
    pub(crate) http1: Connection,
    pub(crate) now: Instant,
    pub(crate) heads: Heads,
    /// Whether received content is released at once.
    pub(crate) releases: bool,
    pub(crate) error: Option<ConnectionError>,
    /// Key of the latest exchange.
    pub(crate) key: StreamKey,
    happened: Vec<Happening>,
    /// Input that the engine did not consume.
    kept: Vec<u8>,
}

impl Endpoint {
    pub(crate) fn new(role: Role, limits: Limits) -> Self {
        let now = Instant::now();
        Self {
            http1: Connection::new(role, Arc::new(limits), now),
            now,
            heads: Heads::default(),
            releases: true,
            error: None,
            key: StreamKey::numbered(0),
            happened: Vec::new(),
            kept: Vec::new(),
        }
    }

    pub(crate) fn server() -> Self {
        Self::new(Role::Server, Limits::server())
    }

    /// A client whose request has been sent.
    pub(crate) fn client(request: &[(&str, &str)], end_stream: bool) -> Self {
        let mut client = Self::new(Role::Client, Limits::client());
        client.request(request, end_stream).expect("a new connection takes a request");
        client.written();
        client
    }

    /// Returns a client's output for a request's header section.
    pub(crate) fn wire_of(request: &[(&str, &str)], end_stream: bool) -> String {
        let mut client = Self::new(Role::Client, Limits::client());
        client.request(request, end_stream).expect("a new connection takes a request");
        client.written()
    }

    /// Passes bytes of the peer to the engine, after the unconsumed input. Stores an error in `error`.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.kept);
        let (mut input, mut fields) = (&bytes[..], FieldSection::new());
        while self.error.is_none() {
            match self.http1.receive(self.now, &mut input, &mut fields, &mut self.heads) {
                Ok(Some(event)) => self.note(&event, &fields),
                Ok(None) => break,
                Err(error) => self.error = Some(error),
            }
        }
        if self.error.is_none() && !input.is_empty() {
            assert!(self.http1.is_paused(), "only an engine that is paused leaves input");
            self.kept = input.to_vec();
        }
    }

    /// Closes the peer's side.
    pub(crate) fn end(&mut self) {
        self.feed(b"");
        assert!(self.kept.is_empty(), "the end comes after all bytes");
        if let Some(event) = self.http1.input_ended(self.now) {
            self.note(&event, &FieldSection::new());
        }
    }

    fn note(&mut self, event: &Event<'_>, fields: &FieldSection) {
        match *event {
            Event::Headers { stream, section, end_stream, oversize, .. } => {
                assert!(!oversize);
                assert!(!fields.defects().is_malformed(), "{fields:?} could not be sent as HTTP/2");
                self.key = stream;
                self.happened.push(Happening::Headers { section, fields: strings(fields), end_stream });
            }
            Event::Data { stream, bytes, end_stream, .. } => {
                if self.releases {
                    self.http1.release(stream, bytes.len());
                }
                match self.happened.last_mut() {
                    Some(Happening::Data { bytes: before, end_stream: ended @ false }) => {
                        before.extend_from_slice(bytes);
                        *ended = end_stream;
                    }
                    _ => self.happened.push(Happening::Data { bytes: bytes.to_vec(), end_stream }),
                }
            }
            Event::Reset { code, by_peer, .. } => self.happened.push(Happening::Reset { code, by_peer }),
            Event::GoAway { .. } | Event::Settings => panic!("HTTP/1 has no {event:?}"),
        }
    }

    /// Returns the events since the last call.
    pub(crate) fn take(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happened)
    }

    /// Returns all output of the engine, as text.
    pub(crate) fn written(&mut self) -> String {
        String::from_utf8(self.written_bytes()).expect("the test sends text")
    }

    /// Returns all output of the engine.
    pub(crate) fn written_bytes(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while !self.http1.output().is_empty() {
            all.extend_from_slice(self.http1.output());
            let n = self.http1.pending_output();
            self.http1.advance_output(n);
        }
        all
    }

    pub(crate) fn request(&mut self, fields: &[(&str, &str)], end_stream: bool) -> Result<(), OpenError> {
        self.key = self.http1.open(self.now, 7, &section(fields), end_stream, &mut self.heads)?;
        Ok(())
    }

    pub(crate) fn respond(&mut self, fields: &[(&str, &str)], end_stream: bool) {
        self.http1.send_headers(self.key, Section::Response, &section(fields), end_stream, &mut self.heads);
    }

    pub(crate) fn interim(&mut self, fields: &[(&str, &str)]) {
        self.http1.send_headers(self.key, Section::Interim, &section(fields), false, &mut self.heads);
    }

    pub(crate) fn trailers(&mut self, fields: &[(&str, &str)]) {
        self.http1.send_headers(self.key, Section::Trailers, &section(fields), true, &mut self.heads);
    }

    pub(crate) fn data(&mut self, bytes: &str, end_stream: bool) -> usize {
        self.http1.send_data(self.key, bytes.as_bytes(), end_stream)
    }

    pub(crate) fn wait(&mut self, time: Duration) {
        self.now += time;
    }
}

pub(crate) fn section(fields: &[(&str, &str)]) -> FieldSection {
    let mut section = FieldSection::new();
    for (name, value) in fields {
        section.push(name.as_bytes(), value.as_bytes());
    }
    section
}

fn strings(fields: &FieldSection) -> Fields {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|line| (text(line.name), text(line.value))).collect()
}

pub(crate) fn headers(section: Section, fields: &[(&str, &str)], end_stream: bool) -> Happening {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Happening::Headers { section, fields, end_stream }
}

pub(crate) fn content(bytes: &str, end_stream: bool) -> Happening {
    Happening::Data { bytes: bytes.into(), end_stream }
}

/// `GET http://a/`.
pub(crate) const GET: &[(&str, &str)] = &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
/// `POST http://a/`.
pub(crate) const POST: &[(&str, &str)] =
    &[(":method", "POST"), (":scheme", "http"), (":authority", "a"), (":path", "/")];
