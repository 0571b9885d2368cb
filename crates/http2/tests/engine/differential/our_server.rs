//! Our engine as the server of all calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use leno_http2::{Connection, ErrorCode, Event, FieldSection, Limits, Role, Section, StreamKey};
use tokio::io::DuplexStream;

use super::driver::{Owner, Unreleased, drive, random_limits};
use super::our_client::send_message;
use super::traffic::{Call, Ending, Message, call_number, from_section, to_section};

struct Server {
    calls: Arc<Vec<Call>>,
    received: HashMap<usize, Message>,
    unreleased: Unreleased,
    rng: fastrand::Rng,
}

pub(super) async fn serve(io: DuplexStream, mut rng: fastrand::Rng, calls: Arc<Vec<Call>>) -> HashMap<usize, Message> {
    let limits = random_limits(&mut rng, &Limits::server());
    let mut http2 = Connection::new(Role::Server, Arc::new(limits), Instant::now());
    let mut server = Server { calls, received: HashMap::new(), unreleased: Unreleased::default(), rng };
    drive(io, &mut http2, &mut server).await;
    assert_eq!((http2.stream_count(), http2.queued_bytes()), (0, 0));
    server.received
}

impl Owner for Server {
    fn act(&mut self, _http2: &mut Connection) -> bool {
        false
    }

    fn on_event(&mut self, http2: &mut Connection, event: Event<'_>, fields: &FieldSection) {
        match event {
            Event::Headers { stream, section: Section::Request, end_stream, oversize, .. } => {
                assert!(!oversize);
                let fields = from_section(fields);
                let call = call_number(&fields);
                http2.set_token(stream, call as u32);
                let message = Message { fields, complete: end_stream, ..Message::default() };
                self.received.insert(call, message);
                self.go_on(http2, stream, call, true);
            }
            Event::Headers { stream, token, .. } => {
                let message = self.received.get_mut(&(token as usize)).expect("trailers come last");
                message.trailers = Some(from_section(fields));
                message.complete = true;
                self.go_on(http2, stream, token as usize, false);
            }
            Event::Data { stream, token, bytes, end_stream } => {
                self.unreleased.receive(http2, &mut self.rng, stream, bytes.len());
                let message = self.received.get_mut(&(token as usize)).expect("content comes after its fields");
                message.body.extend_from_slice(bytes);
                message.complete = end_stream;
                self.go_on(http2, stream, token as usize, false);
            }
            Event::Reset { token, by_peer, code, .. } => {
                let ending = self.calls[token as usize].ending;
                assert!(by_peer && matches!(ending, Ending::ClientCancels { .. }), "call {token}: {code}");
            }
            Event::GoAway { .. } | Event::Settings => {}
        }
    }
}

impl Server {
    /// If enough of the request has arrived, resets or answers the call, as the call requires.
    fn go_on(&mut self, http2: &mut Connection, stream: StreamKey, call: usize, is_new: bool) {
        let (message, call) = (&self.received[&call], &self.calls[call]);
        if let Ending::ServerResets { after_bytes } = call.ending
            && (message.complete || message.body.len() > after_bytes)
        {
            return http2.reset(stream, ErrorCode::INTERNAL_ERROR);
        }
        if (is_new && call.answers_early) || (message.complete && !call.answers_early) {
            let response = &call.response;
            let end_stream = response.body.is_empty() && response.trailers.is_none();
            let fields = to_section(&[(":status", "200")], &response.fields);
            http2.send_headers(stream, Section::Response, &fields, end_stream);
            send_message(http2, &mut self.rng, stream, response);
        }
    }
}
