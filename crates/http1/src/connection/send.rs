//! Sends the caller's requests, responses, content and trailers, and ends exchanges.

use std::time::Instant;

use leno_http2::fields::Known;
use leno_http2::{ErrorCode, FieldSection, Role, Section, StreamKey};

use super::{Connection, Input};
use crate::exchange::{Exchange, Half, Outgoing};
use crate::repeats::Heads;
use crate::write::{self, Form, Framing, Persistence, Unwritable};

/// The reason why a request was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the connection carries another exchange")]
    Busy,
    #[error("the connection takes no more requests")]
    Closed,
    /// HTTP/1.1 cannot express the request, so another HTTP/1.1 connection would not help.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
}

impl Connection {
    /// Sends a request (client only).
    ///
    /// # Errors
    /// See [`OpenError`]. Nothing was sent.
    pub fn open(
        &mut self,
        _now: Instant,
        token: u32,
        fields: &FieldSection,
        end_stream: bool,
        heads: &mut Heads,
    ) -> Result<StreamKey, OpenError> {
        if !self.takes_streams() {
            return Err(OpenError::Closed);
        }
        if self.exchange.is_some() {
            return Err(OpenError::Busy);
        }
        let content_length = write::content_length(fields);
        if end_stream && content_length.is_some_and(|length| length > 0) {
            return Err(OpenError::Unwritable(Unwritable::LACKS_CONTENT));
        }
        let method = fields.get(Known::Method).unwrap_or_default();
        let mut exchange = Exchange::new(self.last_id + 1, token);
        exchange.send = Half::Body;
        exchange.head = method == b"HEAD";
        exchange.connect = method == b"CONNECT";
        exchange.upgrade = fields.get(Known::LenoUpgrade).filter(|_| !end_stream).map(<[u8]>::to_vec);
        let framing = match content_length {
            _ if exchange.asks_for_tunnel() => Framing::Unframed,
            Some(length) => Framing::Length(length),
            None if !end_stream => Framing::Chunked,
            // A server may require a length if the method usually has content (RFC 9110 section 8.6).
            None if usually_has_content(method) => Framing::Length(0),
            None => Framing::Unframed,
        };
        exchange.outgoing = match framing {
            _ if exchange.asks_for_tunnel() => Outgoing::Awaited,
            Framing::Length(length) => Outgoing::Length(length),
            Framing::Chunked => Outgoing::Chunked,
            Framing::Unframed => Outgoing::Nothing,
        };
        // Some servers do not read content that they do not expect. Such a server parses the content as the next
        // request, and the response to that request would reach another client. So ask the server to close.
        let has_content = !matches!(framing, Framing::Unframed | Framing::Length(0));
        exchange.persistent = !has_content || usually_has_content(method);
        let persistence = if exchange.persistent { Persistence::Implied } else { Persistence::Close };
        let starts_at = self.written + self.pending_output() as u64;
        let form = Form { framing, persistence };
        write::request(&mut self.out.bytes, fields, form, exchange.upgrade.as_deref(), heads)?;
        self.last_id += 1;
        self.request_starts_at = starts_at;
        self.exchange = Some(Box::new(exchange));
        self.input = Input::Head;
        let key = StreamKey::numbered(self.last_id);
        if end_stream {
            self.end_sending();
        }
        Ok(key)
    }

    /// Whether another request is possible, now or after the current exchange.
    pub fn takes_streams(&self) -> bool {
        self.role == Role::Client
            && !self.over
            && !self.shutting_down
            && !self.peer_ended
            && self.last_id < u32::MAX
            && self.exchange.as_deref().is_none_or(|exchange| exchange.persistent && !exchange.asks_for_tunnel())
    }

    /// Sends the header section of a response, or trailers, which client and server can both send. Trailers wait for
    /// queued content, and are sent only with chunked content. Without an open exchange this has no effect.
    pub fn send_headers(
        &mut self,
        key: StreamKey,
        section: Section,
        fields: &FieldSection,
        end_stream: bool,
        heads: &mut Heads,
    ) {
        let over = self.over;
        let Some(exchange) = self.exchange_mut(key).filter(|exchange| !over && exchange.takes_output()) else { return };
        match section {
            Section::Request => {}
            Section::Interim if exchange.send == Half::Headers => self.send_interim(fields, heads),
            Section::Response if exchange.send == Half::Headers => self.send_response(fields, end_stream, heads),
            Section::Trailers if exchange.send == Half::Body => {
                if exchange.queue.waiting().is_empty() {
                    self.write_end(Some(fields));
                } else {
                    exchange.trailers = Some(Box::new(fields.clone()));
                }
            }
            _ => {}
        }
    }

    /// Sends an interim response, unless the client speaks HTTP/1.0, which has no interim responses (RFC 9110 section
    /// 15.2).
    fn send_interim(&mut self, fields: &FieldSection, heads: &mut Heads) {
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        if let Some(status) = status(fields).filter(|status| (100..200).contains(status) && *status != 101)
            && !exchange.peer_is_1_0
        {
            exchange.awaits_continue &= status != 100;
            let form = Form { framing: Framing::Unframed, persistence: Persistence::Implied };
            write::response(&mut self.out.bytes, status, fields, form, None, heads);
        }
    }

