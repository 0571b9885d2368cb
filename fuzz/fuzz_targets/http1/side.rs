//! One HTTP/1 engine, the events that its owner has seen, and checks that hold for any input.

use std::sync::Arc;
use std::time::Instant;

use leno_http1::{Connection, Event, FieldSection, Heads, Limits, Role, Section, StreamKey};

/// An event in a form that can be compared. Adjacent content is one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The fields sorted by name, and whether the message ends.
    Headers(Section, Vec<(Vec<u8>, Vec<u8>)>, bool),
    Data(Vec<u8>, bool),
    Reset,
}

pub struct Side {
    pub http1: Connection,
    pub heads: Heads,
    pub key: StreamKey,
    pub failed: bool,
    /// The peer has closed its sending side: no more bytes arrive.
    pub ended: bool,
    /// The peer's message is complete in the exchange that `key` names.
    pub received_all: bool,
    pub unreleased: usize,
    window_bytes: usize,
    kept: Vec<u8>,
}

impl Side {
    pub fn new(role: Role, limits: Limits) -> Self {
        let window_bytes = limits.content_window_bytes as usize;
        Self {
            http1: Connection::new(role, Arc::new(limits), Instant::now()),
            heads: Heads::default(),
            key: StreamKey::numbered(0),
            failed: false,
            ended: false,
            received_all: false,
            unreleased: 0,
            window_bytes,
            kept: Vec::new(),
        }
    }

    /// Sends a request that the engine accepts.
    pub fn open(&mut self, fields: &FieldSection, end_stream: bool) {
        let opened = self.http1.open(Instant::now(), 0, fields, end_stream, &mut self.heads);
        self.key = opened.expect("what was read can be written");
    }

    pub fn send_headers(&mut self, section: Section, fields: &FieldSection, end_stream: bool) {
        self.http1.send_headers(self.key, section, fields, end_stream, &mut self.heads);
    }

    /// Feeds bytes to the engine until the next event. Keeps the bytes that the engine did not read.
    pub fn next(&mut self, bytes: &[u8], fields: &mut FieldSection) -> Option<Seen> {
        self.kept.extend_from_slice(if self.ended { &[] } else { bytes });
        let kept = std::mem::take(&mut self.kept);
        let mut input = &kept[..];
        let was_over = self.http1.must_close();
        let seen = match self.http1.receive(Instant::now(), &mut input, fields, &mut self.heads) {
            Ok(Some(event)) => Some(self.note(&event, fields)),
            Ok(None) => {
                assert!(input.is_empty() || self.http1.is_paused(), "input is left without a reason");
                None
            }
            Err(error) => {
                assert!(!self.failed && self.http1.must_close(), "{error}");
                self.failed = true;
                None
            }
        };
        assert!(!was_over || seen.is_none(), "after the end nothing happens: {seen:?}");
        self.kept = input.to_vec();
        seen
    }

    pub fn end(&mut self) -> Option<Seen> {
        if self.ended || !self.kept.is_empty() {
            return None;
        }
        self.ended = true;
        let event = self.http1.input_ended(Instant::now())?;
        Some(self.note(&event, &FieldSection::new()))
    }

    fn note(&mut self, event: &Event<'_>, fields: &FieldSection) -> Seen {
        match *event {
            Event::Headers { stream, section, end_stream, oversize, .. } => {
                assert!(!oversize && !fields.defects().is_malformed(), "{fields:?} could not be sent as HTTP/2");
                if section == Section::Request {
                    assert!(stream.id > self.key.id, "an identifier is used once");
                    (self.key, self.received_all, self.unreleased) = (stream, false, 0);
                }
                assert!(stream == self.key && !self.received_all);
                self.received_all = end_stream;
                let mut lines: Vec<_> = fields.iter().map(|line| (line.name.to_vec(), line.value.to_vec())).collect();
                lines.sort();
                Seen::Headers(section, lines, end_stream)
            }
            Event::Data { stream, bytes, end_stream, .. } => {
                assert!(stream == self.key && !self.received_all && (end_stream || !bytes.is_empty()));
                self.received_all = end_stream;
                self.unreleased += bytes.len();
                assert!(self.unreleased <= self.window_bytes, "no more is handed out than the window holds");
                Seen::Data(bytes.to_vec(), end_stream)
            }
            Event::Reset { stream, .. } => {
                assert_eq!(stream, self.key);
                Seen::Reset
            }
            Event::GoAway { .. } | Event::Settings => panic!("HTTP/1 has no {event:?}"),
        }
    }

    pub fn write(&mut self, max_bytes: usize) -> Vec<u8> {
        let output = self.http1.output();
        let written = output[..output.len().min(max_bytes)].to_vec();
        self.http1.advance_output(written.len());
        written
    }

    pub fn release(&mut self, bytes: usize) {
        let bytes = bytes.min(self.unreleased);
        self.unreleased -= bytes;
        self.http1.release(self.key, bytes);
    }
}

/// Appends an event; joins adjacent content.
pub fn join(all: &mut Vec<Seen>, next: Seen) {
    match (all.last_mut(), next) {
        (Some(Seen::Data(before, ended @ false)), Seen::Data(more, end_stream)) => {
            before.extend_from_slice(&more);
            *ended = end_stream;
        }
        (_, next) => all.push(next),
    }
}
