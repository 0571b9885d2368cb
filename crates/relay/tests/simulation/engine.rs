//! The protocol of a simulated client or server: HTTP/2 or HTTP/1.1, with the same events and commands.

use std::sync::Arc;
use std::time::Instant;

use leno_http1::Heads;
use leno_http2::{ErrorCode, Event, FieldSection, Limits, OpenError, Role, Section, StreamKey, Windows};

#[expect(clippy::large_enum_variant, reason = "nearly every connection is HTTP/2")]
pub(crate) enum Engine {
    Http2(leno_http2::Connection),
    Http1(leno_http1::Connection, Heads),
}

/// Evaluates the same expression for both protocols.
macro_rules! both {
    ($self:expr, $inner:ident => $expression:expr) => {
        match $self {
            Engine::Http2($inner) => $expression,
            Engine::Http1($inner, _) => $expression,
        }
    };
}

impl Engine {
    pub(crate) fn http2(role: Role, limits: &Arc<Limits>, now: Instant) -> Self {
        Self::Http2(leno_http2::Connection::new(role, limits.clone(), now))
    }

    pub(crate) fn http1(role: Role, now: Instant) -> Self {
        let limits = match role {
            Role::Client => leno_http1::Limits::client(),
            // Larger than the default: the relay adds a few fields to requests, and a server of HTTP/1 does not
            // announce its limit.
            Role::Server => leno_http1::Limits { max_header_list_bytes: 20_000, ..leno_http1::Limits::server() },
        };
        Self::Http1(leno_http1::Connection::new(role, Arc::new(limits), now), Heads::default())
    }

    pub(crate) fn is_http1(&self) -> bool {
        matches!(self, Self::Http1(..))
    }

    pub(crate) fn receive<'a>(
        &mut self,
        now: Instant,
        input: &mut &'a [u8],
        fields: &mut FieldSection,
    ) -> Result<Option<Event<'a>>, String> {
        match self {
            Self::Http2(http2) => http2.receive(now, input, fields).map_err(|error| error.to_string()),
            Self::Http1(http1, heads) => http1.receive(now, input, fields, heads).map_err(|error| error.to_string()),
        }
    }

    /// Handles the end of the peer's bytes.
    pub(crate) fn input_ended(&mut self, now: Instant) -> Option<Event<'static>> {
        match self {
            Self::Http2(_) => None,
            Self::Http1(http1, _) => http1.input_ended(now),
        }
    }

    pub(crate) fn open(
        &mut self,
        now: Instant,
        token: u32,
        fields: &FieldSection,
        end_stream: bool,
    ) -> Result<StreamKey, OpenError> {
        match self {
            Self::Http2(http2) => http2.open(now, token, fields, end_stream),
            Self::Http1(http1, heads) => {
                http1.open(now, token, fields, end_stream, heads).map_err(|error| match error {
                    leno_http1::OpenError::Busy => OpenError::StreamLimit,
                    leno_http1::OpenError::Closed => OpenError::Closed,
                    leno_http1::OpenError::Unwritable(why) => panic!("{why}"),
                })
            }
        }
    }

    pub(crate) fn set_token(&mut self, stream: StreamKey, token: u32) {
        both!(self, engine => engine.set_token(stream, token));
    }

    pub(crate) fn send_headers(&mut self, stream: StreamKey, section: Section, fields: &FieldSection, end: bool) {
        match self {
            Self::Http2(http2) => http2.send_headers(stream, section, fields, end),
            Self::Http1(http1, heads) => http1.send_headers(stream, section, fields, end, heads),
        }
    }

    pub(crate) fn send_data(&mut self, stream: StreamKey, bytes: &[u8], end_stream: bool) {
        both!(self, engine => engine.send_data(stream, bytes, end_stream));
    }

    pub(crate) fn reset(&mut self, stream: StreamKey, code: ErrorCode) {
        both!(self, engine => engine.reset(stream, code));
    }

    pub(crate) fn release(&mut self, stream: StreamKey, bytes: usize) {
        both!(self, engine => engine.release(stream, bytes));
    }

    /// Forgets the streams above `last_stream`, the last stream of a GOAWAY, and returns them.
    pub(crate) fn abandon_above(&mut self, last_stream: u32) -> Vec<StreamKey> {
        let Self::Http2(http2) = self else { return Vec::new() };
        let streams: Vec<_> = http2.streams_above(last_stream).into_iter().map(|(stream, _)| stream).collect();
        streams.iter().for_each(|stream| http2.abandon(*stream));
        streams
    }

    pub(crate) fn open_streams(&self) -> Vec<u32> {
        both!(self, engine => engine.open_streams().into_iter().map(|(stream, _)| stream.id).collect())
    }

    pub(crate) fn shut_down(&mut self) {
        both!(self, engine => engine.shut_down());
    }

    /// Accepts no more calls from now on.
    pub(crate) fn go_away(&mut self) {
        match self {
            Self::Http2(http2) => http2.go_away(ErrorCode::NO_ERROR, "restarts"),
            Self::Http1(http1, _) => http1.shut_down(),
        }
    }

    pub(crate) fn output(&mut self) -> &[u8] {
        both!(self, engine => engine.output())
    }

    pub(crate) fn advance_output(&mut self, bytes: usize) {
        both!(self, engine => {
            engine.advance_output(bytes);
            while engine.next_drained().is_some() {}
        });
    }

    /// Returns the connection's flow-control windows; `None` for HTTP/1, which has none.
    pub(crate) fn windows(&self) -> Option<Windows> {
        match self {
            Self::Http2(http2) => Some(http2.windows()),
            Self::Http1(..) => None,
        }
    }

    pub(crate) fn pending_output(&self) -> usize {
        both!(self, engine => engine.pending_output())
    }

    /// Returns whether nothing more is sent or received.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Http2(http2) => http2.is_drained() && !http2.wants_write(),
            Self::Http1(http1, _) => (http1.must_close() || http1.is_drained()) && !http1.wants_write(),
        }
    }
}