    fn send_response(&mut self, fields: &FieldSection, end_stream: bool, heads: &mut Heads) {
        let stays_open = !self.shutting_down && !self.announces_end && !self.peer_ended;
        // The beginning of a chunk's size line shows that the client sends the content.
        let has_content = !self.incomplete.is_empty();
        let Some(exchange) = self.exchange.as_deref_mut() else { return };
        let Some(status) = status(fields).filter(|&status| status >= 200) else { return self.end() };
        let upgrade = fields.get(Known::LenoUpgrade).filter(|_| status == 200 && exchange.upgrade.is_some());
        let is_tunnel = upgrade.is_some() || (exchange.connect && status < 300);
        let content_length = write::content_length(fields);
        let has_no_content = exchange.head || matches!(status, 204 | 304);
        if !has_no_content && end_stream && content_length.is_some_and(|length| length > 0) {
            return self.end();
        }
        let (framing, outgoing) = match content_length {
            _ if is_tunnel => (Framing::Unframed, Outgoing::Tunnel),
            _ if status == 204 => (Framing::Unframed, Outgoing::Nothing),
            // This response has no content, but keep its `content-length`: it states the length for a GET request.
            Some(length) if has_no_content => (Framing::Length(length), Outgoing::Nothing),
            None if has_no_content => (Framing::Unframed, Outgoing::Nothing),
            Some(length) => (Framing::Length(length), Outgoing::Length(length)),
            None if end_stream => (Framing::Length(0), Outgoing::Nothing),
            None if exchange.peer_is_1_0 => (Framing::Unframed, Outgoing::UntilClose),
            None => (Framing::Chunked, Outgoing::Chunked),
        };
        // Bytes after a rejected CONNECT may have been meant for the tunnel: do not parse them as a request.
        exchange.persistent &= stays_open
            && !exchange.stop_when_sent
            && (!exchange.awaits_continue || has_content)
            && !exchange.connect
            && !matches!(outgoing, Outgoing::Tunnel | Outgoing::UntilClose);
        let persistence = match exchange.persistent {
            _ if is_tunnel => Persistence::Implied,
            false => Persistence::Close,
            true if exchange.peer_is_1_0 => Persistence::KeepAlive,
            true => Persistence::Implied,
        };
        exchange.send = Half::Body;
        exchange.outgoing = outgoing;
        let shown_status = if upgrade.is_some() { 101 } else { status };
        write::response(&mut self.out.bytes, shown_status, fields, Form { framing, persistence }, upgrade, heads);
        if self.input == Input::Undecided {
            self.input = if is_tunnel { Input::Tunnel } else { Input::Rejected };
        }
        if end_stream {
            self.write_end(None);
        }
    }

    /// Sends content. Returns the number of bytes that moved into the output at once. The other bytes are queued, and
    /// reported as [`Drained`](leno_http2::Drained) when they move. Without an open exchange, drops all bytes and
    /// returns their number.
    pub fn send_data(&mut self, key: StreamKey, bytes: &[u8], end_stream: bool) -> usize {
        let over = self.over;
        let Some(exchange) = self.exchange_mut(key).filter(|exchange| !over && exchange.takes_output()) else {
            return bytes.len();
        };
        let queue_is_empty = exchange.queue.waiting().is_empty();
        let taken = if queue_is_empty { self.write_content(bytes) } else { 0 };
        let rest = bytes.get(taken..).unwrap_or_default();
        if rest.is_empty() && queue_is_empty && !self.awaits_tunnel() {
            if end_stream {
                self.write_end(None);
            }
            return taken;
        }
        if let Some(exchange) = self.exchange.as_deref_mut() {
            exchange.queue.push(rest);
            exchange.end_after_queue = end_stream;
        }
        taken
    }

    /// Ends the exchange and the connection, because HTTP/1 cannot end an exchange alone. Drops queued content.
    pub fn reset(&mut self, key: StreamKey, _code: ErrorCode) {
        if self.is_open(key) {
            self.note_cut();
            self.exchange = None;
            self.end();
        }
    }

    /// Ends the connection once the response has been sent, without reading the rest of the request. Call it if the
    /// response does not depend on the rest of the request (RFC 9112 section 9.6).
    pub fn stop_receiving(&mut self, key: StreamKey) {
        match self.exchange_mut(key) {
            Some(exchange) if exchange.receive == Half::Closed => {}
            Some(exchange) if exchange.send == Half::Closed => {
                self.exchange = None;
                self.end();
            }
            Some(exchange) => exchange.stop_when_sent = true,
            None => {}
        }
    }
}

/// Whether requests with this method usually have content, so that every server reads it (RFC 9110 section 9.3).
fn usually_has_content(method: &[u8]) -> bool {
    matches!(method, b"POST" | b"PUT" | b"PATCH")
}

/// Returns the status code of a response's section; `None` if the status is missing or invalid.
fn status(fields: &FieldSection) -> Option<u16> {
    let digits = fields.get(Known::Status).filter(|digits| digits.len() == 3)?;
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|status| *status >= 100)
}
