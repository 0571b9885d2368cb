//! The end: of an exchange, of what the peer sends, of the connection.

use std::time::Instant;

use leno_http2::{ErrorCode, Event, OutputBuffer, Role, StreamKey};

use super::{Connection, Input};
use crate::block::Incomplete;
use crate::error::ConnectionError;
use crate::exchange::{Half, Outgoing};
use crate::write;

impl Connection {
    /// The peer has closed its side, and all that came before was taken in. Returns what that means to the exchange
    /// under way: the end of its content, a reset, or nothing, where the peer still waits for our answer.
    pub fn input_ended(&mut self, _now: Instant) -> Option<Event<'static>> {
        self.peer_ended = true;
        self.incomplete = Incomplete::default();
        self.incomplete_since = None;
        self.on_end_of_input()
    }

    /// What the end of input means in the state that we are in.
    pub(super) fn on_end_of_input(&mut self) -> Option<Event<'static>> {
        let Some(exchange) = self.exchange.as_deref_mut() else {
            self.end();
            return None;
        };
        exchange.persistent = false;
        match self.input {
            Input::UntilClose | Input::Tunnel | Input::Rejected => self.end_of_content(),
            // The answer is still wanted, the tunnel may still be accepted, or our side of it goes on.
            Input::Complete | Input::Undecided if self.role == Role::Server => None,
            Input::Complete if exchange.outgoing == Outgoing::Tunnel => None,
            // The server has answered without the rest of the request.
            Input::Complete => self.lose_exchange(ErrorCode::NO_ERROR),
            Input::Dead => None,
            _ if self.role == Role::Server => self.lose_exchange(ErrorCode::CANCEL),
            _ => self.lose_exchange(ErrorCode::INTERNAL_ERROR),
        }
    }

    fn lose_exchange(&mut self, code: ErrorCode) -> Option<Event<'static>> {
        let exchange = self.exchange.take()?;
        self.end();
        Some(Event::Reset { stream: StreamKey::numbered(exchange.id), token: exchange.token, code, by_peer: true })
    }

    /// The peer's message ends here; the event that says so.
    pub(super) fn end_of_content(&mut self) -> Option<Event<'static>> {
        let exchange = self.exchange.as_deref()?;
        let (stream, token) = (StreamKey::numbered(exchange.id), exchange.token);
        self.end_receiving();
        Some(Event::Data { stream, token, bytes: &[], end_stream: true })
    }

    /// The peer's message is complete.
    pub(super) fn end_receiving(&mut self) {
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        exchange.receive = Half::Closed;
        self.input = Input::Complete;
        self.end_exchange_if_closed();
    }

    /// Our message is complete.
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
        if self.pending_output() == 0 {
            self.out = OutputBuffer::default();
        }
        if exchange.persistent && !self.shutting_down {
            self.input = Input::Head;
        } else {
            self.end();
        }
    }

    /// Nothing more is read or sent.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.input = Input::Dead;
        self.incomplete = Incomplete::default();
        self.incomplete_since = None;
    }

    /// The exchange ends before its time: notes whether closing the connection would hide that.
    pub(super) fn note_cut(&mut self) {
        self.cut_short = self.exchange.as_deref().is_some_and(|exchange| {
            exchange.send == Half::Body && matches!(exchange.outgoing, Outgoing::UntilClose | Outgoing::Tunnel)
        });
    }

    /// The peer broke a rule. As a server we say so, where it is not in the middle of an answer. The exchange stays open,
    /// for the owner to end what hangs on it.
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

    /// Bytes that come after a response, and before anything was asked, answer nothing: they may be another client's, or
    /// an attacker's (RFC 9112 section 11.1). The connection is not used again.
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
