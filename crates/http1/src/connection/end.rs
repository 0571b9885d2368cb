//! Ends exchanges, messages and the connection, after a complete message, a close by the peer, or an error.

use std::time::Instant;

use leno_http2::{ErrorCode, Event, Role, StreamKey};

use super::{Connection, Input};
use crate::block::Incomplete;
use crate::error::ConnectionError;
use crate::exchange::{Half, Outgoing};
use crate::write;

impl Connection {
    /// Handles a close of the peer's side. Call this function when the connection has consumed all earlier input.
    ///
    /// Returns the event that the close causes for the current exchange: the end of its content, or a reset. Returns
    /// `None` if no exchange is open, or if the exchange continues, for example because its whole response waits in our
    /// queue.
    ///
    /// As a server: a client that closes its side before it has its whole response gives its request up, even if the
    /// request is complete. hyper and Envoy do the same, as does nginx for the requests that it forwards. Go's
    /// `net/http` cancels the request's context. They cannot distinguish a client that has left from a client that only
    /// closes its sending side, and few clients of HTTP/1 do the latter.
    pub fn input_ended(&mut self, _now: Instant) -> Option<Event<'static>> {
        self.peer_ended = true;
        self.incomplete = Incomplete::default();
        self.incomplete_since = None;
        self.on_end_of_input()
    }

    /// Handles the end of the input. Returns the event that it causes for the current exchange, if any.
    pub(super) fn on_end_of_input(&mut self) -> Option<Event<'static>> {
        let Some(exchange) = self.exchange.as_deref_mut() else {
            self.end();
            return None;
        };
        exchange.persistent = false;
        match self.input {
            Input::UntilClose | Input::Tunnel | Input::Rejected => self.end_of_content(),
            // The client does not wait for the rest of its response. In a tunnel, each side ends on its own.
            Input::Complete
                if self.role == Role::Server && exchange.takes_output() && exchange.outgoing != Outgoing::Tunnel =>
            {
                self.lose_exchange(ErrorCode::CANCEL)
            }
            // The exchange continues: our queue holds the rest of the response, the tunnel may still be accepted, or we
            // still send in the tunnel.
            Input::Complete | Input::Undecided if self.role == Role::Server => None,
            Input::Complete if exchange.outgoing == Outgoing::Tunnel => None,
            // We are the client and still send our request. The server has answered completely and closed the
            // connection, so the server does not read the rest of the request.
            Input::Complete => self.lose_exchange(ErrorCode::NO_ERROR),
            Input::Dead => None,
            _ if self.role == Role::Server => self.lose_exchange(ErrorCode::CANCEL),
            _ => self.lose_exchange(ErrorCode::INTERNAL_ERROR),
        }
    }

    fn lose_exchange(&mut self, code: ErrorCode) -> Option<Event<'static>> {
        self.note_cut();
        let exchange = self.exchange.take()?;
        self.end();
        Some(Event::Reset { stream: StreamKey::numbered(exchange.id), token: exchange.token, code, by_peer: true })
    }

    /// Ends the peer's message. Returns the event for its end.
    pub(super) fn end_of_content(&mut self) -> Option<Event<'static>> {
        let exchange = self.exchange.as_deref()?;
        let (stream, token) = (StreamKey::numbered(exchange.id), exchange.token);
        self.end_receiving();
        Some(Event::Data { stream, token, bytes: &[], end_stream: true })
    }

    /// Records that the peer's message is complete.
    pub(super) fn end_receiving(&mut self) {
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        exchange.receive = Half::Closed;
        self.input = Input::Complete;
        self.end_exchange_if_closed();
    }

    /// Records that our message is complete.
    pub(super) fn end_sending(&mut self) {
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        exchange.send = Half::Closed;
        exchange.end_after_queue = false;
        if exchange.stop_when_sent && exchange.receive != Half::Closed {
            self.exchange = None;
            return self.end();
        }
        self.end_exchange_if_closed();
    }

    fn end_exchange_if_closed(&mut self) {
        let Some(exchange) = self.exchange.take_if(|exchange| exchange.is_closed()) else { return };
        self.out.advance(0, 0);
        if exchange.persistent && !self.shutting_down {
            self.input = Input::Head;
        } else {
            self.end();
        }
    }

    /// Stops reading and sending.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.input = Input::Dead;
        self.incomplete = Incomplete::default();
        self.incomplete_since = None;
    }

    /// Records whether the peer would mistake an orderly close of the connection for the end of our content
    /// ([`Connection::must_abort`]). Call this function when an exchange ends early, before its state is dropped.
    pub(super) fn note_cut(&mut self) {
        self.cut_short = self.sends_until_close();
    }

    /// Whether our content is incomplete, and only a close of the connection would mark its end.
    fn sends_until_close(&self) -> bool {
        self.exchange.as_deref().is_some_and(|exchange| {
            exchange.send == Half::Body && matches!(exchange.outgoing, Outgoing::UntilClose | Outgoing::Tunnel)
        })
    }

    /// Whether our content is incomplete, and the peer would mistake an orderly close of the connection for the end of
    /// this content.
    pub fn hides_cut(&self) -> bool {
        self.cut_short || self.sends_until_close()
    }

    /// Handles a protocol error of the peer. A server sends an error response unless a response has begun. The exchange
    /// stays open, so that the caller can end everything that depends on it.
    pub(super) fn break_off(&mut self, error: ConnectionError) -> ConnectionError {
        self.note_cut();
        self.end();
        let exchange = self.exchange.as_deref();
        if self.role == Role::Client {
            return ConnectionError { status: 502, ..error };
        }
        if exchange.is_none_or(|exchange| exchange.send == Half::Headers) {
            let with_content = exchange.is_none_or(|exchange| !exchange.head);
            write::refusal(&mut self.out.bytes, error.status, error.why, with_content);
        }
        error
    }

    /// Drops bytes that a server sends after a response and before the next request, and does not reuse the connection.
    /// Such bytes answer no request: they may be a response for another client, or come from an attacker (RFC 9112
    /// section 11.1).
    pub(super) fn check_for_unsolicited(&mut self, input: &mut &[u8]) {
        if self.role == Role::Server || input.is_empty() {
            return;
        }
        match self.exchange.as_deref_mut() {
            None => self.end(),
            Some(exchange) if self.input == Input::Complete => exchange.persistent = false,
            Some(_) => return,
        }
        *input = &[];
    }
}
