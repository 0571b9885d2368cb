//! Our engine as the client of all calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use leno_http2::{Connection, ErrorCode, Event, FieldSection, Limits, OpenError, Role, Section, StreamKey};
use tokio::io::DuplexStream;

use super::driver::{Owner, Unreleased, drive, random_limits};
use super::traffic::{Call, Ending, Message, from_section, to_section};

const MAX_OPEN: usize = 12;

struct Client {
    calls: Arc<Vec<Call>>,
    next: usize,
    received: HashMap<usize, Message>,
    unreleased: Unreleased,
    rng: fastrand::Rng,
}

pub(super) async fn call_all(
    io: DuplexStream,
    mut rng: fastrand::Rng,
    calls: Arc<Vec<Call>>,
) -> HashMap<usize, Message> {
    let limits = random_limits(&mut rng, &Limits::client());
    let mut http2 = Connection::new(Role::Client, Arc::new(limits), Instant::now());
    let mut client = Client { calls, next: 0, received: HashMap::new(), unreleased: Unreleased::default(), rng };
    drive(io, &mut http2, &mut client).await;
    assert_eq!((client.next, http2.stream_count(), http2.queued_bytes()), (client.calls.len(), 0, 0));
    client.received
}

impl Owner for Client {
    fn act(&mut self, http2: &mut Connection) -> bool {
        let calls = Arc::clone(&self.calls);
        // The server may refuse streams above its limit, which we do not know before its settings arrive.
        while let Some(call) = calls.get(self.next)
            && http2.is_established()
            && http2.stream_count() < MAX_OPEN
        {
            match self.open(http2, call) {
                Ok(stream) => self.send(http2, stream, call),
                Err(OpenError::StreamLimit) => break,
                Err(OpenError::Closed) => panic!("their server goes away"),
            }
            self.next += 1;
        }
        self.next == calls.len() && http2.stream_count() == 0
    }

    fn on_event(&mut self, http2: &mut Connection, event: Event<'_>, fields: &FieldSection) {
        match event {
            Event::Headers { section: Section::Response, token, end_stream, oversize, .. } => {
                assert!(!oversize);
                let message = Message { fields: from_section(fields), complete: end_stream, ..Message::default() };
                self.received.insert(token as usize, message);
            }
            Event::Headers { token, .. } => {
                let message = self.received.get_mut(&(token as usize)).expect("trailers come last");
                message.trailers = Some(from_section(fields));
                message.complete = true;
            }
            Event::Data { stream, token, bytes, end_stream } => {
                self.unreleased.receive(http2, &mut self.rng, stream, bytes.len());
                let message = self.received.get_mut(&(token as usize)).expect("content comes after its fields");
                message.body.extend_from_slice(bytes);
                message.complete = end_stream;
                if let Ending::ClientCancels { after_bytes } = self.calls[token as usize].ending
                    && message.body.len() > after_bytes
                {
                    http2.reset(stream, ErrorCode::CANCEL);
                }
            }
            Event::Reset { token, by_peer, code, .. } => {
                let ending = self.calls[token as usize].ending;
                assert!(by_peer && matches!(ending, Ending::ServerResets { .. }), "call {token}: {code}");
            }
            Event::GoAway { .. } | Event::Settings => {}
        }
    }
}

impl Client {
    fn open(&mut self, http2: &mut Connection, call: &Call) -> Result<StreamKey, OpenError> {
        let pseudo = [(":method", "POST"), (":scheme", "http"), (":authority", "b.a"), (":path", "/a.B/C")];
        let end_stream = call.request.body.is_empty() && call.request.trailers.is_none();
        http2.open(Instant::now(), self.next as u32, &to_section(&pseudo, &call.request.fields), end_stream)
    }

    fn send(&mut self, http2: &mut Connection, stream: StreamKey, call: &Call) {
        send_message(http2, &mut self.rng, stream, &call.request);
        if matches!(call.ending, Ending::ClientCancels { after_bytes: ..1_000 }) {
            http2.reset(stream, ErrorCode::CANCEL);
        }
    }
}

/// Sends a message's content in random pieces, and its trailers. Sends nothing if the message has only a header
/// section.
pub(super) fn send_message(http2: &mut Connection, rng: &mut fastrand::Rng, stream: StreamKey, message: &Message) {
    let mut rest = &message.body[..];
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(rng.usize(1..=rest.len()));
        rest = later;
        http2.send_data(stream, piece, rest.is_empty() && message.trailers.is_none());
    }
    if let Some(trailers) = &message.trailers {
        http2.send_headers(stream, Section::Trailers, &to_section(&[], trailers), true);
    }
}
